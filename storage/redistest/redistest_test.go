package redistest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/redistest"
)

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	// Without retries, a command to a dead server fails at once.
	opt.MaxRetries, opt.DialerRetries, opt.ContextTimeoutEnabled = -1, 1, true
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func set(t *testing.T, c *redis.Client, key, value string) {
	t.Helper()
	if err := c.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func size(t *testing.T, c *redis.Client) int64 {
	t.Helper()
	n, err := c.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNew_DatabasesAreSeparate(t *testing.T) {
	first, second := client(t, redistest.New(t)), client(t, redistest.New(t))
	set(t, first, "only here", "v")
	if n := size(t, second); n != 0 {
		t.Errorf("the other database has %d keys, want none", n)
	}
}

func TestNew_EmptiesAndReleasesDatabaseWhenTestEnds(t *testing.T) {
	var url string
	t.Run("test with a database", func(t *testing.T) {
		url = redistest.New(t)
		set(t, client(t, url), "k", "v")
	})
	c := client(t, url)
	if n := size(t, c); n != 0 {
		t.Errorf("after the test has ended, its database has %d keys, want none", n)
	}
	// Another test may have leased the database since then, so the test only checks that
	// the ended test no longer holds the lease.
	lease := fmt.Sprintf("redistest:taken:%d", c.Options().DB)
	holder := client(t, os.Getenv("TRIBUTARY_TEST_REDIS_URL")).Get(t.Context(), lease).Val()
	if strings.Contains(holder, t.Name()) {
		t.Errorf("database %d is still leased by %s", c.Options().DB, holder)
	}
}

func TestNew_InParallelReturnsDifferentDatabases(t *testing.T) {
	var (
		mu   sync.Mutex
		seen = make(map[string]bool)
		wg   sync.WaitGroup
	)
	for range 32 {
		wg.Go(func() {
			url := redistest.New(t)
			mu.Lock()
			defer mu.Unlock()
			if seen[url] {
				t.Errorf("%s was leased twice", url)
			}
			seen[url] = true
		})
	}
	wg.Wait()
}

func TestServer_KeepsAcknowledgedWritesAfterKillAndRestart(t *testing.T) {
	s := redistest.Start(t)
	c := client(t, s.URL)
	set(t, c, "killed", "a")
	s.Kill9()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("the killed server still responds")
	}
	s.Restart()
	set(t, c, "stopped", "b")
	s.Restart()
	for key, want := range map[string]string{"killed": "a", "stopped": "b"} {
		if got, err := c.Get(t.Context(), key).Result(); err != nil || got != want {
			t.Errorf("GET %s = %q, %v; want %q", key, got, err, want)
		}
	}
}

func TestServer_HangsBetweenPauseAndResume(t *testing.T) {
	s := redistest.Start(t)
	c := client(t, s.URL)
	set(t, c, "k", "v")
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Get(ctx, "k").Err(); err == nil {
		t.Error("the paused server responded")
	}
	s.Resume()
	if got, err := c.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("after Resume, GET k = %q, %v, want v", got, err)
	}
}
