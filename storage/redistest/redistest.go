// Package redistest gives each test a separate Redis database or a separate Redis server.
//
// New leases an empty logical database of a shared server to a test. A lease is a key in
// database 0, which is never leased itself. The key expires, so that a killed test binary
// does not keep a database forever.
//
// Start starts a private server, for tests that stop or kill it. Cluster and Sentinels
// start several servers that form one deployment.
//
// New guarantees that tests can run in parallel, in one or several test binaries. A test
// never sees the keys, streams and consumer groups of another test.
//
// The tests on a shared server are not separate in these respects:
//
//   - Channels of publish and subscribe. A test must use unique channel names.
//   - CONFIG SET, SCRIPT FLUSH, FLUSHALL and CLIENT KILL, which affect all tests. A test
//     that needs them must use Start.
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
	serverVariable = "TRIBUTARY_TEST_REDIS_URL"

	// leaseTime is the time after which a lease expires. It must be longer than the
	// longest test. Only the lease of a killed test binary exists for so long, because
	// other tests release their leases when they end.
	leaseTime = 30 * time.Minute
	// freeTimeout limits the wait for a database if all databases are leased.
	freeTimeout = time.Minute
	// retryInterval is the time between two attempts to lease a database.
	retryInterval = 50 * time.Millisecond
)

// releaseScript deletes the lease KEYS[1] if it still has the token ARGV[1].
var releaseScript = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// New leases an empty logical database and returns its URL. When the test ends, the
// database is emptied and its lease is released. The test fails if the environment
// variable with the server's URL is not set.
func New(t testing.TB) string {
	t.Helper()
	server := os.Getenv(serverVariable)
	if server == "" {
		t.Fatal("redistest: there is no Redis server for tests: run `make test`, or set " + serverVariable)
	}
	ctx, cancel := context.WithTimeout(context.Background(), freeTimeout)
	defer cancel()
	leaseClient, err := newClient(server, 0)
	if err != nil {
		t.Fatalf("redistest: %s: %v", serverVariable, err)
	}
	db, token, err := leaseDatabase(ctx, leaseClient, t.Name())
	if err != nil {
		_ = leaseClient.Close()
		t.Fatalf("redistest: lease a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), freeTimeout)
		defer cancel()
		if err := emptyDatabase(ctx, server, db); err != nil {
			t.Errorf("redistest: empty database %d: %v", db, err)
		}
		if err := releaseScript.Run(ctx, leaseClient, []string{leaseKey(db)}, token).Err(); err != nil {
			t.Errorf("redistest: release the lease of database %d: %v", db, err)
		}
		_ = leaseClient.Close()
	})
	// A killed test may have left keys in the database.
	if err := emptyDatabase(ctx, server, db); err != nil {
		t.Fatalf("redistest: empty database %d: %v", db, err)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("redistest: %s: %v", serverVariable, err)
	}
	u.Path = "/" + strconv.Itoa(db)
	return u.String()
}

func leaseKey(db int) string { return "redistest:taken:" + strconv.Itoa(db) }

// leaseDatabase leases a free database. leaseClient is connected to database 0, which
// contains the leases. The search starts at a random database, so that simultaneous
// callers do not all try the same databases.
func leaseDatabase(ctx context.Context, leaseClient *redis.Client, test string) (db int, token string, err error) {
	settings, err := leaseClient.ConfigGet(ctx, "databases").Result()
	if err != nil {
		return 0, "", err
	}
	databases, err := strconv.Atoi(settings["databases"])
	if err != nil || databases < 2 {
		return 0, "", fmt.Errorf("the server has %q databases, but at least 2 are required", settings["databases"])
	}
	token = rand.Text() + " " + test
	var first [1]byte
	_, _ = rand.Read(first[:]) // never fails
	for {
		for i := range databases - 1 {
			db := 1 + (int(first[0])+i)%(databases-1)
			leased, err := leaseClient.SetNX(ctx, leaseKey(db), token, leaseTime).Result()
			if err != nil {
				return 0, "", err
			}
			if leased {
				return db, token, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, "", fmt.Errorf("all %d databases are leased: %w", databases-1, ctx.Err())
		case <-time.After(retryInterval):
		}
	}
}

func emptyDatabase(ctx context.Context, server string, db int) error {
	c, err := newClient(server, db)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return c.FlushDB(ctx).Err()
}

func newClient(server string, db int) (*redis.Client, error) {
	opt, err := redis.ParseURL(server)
	if err != nil {
		return nil, err
	}
	opt.DB = db
	return redis.NewClient(opt), nil
}

// Behaviour is a test that runs on every kind of Redis deployment. Test receives the URL
// of an empty deployment and its kind: single, sentinel or cluster.
type Behaviour struct {
	Name string
	Test func(t *testing.T, url, kind string)
}

// OnEachKind runs each test on a single server, on a master with sentinels and on a
// cluster. The three kinds run in parallel. All tests of one call share a cluster, and a
// master with its sentinels, so a test must not stop a server.
func OnEachKind(t *testing.T, behaviours ...Behaviour) {
	t.Helper()
	runAll := func(t *testing.T, kind string, emptyDeployment func(t *testing.T) (url string)) {
		t.Helper()
		for _, behaviour := range behaviours {
			t.Run(behaviour.Name, func(t *testing.T) { behaviour.Test(t, emptyDeployment(t), kind) })
		}
	}
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		runAll(t, "single", func(t *testing.T) string { t.Helper(); return New(t) })
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		pair := Sentinels(t)
		runAll(t, "sentinel", func(t *testing.T) string { t.Helper(); flush(t, pair.Master); return pair.URL })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := Cluster(t)
		runAll(t, "cluster", func(t *testing.T) string { t.Helper(); flush(t, cluster.Nodes...); return cluster.URL })
	})
}

// flush deletes all keys of the masters.
func flush(t *testing.T, masters ...*Server) {
	t.Helper()
	for _, master := range masters {
		if err := master.client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatalf("redistest: flush: %v", err)
		}
	}
}
