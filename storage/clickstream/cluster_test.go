package clickstream_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// One of three masters dies and restarts. The shards of the other masters must keep
// working, and no acknowledged click may be lost.
func TestCluster_DeadMasterStopsOnlyItsShards(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	endpoint := clickstream.Endpoint{URL: c.URL, Kind: clickstream.Cluster}
	writer, r := clickstream.NewWriter(connect(t, endpoint), shardCount), newShardReader(t, endpoint, shardCount, "one")
	var written acknowledgedClicks
	for shard := range shardCount {
		for range 5 {
			if err := written.write(t, writer, shard); err != nil {
				t.Fatal(err)
			}
		}
		if entries := must[[]clickstream.Entry](t)(r.Next(t.Context(), shard)); len(entries) != 5 {
			t.Fatalf("Next returned %d entries of shard %d, want 5", len(entries), shard)
		}
	}
	killed := c.Owner(clickstream.Key(0))
	var dead, alive []int // shards
	for shard := range shardCount {
		if c.Owner(clickstream.Key(shard)) == killed {
			dead = append(dead, shard)
		} else {
			alive = append(alive, shard)
		}
	}
	if err := writer.Ping(t.Context()); err != nil {
		t.Error("Ping fails although all masters are running:", err)
	}
	killed.Kill9()
	for range 10 {
		if writer.Ping(t.Context()) == nil {
			t.Error("Ping succeeds although a master is dead")
		}
		for i := range 2 * shardCount { // enough failures to open the circuit breaker
			if shard := dead[i%len(dead)]; written.write(t, writer, shard) == nil {
				t.Fatalf("shard %d acknowledged a click although its master is dead", shard)
			}
		}
		for _, shard := range alive {
			if err := written.write(t, writer, shard); err != nil {
				t.Fatalf("a write to shard %d fails although its master is running: %v", shard, err)
			}
		}
	}
	few := newShardReader(t, endpoint, 1, "two")
	if shards, err := few.Discover(t.Context()); err == nil || shards != alive[len(alive)-1]+1 {
		t.Errorf("Discover returned %d shards and the error %v, want %d, because the last stream on a running master is %d, and an error", shards, err, alive[len(alive)-1]+1, alive[len(alive)-1])
	}
	for _, shard := range alive {
		written.read(t, r, shard)
		if _, err := r.Trim(t.Context(), shard); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Next(t.Context(), dead[0]); err == nil {
		t.Errorf("a read of shard %d succeeds although its master is dead", dead[0])
	}

	killed.Restart()
	for _, shard := range dead {
		eventually(t, func() error { return written.write(t, writer, shard) })
		eventually(t, func() error { _, err := r.Pending(t.Context(), shard, "0"); return err })
		written.read(t, r, shard)
	}
	eventually(t, func() error { return writer.Ping(t.Context()) })
}

// A command that has timed out may still be executed, so the client must not send it
// again. The test pauses a server. When the server continues, it executes all commands
// that it received during the pause.
func TestAppend_IsNotRepeatedAfterTimeout(t *testing.T) {
	t.Parallel()
	testPausedServer := func(t *testing.T, endpoint clickstream.Endpoint, ownerOf func(key string) *redistest.Server) {
		t.Helper()
		client := connect(t, endpoint)
		writer, r := clickstream.NewWriter(client, 1), newReader(t, endpoint, "one")
		deadLetters := []clickstream.DeadLetter{{Entry: "1-1", Reason: "malformed", Record: []byte{0xff}}}
		for stream, write := range map[string]func() error{
			clickstream.Key(0):           func() error { return writer.Append(t.Context(), 0, marshalBatch(t, newID()), 1) },
			clickstream.DeadLetterStream: func() error { return r.DeadLetter(t.Context(), deadLetters) },
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
			// Open several connections before the pause. A client with retries could use
			// them to send the command again.
			var reads sync.WaitGroup
			for range 4 {
				reads.Go(func() {
					client.XRead(t.Context(), &redis.XReadArgs{Streams: []string{stream, "$"}, Block: block})
				})
			}
			reads.Wait()
			owner := ownerOf(stream)
			owner.Pause()
			if write() == nil {
				t.Error("a write to a paused server succeeded")
			}
			owner.Resume()
			// When this write has succeeded, the server has executed all earlier
			// commands.
			eventually(t, write)
			if n := must[int64](t)(client.XLen(t.Context(), stream).Result()); n != 3 {
				t.Errorf("%s has %d entries after 3 writes, want 3", stream, n)
			}
		}
	}
	t.Run("single", func(t *testing.T) {
		server := redistest.Start(t)
		testPausedServer(t, clickstream.Endpoint{URL: server.URL}, func(string) *redistest.Server { return server })
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.Cluster(t)
		testPausedServer(t, clickstream.Endpoint{URL: c.URL, Kind: clickstream.Cluster}, c.Owner)
	})
}

// A hash slot of the cluster moves from one master to another while a client is using
// keys of the slot. The old master responds with ASK during the migration and with MOVED
// after it.
func TestAppend_FollowsMigratingSlot(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	ctx, endpoint := t.Context(), clickstream.Endpoint{URL: c.URL, Kind: clickstream.Cluster}
	client, key := connect(t, endpoint), clickstream.Key(0)
	writer := clickstream.NewWriter(client, 2)
	if err := writer.Append(ctx, 1, marshalBatch(t, newID()), 1); err != nil {
		t.Fatal(err)
	}
	source := c.Owner(key)
	target := c.Nodes[slices.IndexFunc(c.Nodes, func(s *redistest.Server) bool { return s != source })]
	slot := must[int64](t)(client.ClusterKeySlot(ctx, key).Result())
	setSlot := func(s *redistest.Server, args ...any) {
		t.Helper()
		if err := connect(t, clickstream.Endpoint{URL: s.URL}).Do(ctx, append([]any{"cluster", "setslot", slot}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	id := func(s *redistest.Server) string {
		t.Helper()
		return must[any](t)(connect(t, clickstream.Endpoint{URL: s.URL}).Do(ctx, "cluster", "myid").Result()).(string)
	}
	length := func(s *redistest.Server) int64 {
		t.Helper()
		return must[int64](t)(connect(t, clickstream.Endpoint{URL: s.URL}).XLen(ctx, key).Result())
	}

	setSlot(target, "importing", id(source))
	setSlot(source, "migrating", id(target))
	if err := writer.Ping(ctx); err != nil {
		t.Error("Ping during the migration:", err)
	}
	if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
		t.Fatal("Append during the migration:", err)
	}
	setSlot(target, "node", id(target))
	setSlot(source, "node", id(target))
	if err := writer.Ping(ctx); err != nil {
		t.Error("Ping after the migration:", err)
	}
	if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
		t.Fatal("Append after the migration:", err)
	}
	if n := length(target); n != 2 {
		t.Errorf("the new master of the slot has %d entries, want 2", n)
	}
	if err := writer.Append(ctx, 1, marshalBatch(t, newID()), 1); err != nil {
		t.Error("Append to the other slot:", err)
	}
}
