package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// batchText returns the i-th test batch. It contains its number.
func batchText(i int) string { return fmt.Sprintf("%d:%s", i, strings.Repeat("x", i%7)) }

func batchNumber(t failer, batch []byte) int {
	t.Helper()
	head, _, _ := bytes.Cut(batch, []byte(":"))
	i, err := strconv.Atoi(string(head))
	requireNoError(t, err)
	return i
}

func appendBatches(t failer, j *Journal, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		requireNoError(t, j.Append(context.Background(), []byte(batchText(i)), 1+i%2))
	}
}

// drainAll drains the journal and returns the batches. It also checks their numbers of
// clicks.
func drainAll(t failer, j *Journal) []string {
	t.Helper()
	var got []string
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if i := batchNumber(t, batch); n != 1+i%2 {
			t.Fatalf("record %d has %d clicks", i, n)
		}
		got = append(got, string(batch))
		return nil
	}))
	return got
}

func batchTexts(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, batchText(i))
	}
	return all
}

func requireEqual(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func readAll(t *testing.T, dir string) ([]string, Report) {
	t.Helper()
	var got []string
	report, err := Read(dir, func(r Record) error {
		got = append(got, string(r.Batch))
		return nil
	})
	requireNoError(t, err)
	return got, report
}

func TestDrain_ReplaysInOrderAndDeletesSegments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "journal")
	j := openForTest(t, Config{Dir: dir, SegmentBytes: 200}, nil)
	info, err := os.Stat(dir)
	requireNoError(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v", info.Mode())
	}
	appendBatches(t, j, 0, 50)
	if s := j.Stats(); s.Clicks != 75 || s.Oldest.IsZero() || s.MaxBytes != defaultMaxBytes || s.Broken != nil {
		t.Errorf("%+v", s)
	}
	if n := len(names(t, dir)); n < 5 {
		t.Errorf("%d segments", n)
	}
	for _, name := range names(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		requireNoError(t, err)
		if info.Size() > 200 {
			t.Errorf("%s is %d bytes long", name, info.Size())
		}
	}
	requireEqual(t, drainAll(t, j), batchTexts(0, 50))
	if s := j.Stats(); s.Bytes != 0 || s.Clicks != 0 || !s.Oldest.IsZero() || s.Skipped != 0 || len(names(t, dir)) != 0 {
		t.Errorf("after the drain: %+v %v", s, names(t, dir))
	}
	requireEqual(t, drainAll(t, j), nil)
	appendBatches(t, j, 50, 60)
	requireEqual(t, drainAll(t, j), batchTexts(50, 60))
}

func TestOpen_FindsRecordsOfPreviousProcess(t *testing.T) {
	dir := t.TempDir()
	written := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return written }
	first := open(t, Config{Dir: dir, SegmentBytes: 200, now: clock}, nil)
	appendBatches(t, first, 0, 20)
	before := first.Stats()
	requireNoError(t, first.Close())
	requireNoError(t, first.Close())

	written = written.Add(time.Hour)
	second := openForTest(t, Config{Dir: dir, SegmentBytes: 200, now: clock}, nil)
	if s := second.Stats(); s != before || !s.Oldest.Equal(written.Add(-time.Hour)) {
		t.Errorf("%+v, before %+v", s, before)
	}
	appendBatches(t, second, 20, 25)
	got, report := readAll(t, dir)
	requireEqual(t, got, batchTexts(0, 25))
	if report.Clicks != second.Stats().Clicks || report.Bytes != second.Stats().Bytes || report.Records != 25 ||
		len(report.Damage) != 0 || report.Tail.Bytes != 0 || !report.Newest.Equal(written) || !report.Oldest.Equal(before.Oldest) {
		t.Errorf("%+v", report)
	}
	requireEqual(t, drainAll(t, second), batchTexts(0, 25))
}

func TestAppend_ConcurrentCallsShareFsync(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := openForTest(t, Config{}, files)
	appendBatches(t, j, 0, 1)
	files.set(func() { files.syncGate, files.syncBlocked = make(chan struct{}), make(chan struct{}) })
	var group sync.WaitGroup
	appendOne := func(i int) {
		group.Go(func() {
			if err := j.Append(context.Background(), []byte(batchText(i)), 1+i%2); err != nil {
				t.Error(err)
			}
		})
	}
	appendOne(1)
	<-files.syncBlocked // the second fsync has begun
	for i := 2; i < 100; i++ {
		appendOne(i)
	}
	waitFor(j, 98)
	gate := files.syncGate
	files.set(func() { files.syncGate = nil })
	close(gate)
	group.Wait()
	if files.syncs != 3 {
		t.Errorf("%d fsyncs for 100 batches", files.syncs)
	}
	got := drainAll(t, j)
	slices.SortFunc(got, func(a, b string) int { return batchNumber(t, []byte(a)) - batchNumber(t, []byte(b)) })
	requireEqual(t, got, batchTexts(0, 100))
}

