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

// text is a batch that says which it is.
func text(i int) string { return fmt.Sprintf("%d:%s", i, strings.Repeat("x", i%7)) }

func number(t fataler, batch []byte) int {
	t.Helper()
	head, _, _ := bytes.Cut(batch, []byte(":"))
	i, err := strconv.Atoi(string(head))
	must(t, err)
	return i
}

func add(t fataler, j *Journal, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must(t, j.Append(context.Background(), []byte(text(i)), 1+i%2))
	}
}

// drained is what a Drain hands out, as it wrote it.
func drained(t fataler, j *Journal) []string {
	t.Helper()
	var got []string
	must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if i := number(t, batch); n != 1+i%2 {
			t.Fatalf("record %d has %d clicks", i, n)
		}
		got = append(got, string(batch))
		return nil
	}))
	return got
}

func texts(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, text(i))
	}
	return all
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func read(t *testing.T, dir string) ([]string, Report) {
	t.Helper()
	var got []string
	report, err := Read(dir, func(r Record) error {
		got = append(got, string(r.Batch))
		return nil
	})
	must(t, err)
	return got, report
}

func TestWhatIsAppendedIsReplayedInOrderAndThenGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "journal")
	j := opened(t, Config{Dir: dir, SegmentBytes: 200}, nil)
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v", info.Mode())
	}
	add(t, j, 0, 50)
	if s := j.Stats(); s.Clicks != 75 || s.Oldest.IsZero() || s.MaxBytes != defaultMaxBytes || s.Broken != nil {
		t.Errorf("%+v", s)
	}
	if n := len(names(t, dir)); n < 5 {
		t.Errorf("%d segments", n)
	}
	for _, name := range names(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Size() > 200 {
			t.Errorf("%s is %d bytes long", name, info.Size())
		}
	}
	same(t, drained(t, j), texts(0, 50))
	if s := j.Stats(); s.Bytes != 0 || s.Clicks != 0 || !s.Oldest.IsZero() || s.Skipped != 0 || len(names(t, dir)) != 0 {
		t.Errorf("after the drain: %+v %v", s, names(t, dir))
	}
	same(t, drained(t, j), nil)
	add(t, j, 50, 60)
	same(t, drained(t, j), texts(50, 60))
}

func TestAJournalOutlivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	written := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return written }
	first := open(t, Config{Dir: dir, SegmentBytes: 200, now: clock}, nil)
	add(t, first, 0, 20)
	before := first.Stats()
	must(t, first.Close())
	must(t, first.Close())

	written = written.Add(time.Hour)
	second := opened(t, Config{Dir: dir, SegmentBytes: 200, now: clock}, nil)
	if s := second.Stats(); s != before || !s.Oldest.Equal(written.Add(-time.Hour)) {
		t.Errorf("%+v, before %+v", s, before)
	}
	add(t, second, 20, 25)
	got, report := read(t, dir)
	same(t, got, texts(0, 25))
	if report.Clicks != second.Stats().Clicks || report.Bytes != second.Stats().Bytes || report.Records != 25 ||
		len(report.Damage) != 0 || report.Tail.Bytes != 0 || !report.Newest.Equal(written) || !report.Oldest.Equal(before.Oldest) {
		t.Errorf("%+v", report)
	}
	same(t, drained(t, second), texts(0, 25))
}

func TestAppendsOfOneMomentShareAnFsync(t *testing.T) {
	files := newShakyDisk(t.TempDir())
	j := opened(t, Config{}, files)
	add(t, j, 0, 1)
	files.set(func() { files.hold, files.entered = make(chan struct{}), make(chan struct{}) })
	var group sync.WaitGroup
	appendOne := func(i int) {
		group.Go(func() {
			if err := j.Append(context.Background(), []byte(text(i)), 1+i%2); err != nil {
				t.Error(err)
			}
		})
	}
	appendOne(1)
	<-files.entered // the second fsync is under way
	for i := 2; i < 100; i++ {
		appendOne(i)
	}
	waitFor(j, 98)
	hold := files.hold
	files.set(func() { files.hold = nil })
	close(hold)
	group.Wait()
	if files.syncs != 3 {
		t.Errorf("%d fsyncs for 100 batches", files.syncs)
	}
	got := drained(t, j)
	slices.SortFunc(got, func(a, b string) int { return number(t, []byte(a)) - number(t, []byte(b)) })
	same(t, got, texts(0, 100))
}

