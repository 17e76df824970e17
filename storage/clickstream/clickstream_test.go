package clickstream_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const block = 50 * time.Millisecond

func connect(t testing.TB, at clickstream.Endpoint) redis.UniversalClient {
	t.Helper()
	client, err := clickstream.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// reader reads one shard.
func reader(t testing.TB, at clickstream.Endpoint, consumer string) *clickstream.Reader {
	t.Helper()
	return readerOf(t, at, 1, consumer)
}

func readerOf(t testing.TB, at clickstream.Endpoint, shards int, consumer string) *clickstream.Reader {
	t.Helper()
	blocking, err := clickstream.ConnectBlocking(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blocking.Close() })
	return clickstream.NewReader(connect(t, at), blocking, clickstream.ReaderConfig{
		Shards: shards, Consumer: consumer, Block: block, ClaimIdle: 20 * time.Millisecond,
	})
}

func batchOf(t testing.TB, ids ...affiliate.ClickID) []byte {
	t.Helper()
	batch := &edgev1.ClickBatch{}
	for _, id := range ids {
		batch.Clicks = append(batch.Clicks, &edgev1.Click{Id: id.UUID[:], ReferralCode: "anna"})
	}
	raw, err := proto.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func newID() affiliate.ClickID { return affiliate.NewID[affiliate.Click](time.Now()) }

func must[T any](t testing.TB) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func whatIsAppendedIsReadUntilAcknowledged(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	writer := clickstream.NewWriter(connect(t, at), 1)
	r := reader(t, at, "one")
	if err := writer.Ping(ctx); err != nil {
		t.Error(err)
	}

	// Written before the group exists: it is created at 0, not at the end.
	raw := batchOf(t, newID(), newID())
	if err := writer.Append(ctx, 0, raw, 2); err != nil {
		t.Fatal(err)
	}
	entries := must[[]clickstream.Entry](t)(r.Next(ctx, 0))
	if len(entries) != 1 || string(entries[0].Batch) != string(raw) || entries[0].Clicks != 2 {
		t.Fatalf("read %+v", entries)
	}
	if more := must[[]clickstream.Entry](t)(r.Next(ctx, 0)); len(more) != 0 {
		t.Fatalf("delivered twice: %+v", more)
	}
	// A restarted process of the same name finds it again.
	again := must[[]clickstream.Entry](t)(reader(t, at, "one").Own(ctx, 0, "0"))
	if len(again) != 1 || again[0].ID != entries[0].ID {
		t.Fatalf("own pending: %+v", again)
	}
	if after := must[[]clickstream.Entry](t)(r.Own(ctx, 0, again[0].ID)); len(after) != 0 {
		t.Fatalf("nothing lies after the last one: %+v", after)
	}
	if err := r.Ack(ctx, 0, entries[0].ID); err != nil {
		t.Fatal(err)
	}
	if left := must[[]clickstream.Entry](t)(r.Own(ctx, 0, "0")); len(left) != 0 {
		t.Fatalf("acknowledged and still there: %+v", left)
	}
}

func groupIsRecreatedWhenItIsLost(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, at)
	writer, r := clickstream.NewWriter(client, 1), reader(t, at, "one")
	must[[]clickstream.Entry](t)(r.Next(ctx, 0))
	if err := client.Unlink(ctx, clickstream.Key(0)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := r.Claim(ctx, 0); !errors.Is(err, clickstream.ErrGroupLost) {
		t.Fatal(err)
	}
	if entries := must[[]clickstream.Entry](t)(r.Next(ctx, 0)); len(entries) != 1 {
		t.Fatalf("from the new stream: %+v", entries)
	}
	if err := client.Unlink(ctx, clickstream.Key(0)).Err(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{clickstream.ErrGroupLost, nil} {
		if _, err := r.Own(ctx, 0, "0"); !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
}

// A stream and its group are put back to a copy, as by a failover to a late replica.
func aRewoundGroupIsReportedOnce(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, at)
	writer, r := clickstream.NewWriter(client, 1), reader(t, at, "one")
	rewound := func() bool { t.Helper(); return must[bool](t)(r.Rewound(ctx, 0)) }
	if rewound() {
		t.Error("without a stream")
	}
	next := func() {
		t.Helper()
		if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
			t.Fatal(err)
		}
		if entries := must[[]clickstream.Entry](t)(r.Next(ctx, 0)); len(entries) != 1 {
			t.Fatalf("%+v", entries)
		}
	}
	next()
	older := must[string](t)(client.Dump(ctx, clickstream.Key(0)).Result())
	if next(); rewound() {
		t.Error("without a loss")
	}
	must[string](t)(client.RestoreReplace(ctx, clickstream.Key(0), 0, older).Result())
	if !rewound() || rewound() {
		t.Error("a loss is reported once")
	}
	if next(); rewound() {
		t.Error("after the loss")
	}
}

func deadConsumersEntriesAreClaimed(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	writer := clickstream.NewWriter(connect(t, at), 1)
	dead, alive := reader(t, at, "dead"), reader(t, at, "alive")
	const n = 150 // more than two pages
	for range n {
		if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		must[[]clickstream.Entry](t)(dead.Next(ctx, 0))
	}
	time.Sleep(40 * time.Millisecond) // pending for longer than ClaimIdle
	claimed := map[string]bool{}
	for more := true; more; {
		entries, lost, again, err := alive.Claim(ctx, 0)
		if err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		more = again
		for _, entry := range entries {
			claimed[entry.ID] = true
			if err := alive.Ack(ctx, 0, entry.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(claimed) != n {
		t.Errorf("claimed %d of %d", len(claimed), n)
	}
}

func vanishedEntriesAreReportedAsLost(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, at)
	writer, r := clickstream.NewWriter(client, 1), reader(t, at, "one")
	if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
		t.Fatal(err)
	}
	entry := must[[]clickstream.Entry](t)(r.Next(ctx, 0))[0]
	if err := client.XTrimMaxLen(ctx, clickstream.Key(0), 0).Err(); err != nil {
		t.Fatal(err)
	}
	own := must[[]clickstream.Entry](t)(r.Own(ctx, 0, "0"))
	if len(own) != 1 || own[0].Batch != nil {
		t.Fatalf("a vanished entry has no batch: %+v", own)
	}
	time.Sleep(30 * time.Millisecond)
	entries, lost, more, err := r.Claim(ctx, 0)
	if err != nil || more || len(entries) != 0 || len(lost) != 1 || lost[0] != entry.ID {
		t.Fatalf("entries %v, lost %v, %v", entries, lost, err)
	}
}

func trimStopsAtTheOldestUnacknowledged(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, at)
	writer, r := clickstream.NewWriter(client, 1), reader(t, at, "one")
	const n, held = 400, 200
	// Exact trimming, so that the approximation hides nothing here.
	trimmed := func() int64 {
		t.Helper()
		if _, err := r.Trim(ctx, 0); err != nil {
			t.Fatal(err)
		}
		return n - must[int64](t)(client.XLen(ctx, clickstream.Key(0)).Result())
	}
	if _, err := r.Trim(ctx, 0); err != nil {
		t.Fatal("an absent stream is no error:", err)
	}
	for range n {
		if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := trimmed(); n != 0 {
		t.Fatalf("without a group %d went", n)
	}
	var ids []string
	for len(ids) < n {
		for _, entry := range must[[]clickstream.Entry](t)(r.Next(ctx, 0)) {
			ids = append(ids, entry.ID)
		}
	}
	if n := trimmed(); n != 0 {
		t.Fatalf("with everything pending %d went", n)
	}
	if err := r.Ack(ctx, 0, ids[:held]...); err != nil {
		t.Fatal(err)
	}
	if err := r.Ack(ctx, 0, ids[held+1:]...); err != nil {
		t.Fatal(err)
	}
	if n := trimmed(); n == 0 || n > held {
		t.Fatalf("with entry %d pending %d went", held, n)
	}
	if err := client.XGroupCreate(ctx, clickstream.Key(0), "another", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Ack(ctx, 0, ids[held]); err != nil {
		t.Fatal(err)
	}
	before := trimmed()
	if before > held {
		t.Fatalf("with a group that has read nothing %d went", before)
	}
	if err := client.XGroupDestroy(ctx, clickstream.Key(0), "another").Err(); err != nil {
		t.Fatal(err)
	}
	if n := trimmed(); n <= before {
		t.Fatalf("with everything acknowledged only %d went", n)
	}
}

// Writers, two readers and a trimmer at once: whatever the interleaving, every
// entry is read, and none is trimmed before its acknowledgement.
func trimRacesWithReadersAndWriters(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	writer := clickstream.NewWriter(connect(t, at), 1)
	const n = 1000
	var acked atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		for range n {
			if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
				t.Error(err)
				return
			}
		}
	})
	stop := make(chan struct{})
	for i := range 2 {
		r := reader(t, at, fmt.Sprint("reader", i))
		group.Go(func() {
			for acked.Load() < n {
				entries, err := r.Next(ctx, 0)
				if err != nil {
					t.Error(err)
					return
				}
				for _, entry := range entries {
					if entry.Batch == nil {
						t.Errorf("%s was trimmed before it was read", entry.ID)
					}
					if err := r.Ack(ctx, 0, entry.ID); err != nil {
						t.Error(err)
						return
					}
					acked.Add(1)
				}
			}
		})
	}
	var trimmer sync.WaitGroup
	tr := reader(t, at, "trimmer")
	trimmer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := tr.Trim(ctx, 0); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	group.Wait()
	close(stop)
	trimmer.Wait()
	if acked.Load() != n {
		t.Errorf("read %d of %d", acked.Load(), n)
	}
}

