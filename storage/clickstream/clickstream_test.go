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

// The settings of the Readers in tests.
const (
	block     = 50 * time.Millisecond
	claimIdle = 20 * time.Millisecond
)

func connect(t testing.TB, endpoint clickstream.Endpoint) redis.UniversalClient {
	t.Helper()
	client, err := clickstream.Connect(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// newReader returns a Reader of one shard.
func newReader(t testing.TB, endpoint clickstream.Endpoint, consumer string) *clickstream.Reader {
	t.Helper()
	return newShardReader(t, endpoint, 1, consumer)
}

// newShardReader returns a Reader of the given number of shards.
func newShardReader(t testing.TB, endpoint clickstream.Endpoint, shards int, consumer string) *clickstream.Reader {
	t.Helper()
	blocking, err := clickstream.ConnectBlocking(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blocking.Close() })
	return clickstream.NewReader(connect(t, endpoint), blocking, clickstream.ReaderConfig{
		Shards: shards, Consumer: consumer, Block: block, ClaimIdle: claimIdle,
	})
}

// awaitClaimable waits until n entries of shard 0 have been pending for claimIdle.
func awaitClaimable(t *testing.T, client redis.UniversalClient, n int) {
	t.Helper()
	eventually(t, func() error {
		pending, err := client.XPendingExt(t.Context(), &redis.XPendingExtArgs{
			Stream: clickstream.Key(0), Group: clickstream.Group, Idle: claimIdle, Start: "-", End: "+", Count: int64(n),
		}).Result()
		if err == nil && len(pending) != n {
			err = fmt.Errorf("%d of %d entries have been pending for %s", len(pending), n, claimIdle)
		}
		return err
	})
}

// marshalBatch returns a marshalled batch with one click for each id.
func marshalBatch(t testing.TB, ids ...affiliate.ClickID) []byte {
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

func newID() affiliate.ClickID { return affiliate.NewID[affiliate.ClickID](time.Now()) }

// must returns a function that returns v, or ends the test if err is not nil. Because of
// this form, must[T](t)(f()) accepts both results of f.
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

func testEntriesAreDeliveredUntilAcknowledged(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	writer := clickstream.NewWriter(connect(t, endpoint), 1)
	r := newReader(t, endpoint, "one")
	if err := writer.Ping(ctx); err != nil {
		t.Error(err)
	}

	// The entry is appended before the consumer group exists. The group must read the
	// entry, because a new group reads from the start of the stream.
	raw := marshalBatch(t, newID(), newID())
	if err := writer.Append(ctx, 0, raw, 2); err != nil {
		t.Fatal(err)
	}
	entries := must[[]clickstream.Entry](t)(r.Next(ctx, 0))
	if len(entries) != 1 || string(entries[0].Batch) != string(raw) || entries[0].Clicks != 2 {
		t.Fatalf("Next returned %+v, want one entry with the appended batch and 2 clicks", entries)
	}
	if more := must[[]clickstream.Entry](t)(r.Next(ctx, 0)); len(more) != 0 {
		t.Fatalf("the second Next returned %+v, want no entries", more)
	}
	// A restarted process with the same consumer name reads the pending entry again.
	again := must[[]clickstream.Entry](t)(newReader(t, endpoint, "one").Pending(ctx, 0, "0"))
	if len(again) != 1 || again[0].ID != entries[0].ID {
		t.Fatalf("after a restart, Pending returned %+v, want entry %s", again, entries[0].ID)
	}
	if after := must[[]clickstream.Entry](t)(r.Pending(ctx, 0, again[0].ID)); len(after) != 0 {
		t.Fatalf("Pending after the last entry returned %+v, want no entries", after)
	}
	if err := r.Ack(ctx, 0, entries[0].ID); err != nil {
		t.Fatal(err)
	}
	if pending := must[[]clickstream.Entry](t)(r.Pending(ctx, 0, "0")); len(pending) != 0 {
		t.Fatalf("acknowledged entries are still pending: %+v", pending)
	}
}

func testLostGroupIsCreatedAgain(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, endpoint)
	writer, r := clickstream.NewWriter(client, 1), newReader(t, endpoint, "one")
	must[[]clickstream.Entry](t)(r.Next(ctx, 0))
	if err := client.Unlink(ctx, clickstream.Key(0)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := r.Claim(ctx, 0); !errors.Is(err, clickstream.ErrGroupLost) {
		t.Fatalf("Claim returned the error %v, want ErrGroupLost", err)
	}
	if entries := must[[]clickstream.Entry](t)(r.Next(ctx, 0)); len(entries) != 1 {
		t.Fatalf("Next returned %+v from the new stream, want 1 entry", entries)
	}
	if err := client.Unlink(ctx, clickstream.Key(0)).Err(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{clickstream.ErrGroupLost, nil} {
		if _, err := r.Pending(ctx, 0, "0"); !errors.Is(err, want) {
			t.Fatalf("Pending returned the error %v, want %v", err, want)
		}
	}
}

// The test replaces a stream and its group by an older copy. A failover to a replica that
// is behind its master has the same effect.
func testRewoundGroupIsReportedOnce(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, endpoint)
	writer, r := clickstream.NewWriter(client, 1), newReader(t, endpoint, "one")
	rewound := func() bool { t.Helper(); return must[bool](t)(r.Rewound(ctx, 0)) }
	if rewound() {
		t.Error("Rewound is true without a stream")
	}
	appendAndRead := func() {
		t.Helper()
		if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
			t.Fatal(err)
		}
		if entries := must[[]clickstream.Entry](t)(r.Next(ctx, 0)); len(entries) != 1 {
			t.Fatalf("Next returned %+v, want 1 entry", entries)
		}
	}
	appendAndRead()
	older := must[string](t)(client.Dump(ctx, clickstream.Key(0)).Result())
	if appendAndRead(); rewound() {
		t.Error("Rewound is true without a loss")
	}
	must[string](t)(client.RestoreReplace(ctx, clickstream.Key(0), 0, older).Result())
	if !rewound() || rewound() {
		t.Error("Rewound does not report the loss exactly once")
	}
	if appendAndRead(); rewound() {
		t.Error("Rewound is true for an entry that was appended after the loss")
	}
}

func testRewoundIsFalseDuringReads(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	writer, r := clickstream.NewWriter(connect(t, endpoint), 1), newReader(t, endpoint, "one")
	var reading sync.WaitGroup
	reading.Go(func() {
		for range 300 {
			if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
				t.Error(err)
				return
			}
			if _, err := r.Next(ctx, 0); err != nil {
				t.Error(err)
				return
			}
		}
	})
	done := make(chan struct{})
	go func() { reading.Wait(); close(done) }()
	for {
		if must[bool](t)(r.Rewound(ctx, 0)) {
			t.Error("Rewound is true for entries that Next reads at the same time")
			<-done
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func testEntriesOfDeadConsumerAreClaimed(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, endpoint)
	writer := clickstream.NewWriter(client, 1)
	dead, alive := newReader(t, endpoint, "dead"), newReader(t, endpoint, "alive")
	const n = 150 // a read returns at most 64 entries, so three reads are necessary
	for range n {
		if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		must[[]clickstream.Entry](t)(dead.Next(ctx, 0))
	}
	awaitClaimable(t, client, n)
	claimed := map[string]bool{}
	for more := true; more; {
		entries, lost, hasMore, err := alive.Claim(ctx, 0)
		if err != nil || len(lost) > 0 {
			t.Fatalf("Claim reported the lost entries %v and the error %v, want none", lost, err)
		}
		more = hasMore
		for _, entry := range entries {
			claimed[entry.ID] = true
			if err := alive.Ack(ctx, 0, entry.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(claimed) != n {
		t.Errorf("claimed %d of %d entries", len(claimed), n)
	}
}

func testLostEntriesAreReported(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, endpoint)
	writer, r := clickstream.NewWriter(client, 1), newReader(t, endpoint, "one")
	if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
		t.Fatal(err)
	}
	entry := must[[]clickstream.Entry](t)(r.Next(ctx, 0))[0]
	if err := client.XTrimMaxLen(ctx, clickstream.Key(0), 0).Err(); err != nil {
		t.Fatal(err)
	}
	pending := must[[]clickstream.Entry](t)(r.Pending(ctx, 0, "0"))
	if len(pending) != 1 || pending[0].Batch != nil {
		t.Fatalf("Pending returned %+v, want the deleted entry with a nil batch", pending)
	}
	awaitClaimable(t, client, 1)
	entries, lost, more, err := r.Claim(ctx, 0)
	if err != nil || more || len(entries) != 0 || len(lost) != 1 || lost[0] != entry.ID {
		t.Fatalf("Claim returned the entries %v, lost %v, more %t, error %v; want no entries and lost [%s]", entries, lost, more, err, entry.ID)
	}
}

func testTrimKeepsTheOnlyPendingEntry(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	writer, r := clickstream.NewWriter(connect(t, endpoint), 1), newReader(t, endpoint, "one")
	if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
		t.Fatal(err)
	}
	entries := must[[]clickstream.Entry](t)(r.Next(ctx, 0))
	if trimmed := must[int64](t)(r.Trim(ctx, 0)); trimmed != 0 {
		t.Fatalf("Trim removed %d entries while the last delivered one was pending, want 0", trimmed)
	}
	if err := r.Ack(ctx, 0, entries[0].ID); err != nil {
		t.Fatal(err)
	}
	if trimmed := must[int64](t)(r.Trim(ctx, 0)); trimmed != 1 {
		t.Fatalf("Trim removed %d entries after the acknowledgement, want 1", trimmed)
	}
}

func testTrimStopsAtOldestUnacknowledgedEntry(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, endpoint)
	writer, r := clickstream.NewWriter(client, 1), newReader(t, endpoint, "one")
	// lastAcked is the index of the entry that is acknowledged last.
	const n, lastAcked = 400, 200
	// trimAndCount calls Trim and returns the total number of removed entries.
	trimAndCount := func() int64 {
		t.Helper()
		if _, err := r.Trim(ctx, 0); err != nil {
			t.Fatal(err)
		}
		return n - must[int64](t)(client.XLen(ctx, clickstream.Key(0)).Result())
	}
	if _, err := r.Trim(ctx, 0); err != nil {
		t.Fatal("Trim of a missing stream returned an error:", err)
	}
	for range n {
		if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := trimAndCount(); n != 0 {
		t.Fatalf("without a group, %d entries were trimmed, want 0", n)
	}
	var ids []string
	for len(ids) < n {
		for _, entry := range must[[]clickstream.Entry](t)(r.Next(ctx, 0)) {
			ids = append(ids, entry.ID)
		}
	}
	if n := trimAndCount(); n != 0 {
		t.Fatalf("with all entries pending, %d entries were trimmed, want 0", n)
	}
	if err := r.Ack(ctx, 0, ids[:lastAcked]...); err != nil {
		t.Fatal(err)
	}
	if err := r.Ack(ctx, 0, ids[lastAcked+1:]...); err != nil {
		t.Fatal(err)
	}
	if n := trimAndCount(); n == 0 || n > lastAcked {
		t.Fatalf("with entry %d pending, %d entries were trimmed, want 1 to %d", lastAcked, n, lastAcked)
	}
	if err := client.XGroupCreate(ctx, clickstream.Key(0), "another", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Ack(ctx, 0, ids[lastAcked]); err != nil {
		t.Fatal(err)
	}
	before := trimAndCount()
	if before > lastAcked {
		t.Fatalf("with a group that has read nothing, %d entries were trimmed, want at most %d", before, lastAcked)
	}
	if err := client.XGroupDestroy(ctx, clickstream.Key(0), "another").Err(); err != nil {
		t.Fatal(err)
	}
	if n := trimAndCount(); n <= before {
		t.Fatalf("with all entries acknowledged, %d entries were trimmed, want more than %d", n, before)
	}
}

// A writer, two readers and a trimmer run at the same time. Every entry must be read, and
// no entry may be trimmed before it is acknowledged.
func testTrimRunsTogetherWithReadersAndWriters(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	writer := clickstream.NewWriter(connect(t, endpoint), 1)
	const n = 1000
	var acked atomic.Int64
	var readersAndWriter sync.WaitGroup
	readersAndWriter.Go(func() {
		for range n {
			if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
				t.Error(err)
				return
			}
		}
	})
	stop := make(chan struct{})
	for i := range 2 {
		r := newReader(t, endpoint, fmt.Sprint("reader", i))
		readersAndWriter.Go(func() {
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
	tr := newReader(t, endpoint, "trimmer")
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
	readersAndWriter.Wait()
	close(stop)
	trimmer.Wait()
	if acked.Load() != n {
		t.Errorf("read %d of %d entries", acked.Load(), n)
	}
}

// A Tail finds a click among the newest entries of the click's shard.
func testTailFindsClick(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, endpoint)
	writer, tail := clickstream.NewWriter(client, 4), clickstream.NewTail(client, 4)
	existing := affiliate.NewID[affiliate.ClickID](time.Now().Add(10 * time.Minute)) // the collector's clock is wrong
	shard := clickstream.Shard(existing, 4)
	if err := writer.Append(ctx, shard, marshalBatch(t, newID(), existing, newID()), 3); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if err := writer.Append(ctx, shard, marshalBatch(t, newID()), 1); err != nil {
			t.Fatal(err)
		}
	}
	find := func(id affiliate.ClickID, limit int) bool {
		click, storedAt, err := tail.Find(ctx, id, limit)
		if err != nil {
			t.Fatal(err)
		}
		if click != nil && string(click.Id) != string(id.UUID[:]) {
			t.Fatalf("Find returned the click %x, want %s", click.Id, id)
		}
		if click != nil && time.Since(storedAt).Abs() > time.Minute {
			t.Errorf("Find returned the time %s, want the current time", storedAt)
		}
		return click != nil
	}
	if !find(existing, 2000) {
		t.Error("Find did not find the click")
	}
	if find(existing, 16) {
		t.Error("Find searched more entries than its limit allows")
	}
	if find(newID(), 2000) {
		t.Error("Find found a click that does not exist")
	}
	if find(affiliate.ClickID{}, 2000) {
		t.Error("Find found a click for the zero id")
	}
}

func TestAppend_ToDeadRedisFailsFastAndRecovers(t *testing.T) {
	server := redistest.Start(t)
	ctx := t.Context()
	writer := clickstream.NewWriter(connect(t, clickstream.Endpoint{URL: server.URL}), 1)
	if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err != nil {
		t.Fatal(err)
	}
	server.Kill9()
	for range 20 {
		start := time.Now()
		if err := writer.Append(ctx, 0, marshalBatch(t, newID()), 1); err == nil {
			t.Fatal("Append to a dead Redis succeeded")
		}
		if elapsed := time.Since(start); elapsed > 2*time.Second {
			t.Fatalf("Append to a dead Redis took %s, want at most 2 s", elapsed)
		}
	}
	server.Restart()
	eventually(t, func() error { return writer.Append(ctx, 0, marshalBatch(t, newID()), 1) })
	// The stream must contain the entry from before the kill and the entry from after the
	// restart.
	entries := must[[]clickstream.Entry](t)(newReader(t, clickstream.Endpoint{URL: server.URL}, "one").Next(ctx, 0))
	if len(entries) != 2 {
		t.Errorf("read %d entries, want 2", len(entries))
	}
}

func testDeadLetters(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx := t.Context()
	client := connect(t, endpoint)
	r := newReader(t, endpoint, "one")
	if err := r.DeadLetter(ctx, []clickstream.DeadLetter{{Entry: "1-1", Reason: "malformed", Record: []byte{0xff}}}); err != nil {
		t.Fatal(err)
	}
	messages := must[[]redis.XMessage](t)(client.XRange(ctx, clickstream.DeadLetterStream, "-", "+").Result())
	if len(messages) != 1 || messages[0].Values["b"] != "\xff" || messages[0].Values["reason"] != "malformed" {
		t.Errorf("the stream contains %v, want one record with the reason malformed", messages)
	}

	// Two of the four records are older than dayAgo, the second of them by only one
	// millisecond.
	dayAgo := time.Now().Truncate(time.Millisecond).Add(-24 * time.Hour)
	if err := client.Del(ctx, clickstream.DeadLetterStream).Err(); err != nil {
		t.Fatal(err)
	}
	for _, stored := range []time.Time{dayAgo.Add(-90 * 24 * time.Hour), dayAgo.Add(-time.Millisecond), dayAgo, dayAgo.Add(time.Hour)} {
		must[string](t)(client.XAdd(ctx, &redis.XAddArgs{
			Stream: clickstream.DeadLetterStream, ID: fmt.Sprint(stored.UnixMilli(), "-0"), Values: []any{"b", stored.String()},
		}).Result())
	}
	for _, want := range []int64{2, 0} {
		if n, err := r.TrimDeadLetters(ctx, dayAgo); err != nil || n != want {
			t.Errorf("trimmed %d records, %v, want %d", n, err, want)
		}
	}
	messages = must[[]redis.XMessage](t)(client.XRange(ctx, clickstream.DeadLetterStream, "-", "+").Result())
	if len(messages) != 2 || messages[0].Values["b"] != dayAgo.String() {
		t.Errorf("after trimming, the stream contains %v, want the two records that are not older than %s", messages, dayAgo)
	}
	if err := client.Del(ctx, clickstream.DeadLetterStream).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := r.TrimDeadLetters(ctx, dayAgo); err != nil || n != 0 {
		t.Errorf("without dead letters, TrimDeadLetters returned %d, %v, want 0", n, err)
	}
}

func TestShard_DistributesEvenly(t *testing.T) {
	counts := make([]int, 16)
	for range 16_000 {
		counts[clickstream.Shard(newID(), 16)]++
	}
	for shard, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("shard %d has %d of 16000 clicks, want 800 to 1200", shard, n)
		}
	}
	if key := clickstream.Key(3); key != "clicks:{s03}" {
		t.Errorf("Key(3) = %q, want clicks:{s03}", key)
	}
}