// waitFor returns when n batches wait for the next group.
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

func TestTheFolderIsSyncedBeforeANewSegmentCounts(t *testing.T) {
	files := newShakyDisk(t.TempDir())
	j := opened(t, Config{SegmentBytes: 100}, files)
	before := files.dirSyncs
	add(t, j, 0, 30)
	if n := len(names(t, files.dir)); files.dirSyncs-before != n || files.syncs != 30 {
		t.Errorf("%d segments, %d syncs of the folder, %d of files", n, files.dirSyncs-before, files.syncs)
	}
	for _, name := range names(t, files.dir) {
		if _, durable := files.files[name]; !durable {
			t.Errorf("the name %s is not durable", name)
		}
	}
}

func TestABoundedJournalIsFullUntilItIsDrained(t *testing.T) {
	dir := t.TempDir()
	const bound = 1000
	j := opened(t, Config{Dir: dir, SegmentBytes: 300, MaxBytes: bound}, nil)
	fill := func(i int) int {
		for ; ; i++ {
			err := j.Append(context.Background(), []byte(text(i)), 1+i%2)
			if errors.Is(err, ErrFull) {
				return i
			}
			must(t, err)
			if s := j.Stats(); s.Bytes > bound {
				t.Fatalf("%d bytes", s.Bytes)
			}
		}
	}
	taken := fill(0)
	_, report := read(t, dir)
	if s := j.Stats(); taken < 20 || s.Broken != nil || report.Bytes != s.Bytes || s.Bytes < bound-100 || !errors.Is(j.Ready(), ErrFull) {
		t.Errorf("%d taken, %+v, %d on disk, %v", taken, s, report.Bytes, j.Ready())
	}
	// Room comes back with each segment, not only at the end.
	var once bool
	must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		if len(names(t, dir)) < report.Segments && !once {
			once = true
			must(t, j.Ready())
			add(t, j, taken, taken+3)
		}
		return nil
	}))
	same(t, drained(t, j), texts(taken, taken+3))
	if again := fill(0); again != taken {
		t.Errorf("%d fit in after the drain, %d before", again, taken)
	}
}

func TestWhatNoRecordCanHoldIsRefused(t *testing.T) {
	j := opened(t, Config{Dir: t.TempDir()}, nil)
	for _, c := range []struct{ bytes, clicks int }{{0, 1}, {10, 0}, {10, -1}, {10, 11}, {maxBatch + 1, 1}} {
		if err := j.Append(context.Background(), make([]byte, c.bytes), c.clicks); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	large := bytes.Repeat([]byte{0xF9}, maxBatch)
	must(t, j.Append(context.Background(), large, 512))
	must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if !bytes.Equal(batch, large) || n != 512 {
			t.Errorf("%d bytes, %d clicks", len(batch), n)
		}
		return nil
	}))
}

func TestASecondProcessIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	first := open(t, Config{Dir: dir}, nil)
	if j, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("%v %v", j, err)
	}
	must(t, first.Close())
	opened(t, Config{Dir: dir}, nil)
}

