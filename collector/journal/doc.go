// Package journal stores clicks on the collector's own disk while the click stream
// does not accept them.
//
//	Append ─┐   ┌─ write ─ fsync ─▶ 0000000000000003.clicks
//	Append ─┼──▶│  one group                               ┌─▶ replay, record by record
//	Append ─┘   └─ ack ──▶ each       0000000000000001.clicks ─▶ deleted after the last ack
//
// It guarantees that every batch whose Append returned nil is passed to Drain's replay
// function. The batches are replayed in the order in which they were written. A batch
// stays on disk until replay has accepted every record of its segment. This holds after a
// kill at any instant. It also holds after a loss of power if the disk kept the data that
// it had reported as synced. Damage loses only the records that it touches.
//
// It does not guarantee that a record is replayed only once. It also does not guarantee
// that a batch is never replayed after its Append failed. The process that refused the
// batch does not replay it, but parts of it may have reached the disk and are replayed
// after a restart. Duplicates do no harm, because a click id is stored only once.
//
// # When the disk fails
//
// The first error of a write or an fsync breaks the journal: it refuses the current group
// and all later ones with ErrBroken. It never repeats a failed fsync, because the kernel
// drops the data that it could not write and reports success for the next fsync.
// Acknowledged batches stay and can be drained. The segment ends at its last successful
// fsync.
//
// After everything is drained, Drain or Recover checks the disk, at most once per second.
// The check writes a file named "trial", which is as large as the largest record, and
// syncs the file and the folder. If that succeeds, the journal works again and the next
// Append begins a new segment. Clicks are never used to check the disk. The owner of the
// journal must therefore call Recover regularly; otherwise the journal may stay broken.
//
// # Format
//
// A folder contains segments. A segment is a file named by 16 decimal digits and
// ".clicks"; newer segments have larger numbers. The collector locks the file "lock" with
// flock(2). All numbers are little endian. A segment begins with 16 bytes:
//
//	 0  8  "tribclks"
//	 8  4  version of the format, 1
//	12  4  CRC32C (Castagnoli) of the 12 bytes before
//
// Records follow up to the end of the file:
//
//	 0  4  F9 FB FD FE
//	 4  4  CRC32C of all following bytes: bytes 8 to 24+length
//	 8  4  length of the payload in bytes, 1 to 278,528
//	12  4  number of clicks, at least 1
//	16  8  time of writing, Unix milliseconds UTC
//	24  …  payload: a marshalled edge.v1.ClickBatch
//
// A record is good if its marker, its bounds and its checksum are correct. After a bad
// record the reader searches for the next good one, beginning at the second byte of the
// bad record. It does not use the bad record's length, because the length itself may be
// damaged. Text in a click cannot look like a record, because the bytes of the marker do
// not occur in UTF-8. A damaged segment header counts as damage too. A segment with an
// intact header of another version is not read.
//
// # Torn tails and damage
//
// A process that is killed during a write leaves only the beginning of the data: the last
// record of the newest segment has a length that exceeds the file. Open cuts off this
// torn tail, because the record was never acknowledged. All other bytes that are not part
// of a good record are damage, also at the end of the newest segment. They stay in the
// file until the segment is drained.
//
// A loss of power can leave damage too. The disk may have stored the end of a group that
// was not yet synced, but not its middle. That group was never acknowledged. The file
// alone does not show this, because an acknowledged record that the disk lost later looks
// the same. The journal reports damage in both cases: a false alarm costs an inspection,
// but a missed loss costs clicks. A torn tail may be damage as well, because a corrupted
// length or a lost end of the last record looks the same. Both kinds are therefore
// counted and logged.
//
// Open does not delete a segment that has data after its header but no good record. It
// renames the segment so that its name ends in ".damaged" instead of ".clicks". The file
// no longer counts, not even towards MaxBytes. An operator must inspect and delete it.
package journal
