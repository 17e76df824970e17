package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestCluster_KeepsDataAfterAllNodesRestart(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	options, err := redis.ParseClusterURL(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	if len(options.Addrs) != len(c.Nodes) {
		t.Errorf("the URL %s contains %d nodes, want %d", c.URL, len(options.Addrs), len(c.Nodes))
	}
	cluster := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = cluster.Close() })
	// The keys have the slots 3300, 7365 and 15495, so each node owns one key.
	keys := []string{"b", "c", "a"}
	owners := map[*redistest.Server]bool{}
	for _, key := range keys {
		owners[c.Owner(key)] = true
		if err := cluster.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if len(owners) != len(c.Nodes) {
		t.Errorf("%d nodes own the keys, want %d", len(owners), len(c.Nodes))
	}
	for _, node := range c.Nodes {
		node.Kill9()
	}
	if err := cluster.Get(t.Context(), "a").Err(); err == nil {
		t.Error("GET succeeds although all nodes are dead")
	}
	for _, node := range c.Nodes {
		node.Restart()
	}
	c.AwaitHealthy()
	for _, key := range keys {
		if got, err := cluster.Get(t.Context(), key).Result(); err != nil || got != key {
			t.Errorf("after the restart, GET %s = %q, %v, want %q", key, got, err, key)
		}
		if got, err := client(t, c.Owner(key).URL).Get(t.Context(), key).Result(); err != nil || got != key {
			t.Errorf("after the restart, GET %s on its owner = %q, %v, want %q", key, got, err, key)
		}
	}
}

func TestSentinelsPromoteTheReplica(t *testing.T) {
	t.Parallel()
	p := redistest.Sentinels(t)
	options, err := redis.ParseFailoverURL(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	failover := redis.NewFailoverClient(options)
	t.Cleanup(func() { _ = failover.Close() })
	set(t, client(t, p.Master.URL), "on the master", "v")
	if err := failover.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.Master.Kill9()
	promoted := p.AwaitPromotion()
	if err := failover.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Errorf("a write after the failover returned %v", err)
	}
	set(t, client(t, promoted.URL), "on the replica", "v")
}
