package ingest_test

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/ingest"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/storage/visitors"
)

// countingVisitors counts the clicks that MarkUnique could not check, because Redis did
// not respond in time on a slow machine.
type countingVisitors struct {
	ingest.Visitors
	unknown atomic.Int64
}

func (v *countingVisitors) MarkUnique(ctx context.Context, clicks []*click.Click) int {
	unknown := v.Visitors.MarkUnique(ctx, clicks)
	v.unknown.Add(int64(unknown))
	return unknown
}

// The test runs two ingesters on real servers. They claim entries after such a short time
// that entries are delivered to both of them. One of the clicks contains a NUL, so
// Postgres rejects it.
func TestIngester_StoresEachClickOnceWithRealServers(t *testing.T) {
	url, f := redistest.New(t), pgtest.Open(t, time.Now)
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	writer := clickstream.NewWriter(client, 1)

	counting := &countingVisitors{Visitors: visitors.New(client)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		blocking, err := clickstream.ConnectBlocking(clickstream.Endpoint{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = blocking.Close() }()
		// The idle time is so short that the ingesters claim each other's entries all the
		// time.
		reader := clickstream.NewReader(client, blocking, clickstream.ReaderConfig{
			Shards: 1, Consumer: name, Block: 20 * time.Millisecond, ClaimIdle: time.Millisecond,
		})
		ingester := ingest.New(ingest.Config{ClaimEvery: 5 * time.Millisecond, TrimEvery: 10 * time.Millisecond, FirstDelay: time.Millisecond},
			ingest.Deps{Reader: reader, DB: f.DB, Visitors: counting})
		running.Go(func() { ingester.Run(ctx) })
	}
	now := time.Now()
	workspace := affiliate.NewID[affiliate.WorkspaceID](now)
	const entries, perEntry, visitorCount = 200, 20, 700
	for entry := range entries {
		batch := &edgev1.ClickBatch{}
		for n := range perEntry {
			id := affiliate.NewID[affiliate.ClickID](now)
			batch.Clicks = append(batch.Clicks, &edgev1.Click{
				Id: id.UUID[:], Mode: edgev1.Mode_MODE_LIVE, WorkspaceId: workspace.UUID[:], ProgramId: workspace.UUID[:], ParticipantId: workspace.UUID[:], LinkId: workspace.UUID[:],
				ReferralCode: "anna", ReceivedAtMs: now.UnixMilli(), AttributionWindowDays: 30,
				// Each visitor clicks five or six times, in different entries.
				IpHash: binary.BigEndian.AppendUint64(nil, uint64((entry*perEntry+n)%visitorCount)),
			})
		}
		raw, err := proto.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Append(ctx, 0, raw, perEntry); err != nil {
			t.Fatal(err)
		}
	}
	id := affiliate.NewID[affiliate.ClickID](now)
	invalidBatch, err := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{{
		Id: id.UUID[:], Mode: edgev1.Mode_MODE_LIVE, WorkspaceId: workspace.UUID[:], ProgramId: workspace.UUID[:], ParticipantId: workspace.UUID[:], LinkId: workspace.UUID[:],
		ReferralCode: "nul\x00", ReceivedAtMs: now.UnixMilli(), AttributionWindowDays: 30,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Append(ctx, 0, invalidBatch, 1); err != nil {
		t.Fatal(err)
	}

	rejected := func() int { return f.Count(`select count(*) from click_dead_letters where reason = 'rejected'`) }
	pgtest.Eventually(t, "all clicks are stored and all entries acknowledged", func() bool {
		pending, err := client.XPending(t.Context(), clickstream.Key(0), clickstream.Group).Result()
		return err == nil && pending.Count == 0 && rejected() > 0 && f.Count(`select count(*) from clicks`) >= entries*perEntry
	})
	cancel()
	running.Wait()
	if n, distinct := f.Count(`select count(*) from clicks`), f.Count(`select count(distinct id) from clicks`); n != entries*perEntry || distinct != n || rejected() != 1 {
		t.Errorf("%d rows with %d different clicks, and %d dead letters, want %d rows, all different, and 1 dead letter", n, distinct, rejected(), entries*perEntry)
	}
	var counted, unique, visited int64
	err = f.SQL.QueryRow(t.Context(), `
		select (select coalesce(sum(clicks), 0) from stats_deltas where workspace_id = $1), count(*), count(distinct ip_hash)
		from clicks where workspace_id = $1 and is_unique`, workspace).Scan(&counted, &unique, &visited)
	if err != nil {
		t.Fatal(err)
	}
	if counted != entries*perEntry {
		t.Errorf("%d clicks are counted, want %d", counted, entries*perEntry)
	}
	if unique+counting.unknown.Load() < visitorCount || unique > visitorCount || visited != unique {
		t.Errorf("%d unique clicks of %d visitors are stored and %d were not checked, want one for each of %d visitors", unique, visited, counting.unknown.Load(), visitorCount)
	}
}
