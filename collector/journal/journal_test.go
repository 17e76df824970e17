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

// batchText returns the test batch with the number i. The batch contains the number.
func batchText(i int) string { return fmt.Sprintf("%d:%s", i, strings.Repeat("x", i%7)) }

// batchNumber returns the number in a test batch.
func batchNumber(t failer, batch []byte) int {
	t.Helper()
	head, _, _ := bytes.Cut(batch, []byte(":"))
	i, err := strconv.Atoi(string(head))
	requireNoError(t, err)
	return i
}

// appendBatches appends the test batches with the numbers first to end-1. The batch with
// the number i has 1+i%2 clicks.
func appendBatches(t failer, j *Journal, first, end int) {
	t.Helper()
	for i := first; i < end; i++ {
		requireNoError(t, j.Append(context.Background(), []byte(batchText(i)), 1+i%2))
	}
}

// drainAll drains the journal and returns the batches. It requires that each batch has
// the number of clicks with which appendBatches wrote it.
func drainAll(t failer, j *Journal) []string {
	t.Helper()
	var got []string
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if i := batchNumber(t, batch); n != 1+i%2 {
			t.Fatalf("replayed batch %d has %d clicks, want %d", i, n, 1+i%2)
		}
		got = append(got, string(batch))
		return nil
	}))
	return got
}

// batchTexts returns the test batches with the numbers first to end-1.
func batchTexts(first, end int) []string {
	var all []string
	for i := first; i < end; i++ {
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

// readAll returns the batches and the report of Read.
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
		t.Errorf("the mode of the folder is %v, want 0700", info.Mode())
	}
	appendBatches(t, j, 0, 50)
	if s := j.Stats(); s.Clicks != 75 || s.Oldest.IsZero() || s.MaxBytes != defaultMaxBytes || s.Broken != nil {
		t.Errorf("Stats() = %+v, want 75 clicks, the default MaxBytes and a working journal", s)
	}
	if n := len(segmentNames(t, dir)); n < 5 {
		t.Errorf("50 batches are in %d segments, want at least 5", n)
	}
	for _, name := range segmentNames(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		requireNoError(t, err)
		if info.Size() > 200 {
			t.Errorf("%s has %d bytes, want at most 200", name, info.Size())
		}
	}
	requireEqual(t, drainAll(t, j), batchTexts(0, 50))
	if s := j.Stats(); s.Bytes != 0 || s.Clicks != 0 || !s.Oldest.IsZero() || s.Skipped != 0 || len(segmentNames(t, dir)) != 0 {
		t.Errorf("after the drain: %+v, segments %v; want an empty journal", s, segmentNames(t, dir))
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
		t.Errorf("after the restart: %+v, want %+v", s, before)
	}
	appendBatches(t, second, 20, 25)
	got, report := readAll(t, dir)
	requireEqual(t, got, batchTexts(0, 25))
	if report.Clicks != second.Stats().Clicks || report.Bytes != second.Stats().Bytes || report.Records != 25 ||
		len(report.Damage) != 0 || report.Tail.Bytes != 0 || !report.Newest.Equal(written) || !report.Oldest.Equal(before.Oldest) {
		t.Errorf("Read reports %+v, want 25 records without damage, and the same sizes as %+v", report, second.Stats())
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
				t.Errorf("Append of batch %d: %v", i, err)
			}
		})
	}
	appendOne(1)
	<-files.syncBlocked // The second fsync has begun, so the next batches must wait.
	for i := 2; i < 100; i++ {
		appendOne(i)
	}
	waitForQueued(j, 98)
	gate := files.syncGate
	files.set(func() { files.syncGate = nil })
	close(gate)
	group.Wait()
	if files.syncs != 3 {
		t.Errorf("%d fsyncs for 100 batches, want 3", files.syncs)
	}
	got := drainAll(t, j)
	slices.SortFunc(got, func(a, b string) int { return batchNumber(t, []byte(a)) - batchNumber(t, []byte(b)) })
	requireEqual(t, got, batchTexts(0, 100))
}

