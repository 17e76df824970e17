package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// buildSegment returns the bytes of a segment that contains one record per batch, and the
// offsets at which the records end.
func buildSegment(t failer, batches ...[]byte) (raw []byte, ends []int) {
	t.Helper()
	raw = appendSegmentHeader(nil)
	for _, batch := range batches {
		header := makeHeader(batch, 1, time.UnixMilli(1_700_000_000_000))
		raw = append(append(raw, header[:]...), batch...)
		ends = append(ends, len(raw))
	}
	return raw, ends
}

// testBatches returns the first n test batches.
func testBatches(n int) [][]byte {
	var all [][]byte
	for i := range n {
		all = append(all, []byte(batchText(i)))
	}
	return all
}

func writeSegment(t *testing.T, dir string, number uint64, raw []byte) string {
	t.Helper()
	path := filepath.Join(dir, segmentName(number))
	requireNoError(t, os.WriteFile(path, raw, 0o600))
	return path
}

// The test does not use the code of the package to read the record. It checks the format
// that the package comment describes.
func TestAppend_WritesDocumentedFormat(t *testing.T) {
	dir := t.TempDir()
	at := time.UnixMilli(1_767_225_600_123)
	j := open(t, Config{Dir: dir, now: func() time.Time { return at }}, nil)
	requireNoError(t, j.Append(context.Background(), []byte("payload"), 3))
	requireNoError(t, j.Close())
	raw, err := os.ReadFile(filepath.Join(dir, "0000000000000001.clicks"))
	requireNoError(t, err)
	little := binary.LittleEndian
	table := crc32.MakeTable(crc32.Castagnoli)
	if len(raw) != 16+24+7 || string(raw[:8]) != "tribclks" || little.Uint32(raw[8:]) != 1 || little.Uint32(raw[12:]) != crc32.Checksum(raw[:12], table) {
		t.Fatalf("the segment has %d bytes and the header % x, want 47 bytes and the documented header", len(raw), raw[:16])
	}
	r := raw[16:]
	if !bytes.Equal(r[:4], []byte{0xF9, 0xFB, 0xFD, 0xFE}) || little.Uint32(r[4:]) != crc32.Checksum(r[8:], table) ||
		little.Uint32(r[8:]) != 7 || little.Uint32(r[12:]) != 3 || little.Uint64(r[16:]) != 1_767_225_600_123 || string(r[24:]) != "payload" {
		t.Errorf("record % x does not have the documented format", r)
	}
}

func TestOpen_CutsOffTornTailAtAnyByte(t *testing.T) {
	raw, ends := buildSegment(t, testBatches(5)...)
	last := ends[3]
	for cut := last; cut < len(raw); cut++ {
		dir := t.TempDir()
		path := writeSegment(t, dir, 7, raw[:cut])
		_, report := readAll(t, dir)
		if report.Tail.Bytes != int64(cut-last) || len(report.Damage) != 0 {
			t.Fatalf("cut at %d: Read reports %+v, want a tail of %d bytes and no damage", cut, report, cut-last)
		}
		j := open(t, Config{Dir: dir}, nil)
		want := Stats{Segments: 1, Bytes: int64(last), MaxBytes: defaultMaxBytes, Clicks: 4, Oldest: time.UnixMilli(1_700_000_000_000).UTC()}
		if cut > last {
			want.Truncated = 1
		}
		if s := j.Stats(); s != want {
			t.Fatalf("cut at %d: Stats() = %+v, want %+v", cut, s, want)
		}
		info, err := os.Stat(path)
		requireNoError(t, err)
		if info.Size() != int64(last) {
			t.Fatalf("cut at %d: the file has %d bytes, want %d", cut, info.Size(), last)
		}
		requireNoError(t, j.Append(context.Background(), []byte(batchText(4)), 1))
		var got []string
		requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
			got = append(got, string(batch))
			return nil
		}))
		requireEqual(t, got, batchTexts(0, 5))
		requireNoError(t, j.Close())
	}
}

