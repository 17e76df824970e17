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
// it. Once Drain has emptied the journal, an Append may begin a new segment, at most
// one each second, and when that is on disk the journal is whole again.
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
// What lies behind the last good record of the newest segment was being written when
// the process ended, or was refused, and is cut off by Open. Everywhere else what is
// no good record is damage.
package journal
