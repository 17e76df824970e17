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

// segmentOf is a segment as Append writes it, and where its records end.
func segmentOf(t fataler, batches ...[]byte) (raw []byte, ends []int) {
	t.Helper()
	raw = appendSegmentHeader(nil)
	for _, batch := range batches {
		header := makeHeader(batch, 1, time.UnixMilli(1_700_000_000_000))
		raw = append(append(raw, header[:]...), batch...)
		ends = append(ends, len(raw))
	}
	return raw, ends
}

func batches(n int) [][]byte {
	var all [][]byte
	for i := range n {
		all = append(all, []byte(text(i)))
	}
	return all
}

func put(t *testing.T, dir string, number uint64, raw []byte) string {
	t.Helper()
	path := filepath.Join(dir, segmentName(number))
	must(t, os.WriteFile(path, raw, 0o600))
	return path
}

// The package comment's format, read by a program of its own.
func TestTheFormatIsAsThePackageSays(t *testing.T) {
	dir := t.TempDir()
	at := time.UnixMilli(1_767_225_600_123)
	j := open(t, Config{Dir: dir, now: func() time.Time { return at }}, nil)
	must(t, j.Append(context.Background(), []byte("payload"), 3))
	must(t, j.Close())
	raw, err := os.ReadFile(filepath.Join(dir, "0000000000000001.clicks"))
	must(t, err)
	little := binary.LittleEndian
	table := crc32.MakeTable(crc32.Castagnoli)
	if len(raw) != 16+24+7 || string(raw[:8]) != "tribclks" || little.Uint32(raw[8:]) != 1 || little.Uint32(raw[12:]) != crc32.Checksum(raw[:12], table) {
		t.Fatalf("%d bytes, header % x", len(raw), raw[:16])
	}
	r := raw[16:]
	if !bytes.Equal(r[:4], []byte{0xF9, 0xFB, 0xFD, 0xFE}) || little.Uint32(r[4:]) != crc32.Checksum(r[8:], table) ||
		little.Uint32(r[8:]) != 7 || little.Uint32(r[12:]) != 3 || little.Uint64(r[16:]) != 1_767_225_600_123 || string(r[24:]) != "payload" {
		t.Errorf("record % x", r)
	}
}

func TestATornTailIsCutOffAtEveryByte(t *testing.T) {
	raw, ends := segmentOf(t, batches(5)...)
	last := ends[3]
	for cut := last; cut < len(raw); cut++ {
		dir := t.TempDir()
		path := put(t, dir, 7, raw[:cut])
		_, report := read(t, dir)
		if report.Tail.Bytes != int64(cut-last) || len(report.Damage) != 0 {
			t.Fatalf("cut at %d: %+v", cut, report)
		}
		j := open(t, Config{Dir: dir}, nil)
		want := Stats{Segments: 1, Bytes: int64(last), MaxBytes: defaultMaxBytes, Clicks: 4, Oldest: time.UnixMilli(1_700_000_000_000).UTC()}
		if cut > last {
			want.Truncated = 1
		}
		if s := j.Stats(); s != want {
			t.Fatalf("cut at %d: %+v, want %+v", cut, s, want)
		}
		info, err := os.Stat(path)
		must(t, err)
		if info.Size() != int64(last) {
			t.Fatalf("cut at %d: %d bytes stay", cut, info.Size())
		}
		must(t, j.Append(context.Background(), []byte(text(4)), 1))
		var got []string
		must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
			got = append(got, string(batch))
			return nil
		}))
		same(t, got, texts(0, 5))
		must(t, j.Close())
	}
}

// A segment that was begun and never written holds nothing. What of a first record
// there is, is kept for whoever wants to look at it.
func TestASegmentWithoutARecordIsNoSegment(t *testing.T) {
	raw, ends := segmentOf(t, batches(1)...)
	for cut := range ends[0] {
		dir := t.TempDir()
		put(t, dir, 1, raw[:cut])
		j := open(t, Config{Dir: dir}, nil)
		torn := int64(1)
		if cut == 0 || cut == segmentHeader {
			torn = 0
		}
		if s := j.Stats(); s.Segments != 0 || s.Bytes != 0 || s.Skipped != 0 || s.Truncated != torn || len(names(t, dir)) != 0 {
			t.Fatalf("cut at %d: %+v, %v", cut, s, names(t, dir))
		}
		aside, err := os.ReadFile(filepath.Join(dir, damagedName(1, 1)))
		if cut <= segmentHeader && !errors.Is(err, fs.ErrNotExist) || cut > segmentHeader && !bytes.Equal(aside, raw[:cut]) {
			t.Fatalf("cut at %d: % x is set aside, %v", cut, aside, err)
		}
		add(t, j, 0, 1)
		same(t, drained(t, j), texts(0, 1))
		must(t, j.Close())
	}
}

