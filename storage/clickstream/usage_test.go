package clickstream_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestUsage_MeasuresStreamAndMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, clickstream.Endpoint{URL: server.URL})
	must[string](t)(client.ConfigSet(t.Context(), "maxmemory", "100mb").Result())
	reader := clickstream.NewReader(client, client, clickstream.ReaderConfig{Shards: 1, Consumer: "test"})

	empty := must[clickstream.Usage](t)(reader.Usage(t.Context()))
	if empty.Entries != 0 || empty.Bytes != 0 || empty.UsedMemory < 500_000 || empty.MaxMemory != 100<<20 {
		t.Errorf("the usage of an empty stream is %+v", empty)
	}
	pipe := client.Pipeline()
	for range 1000 {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: clickstream.Key(0), Values: []any{"b", strings.Repeat("x", 1000)}})
	}
	must[[]redis.Cmder](t)(pipe.Exec(t.Context()))
	full := must[clickstream.Usage](t)(reader.Usage(t.Context()))
	if full.Entries != 1000 || full.Bytes < 1_000_000 || full.Bytes > 2_000_000 || full.UsedMemory < empty.UsedMemory+1_000_000 {
		t.Errorf("the usage of a stream with a megabyte is %+v; without entries it was %+v", full, empty)
	}
}

// On a Cluster, the usage contains all shards and the memory of the fullest master.
func TestUsage_OfCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	client := connect(t, clickstream.Endpoint{URL: cluster.URL, Kind: clickstream.Cluster})
	reader := clickstream.NewReader(client, client, clickstream.ReaderConfig{Shards: clickstream.MaxShards, Consumer: "test"})
	for shard := range clickstream.MaxShards {
		must[string](t)(client.XAdd(t.Context(), &redis.XAddArgs{Stream: clickstream.Key(shard), Values: []any{"b", "x"}}).Result())
	}
	owner := connect(t, clickstream.Endpoint{URL: cluster.Owner(clickstream.Key(7)).URL})
	must[string](t)(owner.ConfigSet(t.Context(), "maxmemory", "50mb").Result())
	got := must[clickstream.Usage](t)(reader.Usage(t.Context()))
	if got.Entries != clickstream.MaxShards || got.Bytes == 0 || got.MaxMemory != 50<<20 || got.UsedMemory == 0 {
		t.Errorf("the usage is %+v, want an entry in each of %d shards and the memory of the master with a limit", got, clickstream.MaxShards)
	}
}

func TestPoolCollector(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, clickstream.Endpoint{URL: server.URL})
	collector := clickstream.PoolCollector{"stream": client}
	if n := testutil.CollectAndCount(collector); n != 3 {
		t.Errorf("there are %d time series before the first command, want 3", n)
	}
	must[string](t)(client.Ping(t.Context()).Result())
	want := `
		# HELP tributary_redis_connections Connections to Redis, by client and state: used or idle. On a Cluster, the connections to all nodes.
		# TYPE tributary_redis_connections gauge
		tributary_redis_connections{client="stream",state="idle"} 1
		tributary_redis_connections{client="stream",state="used"} 0
		# HELP tributary_redis_pool_timeouts_total Commands that failed because no connection of the pool became free in time, by client.
		# TYPE tributary_redis_pool_timeouts_total counter
		tributary_redis_pool_timeouts_total{client="stream"} 0
	`
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
