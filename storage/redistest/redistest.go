// Package redistest gives each test a part of Redis, or a Redis, of its own.
//
// Model: New hands out one of the server's logical databases, emptied. Which are
// taken is written in database 0, which no test gets, as one key per database
// that expires by itself, so that a killed test binary blocks nothing for long.
// Start starts a whole server, for tests that stop or kill it; Cluster and Sentinels
// start the several that make one whole.
//
// Guaranteed by New: tests may run in parallel, in one binary and in many, and
// see nothing of each other's keys, streams and consumer groups.
//
// Not promised by New: what Redis keeps per server is shared. Publish and
// subscribe cross databases, so a test names its channels uniquely; CONFIG SET,
// SCRIPT FLUSH, FLUSHALL and CLIENT KILL reach everyone, so a test that needs
// them takes Start.
package redistest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	environment = "TRIBUTARY_TEST_REDIS_URL"

	// leaseTime has to exceed the longest test; only the databases of a killed
	// test binary wait for it.
	leaseTime = 30 * time.Minute
	// freeTimeout bounds the wait for a database when all are taken.
	freeTimeout = time.Minute
	// freeEvery is how often that wait looks again.
	freeEvery = 50 * time.Millisecond
)

// release gives a database back if it is still ours.
var release = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// New returns the URL of an empty logical database. It is emptied and given back
// when the test ends. The test fails when there is no server.
func New(t testing.TB) string {
	t.Helper()
	server := os.Getenv(environment)
	if server == "" {
		t.Fatal("no Redis for tests: run `make test`, or set " + environment)
	}
	ctx, cancel := context.WithTimeout(context.Background(), freeTimeout)
	defer cancel()
	leases, err := open(server, 0)
	if err != nil {
		t.Fatalf("redistest: %s: %v", environment, err)
	}
	db, token, err := lease(ctx, leases, t.Name())
	if err != nil {
		_ = leases.Close()
		t.Fatalf("redistest: take a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), freeTimeout)
		defer cancel()
		if err := empty(ctx, server, db); err != nil {
			t.Errorf("redistest: empty database %d: %v", db, err)
		}
		if err := release.Run(ctx, leases, []string{leaseKey(db)}, token).Err(); err != nil {
			t.Errorf("redistest: give database %d back: %v", db, err)
		}
		_ = leases.Close()
	})
	// A killed test left it as it was.
	if err := empty(ctx, server, db); err != nil {
		t.Fatalf("redistest: empty database %d: %v", db, err)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("redistest: %s: %v", environment, err)
	}
	u.Path = "/" + strconv.Itoa(db)
	return u.String()
}

func leaseKey(db int) string { return "redistest:taken:" + strconv.Itoa(db) }

// lease takes a free database. It begins to look somewhere, so that many that
// look at once do not all ask for the same ones.
func lease(ctx context.Context, leases *redis.Client, test string) (db int, token string, err error) {
	settings, err := leases.ConfigGet(ctx, "databases").Result()
	if err != nil {
		return 0, "", err
	}
	databases, err := strconv.Atoi(settings["databases"])
	if err != nil || databases < 2 {
		return 0, "", fmt.Errorf("the server has %q databases, two or more are needed", settings["databases"])
	}
	token = rand.Text() + " " + test
	var first [1]byte
	_, _ = rand.Read(first[:]) // never fails
	for {
		for i := range databases - 1 {
			db := 1 + (int(first[0])+i)%(databases-1)
			taken, err := leases.SetNX(ctx, leaseKey(db), token, leaseTime).Result()
			if err != nil {
				return 0, "", err
			}
			if taken {
				return db, token, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, "", fmt.Errorf("all %d are taken: %w", databases-1, ctx.Err())
		case <-time.After(freeEvery):
		}
	}
}

func empty(ctx context.Context, server string, db int) error {
	c, err := open(server, db)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return c.FlushDB(ctx).Err()
}

func open(server string, db int) (*redis.Client, error) {
	opt, err := redis.ParseURL(server)
	if err != nil {
		return nil, err
	}
	opt.DB = db
	return redis.NewClient(opt), nil
}