// waitFor waits until n batches wait for the next group.
func waitFor(j *Journal, n int) {
	for {
		j.mu.Lock()
		have := len(j.waiting)
		j.mu.Unlock()
		if have == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAppend_SyncsFolderForEachNewSegment(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := openForTest(t, Config{SegmentBytes: 100}, files)
	before := files.dirSyncs
	appendBatches(t, j, 0, 30)
	if n := len(names(t, files.dir)); files.dirSyncs-before != n || files.syncs != 30 {
		t.Errorf("%d segments, %d syncs of the folder, %d of files", n, files.dirSyncs-before, files.syncs)
	}
	for _, name := range names(t, files.dir) {
		if _, durable := files.files[name]; !durable {
			t.Errorf("the name %s is not durable", name)
		}
	}
}

func TestAppend_ReturnsErrFullUntilDrained(t *testing.T) {
	dir := t.TempDir()
	const bound = 1000
	j := openForTest(t, Config{Dir: dir, SegmentBytes: 300, MaxBytes: bound}, nil)
	fill := func(i int) int {
		for ; ; i++ {
			err := j.Append(context.Background(), []byte(batchText(i)), 1+i%2)
			if errors.Is(err, ErrFull) {
				return i
			}
			requireNoError(t, err)
			if s := j.Stats(); s.Bytes > bound {
				t.Fatalf("%d bytes", s.Bytes)
			}
		}
	}
	accepted := fill(0)
	_, report := readAll(t, dir)
	if s := j.Stats(); accepted < 20 || s.Broken != nil || report.Bytes != s.Bytes || s.Bytes < bound-100 || !errors.Is(j.Ready(), ErrFull) {
		t.Errorf("%d accepted, %+v, %d on disk, %v", accepted, s, report.Bytes, j.Ready())
	}
	// Each deleted segment frees space, even before the drain ends.
	var once bool
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		if len(names(t, dir)) < report.Segments && !once {
			once = true
			requireNoError(t, j.Ready())
			appendBatches(t, j, accepted, accepted+3)
		}
		return nil
	}))
	requireEqual(t, drainAll(t, j), batchTexts(accepted, accepted+3))
	if again := fill(0); again != accepted {
		t.Errorf("%d batches fit after the drain, %d before", again, accepted)
	}
}

func TestAppend_RejectsInvalidSizes(t *testing.T) {
	j := openForTest(t, Config{Dir: t.TempDir()}, nil)
	for _, c := range []struct{ bytes, clicks int }{{0, 1}, {10, 0}, {10, -1}, {10, 11}, {maxBatch + 1, 1}} {
		if err := j.Append(context.Background(), make([]byte, c.bytes), c.clicks); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	large := bytes.Repeat([]byte{0xF9}, maxBatch)
	requireNoError(t, j.Append(context.Background(), large, 512))
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if !bytes.Equal(batch, large) || n != 512 {
			t.Errorf("%d bytes, %d clicks", len(batch), n)
		}
		return nil
	}))
}

func TestOpen_RejectsFolderInUse(t *testing.T) {
	dir := t.TempDir()
	first := open(t, Config{Dir: dir}, nil)
	if j, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("%v %v", j, err)
	}
	requireNoError(t, first.Close())
	openForTest(t, Config{Dir: dir}, nil)
}