// waitForQueued waits until n batches wait for the next group.
func waitForQueued(j *Journal, n int) {
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
	if n := len(segmentNames(t, files.dir)); files.dirSyncs-before != n || files.syncs != 30 {
		t.Errorf("%d syncs of the folder and %d of files, want %d (one per segment) and 30", files.dirSyncs-before, files.syncs, n)
	}
	for _, name := range segmentNames(t, files.dir) {
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
				t.Fatalf("the journal has %d bytes, want at most %d", s.Bytes, bound)
			}
		}
	}
	accepted := fill(0)
	_, report := readAll(t, dir)
	if s := j.Stats(); accepted < 20 || s.Broken != nil || report.Bytes != s.Bytes || s.Bytes < bound-100 || !errors.Is(j.Ready(), ErrFull) {
		t.Errorf("%d batches accepted, %+v, %d bytes on disk, Ready() = %v; want at least 20 batches, nearly %d bytes and ErrFull",
			accepted, s, report.Bytes, j.Ready(), bound)
	}
	// Each deleted segment frees space, even before the drain ends.
	var once bool
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		if len(segmentNames(t, dir)) < report.Segments && !once {
			once = true
			requireNoError(t, j.Ready())
			appendBatches(t, j, accepted, accepted+3)
		}
		return nil
	}))
	requireEqual(t, drainAll(t, j), batchTexts(accepted, accepted+3))
	if again := fill(0); again != accepted {
		t.Errorf("%d batches fit after the drain, want %d as before", again, accepted)
	}
}

func TestAppend_RejectsInvalidSizes(t *testing.T) {
	j := openForTest(t, Config{Dir: t.TempDir()}, nil)
	for _, c := range []struct{ bytes, clicks int }{{0, 1}, {10, 0}, {10, -1}, {10, 11}, {maxBatch + 1, 1}} {
		if err := j.Append(context.Background(), make([]byte, c.bytes), c.clicks); err == nil {
			t.Errorf("Append accepted %d clicks in %d bytes, want an error", c.clicks, c.bytes)
		}
	}
	large := bytes.Repeat([]byte{0xF9}, maxBatch)
	requireNoError(t, j.Append(context.Background(), large, 512))
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if !bytes.Equal(batch, large) || n != 512 {
			t.Errorf("replayed %d bytes with %d clicks, want the appended %d bytes with 512 clicks", len(batch), n, len(large))
		}
		return nil
	}))
}

func TestOpen_RejectsFolderInUse(t *testing.T) {
	dir := t.TempDir()
	first := open(t, Config{Dir: dir}, nil)
	if j, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("Open of a folder in use = %v, %v; want an error about another process", j, err)
	}
	requireNoError(t, first.Close())
	openForTest(t, Config{Dir: dir}, nil)
}

func TestDrain_ResumesAtSegmentOfFailedRecord(t *testing.T) {
	const records, perSegment = 12, 3
	for failing := range records {
		t.Run(strconv.Itoa(failing), func(t *testing.T) {
			dir := t.TempDir()
			j := openForTest(t, Config{Dir: dir, SegmentBytes: segmentHeader + perSegment*(recordHeader+9)}, nil)
			for i := range records {
				requireNoError(t, j.Append(context.Background(), fmt.Appendf(nil, "%02d:%s", i, "123456"), 1))
			}
			if len(segmentNames(t, dir)) != records/perSegment {
				t.Fatalf("segments %v, want %d", segmentNames(t, dir), records/perSegment)
			}
			errNoRedis := errors.New("no Redis")
			next := 0
			err := j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
				if i := batchNumber(t, batch); i != next {
					t.Fatalf("replayed record %d, want %d", i, next)
				}
				// A segment exists until its last record was replayed.
				if n, want := len(segmentNames(t, dir)), (records-next+perSegment-1)/perSegment; n != want {
					t.Errorf("before record %d was replayed: %d segments, want %d", next, n, want)
				}
				if next == failing {
					return errNoRedis
				}
				next++
				return nil
			})
			if err != errNoRedis { //nolint:errorlint // must not be wrapped
				t.Fatalf("Drain() = %v, want %v without wrapping", err, errNoRedis)
			}
			next = failing / perSegment * perSegment
			requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
				if i := batchNumber(t, batch); i != next {
					t.Fatalf("replayed record %d, want %d", i, next)
				}
				next++
				return nil
			}))
			if next != records || len(segmentNames(t, dir)) != 0 {
				t.Errorf("the second drain stopped before record %d and left segments %v, want %d and none", next, segmentNames(t, dir), records)
			}
		})
	}
}

