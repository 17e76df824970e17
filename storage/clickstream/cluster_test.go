package clickstream_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// One master of three dies and comes back: the shards of the others never notice, and
// nothing that was acknowledged is missing.
func TestADeadMasterStopsOnlyItsShards(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	at := clickstream.Endpoint{URL: c.URL, Kind: clickstream.Cluster}
	writer, r := clickstream.NewWriter(connect(t, at), sixteen), readerOf(t, at, sixteen, "one")
	var written acknowledged
	for shard := range sixteen {
		for range 5 {
			if err := written.write(t, writer, shard); err != nil {
				t.Fatal(err)
			}
		}
		if entries := must[[]clickstream.Entry](t)(r.Next(t.Context(), shard)); len(entries) != 5 {
			t.Fatalf("read %d", len(entries))
		}
	}
	victim := c.Owner(clickstream.Key(0))
	var dead, alive []int
	for shard := range sixteen {
		if c.Owner(clickstream.Key(shard)) == victim {
			dead = append(dead, shard)
		} else {
			alive = append(alive, shard)
		}
	}
	if err := writer.Ping(t.Context()); err != nil {
		t.Error("every master is there:", err)
	}
	victim.Kill9()
	for range 10 {
		if writer.Ping(t.Context()) == nil {
			t.Error("all is well without a master")
		}
		for i := range 2 * sixteen { // more than a breaker takes
			if shard := dead[i%len(dead)]; written.write(t, writer, shard) == nil {
				t.Fatalf("shard %d has no master and took a click", shard)
			}
		}
		for _, shard := range alive {
			if err := written.write(t, writer, shard); err != nil {
				t.Fatalf("shard %d has a master: %v", shard, err)
			}
		}
	}
	for _, shard := range alive {
		written.read(t, r, shard)
		if _, err := r.Trim(t.Context(), shard); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Next(t.Context(), dead[0]); err == nil {
		t.Error("a shard without a master was read")
	}

	victim.Restart()
	for _, shard := range dead {
		eventually(t, func() error { return written.write(t, writer, shard) })
		eventually(t, func() error { _, err := r.Own(t.Context(), shard, "0"); return err })
		written.read(t, r, shard)
	}
	eventually(t, func() error { return writer.Ping(t.Context()) })
}

// A write that timed out may have happened. The client must not send it again: a
// server that hung, and goes on, does everything that it was sent.
func TestATimedOutAppendIsNotRepeated(t *testing.T) {
	t.Parallel()
	hangs := func(t *testing.T, at clickstream.Endpoint, ownerOf func(key string) *redistest.Server) {
		t.Helper()
		client := connect(t, at)
		writer, r := clickstream.NewWriter(client, 1), reader(t, at, "one")
		letter := []clickstream.DeadLetter{{Entry: "1-1", Reason: "malformed", Record: []byte{0xff}}}
		for stream, write := range map[string]func() error{
			clickstream.Key(0):           func() error { return writer.Append(t.Context(), 0, batchOf(t, newID()), 1) },
			clickstream.DeadLetterStream: func() error { return r.DeadLetter(t.Context(), letter) },
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
			// Connections that are greeted already, to send it again on.
			var waiting sync.WaitGroup
			for range 4 {
				waiting.Go(func() {
					client.XRead(t.Context(), &redis.XReadArgs{Streams: []string{stream, "$"}, Block: block})
				})
			}
			waiting.Wait()
			owner := ownerOf(stream)
			owner.Pause()
			if write() == nil {
				t.Error("a hanging server took a write")
			}
			owner.Resume()
			// When this one is there, so is whatever was sent before.
			eventually(t, write)
			if n := must[int64](t)(client.XLen(t.Context(), stream).Result()); n != 3 {
				t.Errorf("%s has %d entries of 3 writes", stream, n)
			}
		}
	}
	t.Run("single", func(t *testing.T) {
		server := redistest.Start(t)
		hangs(t, clickstream.Endpoint{URL: server.URL}, func(string) *redistest.Server { return server })
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.Cluster(t)
		hangs(t, clickstream.Endpoint{URL: c.URL, Kind: clickstream.Cluster}, c.Owner)
	})
}

// A slot goes from one master to another under a client that knows the first: ASK
// while it is on its way, MOVED when it is there.
func TestAppendFollowsASlotThatMoves(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	ctx, at := t.Context(), clickstream.Endpoint{URL: c.URL, Kind: clickstream.Cluster}
	client, key := connect(t, at), clickstream.Key(0)
	writer := clickstream.NewWriter(client, 2)
	if err := writer.Append(ctx, 1, batchOf(t, newID()), 1); err != nil {
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
		t.Error("ASK:", err)
	}
	if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
		t.Fatal("ASK:", err)
	}
	setSlot(target, "node", id(target))
	setSlot(source, "node", id(target))
	if err := writer.Ping(ctx); err != nil {
		t.Error("MOVED:", err)
	}
	if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
		t.Fatal("MOVED:", err)
	}
	if n := length(target); n != 2 {
		t.Errorf("%d of 2 entries where the slot is now", n)
	}
	if err := writer.Append(ctx, 1, batchOf(t, newID()), 1); err != nil {
		t.Error("another slot:", err)
	}
}
