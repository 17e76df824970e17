package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestClusterOutlivesItsNodes(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	options, err := redis.ParseClusterURL(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	if len(options.Addrs) != len(c.Nodes) {
		t.Errorf("%s names %d of %d nodes", c.URL, len(options.Addrs), len(c.Nodes))
	}
	all := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = all.Close() })
	// Slots 3300, 7365 and 15495.
	keys := []string{"b", "c", "a"}
	owners := map[*redistest.Server]bool{}
	for _, key := range keys {
		owners[c.Owner(key)] = true
		if err := all.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if len(owners) != len(c.Nodes) {
		t.Errorf("%d nodes own the keys", len(owners))
	}
	for _, node := range c.Nodes {
		node.Kill9()
	}
	if err := all.Get(t.Context(), "a").Err(); err == nil {
		t.Error("a dead cluster answers")
	}
	for _, node := range c.Nodes {
		node.Restart()
	}
	c.AwaitWell()
	for _, key := range keys {
		if got, err := all.Get(t.Context(), key).Result(); err != nil || got != key {
			t.Errorf("%s is %q, %v", key, got, err)
		}
		if got, err := client(t, c.Owner(key).URL).Get(t.Context(), key).Result(); err != nil || got != key {
			t.Errorf("%s at its owner: %q, %v", key, got, err)
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
	watched := redis.NewFailoverClient(options)
	t.Cleanup(func() { _ = watched.Close() })
	set(t, client(t, p.Master.URL), "at the master", "v")
	if err := watched.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.Master.Kill9()
	p.AwaitPromotion()
	if err := watched.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	set(t, client(t, p.Replica.URL), "at the replica", "v")
}