func TestADrainStoppedAtAnyRecordGoesOnAtItsSegment(t *testing.T) {
	const records, perSegment = 12, 3
	for stop := range records {
		t.Run(strconv.Itoa(stop), func(t *testing.T) {
			dir := t.TempDir()
			j := opened(t, Config{Dir: dir, SegmentBytes: segmentHeader + perSegment*(recordHeader+9)}, nil)
			for i := range records {
				must(t, j.Append(context.Background(), fmt.Appendf(nil, "%02d:%s", i, "123456"), 1))
			}
			if len(names(t, dir)) != records/perSegment {
				t.Fatalf("%v", names(t, dir))
			}
			down := errors.New("no Redis")
			next := 0
			err := j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
				if i := number(t, batch); i != next {
					t.Fatalf("%d came, not %d", i, next)
				}
				// A segment is there until its last record is taken.
				if n := len(names(t, dir)); n != (records-next+perSegment-1)/perSegment {
					t.Errorf("%d segments before record %d is taken", n, next)
				}
				if next == stop {
					return down
				}
				next++
				return nil
			})
			if err != down { //nolint:errorlint // as it is
				t.Fatal(err)
			}
			next = stop / perSegment * perSegment
			must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
				if i := number(t, batch); i != next {
					t.Fatalf("%d came, not %d", i, next)
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

// Small batches go together as far as the bounds allow, none twice, and a segment
// only when all of them are taken.
func TestADrainJoinsSmallBatches(t *testing.T) {
	const records, perSegment = 23, 10
	dir := t.TempDir()
	j := opened(t, Config{Dir: dir, SegmentBytes: segmentHeader + perSegment*(recordHeader+3), JoinBytes: 12, JoinClicks: 7}, nil)
	var want strings.Builder
	for i := range records {
		text := fmt.Sprintf("%02d;", i)
		want.WriteString(text)
		must(t, j.Append(context.Background(), []byte(text), 2))
	}
	down := errors.New("no Redis")
	calls := 0
	err := j.Drain(context.Background(), func(context.Context, []byte, int) error {
		if calls++; calls == 5 {
			return down
		}
		return nil
	})
	if err != down || len(names(t, dir)) != 2 { //nolint:errorlint // as it is
		t.Fatalf("%v, %v", err, names(t, dir))
	}
	var got strings.Builder
	clicks := 0
	must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, n int) error {
		if len(batch) > 12 || n > 7 || n != 2*len(batch)/3 {
			t.Errorf("%d clicks in %d bytes at once", n, len(batch))
		}
		got.Write(batch)
		clicks += n
		return nil
	}))
	if rest := want.String()[perSegment*3:]; got.String() != rest || clicks != 2*(records-perSegment) || len(names(t, dir)) != 0 {
		t.Errorf("%q of %d clicks, not %q; %v left", got.String(), clicks, rest, names(t, dir))
	}
}

func TestADrainEndsWithItsContextAndWithTheJournal(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()}, nil)
	add(t, j, 0, 3)
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
	must(t, <-closed)
	if err := j.Drain(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := j.Append(context.Background(), []byte("1:"), 1); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestAppendsGoOnDuringADrain(t *testing.T) {
	j := opened(t, Config{Dir: t.TempDir()}, nil)
	add(t, j, 0, 5)
	next := 5
	must(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		if number(t, batch) >= 5 {
			t.Errorf("%q was not there when the drain began", batch)
		}
		add(t, j, next, next+1)
		next++
		return nil
	}))
	same(t, drained(t, j), texts(5, 10))
}

// An Append whose time is over takes its batch back, if the group has not left.
func TestAnAppendGivesUpWithItsContext(t *testing.T) {
	files := newShakyDisk(t.TempDir())
	j := opened(t, Config{}, files)
	files.set(func() { files.hold, files.entered = make(chan struct{}), make(chan struct{}) })
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan error, 2)
	go func() { answers <- j.Append(ctx, []byte(text(0)), 1) }()
	<-files.entered
	go func() { answers <- j.Append(ctx, []byte(text(1)), 2) }()
	waitFor(j, 1)
	cancel()
	for range 2 {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	waitFor(j, 0)
	hold := files.hold
	files.set(func() { files.hold = nil })
	close(hold)
	add(t, j, 2, 3)
	same(t, drained(t, j), []string{text(0), text(2)})
	if j.reserved != 0 {
		t.Errorf("%d bytes are still reserved", j.reserved)
	}
	if err := j.Append(ctx, []byte(text(3)), 2); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