// A segment of which no record is good is not deleted, whichever it is, nor is one
// that was set aside under the same number before.
func TestASegmentWithoutAGoodRecordIsSetAside(t *testing.T) {
	dir := t.TempDir()
	sound, _ := segmentOf(t, []byte("sound"))
	short := []byte("ill")
	zeros := make([]byte, 5000)
	half, _ := segmentOf(t, []byte("half"))
	half[len(half)-1] ^= 1
	for number, raw := range [][]byte{short, zeros, sound, half} {
		put(t, dir, uint64(number), raw)
	}
	must(t, os.WriteFile(filepath.Join(dir, damagedName(3, 1)), []byte("older"), 0o600))
	j := opened(t, Config{Dir: dir}, nil)
	if s := j.Stats(); s.Skipped != 3 || s.Truncated != 0 || s.Segments != 1 || s.Clicks != 1 {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string][]byte{
		"0000000000000000.damaged": short, "0000000000000001.damaged": zeros,
		"0000000000000003.damaged": []byte("older"), "0000000000000003.2.damaged": half,
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: % x, %v", name, got, err)
		}
	}
	same(t, drained2(t, j), []string{"sound"})
}

// At the end of the newest segment a whole record whose checksum is wrong is damage,
// and stays; only what ends before its own end was being written. Whichever bit is
// wrong, one of the two is told.
func TestEveryBitOfTheLastRecordMayFlipAndIsTold(t *testing.T) {
	raw, ends := segmentOf(t, batches(3)...)
	for bit := ends[1] * 8; bit < len(raw)*8; bit++ {
		dir := t.TempDir()
		broken := slices.Clone(raw)
		broken[bit/8] ^= 1 << (bit % 8)
		path := put(t, dir, 1, broken)
		length := recordLength(broken[ends[1]:])
		want, size := Stats{Skipped: 1}, int64(len(raw))
		if length > len(raw)-ends[1] {
			want, size = Stats{Truncated: 1}, int64(ends[1])
		}
		_, report := read(t, dir)
		if int64(len(report.Damage)) != want.Skipped || (report.Tail.Bytes > 0) != (want.Truncated > 0) {
			t.Fatalf("bit %d: %+v", bit, report)
		}
		j := open(t, Config{Dir: dir}, nil)
		info, err := os.Stat(path)
		must(t, err)
		if s := j.Stats(); s.Skipped != want.Skipped || s.Truncated != want.Truncated || s.Clicks != 2 || s.Bytes != size || info.Size() != size {
			t.Fatalf("bit %d: %+v, %d bytes stay", bit, s, info.Size())
		}
		same(t, drained2(t, j), texts(0, 2))
		if s := j.Stats(); s.Skipped != want.Skipped {
			t.Fatalf("bit %d: counted twice: %+v", bit, s)
		}
		must(t, j.Close())
	}
}

// Several records in one stretch were not one that was being written.
func TestTwoIllRecordsAtTheEndAreNoTornTail(t *testing.T) {
	raw, ends := segmentOf(t, batches(3)...)
	raw[ends[0]+9] |= 1 // a length that leads out of the file
	raw[len(raw)-1] ^= 1
	dir := t.TempDir()
	put(t, dir, 1, raw)
	j := opened(t, Config{Dir: dir}, nil)
	if s := j.Stats(); s.Skipped != 2 || s.Truncated != 0 || s.Bytes != int64(len(raw)) {
		t.Errorf("%+v", s)
	}
	same(t, drained2(t, j), texts(0, 1))
}

// A loss of power in the middle of a group that was not synced may leave holes in it,
// its end missing or not. Nobody was told that it is durable; but the journal cannot
// know that, and says that there is damage. What reached the disk is replayed.
func TestHolesOfAGroupThatWasNotSyncedAreDamage(t *testing.T) {
	const block = 4096
	var all [][]byte
	for i := range 12 {
		all = append(all, fmt.Appendf(nil, "%02d%s", i, strings.Repeat("click", 300)))
	}
	raw, ends := segmentOf(t, all...)
	for from := block; from < len(raw); from += block {
		for _, cut := range []int{len(raw), len(raw) - 100, ends[10] + 5, ends[9]} {
			if cut <= from {
				continue
			}
			dir := t.TempDir()
			holed := slices.Clone(raw[:cut])
			clear(holed[from:min(from+block, cut)])
			put(t, dir, 1, holed)
			want := undamaged(all, ends, func(i int) bool { return i >= cut || i >= from && i < from+block })
			j := open(t, Config{Dir: dir}, nil)
			if s := j.Stats(); s.Skipped == 0 || s.Clicks != int64(len(want)) {
				t.Errorf("a hole at %d of %d: %+v, not %d clicks", from, cut, s, len(want))
			}
			same(t, drained2(t, j), want)
			must(t, j.Close())
		}
	}
}

