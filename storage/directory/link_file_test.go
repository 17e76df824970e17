package directory_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// after moves the clock of the fixture to the given time after its start.
func (f *fixture) after(d time.Duration) { f.clock.Store(int64(d)) }

func (f *fixture) wantTarget(t *testing.T, when, want string, wantState directory.State) {
	t.Helper()
	if target, state := f.target(t, "Anna000key"); target != want || state != wantState {
		t.Errorf("%s: the link has the target %q and the state %v, want %q and %v", when, target, state, want, wantState)
	}
}

func TestReader_UsesLastKnownLinkWhileRedisIsGone(t *testing.T) {
	server := redistest.Start(t)
	f := newFixture(t, server.URL)
	f.markComplete(t)
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutReferralCode(1, scope, "anna", code(30)) }))
	f.wantTarget(t, "at the start", "https://a.example/", directory.Found)
	if _, state := f.reader.ReferralCode(t.Context(), scope, "anna"); state != directory.Found {
		t.Fatalf("the state of the code is %v, want Found", state)
	}

	server.Kill9()
	f.after(23 * time.Hour)
	f.wantTarget(t, "23 hours after Redis was killed", "https://a.example/", directory.Found)
	if _, state := f.reader.ReferralCode(t.Context(), scope, "anna"); state != directory.Unknown {
		t.Errorf("the state of a code that was cached 23 hours ago is %v, want Unknown", state)
	}
	f.after(25 * time.Hour)
	f.wantTarget(t, "25 hours after Redis was killed", "", directory.Unknown)
}

// While Redis responds, its state of a link is used, and an earlier state is removed.
func TestReader_RemovesLinkThatIsNotUsable(t *testing.T) {
	inactive := link("https://a.example/")
	inactive.Active = false
	for name, change := range map[string]func(*fixture, context.Context) error{
		"deleted": func(f *fixture, ctx context.Context) error {
			batch := f.writer.Batch()
			batch.DeleteLink(2, "Anna000key")
			return batch.Flush(ctx)
		},
		"inactive": func(f *fixture, ctx context.Context) error {
			return put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(2, "Anna000key", inactive) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			f := newFixture(t, server.URL)
			f.markComplete(t)
			check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
			f.wantTarget(t, "at the start", "https://a.example/", directory.Found)
			check(t, change(f, t.Context()))
			f.after(31 * time.Second)
			if entry, state := f.reader.Link(t.Context(), "Anna000key"); state == directory.Found && entry.Active {
				t.Errorf("after the change, the entry is %v, want none that is active", entry)
			}
			server.Kill9()
			f.wantTarget(t, "after Redis was killed", "", directory.Unknown)
		})
	}
}

// A change of a link is known without a visit, because the Reader receives a message about
// it. The file shows what a Reader would use if Redis was gone.
func TestReader_ReadsChangedLinkAgain(t *testing.T) {
	f, path := newFixture(t, redistest.New(t)), filepath.Join(t.TempDir(), "links.json")
	f.markComplete(t)
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.reader.Run(ctx) })
	defer running.Wait()
	defer cancel()
	subscribed := func() bool {
		return f.client.PubSubNumSub(ctx, "{directory}:changed").Val()["{directory}:changed"] == 1
	}
	await(t, "the subscription", subscribed)
	f.wantTarget(t, "at the start", "https://a.example/", directory.Found)
	saved := func(want string, wantState directory.State) func() bool {
		return func() bool {
			f.saveLinks(t, path)
			next, err := f.restarted(t, "redis://127.0.0.1:1/0", path)
			check(t, err)
			target, state := next.target(t, "Anna000key")
			return target == want && state == wantState
		}
	}
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(2, "Anna000key", link("https://b.example/")) }))
	await(t, "the new target", saved("https://b.example/", directory.Found))
	deletion := f.writer.Changes()
	deletion.DeleteLink(3, "Anna000key")
	check(t, deletion.Flush(t.Context()))
	await(t, "the deletion", saved("", directory.Unknown))
}

// await waits until condition is true.
func await(t *testing.T, description string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 20 s, the reader does not know %s", description)
		}
	}
}

func TestReader_UsesLastKnownLinkUntilTheDirectoryIsRebuilt(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	f.markComplete(t)
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
	f.wantTarget(t, "at the start", "https://a.example/", directory.Found)
	check(t, f.client.FlushDB(t.Context()).Err())
	f.after(time.Minute)
	f.wantTarget(t, "after Redis has lost its data", "https://a.example/", directory.Found)
	f.markComplete(t)
	f.wantTarget(t, "after a rebuild without the link", "", directory.Absent)
}

