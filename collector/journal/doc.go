// Package journal stores clicks on the collector's own disk while the click stream
// does not accept them.
//
// The journal is a folder of files, called segments. A segment contains records, and each
// record contains one batch of clicks. Concurrent Appends form a group, which is written
// with one fsync. Drain replays the segments, oldest first: it passes their records to a
// replay function of the caller, which writes them to the stream. Then Drain deletes the
// segments:
//
//	Append ─┐
//	Append ─┼─▶ one group ─── write, fsync ──▶ 0000000000000003.clicks  (newest segment)
//	Append ─┘                                  0000000000000002.clicks
//	        Drain ◀── record by record ─────── 0000000000000001.clicks  (oldest segment)
//
// The journal guarantees that every batch whose Append returned nil is passed to Drain's
// replay function. The batches are replayed in the order in which they were written. A
// batch stays on disk until replay has accepted every record of its segment. These
// guarantees hold even if the process is killed at any moment. They also hold after a
// loss of power if the disk kept all data that it had reported as synced. If bytes of a
// segment are damaged, only the records that contain these bytes are lost.
//
// The journal does not guarantee that a record is replayed only once. It also does not
// guarantee that a batch is never replayed after its Append failed. The process that
// refused the batch does not replay it, but the batch may have reached the disk. It is
// then replayed after a restart. Duplicates do no harm, because the core stores each
// click id only once.
//
// # When the disk fails
//
// The first error of a write or an fsync breaks the journal: the current group and all
// later groups fail with ErrBroken. The journal never repeats a failed fsync, because the
// kernel drops the data that it could not write and reports success for the next fsync.
// Acknowledged batches stay on disk and can be drained. The segment ends with the last
// group that was synced successfully.
//
// After everything is drained, Drain or Recover checks the disk, at most once per second.
// The check writes a file named "trial", which is as large as the largest record, and
// syncs the file and the folder. If that succeeds, the journal works again and the next
// Append begins a new segment. Append itself never checks the disk of a broken journal.
// The owner of the journal must therefore call Recover regularly; otherwise the journal
// may stay broken.
//
// # Format
//
// The name of a segment consists of 16 decimal digits and ".clicks". Newer segments have
// larger numbers. The folder also contains a file named "lock", which the collector locks
// with flock(2). All numbers in a segment are little endian. In the following tables, the
// columns are the offset and the size in bytes. A segment begins with a header:
//
//	 0  8  "tribclks"
//	 8  4  version of the format, 1
//	12  4  CRC32C (Castagnoli) of bytes 0 to 11
//
// Records follow up to the end of the file:
//
//	 0  4  marker of a record: F9 FB FD FE
//	 4  4  CRC32C of the rest of the record, from byte 8 on
//	 8  4  length of the payload in bytes, 1 to 278,528
//	12  4  number of clicks, at least 1
//	16  8  time of writing, Unix milliseconds UTC
//	24  …  payload: a marshalled edge.v1.ClickBatch
//
// A record is good if its marker and checksum are correct and its length and number of
// clicks are within these bounds. After a bad record, the reader searches for the next
// good record, beginning at the second byte of the bad record. It does not use the length
// of the bad record, because the length itself may be damaged. Text in a click cannot
// look like a record, because the bytes of the marker do not occur in UTF-8. A damaged
// segment header counts as damage too. If a segment has an intact header with another
// version, Open fails.
//
// # Torn tails and damage
//
// A process that is killed during a write leaves only the beginning of the data. The last
// record of the newest segment is then incomplete: its length exceeds the rest of the
// file. This incomplete record is called a torn tail. Open cuts it off, because the
// record was never acknowledged. All other bytes that are not part of a good record are
// damage, also at the end of the newest segment. Damaged bytes stay in the file until the
// segment is drained.
//
// A loss of power can leave damage too. For a group that was not yet synced, the disk may
// have stored the end but not the middle. That group was never acknowledged. The file
// does not show whether a group was acknowledged, because an acknowledged record that the
// disk lost later looks the same. The journal reports damage in both cases, because
// clicks may be lost. A torn tail may also be a loss: if the length of the last record is
// corrupted, or if the disk lost the end of an acknowledged record, the file looks the
// same. The journal therefore counts and logs both damage and torn tails.
//
// Open does not delete a segment that has data after its header but no good record. It
// renames the segment so that its name ends in ".damaged" instead of ".clicks". The
// journal ignores the renamed file, and its size does not count towards MaxBytes. An
// operator must inspect and delete the file.
package journal