// undamaged are the batches of raw's records that changed does not touch.
func undamaged(all [][]byte, ends []int, changed func(i int) bool) []string {
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

func TestEveryBitMayFlipAndOnlyItsRecordIsLost(t *testing.T) {
	all := batches(4)
	// A payload that is itself full of markers.
	all[1] = bytes.Repeat(recordMarker, 12)
	raw, ends := segmentOf(t, all...)
	dir := t.TempDir()
	newer, _ := segmentOf(t, []byte("newer"))
	put(t, dir, 2, newer)
	for bit := range len(raw) * 8 {
		broken := slices.Clone(raw)
		broken[bit/8] ^= 1 << (bit % 8)
		put(t, dir, 1, broken)
		got, report := read(t, dir)
		same(t, got, append(undamaged(all, ends, func(i int) bool { return i == bit/8 }), "newer"))
		if len(report.Damage) != 1 || report.Damage[0].Records < 1 || report.Damage[0].Segment != segmentName(1) {
			t.Fatalf("bit %d: %+v", bit, report.Damage)
		}
	}
}

// Through Open and Drain: any bytes of any segment, in any number.
func TestDamageAnywhereCostsNoOtherRecord(t *testing.T) {
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
			raw, ends := segmentOf(t, all...)
			hit := map[int]bool{}
			for range random.IntN(4) {
				at, length := random.IntN(len(raw)), 1+random.IntN(80)
				for i := at; i < min(len(raw), at+length); i++ {
					raw[i] ^= byte(1 + random.IntN(255))
					hit[i] = true
				}
			}
			want = append(want, undamaged(all, ends, func(i int) bool { return hit[i] })...)
			// Twice the same byte may be as it was: what is compared has to be damaged.
			for i := range hit {
				original, _ := segmentOf(t, all...)
				if raw[i] == original[i] {
					raw[i] ^= 1
				}
			}
			put(t, dir, uint64(segment+1), raw)
		}
		j := open(t, Config{Dir: dir}, nil)
		clicks := j.Stats().Clicks
		var got []string
		must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
			got = append(got, string(batch))
			return nil
		}))
		if clicks != int64(len(want)) || len(names(t, dir)) != 0 {
			t.Errorf("round %d: %d clicks, want %d; %v left", round, clicks, len(want), names(t, dir))
		}
		same(t, got, want)
		must(t, j.Close())
	}
}

func TestDamageIsCountedOnce(t *testing.T) {
	dir := t.TempDir()
	raw, ends := segmentOf(t, batches(6)...)
	raw[ends[0]+recordHeader] ^= 1 // the second's payload
	raw[ends[2]+8] ^= 0x40         // the fourth's length
	raw[ends[3]+5] ^= 1            // the fifth's checksum
	put(t, dir, 1, raw)
	j := opened(t, Config{Dir: dir, SegmentBytes: 100}, nil)
	if s := j.Stats(); s.Skipped != 3 || s.Truncated != 0 || s.Clicks != 3 {
		t.Errorf("%+v", s)
	}
	// Damage of what this process wrote is found by the drain.
	add(t, j, 6, 9)
	path := filepath.Join(dir, segmentName(2))
	own, err := os.ReadFile(path)
	must(t, err)
	own[segmentHeader+recordHeader] ^= 1
	must(t, os.WriteFile(path, own, 0o600))
	must(t, os.Remove(filepath.Join(dir, names(t, dir)[2])))
	refused := errors.New("not now")
	if err := j.Drain(context.Background(), func(context.Context, []byte, int) error { return refused }); err != refused { //nolint:errorlint // as it is
		t.Fatal(err)
	}
	got := drained2(t, j)
	if s := j.Stats(); s.Skipped != 3+1+1 || s.Bytes != 0 {
		t.Errorf("%+v", s)
	}
	same(t, got, []string{text(0), text(2), text(5), text(7)})
}

// drained2 is drained without its numbers of clicks.
func drained2(t *testing.T, j *Journal) (got []string) {
	t.Helper()
	must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		got = append(got, string(batch))
		return nil
	}))
	return got
}

// Damage that is larger than what is held of the file at once.
func TestALargeHoleIsCrossed(t *testing.T) {
	dir := t.TempDir()
	large := bytes.Repeat([]byte("large"), maxBatch/5)
	raw, ends := segmentOf(t, large, large, large, []byte("small"), large, []byte("end"))
	clear(raw[segmentHeader : ends[2]-1])
	copy(raw[4000:], recordMarker)
	put(t, dir, 1, raw)
	got, report := read(t, dir)
	same(t, got, []string{"small", string(large), "end"})
	if len(report.Damage) != 1 || report.Damage[0].Bytes != int64(ends[2]-segmentHeader) {
		t.Errorf("%+v", report.Damage)
	}
}

