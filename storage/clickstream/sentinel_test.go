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

// The master dies, and so does, as good as, the only sentinel that the client was
// told of: it hangs. The two others promote the replica, and writing and reading go
// on with what the replica had.
func TestTheStreamGoesOnWithThePromotedReplica(t *testing.T) {
	t.Parallel()
	p := redistest.Sentinels(t)
	ctx := t.Context()
	at := clickstream.Endpoint{URL: p.Sentinels[0].URL + "?master_name=tributary", Kind: clickstream.Sentinel}
	writer, r := clickstream.NewWriter(connect(t, at), sixteen), readerOf(t, at, sixteen, "one")
	var written acknowledged
	for shard := range sixteen {
		for range 20 {
			if err := written.write(t, writer, shard); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Some of it is in a consumer's hands, and its groups exist.
	for shard := range 4 {
		if entries := must[[]clickstream.Entry](t)(r.Next(ctx, shard)); len(entries) != 20 {
			t.Fatalf("read %d", len(entries))
		}
	}
	reached(t, p)

	p.Sentinels[0].Pause()
	p.Master.Kill9()
	if err := written.write(t, writer, 0); err == nil {
		t.Error("a dead master took a click")
	}
	p.AwaitPromotion()
	for shard := range sixteen {
		eventually(t, func() error { return written.write(t, writer, shard) })
	}
	p.Sentinels[0].Resume()

	// A replica may not have received a group. It is created again from the start of
	// the stream, so that all entries are delivered again.
	client := connect(t, at)
	eventually(t, func() error { return client.XGroupDestroy(ctx, clickstream.Key(3), clickstream.Group).Err() })
	eventually(t, func() error {
		if _, err := r.Next(ctx, 3); !errors.Is(err, clickstream.ErrGroupLost) {
			return fmt.Errorf("the lost group is not reported, but: %w", err)
		}
		return nil
	})
	eventually(t, func() error { _, err := r.Next(ctx, 15); return err })
	for shard := range sixteen {
		written.read(t, r, shard)
		if _, err := r.Trim(ctx, shard); err != nil {
			t.Error(err)
		}
	}
}

// What the sentinels do not know must not pass for a stream without news.
func TestAMasterThatNoSentinelKnowsIsAnError(t *testing.T) {
	t.Parallel()
	p := redistest.Sentinels(t)
	at := clickstream.Endpoint{URL: p.Sentinels[0].URL + "?master_name=another", Kind: clickstream.Sentinel}
	for range 2 {
		if entries, err := reader(t, at, "one").Next(t.Context(), 0); err == nil {
			t.Errorf("read %v", entries)
		}
	}
	if err := clickstream.NewWriter(connect(t, at), 1).Append(t.Context(), 0, batchOf(t, newID()), 1); err == nil {
		t.Error("written")
	}
}

// reached returns when all that the master has acknowledged is at its replica: WAIT
// speaks of its own connection's writes, and what was written before lies before them.
func reached(t *testing.T, p *redistest.WatchedPair) {
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
		t.Fatalf("at %d replicas, %v", n, err)
	}
}

// eventually tries until there is no error, for at most a minute.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("never:", err)
		}
	}
}