func tailFindsAnUnpersistedClick(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, at)
	writer, tail := clickstream.NewWriter(client, 4), clickstream.NewTail(client, 4)
	wanted := newID()
	shard := clickstream.Shard(wanted, 4)
	if err := writer.Append(ctx, shard, batchOf(t, newID(), wanted, newID()), 3); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if err := writer.Append(ctx, shard, batchOf(t, newID()), 1); err != nil {
			t.Fatal(err)
		}
	}
	find := func(id affiliate.ClickID, limit int) bool {
		click, err := tail.Find(ctx, id, limit)
		if err != nil {
			t.Fatal(err)
		}
		if click != nil && string(click.Id) != string(id.UUID[:]) {
			t.Fatal("another click was found")
		}
		return click != nil
	}
	if !find(wanted, 2000) {
		t.Error("not found")
	}
	if find(wanted, 16) {
		t.Error("found beyond the bound")
	}
	if find(newID(), 2000) {
		t.Error("found a click that does not exist")
	}
	if find(affiliate.ClickID{}, 2000) {
		t.Error("found the zero id")
	}
}

func TestAppendToADeadRedisFailsSoonAndRecovers(t *testing.T) {
	server := redistest.Start(t)
	ctx := t.Context()
	writer := clickstream.NewWriter(connect(t, clickstream.Endpoint{URL: server.URL}), 1)
	if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err != nil {
		t.Fatal(err)
	}
	server.Kill9()
	for range 20 {
		began := time.Now()
		if err := writer.Append(ctx, 0, batchOf(t, newID()), 1); err == nil {
			t.Fatal("a dead Redis took a batch")
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("the failure took %s", took)
		}
	}
	server.Restart()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := writer.Append(ctx, 0, batchOf(t, newID()), 1)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no recovery:", err)
		}
	}
	// What was acknowledged before the kill is still there.
	entries := must[[]clickstream.Entry](t)(reader(t, clickstream.Endpoint{URL: server.URL}, "one").Next(ctx, 0))
	if len(entries) != 2 {
		t.Errorf("%d entries", len(entries))
	}
}

