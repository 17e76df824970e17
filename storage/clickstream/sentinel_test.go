package clickstream_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// The master dies, and the only sentinel in the client's URL hangs. The two other
// sentinels promote the replica. Then writing to the replica must work, and reading must
// return all acknowledged clicks.
func TestSentinel_StreamWorksOnPromotedReplica(t *testing.T) {
	t.Parallel()
	p := redistest.Sentinels(t)
	ctx := t.Context()
	endpoint := clickstream.Endpoint{URL: p.Sentinels[0].URL + "?master_name=tributary", Kind: clickstream.Sentinel}
	writer, r := clickstream.NewWriter(connect(t, endpoint), shardCount), newShardReader(t, endpoint, shardCount, "one")
	var written acknowledgedClicks
	for shard := range shardCount {
		for range 20 {
			if err := written.write(t, writer, shard); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Only the entries of four shards are delivered before the failover, so only these
	// shards have a consumer group.
	for shard := range 4 {
		if entries := must[[]clickstream.Entry](t)(r.Next(ctx, shard)); len(entries) != 20 {
			t.Fatalf("Next returned %d entries of shard %d, want 20", len(entries), shard)
		}
	}
	awaitReplication(t, p)

	p.Sentinels[0].Pause()
	p.Master.Kill9()
	if err := written.write(t, writer, 0); err == nil {
		t.Error("a write to a dead master succeeded")
	}
	p.AwaitPromotion()
	for shard := range shardCount {
		eventually(t, func() error { return written.write(t, writer, shard) })
	}
	p.Sentinels[0].Resume()

	// In a failover, a consumer group is lost if the replica has not received it. The
	// test deletes a group to get the same state. The Reader must create the group again,
	// and the new group delivers all entries of the stream again.
	client := connect(t, endpoint)
	eventually(t, func() error { return client.XGroupDestroy(ctx, clickstream.Key(3), clickstream.Group).Err() })
	eventually(t, func() error {
		if _, err := r.Next(ctx, 3); !errors.Is(err, clickstream.ErrGroupLost) {
			return fmt.Errorf("the error of Next is %w, want ErrGroupLost", err)
		}
		return nil
	})
	eventually(t, func() error { _, err := r.Next(ctx, 15); return err })
	for shard := range shardCount {
		written.read(t, r, shard)
		if _, err := r.Trim(ctx, shard); err != nil {
			t.Error(err)
		}
	}
}

// If the sentinels do not know the master, a read must return an error. Without the
// error, the caller would assume that the stream has no new entries.
func TestSentinel_UnknownMasterIsAnError(t *testing.T) {
	t.Parallel()
	p := redistest.Sentinels(t)
	endpoint := clickstream.Endpoint{URL: p.Sentinels[0].URL + "?master_name=another", Kind: clickstream.Sentinel}
	for range 2 {
		if entries, err := newReader(t, endpoint, "one").Next(t.Context(), 0); err == nil {
			t.Errorf("Next without a master returned %v, want an error", entries)
		}
	}
	if err := clickstream.NewWriter(connect(t, endpoint), 1).Append(t.Context(), 0, marshalBatch(t, newID()), 1); err == nil {
		t.Error("Append without a master succeeded")
	}
}

// awaitReplication waits until the replica has received all writes that the master has
// acknowledged. WAIT waits only for writes of its own connection, so the function writes
// a marker first. When the replica has the marker, it has all earlier writes too.
func awaitReplication(t *testing.T, p *redistest.MonitoredMaster) {
	t.Helper()
	options, err := redis.ParseURL(p.Master.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	conn := client.Conn()
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.Set(t.Context(), "marker", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, 2*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("WAIT returned %d replicas, %v, want 1", n, err)
	}
}

// eventually calls try until it returns no error. It fails the test after a minute.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no success within a minute:", err)
		}
	}
}