func TestDrain_ResumesAtSegmentOfFailedRecord(t *testing.T) {
	const records, perSegment = 12, 3
	for stop := range records {
		t.Run(strconv.Itoa(stop), func(t *testing.T) {
			dir := t.TempDir()
			j := openForTest(t, Config{Dir: dir, SegmentBytes: segmentHeader + perSegment*(recordHeader+9)}, nil)
			for i := range records {
				requireNoError(t, j.Append(context.Background(), fmt.Appendf(nil, "%02d:%s", i, "123456"), 1))
			}
			if len(names(t, dir)) != records/perSegment {
				t.Fatalf("%v", names(t, dir))
			}
			down := errors.New("no Redis")
			next := 0
			err := j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
				if i := batchNumber(t, batch); i != next {
					t.Fatalf("replayed record %d, want %d", i, next)
				}
				// A segment exists until its last record was replayed.
				if n := len(names(t, dir)); n != (records-next+perSegment-1)/perSegment {
					t.Errorf("%d segments before record %d was replayed", n, next)
				}
				if next == stop {
					return down
				}
				next++
				return nil
			})
			if err != down { //nolint:errorlint // must not be wrapped
				t.Fatal(err)
			}
			next = stop / perSegment * perSegment
			requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
				if i := batchNumber(t, batch); i != next {
					t.Fatalf("replayed record %d, want %d", i, next)
				}
				next++
				return nil
			}))
			if next != records || len(names(t, dir)) != 0 {
				t.Errorf("%d replayed, %v left", next, names(t, dir))
			}
		})
	}
}

// Drain joins small batches up to the bounds and joins no batch twice. It deletes a
// segment only after all its batches were replayed.
func TestDrain_JoinsSmallBatches(t *testing.T) {
	const records, perSegment = 23, 10
	dir := t.TempDir()
	j := openForTest(t, Config{Dir: dir, SegmentBytes: segmentHeader + perSegment*(recordHeader+3), JoinBytes: 12, JoinClicks: 7}, nil)
	var want strings.Builder
	for i := range records {
		text := fmt.Sprintf("%02d;", i)
		want.WriteString(text)
		requireNoError(t, j.Append(context.Background(), []byte(text), 2))
	}
	down := errors.New("no Redis")
	calls := 0
	err := j.Drain(context.Background(), func(context.Context, []byte, int) error {
		if calls++; calls == 5 {
			return down
		}
		return nil
	})
	if err != down || len(names(t, dir)) != 2 { //nolint:errorlint // must not be wrapped
		t.Fatalf("%v, %v", err, names(t, dir))
	}
	var got strings.Builder
	clicks := 0
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if len(batch) > 12 || n > 7 || n != 2*len(batch)/3 {
			t.Errorf("a joined batch has %d clicks in %d bytes", n, len(batch))
		}
		got.Write(batch)
		clicks += n
		return nil
	}))
	if rest := want.String()[perSegment*3:]; got.String() != rest || clicks != 2*(records-perSegment) || len(names(t, dir)) != 0 {
		t.Errorf("%q of %d clicks, not %q; %v left", got.String(), clicks, rest, names(t, dir))
	}
}

func TestDrain_EndsOnContextCancelAndOnClose(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()}, nil)
	appendBatches(t, j, 0, 3)
	ctx, cancel := context.WithCancel(context.Background())
	count := 0
	err := j.Drain(ctx, func(context.Context, []byte, int) error { count++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || count != 1 {
		t.Errorf("%v after %d", err, count)
	}
	closed := make(chan error, 1)
	err = j.Drain(context.Background(), func(ctx context.Context, _ []byte, _ int) error {
		go func() { closed <- j.Close() }()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	requireNoError(t, <-closed)
	if err := j.Drain(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := j.Append(context.Background(), []byte("1:"), 1); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestAppend_WorksDuringDrain(t *testing.T) {
	j := openForTest(t, Config{Dir: t.TempDir()}, nil)
	appendBatches(t, j, 0, 5)
	next := 5
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		if batchNumber(t, batch) >= 5 {
			t.Errorf("%q was appended after the drain began, but was replayed", batch)
		}
		appendBatches(t, j, next, next+1)
		next++
		return nil
	}))
	requireEqual(t, drainAll(t, j), batchTexts(5, 10))
}

// An Append whose context ends removes its batch, unless the batch is already being
// written.
func TestAppend_EndsWithContext(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := openForTest(t, Config{}, files)
	files.set(func() { files.syncGate, files.syncBlocked = make(chan struct{}), make(chan struct{}) })
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan error, 2)
	go func() { results <- j.Append(ctx, []byte(batchText(0)), 1) }()
	<-files.syncBlocked
	go func() { results <- j.Append(ctx, []byte(batchText(1)), 2) }()
	waitFor(j, 1)
	cancel()
	for range 2 {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	waitFor(j, 0)
	gate := files.syncGate
	files.set(func() { files.syncGate = nil })
	close(gate)
	appendBatches(t, j, 2, 3)
	requireEqual(t, drainAll(t, j), []string{batchText(0), batchText(2)})
	if j.reserved != 0 {
		t.Errorf("%d bytes are still reserved", j.reserved)
	}
	if err := j.Append(ctx, []byte(batchText(3)), 2); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
