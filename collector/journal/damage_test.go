package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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
		want := Stats{Bytes: int64(last), MaxBytes: defaultMaxBytes, Clicks: 4, Oldest: time.UnixMilli(1_700_000_000_000).UTC()}
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

// A segment that was begun and never written holds nothing.
func TestASegmentWithoutARecordIsRemoved(t *testing.T) {
	raw, ends := segmentOf(t, batches(1)...)
	for cut := range ends[0] {
		dir := t.TempDir()
		put(t, dir, 1, raw[:cut])
		j := open(t, Config{Dir: dir}, nil)
		if s := j.Stats(); s.Bytes != 0 || s.Skipped != 0 || len(names(t, dir)) != 0 {
			t.Fatalf("cut at %d: %+v, %v", cut, s, names(t, dir))
		}
		add(t, j, 0, 1)
		same(t, drained(t, j), texts(0, 1))
		must(t, j.Close())
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
