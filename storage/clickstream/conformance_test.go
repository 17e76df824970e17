package clickstream_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestStreamOnEachKindOfRedis(t *testing.T) {
	t.Parallel()
	withEndpoint := func(test func(*testing.T, clickstream.Endpoint)) func(*testing.T, string, string) {
		return func(t *testing.T, url, kind string) {
			t.Helper()
			test(t, clickstream.Endpoint{URL: url, Kind: clickstream.Kind(kind)})
		}
	}
	redistest.OnEachKind(
		t,
		redistest.Behaviour{Name: "entries can be read again until acknowledged", Test: withEndpoint(testEntriesAreDeliveredUntilAcknowledged)},
		redistest.Behaviour{Name: "a lost group is created again", Test: withEndpoint(testLostGroupIsCreatedAgain)},
		redistest.Behaviour{Name: "a rewound group is reported", Test: withEndpoint(testRewoundGroupIsReportedOnce)},
		redistest.Behaviour{Name: "reads are not reported as a rewound group", Test: withEndpoint(testRewoundIsFalseDuringReads)},
		redistest.Behaviour{Name: "entries of a dead consumer are claimed", Test: withEndpoint(testEntriesOfDeadConsumerAreClaimed)},
		redistest.Behaviour{Name: "lost entries are reported", Test: withEndpoint(testLostEntriesAreReported)},
		redistest.Behaviour{Name: "trim stops at the oldest unacknowledged entry", Test: withEndpoint(testTrimStopsAtOldestUnacknowledgedEntry)},
		redistest.Behaviour{Name: "trim keeps the only pending entry", Test: withEndpoint(testTrimKeepsTheOnlyPendingEntry)},
		redistest.Behaviour{Name: "trim runs together with readers and a writer", Test: withEndpoint(testTrimRunsTogetherWithReadersAndWriters)},
		redistest.Behaviour{Name: "tail finds a click", Test: withEndpoint(testTailFindsClick)},
		redistest.Behaviour{Name: "dead letters", Test: withEndpoint(testDeadLetters)},
		redistest.Behaviour{Name: "dead letters are deleted", Test: withEndpoint(testDeadLettersAreDeleted)},
		redistest.Behaviour{Name: "all shards work in parallel", Test: withEndpoint(testAllShards)},
		redistest.Behaviour{Name: "streams beyond the configured number are discovered", Test: withEndpoint(testStreamsAreDiscovered)},
	)
}

// shardCount is the number of shards in tests that need several shards.
const shardCount = 16

// acknowledgedClicks contains the ids of the clicks that the stream has acknowledged, by
// shard.
type acknowledgedClicks struct {
	mu  sync.Mutex
	ids [shardCount][]affiliate.ClickID
}

// write appends a click to a shard and records its id if the stream acknowledges it.
func (a *acknowledgedClicks) write(t *testing.T, writer *clickstream.Writer, shard int) error {
	t.Helper()
	id := newID()
	err := writer.Append(t.Context(), shard, marshalBatch(t, id), 1)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ids[shard] = append(a.ids[shard], id)
	}
	return err
}

// read reads a shard until r has received all acknowledged clicks.
func (a *acknowledgedClicks) read(t *testing.T, r *clickstream.Reader, shard int) {
	t.Helper()
	missing := slices.Clone(a.ids[shard])
	process := func(entries []clickstream.Entry) {
		for _, entry := range entries {
			missing = slices.DeleteFunc(missing, func(id affiliate.ClickID) bool { return strings.Contains(string(entry.Batch), string(id.UUID[:])) })
			if err := r.Ack(t.Context(), shard, entry.ID); err != nil {
				t.Error(err)
			}
		}
	}
	process(must[[]clickstream.Entry](t)(r.Pending(t.Context(), shard, "0")))
	for len(missing) > 0 {
		entries := must[[]clickstream.Entry](t)(r.Next(t.Context(), shard))
		if process(entries); len(entries) == 0 {
			t.Fatalf("shard %d lost %d of %d acknowledged clicks", shard, len(missing), len(a.ids[shard]))
		}
	}
}

func testAllShards(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	ctx, client := t.Context(), connect(t, endpoint)
	writer, r, tail := clickstream.NewWriter(client, shardCount), newShardReader(t, endpoint, shardCount, "one"), clickstream.NewTail(client, shardCount)
	const entriesPerShard = 120 // more than 100, because Redis trims about 100 entries at a time
	var written acknowledgedClicks
	var writers sync.WaitGroup
	for shard := range shardCount {
		writers.Go(func() {
			for range entriesPerShard {
				if err := written.write(t, writer, shard); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()

	// Find must search in the shard of the click.
	id := newID()
	if err := writer.Append(ctx, clickstream.Shard(id, shardCount), marshalBatch(t, id), 1); err != nil {
		t.Fatal(err)
	}
	if click, _, err := tail.Find(ctx, id, 2000); err != nil || click == nil {
		t.Errorf("Find returned %v, %v, want the click", click, err)
	}

	// One goroutine per shard makes blocking reads, all at the same time.
	var readers sync.WaitGroup
	for shard := range shardCount {
		readers.Go(func() {
			for remaining := entriesPerShard; remaining > 0; {
				entries, err := r.Next(ctx, shard)
				if err != nil {
					t.Error(err)
					return
				}
				for _, entry := range entries {
					if entry.Shard != shard {
						t.Errorf("a read of shard %d returned an entry of shard %d", shard, entry.Shard)
					}
					if err := r.Ack(ctx, shard, entry.ID); err != nil {
						t.Error(err)
					}
				}
				remaining -= len(entries)
			}
		})
	}
	readers.Wait()
	for shard := range shardCount {
		trimmed, err := r.Trim(ctx, shard)
		if err != nil || trimmed < 100 || trimmed > entriesPerShard+1 {
			t.Errorf("Trim of shard %d removed %d entries, %v, want 100 to %d", shard, trimmed, err, entriesPerShard+1)
		}
	}
}

// A collector with shardCount shards writes to streams of which the Reader expects only two.
func testStreamsAreDiscovered(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	writer, r := clickstream.NewWriter(connect(t, endpoint), shardCount), newShardReader(t, endpoint, 2, "one")
	var written acknowledgedClicks
	discover := func(want int) {
		t.Helper()
		if got := must[int](t)(r.Discover(t.Context())); got != want || r.Shards() != want {
			t.Errorf("Discover returned %d shards, and the Reader reads %d, want %d", got, r.Shards(), want)
		}
	}
	discover(2)
	if err := written.write(t, writer, 5); err != nil {
		t.Fatal(err)
	}
	discover(6)
	written.read(t, r, 5)
	if _, err := r.Trim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	discover(6)

	// A stream that was read to its end and stays empty is not read after a restart.
	r = newShardReader(t, endpoint, 2, "one")
	discover(2)
	if err := written.write(t, writer, shardCount-1); err != nil {
		t.Fatal(err)
	}
	discover(shardCount)
	written.ids[5] = nil // read above
	for shard := range shardCount {
		written.read(t, r, shard)
	}
}