// Open deletes a segment that ends inside or directly after its header. It renames a
// segment that ends inside its first record, so that the bytes can be inspected.
func TestOpen_RemovesSegmentWithoutRecord(t *testing.T) {
	raw, ends := buildSegment(t, testBatches(1)...)
	for cut := range ends[0] {
		dir := t.TempDir()
		writeSegment(t, dir, 1, raw[:cut])
		j := open(t, Config{Dir: dir}, nil)
		torn := int64(1)
		if cut == 0 || cut == segmentHeader {
			torn = 0
		}
		if s := j.Stats(); s.Segments != 0 || s.Bytes != 0 || s.Skipped != 0 || s.Truncated != torn || len(segmentNames(t, dir)) != 0 {
			t.Fatalf("cut at %d: Stats() = %+v with segments %v, want an empty journal with Truncated %d", cut, s, segmentNames(t, dir), torn)
		}
		renamed, err := os.ReadFile(filepath.Join(dir, damagedName(1, 1)))
		if cut <= segmentHeader && !errors.Is(err, fs.ErrNotExist) || cut > segmentHeader && !bytes.Equal(renamed, raw[:cut]) {
			t.Fatalf("cut at %d: the renamed file contains % x (error %v); want the bytes of the segment if it is longer than its header, and otherwise no file", cut, renamed, err)
		}
		appendBatches(t, j, 0, 1)
		requireEqual(t, drainAll(t, j), batchTexts(0, 1))
		requireNoError(t, j.Close())
	}
}

// Open renames a segment without a good record and does not overwrite an earlier renamed
// segment with the same number.
func TestOpen_RenamesSegmentWithoutGoodRecord(t *testing.T) {
	dir := t.TempDir()
	good, _ := buildSegment(t, []byte("good"))
	short := []byte("bad")
	zeros := make([]byte, 5000)
	half, _ := buildSegment(t, []byte("half"))
	half[len(half)-1] ^= 1
	for number, raw := range [][]byte{short, zeros, good, half} {
		writeSegment(t, dir, uint64(number), raw)
	}
	requireNoError(t, os.WriteFile(filepath.Join(dir, damagedName(3, 1)), []byte("older"), 0o600))
	j := openForTest(t, Config{Dir: dir}, nil)
	if s := j.Stats(); s.Skipped != 3 || s.Truncated != 0 || s.Segments != 1 || s.Clicks != 1 {
		t.Errorf("Stats() = %+v, want 3 records skipped, none truncated, 1 segment and 1 click", s)
	}
	for name, want := range map[string][]byte{
		"0000000000000000.damaged": short, "0000000000000001.damaged": zeros,
		"0000000000000003.damaged": []byte("older"), "0000000000000003.2.damaged": half,
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s contains % x (error %v), want % x", name, got, err, want)
		}
	}
	requireEqual(t, drainPayloads(t, j), []string{"good"})
}

// If the last record is complete but its checksum is wrong, it is damage and stays in the
// file. If the length in its header exceeds the rest of the file, it is a torn tail. A
// flipped bit in the last record must be reported as damage or as a torn tail.
func TestOpen_ReportsAnyFlippedBitOfLastRecord(t *testing.T) {
	raw, ends := buildSegment(t, testBatches(3)...)
	for bit := ends[1] * 8; bit < len(raw)*8; bit++ {
		dir := t.TempDir()
		broken := slices.Clone(raw)
		broken[bit/8] ^= 1 << (bit % 8)
		path := writeSegment(t, dir, 1, broken)
		length := recordLength(broken[ends[1]:])
		want, size := Stats{Skipped: 1}, int64(len(raw))
		if length > len(raw)-ends[1] {
			want, size = Stats{Truncated: 1}, int64(ends[1])
		}
		_, report := readAll(t, dir)
		if int64(len(report.Damage)) != want.Skipped || (report.Tail.Bytes > 0) != (want.Truncated > 0) {
			t.Fatalf("bit %d: Read reports %+v, want %d damaged ranges and %d torn tails", bit, report, want.Skipped, want.Truncated)
		}
		j := open(t, Config{Dir: dir}, nil)
		info, err := os.Stat(path)
		requireNoError(t, err)
		if s := j.Stats(); s.Skipped != want.Skipped || s.Truncated != want.Truncated || s.Clicks != 2 || s.Bytes != size || info.Size() != size {
			t.Fatalf("bit %d: Stats() = %+v and the file has %d bytes; want Skipped %d, Truncated %d, 2 clicks and %d bytes",
				bit, s, info.Size(), want.Skipped, want.Truncated, size)
		}
		requireEqual(t, drainPayloads(t, j), batchTexts(0, 2))
		if s := j.Stats(); s.Skipped != want.Skipped {
			t.Fatalf("bit %d: after the drain Skipped is %d, want %d as before", bit, s.Skipped, want.Skipped)
		}
		requireNoError(t, j.Close())
	}
}