// A marker that lies across the end of what is held at once.
func TestNoMarkerIsMissedAtTheEndOfTheWindow(t *testing.T) {
	sound, _ := segmentOf(t, []byte("found"))
	for at := 2*maxRecord - len(recordMarker) - 1; at <= 2*maxRecord+1; at++ {
		dir := t.TempDir()
		hole := make([]byte, at-segmentHeader)
		put(t, dir, 1, slices.Concat(sound[:segmentHeader], hole, sound[segmentHeader:]))
		got, _ := read(t, dir)
		same(t, got, []string{"found"})
	}
}

func TestAnotherVersionIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	raw, _ := segmentOf(t, []byte("of tomorrow"))
	raw[8] = 2
	binary.LittleEndian.PutUint32(raw[12:], crc32.Checksum(raw[:12], castagnoli))
	path := put(t, dir, 1, raw)
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, errVersion) {
		t.Error(err)
	}
	if _, err := Read(dir, nil); !errors.Is(err, errVersion) {
		t.Error(err)
	}
	kept, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(kept, raw) {
		t.Error("the segment was changed")
	}
}

// failingSource is a disk with a sector that cannot be read.
type failingSource struct{ io.ReaderAt }

var errSector = errors.New("bad sector")

func (failingSource) ReadAt([]byte, int64) (int, error) { return 0, errSector }

func TestWhatCannotBeReadIsNoDamage(t *testing.T) {
	if _, err := newScanner(failingSource{}, 100); !errors.Is(err, errSector) {
		t.Error(err)
	}
	raw, ends := segmentOf(t, bytes.Repeat([]byte("a"), maxBatch), bytes.Repeat([]byte("b"), maxBatch), []byte("c"))
	s, err := newScanner(bytes.NewReader(raw), int64(len(raw)))
	must(t, err)
	_, _, err = s.next()
	must(t, err)
	s.source = failingSource{}
	for range 3 {
		if _, _, err = s.next(); err != nil {
			break
		}
	}
	if !errors.Is(err, errSector) || s.at > int64(ends[1]) {
		t.Errorf("%v at %d", err, s.at)
	}
}

// Whatever a segment holds, records and damage cover it without a gap, and every
// record is one that Append could have written.
func FuzzReader(f *testing.F) {
	sound, ends := segmentOf(f, batches(3)...)
	f.Add(sound)
	f.Add(sound[:len(sound)-3])
	f.Add(sound[segmentHeader:])
	f.Add(slices.Concat(sound[:ends[0]], []byte("garbage"), recordMarker, sound[ends[0]:]))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := newScanner(bytes.NewReader(raw), int64(len(raw)))
		if errors.Is(err, errVersion) {
			return
		}
		must(t, err)
		at := s.at
		if at != 0 && !bytes.Equal(raw[:at], appendSegmentHeader(nil)) {
			t.Fatalf("header % x", raw[:at])
		}
		for {
			r, damage, err := s.next()
			if damage.Offset != at || damage.Bytes < 0 || (damage.Bytes > 0) != (damage.Records > 0) {
				t.Fatalf("at %d: %+v", at, damage)
			}
			at += damage.Bytes
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			header := makeHeader(r.Batch, r.Clicks, r.Time)
			whole := append(header[:], r.Batch...)
			if r.Offset != at || !bytes.HasPrefix(raw[at:], whole) || r.Clicks < 1 || len(r.Batch) == 0 {
				t.Fatalf("at %d: %+v", at, r)
			}
			at += int64(len(whole))
		}
		if at != int64(len(raw)) {
			t.Fatalf("%d of %d bytes", at, len(raw))
		}
	})
}

// Good records are found whatever stands between them.
func FuzzGarbageBetweenRecords(f *testing.F) {
	f.Add([]byte("x"), []byte{}, []byte{0})
	f.Add(recordMarker, recordMarker[:2], recordMarker)
	header := makeHeader(make([]byte, 40), 1, time.UnixMilli(1))
	f.Add(header[:], header[:9], header[3:])
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		sound, ends := segmentOf(t, []byte("first"), []byte("second"))
		raw := slices.Concat(sound[:segmentHeader], a, sound[segmentHeader:ends[0]], b, sound[ends[0]:], c)
		s, err := newScanner(bytes.NewReader(raw), int64(len(raw)))
		must(t, err)
		want := []int64{int64(segmentHeader + len(a)), int64(ends[0] + len(a) + len(b))}
		for {
			r, _, err := s.next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			want = slices.DeleteFunc(want, func(at int64) bool { return at == r.Offset })
		}
		if len(want) > 0 {
			t.Fatalf("the records at %v are missed", want)
		}
	})
}