// Drain joins small batches up to the bounds and passes each batch to replay once. It
// deletes a segment only after all its batches were replayed.
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
	errNoRedis := errors.New("no Redis")
	calls := 0
	err := j.Drain(context.Background(), func(context.Context, []byte, int) error {
		if calls++; calls == 5 {
			return errNoRedis
		}
		return nil
	})
	if err != errNoRedis || len(segmentNames(t, dir)) != 2 { //nolint:errorlint // must not be wrapped
		t.Fatalf("Drain() = %v with segments %v left, want %v and 2 segments", err, segmentNames(t, dir), errNoRedis)
	}
	var got strings.Builder
	clicks := 0
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if len(batch) > 12 || n > 7 || n != 2*len(batch)/3 {
			t.Errorf("a joined batch has %d clicks in %d bytes, want at most 7 in 12, and 2 clicks for every 3 bytes", n, len(batch))
		}
		got.Write(batch)
		clicks += n
		return nil
	}))
	if rest := want.String()[perSegment*3:]; got.String() != rest || clicks != 2*(records-perSegment) || len(segmentNames(t, dir)) != 0 {
		t.Errorf("the second drain replayed %q with %d clicks and left segments %v, want %q with %d clicks and none",
			got.String(), clicks, segmentNames(t, dir), rest, 2*(records-perSegment))
	}
}

func TestDrain_EndsOnContextCancelAndOnClose(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()}, nil)
	appendBatches(t, j, 0, 3)
	ctx, cancel := context.WithCancel(context.Background())
	count := 0
	err := j.Drain(ctx, func(context.Context, []byte, int) error { count++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || count != 1 {
		t.Errorf("Drain with a cancelled context = %v after %d records, want %v after 1", err, count, context.Canceled)
	}
	closed := make(chan error, 1)
	err = j.Drain(context.Background(), func(ctx context.Context, _ []byte, _ int) error {
		go func() { closed <- j.Close() }()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, ErrClosed) {
		t.Errorf("Drain during Close = %v, want ErrClosed", err)
	}
	requireNoError(t, <-closed)
	if err := j.Drain(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Drain after Close = %v, want ErrClosed", err)
	}
	if err := j.Append(context.Background(), []byte("1:"), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close = %v, want ErrClosed", err)
	}
}

func TestAppend_WorksDuringDrain(t *testing.T) {
	j := openForTest(t, Config{Dir: t.TempDir()}, nil)
	appendBatches(t, j, 0, 5)
	next := 5
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		if batchNumber(t, batch) >= 5 {
			t.Errorf("batch %q was appended during the drain, but this drain replayed it", batch)
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
	waitForQueued(j, 1)
	cancel()
	for range 2 {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("Append whose context ended = %v, want %v", err, context.Canceled)
		}
	}
	waitForQueued(j, 0)
	gate := files.syncGate
	files.set(func() { files.syncGate = nil })
	close(gate)
	appendBatches(t, j, 2, 3)
	requireEqual(t, drainAll(t, j), []string{batchText(0), batchText(2)})
	if j.reserved != 0 {
		t.Errorf("%d bytes are still reserved, want 0", j.reserved)
	}
	if err := j.Append(ctx, []byte(batchText(3)), 2); !errors.Is(err, context.Canceled) {
		t.Errorf("Append with a cancelled context = %v, want %v", err, context.Canceled)
	}
}

func TestFreeBytes_MeasuresDisk(t *testing.T) {
	j, err := Open(Config{Dir: t.TempDir()})
	requireNoError(t, err)
	if free, err := j.FreeBytes(); err != nil || free <= 0 {
		t.Errorf("FreeBytes returned %d, %v, want the free space of a disk that is not full", free, err)
	}
	requireNoError(t, j.Close())
	if free, err := j.FreeBytes(); err == nil {
		t.Errorf("FreeBytes of a closed journal returned %d, want an error", free)
	}
}