// A write that is interrupted leaves at most one incomplete record. Two bad records at
// the end are therefore damage.
func TestOpen_TwoBadRecordsAtEndAreDamage(t *testing.T) {
	raw, ends := buildSegment(t, testBatches(3)...)
	raw[ends[0]+9] |= 1 // a length that exceeds the file
	raw[len(raw)-1] ^= 1
	dir := t.TempDir()
	writeSegment(t, dir, 1, raw)
	j := openForTest(t, Config{Dir: dir}, nil)
	if s := j.Stats(); s.Skipped != 2 || s.Truncated != 0 || s.Bytes != int64(len(raw)) {
		t.Errorf("Stats() = %+v, want 2 records skipped, none truncated and %d bytes", s, len(raw))
	}
	requireEqual(t, drainPayloads(t, j), batchTexts(0, 1))
}

// A loss of power during the write of a group may leave holes in the group, and the end
// of the group may be missing too. The group was never acknowledged, but the file does
// not show this, so the journal reports damage. The records that reached the disk are
// replayed.
func TestOpen_HolesInUnsyncedGroupAreDamage(t *testing.T) {
	const block = 4096
	var all [][]byte
	for i := range 12 {
		all = append(all, fmt.Appendf(nil, "%02d%s", i, strings.Repeat("click", 300)))
	}
	raw, ends := buildSegment(t, all...)
	for from := block; from < len(raw); from += block {
		for _, cut := range []int{len(raw), len(raw) - 100, ends[10] + 5, ends[9]} {
			if cut <= from {
				continue
			}
			dir := t.TempDir()
			holed := slices.Clone(raw[:cut])
			clear(holed[from:min(from+block, cut)])
			writeSegment(t, dir, 1, holed)
			want := undamagedBatches(all, ends, func(i int) bool { return i >= cut || i >= from && i < from+block })
			j := open(t, Config{Dir: dir}, nil)
			if s := j.Stats(); s.Skipped == 0 || s.Clicks != int64(len(want)) {
				t.Errorf("a hole at byte %d of %d: Stats() = %+v, want damage and %d clicks", from, cut, s, len(want))
			}
			requireEqual(t, drainPayloads(t, j), want)
			requireNoError(t, j.Close())
		}
	}
}

// undamagedBatches returns the batches whose records contain no changed byte.
func undamagedBatches(all [][]byte, ends []int, changed func(i int) bool) []string {
	var good []string
	from := segmentHeader
	for i, end := range ends {
		touched := false
		for at := from; at < end; at++ {
			touched = touched || changed(at)
		}
		if !touched {
			good = append(good, string(all[i]))
		}
		from = end
	}
	return good
}

func TestRead_FlippedBitLosesOnlyItsRecord(t *testing.T) {
	all := testBatches(4)
	// This payload consists of record markers.
	all[1] = bytes.Repeat(recordMarker, 12)
	raw, ends := buildSegment(t, all...)
	dir := t.TempDir()
	newer, _ := buildSegment(t, []byte("newer"))
	writeSegment(t, dir, 2, newer)
	for bit := range len(raw) * 8 {
		broken := slices.Clone(raw)
		broken[bit/8] ^= 1 << (bit % 8)
		writeSegment(t, dir, 1, broken)
		got, report := readAll(t, dir)
		requireEqual(t, got, append(undamagedBatches(all, ends, func(i int) bool { return i == bit/8 }), "newer"))
		if len(report.Damage) != 1 || report.Damage[0].Records < 1 || report.Damage[0].Segment != segmentName(1) {
			t.Fatalf("bit %d: Read reports the damage %+v, want one range in the first segment", bit, report.Damage)
		}
	}
}

// The test damages random bytes in several segments and reads them with Open and Drain.
func TestDrain_ReplaysAllUndamagedRecords(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 2))
	for round := range 60 {
		dir := t.TempDir()
		var want []string
		for segment := range 3 {
			var all [][]byte
			for i := range 1 + random.IntN(20) {
				batch := make([]byte, 1+random.IntN(60))
				for k := range batch {
					batch[k] = byte(random.Uint32())
				}
				all = append(all, fmt.Appendf(batch, "/%d/%d", segment, i))
			}
			raw, ends := buildSegment(t, all...)
			changed := map[int]bool{}
			for range random.IntN(4) {
				at, length := random.IntN(len(raw)), 1+random.IntN(80)
				for i := at; i < min(len(raw), at+length); i++ {
					raw[i] ^= byte(1 + random.IntN(255))
					changed[i] = true
				}
			}
			want = append(want, undamagedBatches(all, ends, func(i int) bool { return changed[i] })...)
			// A byte that was changed twice may have its original value. Change it again,
			// because the test expects it to be damaged.
			for i := range changed {
				original, _ := buildSegment(t, all...)
				if raw[i] == original[i] {
					raw[i] ^= 1
				}
			}
			writeSegment(t, dir, uint64(segment+1), raw)
		}
		j := open(t, Config{Dir: dir}, nil)
		clicks := j.Stats().Clicks
		var got []string
		requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
			got = append(got, string(batch))
			return nil
		}))
		if clicks != int64(len(want)) || len(segmentNames(t, dir)) != 0 {
			t.Errorf("round %d: %d clicks, and segments %v after the drain; want %d clicks and no segments", round, clicks, segmentNames(t, dir), len(want))
		}
		requireEqual(t, got, want)
		requireNoError(t, j.Close())
	}
}