// saveLinks writes the file as a process that stops.
func (f *fixture) saveLinks(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.reader.SaveLinks(ctx, path, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// restarted returns a fixture with a new Reader, which has read the file.
func (f *fixture) restarted(t *testing.T, url, path string) (*fixture, error) {
	t.Helper()
	next := newFixture(t, url)
	next.clock.Store(f.clock.Load())
	return next, next.reader.LoadLinks(path)
}

func TestReader_UsesSavedLinkAfterRestartWithoutRedis(t *testing.T) {
	server, path := redistest.Start(t), filepath.Join(t.TempDir(), "links.json")
	f := newFixture(t, server.URL)
	if _, err := f.restarted(t, server.URL, path); err != nil {
		t.Errorf("a missing file is the error %v, want none", err)
	}
	f.markComplete(t)
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
	f.wantTarget(t, "at the start", "https://a.example/", directory.Found)
	f.saveLinks(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, error %v, want 0600", info.Mode(), err)
	}

	// While Redis responds, the file is not used.
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(2, "Anna000key", link("https://b.example/")) }))
	next, err := f.restarted(t, server.URL, path)
	check(t, err)
	next.wantTarget(t, "after a restart with Redis", "https://b.example/", directory.Found)

	server.Kill9()
	next, err = f.restarted(t, server.URL, path)
	check(t, err)
	next.wantTarget(t, "after a restart without Redis", "https://a.example/", directory.Found)
	next.after(25 * time.Hour)
	next.wantTarget(t, "25 hours later", "", directory.Unknown)
	next.saveLinks(t, path)
	if content, err := os.ReadFile(path); err != nil || len(content) != 0 {
		t.Errorf("the file of 25 hours later contains %q, error %v, want nothing", content, err)
	}

	f.saveLinks(t, path)
	f.after(25 * time.Hour)
	next, err = f.restarted(t, server.URL, path)
	check(t, err)
	next.wantTarget(t, "after a restart 25 hours later", "", directory.Unknown)
	f.after(-time.Hour) // the clock of the earlier process was wrong
	next, err = f.restarted(t, server.URL, path)
	check(t, err)
	next.wantTarget(t, "after a restart with a time in the future", "", directory.Unknown)
}

func TestReader_RefusesDamagedFile(t *testing.T) {
	const valid = `{"key":"{directory}:link:Anna000key","read":"%s","entry":""}` + "\n"
	path := filepath.Join(t.TempDir(), "links.json")
	for _, content := range []string{"\x00\x00", `{"key":`, `{"key":"a","entry":"?"}`, `{"key":"a","entry":"/w=="}`} {
		check(t, os.WriteFile(path, []byte(fmt.Sprintf(valid, time.Now().Format(time.RFC3339))+content), 0o600))
		f, err := newFixture(t, redistest.New(t)).restarted(t, "redis://127.0.0.1:1/0", path)
		if err == nil || !strings.Contains(err.Error(), "line 2 of "+path) {
			t.Errorf("the content %q is the error %v, want one that names the second line", content, err)
		}
		f.wantTarget(t, "with a damaged file", "", directory.Unknown)
	}
}

// The file is bounded: the oldest links are left out. The links have long targets.
func TestReader_SavesNewestLinksIfTheFileIsFull(t *testing.T) {
	f, path := newFixture(t, redistest.New(t)), filepath.Join(t.TempDir(), "links.json")
	const links, maxFile = 1300, 16 << 20
	key := func(n int) string { return fmt.Sprintf("Anna%06d", n) }
	batch := f.writer.Batch()
	for n := range links {
		batch.PutLink(1, key(n), link("https://a.example/"+strings.Repeat("a", 10_000)))
	}
	check(t, batch.Flush(t.Context()))
	for n := range links {
		if _, state := f.target(t, key(n)); state != directory.Found {
			t.Fatalf("the state of link %d is %v, want Found", n, state)
		}
	}
	f.saveLinks(t, path)
	info, err := os.Stat(path)
	check(t, err)
	if info.Size() > maxFile || info.Size() < maxFile/2 {
		t.Errorf("the file has %d bytes, want at most %d and more than half of it", info.Size(), maxFile)
	}
	next, err := f.restarted(t, "redis://127.0.0.1:1/0", path)
	check(t, err)
	_, newest := next.target(t, key(links-1))
	if _, oldest := next.target(t, key(0)); newest != directory.Found || oldest != directory.Unknown {
		t.Errorf("the newest link has the state %v and the oldest one %v, want Found and Unknown", newest, oldest)
	}
}

// A file that cannot be written is reported once, and the earlier file stays.
func TestReader_KeepsEarlierFileIfItCannotWrite(t *testing.T) {
	f, dir := newFixture(t, redistest.New(t)), t.TempDir()
	path := filepath.Join(dir, "links.json")
	check(t, os.WriteFile(path, []byte("earlier"), 0o600))
	check(t, os.Mkdir(path+".tmp", 0o700))
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
	f.wantTarget(t, "at the start", "https://a.example/", directory.Found)
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.reader.SaveLinks(ctx, path, slog.New(slog.NewTextHandler(&log, nil)))
	content, err := os.ReadFile(path)
	if err != nil || string(content) != "earlier" || strings.Count(log.String(), "the copy of the short links cannot be written") != 1 {
		t.Errorf("the file contains %q, error %v, and the log is %q, want the earlier file and one warning", content, err, log.String())
	}
}