func deadLettersAreKept(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, at)
	r := reader(t, at, "one")
	if err := r.DeadLetter(ctx, []clickstream.DeadLetter{{Entry: "1-1", Reason: "malformed", Record: []byte{0xff}}}); err != nil {
		t.Fatal(err)
	}
	messages := must[[]redis.XMessage](t)(client.XRange(ctx, clickstream.DeadLetterStream, "-", "+").Result())
	if len(messages) != 1 || messages[0].Values["b"] != "\xff" || messages[0].Values["reason"] != "malformed" {
		t.Errorf("%v", messages)
	}

	// Two of four are too old, one of them just so.
	day := time.Now().Truncate(time.Millisecond).Add(-24 * time.Hour)
	if err := client.Del(ctx, clickstream.DeadLetterStream).Err(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{day.Add(-90 * 24 * time.Hour), day.Add(-time.Millisecond), day, day.Add(time.Hour)} {
		must[string](t)(client.XAdd(ctx, &redis.XAddArgs{
			Stream: clickstream.DeadLetterStream, ID: fmt.Sprint(at.UnixMilli(), "-0"), Values: []any{"b", at.String()},
		}).Result())
	}
	for _, want := range []int64{2, 0} {
		if n, err := r.TrimDeadLetters(ctx, day); err != nil || n != want {
			t.Errorf("%d trimmed, %v, want %d", n, err, want)
		}
	}
	messages = must[[]redis.XMessage](t)(client.XRange(ctx, clickstream.DeadLetterStream, "-", "+").Result())
	if len(messages) != 2 || messages[0].Values["b"] != day.String() {
		t.Errorf("%v are left", messages)
	}
	if err := client.Del(ctx, clickstream.DeadLetterStream).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := r.TrimDeadLetters(ctx, day); err != nil || n != 0 {
		t.Errorf("without a dead letter: %d, %v", n, err)
	}
}

func TestShardIsStableAndEven(t *testing.T) {
	counts := make([]int, 16)
	for range 16_000 {
		counts[clickstream.Shard(newID(), 16)]++
	}
	for shard, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("shard %d has %d of 16000", shard, n)
		}
	}
	if clickstream.Key(3) != "clicks:{s03}" {
		t.Error(clickstream.Key(3))
	}
}