func TestStats_CountsDamageOnce(t *testing.T) {
	dir := t.TempDir()
	raw, ends := buildSegment(t, testBatches(6)...)
	raw[ends[0]+recordHeader] ^= 1 // payload of the second record
	raw[ends[2]+8] ^= 0x40         // length of the fourth record
	raw[ends[3]+5] ^= 1            // checksum of the fifth record
	writeSegment(t, dir, 1, raw)
	j := openForTest(t, Config{Dir: dir, SegmentBytes: 100}, nil)
	if s := j.Stats(); s.Skipped != 3 || s.Truncated != 0 || s.Clicks != 3 {
		t.Errorf("after Open: %+v, want 3 records skipped, none truncated and 3 clicks", s)
	}
	// The drain finds damage in records that this process wrote.
	appendBatches(t, j, 6, 9)
	path := filepath.Join(dir, segmentName(2))
	own, err := os.ReadFile(path)
	requireNoError(t, err)
	own[segmentHeader+recordHeader] ^= 1
	requireNoError(t, os.WriteFile(path, own, 0o600))
	requireNoError(t, os.Remove(filepath.Join(dir, segmentNames(t, dir)[2])))
	failed := errors.New("replay failed")
	if err := j.Drain(context.Background(), func(context.Context, []byte, int) error { return failed }); err != failed { //nolint:errorlint // must not be wrapped
		t.Fatalf("Drain() = %v, want %v without wrapping", err, failed)
	}
	got := drainPayloads(t, j)
	if s := j.Stats(); s.Skipped != 3+1+1 || s.Bytes != 0 {
		t.Errorf("after the drain: %+v, want 5 records skipped and 0 bytes", s)
	}
	requireEqual(t, got, []string{batchText(0), batchText(2), batchText(5), batchText(7)})
}

// drainPayloads drains the journal and returns the batches. Unlike drainAll, it does not
// check the numbers of clicks.
func drainPayloads(t *testing.T, j *Journal) (got []string) {
	t.Helper()
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		got = append(got, string(batch))
		return nil
	}))
	return got
}

// The scanner must find a record after damage that is larger than the scanner's window.
func TestRead_FindsRecordsAfterLargeHole(t *testing.T) {
	dir := t.TempDir()
	large := bytes.Repeat([]byte("large"), maxBatch/5)
	raw, ends := buildSegment(t, large, large, large, []byte("small"), large, []byte("end"))
	clear(raw[segmentHeader : ends[2]-1])
	copy(raw[4000:], recordMarker)
	writeSegment(t, dir, 1, raw)
	got, report := readAll(t, dir)
	requireEqual(t, got, []string{"small", string(large), "end"})
	if len(report.Damage) != 1 || report.Damage[0].Bytes != int64(ends[2]-segmentHeader) {
		t.Errorf("Read reports the damage %+v, want one range of %d bytes", report.Damage, ends[2]-segmentHeader)
	}
}

// The scanner must find a record whose marker is split by the end of the scanner's
// window.
func TestRead_FindsMarkerAcrossWindowEnd(t *testing.T) {
	good, _ := buildSegment(t, []byte("found"))
	for at := 2*maxRecord - len(recordMarker) - 1; at <= 2*maxRecord+1; at++ {
		dir := t.TempDir()
		hole := make([]byte, at-segmentHeader)
		writeSegment(t, dir, 1, slices.Concat(good[:segmentHeader], hole, good[segmentHeader:]))
		got, _ := readAll(t, dir)
		requireEqual(t, got, []string{"found"})
	}
}

