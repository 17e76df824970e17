// Package journal keeps clicks on the collector's own disk while the click stream
// cannot take them.
//
//	Append ─┐   ┌─ write ─ fsync ─▶ 0000000000000003.clicks
//	Append ─┼──▶│  one group                               ┌─▶ replay, record by record
//	Append ─┘   └─ ack ──▶ each       0000000000000001.clicks ─▶ deleted after the last ack
//
// It guarantees that a batch whose Append returned nil is handed to Drain's replay,
// in the order of writing, until replay has taken every record of its segment:
// after a kill at any instant, and after a loss of power if the disk keeps what it
// said it had. Damage costs the records that it touches and no others.
//
// It does not promise that a record is replayed once, nor that a batch whose Append
// failed is not replayed: within the process that refused it, it never is, but what
// of it had reached the disk comes back after a restart. The click id makes one row
// of it all.
//
// # When the disk fails
//
// The first error of a write or an fsync breaks the journal: that group and all
// later ones are refused with ErrBroken, and no fsync is repeated, since the kernel
// forgets what it could not write and then reports success. What was acknowledged
// before stays and can be drained; the segment ends where its last good fsync left
// it. Once everything is drained, Drain itself or Try tries the disk, at most once each
// second, with a file of its own, "trial", as large as the largest record: when that
// and the folder are synced, the journal is whole again, and the next Append begins a
// segment. No click is what the disk is tried with: whoever opened the journal calls
// Try now and then, or it may stay broken.
//
// # Format
//
// A folder holds segments, files named by 16 decimal digits and ".clicks", a larger
// number being newer; "lock" is held with flock(2) by the collector. All numbers are
// little endian. A segment begins with 16 bytes:
//
//	 0  8  "tribclks"
//	 8  4  version of the format, 1
//	12  4  CRC32C (Castagnoli) of the 12 bytes before
//
// and records follow one another up to its end:
//
//	 0  4  F9 FB FD FE
//	 4  4  CRC32C of everything behind it: bytes 8 to 24+length
//	 8  4  length of the payload in bytes, 1 to 278,528
//	12  4  number of clicks, at least 1
//	16  8  time of writing, Unix milliseconds UTC
//	24  …  payload: a marshalled edge.v1.ClickBatch
//
// A record is good when its marker, its bounds and its checksum are right. After one
// that is not, the next good record is looked for at every byte behind its first,
// inside its payload too: its length may be what is damaged, so nothing is concluded
// from it. No text in a click can look like a record, since the marker's bytes occur
// in no UTF-8. A damaged segment header is damage like any other, but a sound one of
// another version is not read at all.
//
// A process that is killed while it writes leaves the beginning of what it wrote: at
// the end of the newest segment a record which says that it is longer than the file.
// Open cuts it off, as a torn tail: nobody was told of it. Everything else that is no
// good record is damage, also at that end, and stays in its file until that is drained.
//
// So is what a loss of power makes of a group that was not yet synced, when the disk
// kept its end and not its middle. Nobody was told of that either, but from the file
// it cannot be told from a record that was acknowledged and that the disk has lost
// since. An alarm that was none costs a look; a loss that raised none costs clicks. A
// torn tail may still be damage, a last record whose length has become larger or whose
// end the disk has lost; so both are counted and logged.
//
// A segment in which Open finds more than a header and yet no good record is not
// deleted: it is renamed to end in ".damaged" instead of ".clicks", counts for nothing
// from then on, not for MaxBytes either, and is for a person to look at and to delete.
package journal