func TestOpen_RejectsOtherVersion(t *testing.T) {
	dir := t.TempDir()
	raw, _ := buildSegment(t, []byte("newer format"))
	raw[8] = 2
	binary.LittleEndian.PutUint32(raw[12:], crc32.Checksum(raw[:12], castagnoli))
	path := writeSegment(t, dir, 1, raw)
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, errVersion) {
		t.Errorf("Open: error %v, want %v", err, errVersion)
	}
	if _, err := Read(dir, nil); !errors.Is(err, errVersion) {
		t.Errorf("Read: error %v, want %v", err, errVersion)
	}
	kept, err := os.ReadFile(path)
	requireNoError(t, err)
	if !bytes.Equal(kept, raw) {
		t.Error("the segment was changed")
	}
}

// failingSource simulates a disk with an unreadable sector.
type failingSource struct{ io.ReaderAt }

var errSector = errors.New("bad sector")

func (failingSource) ReadAt([]byte, int64) (int, error) { return 0, errSector }

func TestScanner_ReadErrorIsNotDamage(t *testing.T) {
	if _, err := newScanner(failingSource{}, 100); !errors.Is(err, errSector) {
		t.Errorf("newScanner: error %v, want %v", err, errSector)
	}
	raw, ends := buildSegment(t, bytes.Repeat([]byte("a"), maxBatch), bytes.Repeat([]byte("b"), maxBatch), []byte("c"))
	s, err := newScanner(bytes.NewReader(raw), int64(len(raw)))
	requireNoError(t, err)
	_, _, err = s.next()
	requireNoError(t, err)
	s.source = failingSource{}
	for range 3 {
		if _, _, err = s.next(); err != nil {
			break
		}
	}
	if !errors.Is(err, errSector) || s.offset > int64(ends[1]) {
		t.Errorf("next: error %v at offset %d, want %v before offset %d", err, s.offset, errSector, ends[1])
	}
}

// For any segment, the records and the damaged ranges together contain every byte exactly
// once. Every record has the format that Append writes.
func FuzzReader(f *testing.F) {
	good, ends := buildSegment(f, testBatches(3)...)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(good[segmentHeader:])
	f.Add(slices.Concat(good[:ends[0]], []byte("garbage"), recordMarker, good[ends[0]:]))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := newScanner(bytes.NewReader(raw), int64(len(raw)))
		if errors.Is(err, errVersion) {
			return
		}
		requireNoError(t, err)
		at := s.offset
		if at != 0 && !bytes.Equal(raw[:at], appendSegmentHeader(nil)) {
			t.Fatalf("the header % x was accepted as intact", raw[:at])
		}
		for {
			r, damage, err := s.next()
			if damage.Offset != at || damage.Bytes < 0 || (damage.Bytes > 0) != (damage.Records > 0) {
				t.Fatalf("at offset %d: damage %+v, want a range that begins there and has records only if it has bytes", at, damage)
			}
			at += damage.Bytes
			if errors.Is(err, io.EOF) {
				break
			}
			requireNoError(t, err)
			header := makeHeader(r.Batch, r.Clicks, r.Time)
			whole := append(header[:], r.Batch...)
			if r.Offset != at || !bytes.HasPrefix(raw[at:], whole) || r.Clicks < 1 || len(r.Batch) == 0 {
				t.Fatalf("at offset %d: record %+v does not equal the bytes of the segment", at, r)
			}
			at += int64(len(whole))
		}
		if at != int64(len(raw)) {
			t.Fatalf("the records and the damage end at byte %d, want %d", at, len(raw))
		}
	})
}

// The scanner finds all good records, whatever bytes are before, between and after them.
func FuzzGarbageBetweenRecords(f *testing.F) {
	f.Add([]byte("x"), []byte{}, []byte{0})
	f.Add(recordMarker, recordMarker[:2], recordMarker)
	header := makeHeader(make([]byte, 40), 1, time.UnixMilli(1))
	f.Add(header[:], header[:9], header[3:])
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		good, ends := buildSegment(t, []byte("first"), []byte("second"))
		raw := slices.Concat(good[:segmentHeader], a, good[segmentHeader:ends[0]], b, good[ends[0]:], c)
		s, err := newScanner(bytes.NewReader(raw), int64(len(raw)))
		requireNoError(t, err)
		want := []int64{int64(segmentHeader + len(a)), int64(ends[0] + len(a) + len(b))}
		for {
			r, _, err := s.next()
			if errors.Is(err, io.EOF) {
				break
			}
			requireNoError(t, err)
			want = slices.DeleteFunc(want, func(at int64) bool { return at == r.Offset })
		}
		if len(want) > 0 {
			t.Fatalf("the scanner did not find the records at %v", want)
		}
	})
}
