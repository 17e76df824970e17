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

func TestTheStreamOnEachKindOfRedis(t *testing.T) {
	t.Parallel()
	on := func(test func(*testing.T, clickstream.Endpoint)) func(*testing.T, string, string) {
		return func(t *testing.T, url, kind string) {
			t.Helper()
			test(t, clickstream.Endpoint{URL: url, Kind: clickstream.Kind(kind)})
		}
	}
	redistest.OnEachKind(
		t,
		redistest.Behaviour{Name: "what is appended is read until acknowledged", Test: on(whatIsAppendedIsReadUntilAcknowledged)},
		redistest.Behaviour{Name: "a lost group is made again", Test: on(groupIsRecreatedWhenItIsLost)},
		redistest.Behaviour{Name: "a rewound group is reported", Test: on(aRewoundGroupIsReportedOnce)},
		redistest.Behaviour{Name: "a dead consumer's entries are claimed", Test: on(deadConsumersEntriesAreClaimed)},
		redistest.Behaviour{Name: "vanished entries are reported", Test: on(vanishedEntriesAreReportedAsLost)},
		redistest.Behaviour{Name: "trim stops at the oldest unacknowledged", Test: on(trimStopsAtTheOldestUnacknowledged)},
		redistest.Behaviour{Name: "trim races with readers and writers", Test: on(trimRacesWithReadersAndWriters)},
		redistest.Behaviour{Name: "the tail", Test: on(tailFindsAnUnpersistedClick)},
		redistest.Behaviour{Name: "dead letters", Test: on(deadLettersAreKept)},
		redistest.Behaviour{Name: "sixteen shards", Test: on(sixteenShardsAreWrittenReadAndTrimmed)},
	)
}

const sixteen = 16

// acknowledged remembers what the stream has taken, by shard.
type acknowledged struct {
	mu  sync.Mutex
	ids [sixteen][]affiliate.ClickID
}

// write appends one click to a shard and remembers it when the stream has it.
func (a *acknowledged) write(t *testing.T, writer *clickstream.Writer, shard int) error {
	t.Helper()
	id := newID()
	err := writer.Append(t.Context(), shard, batchOf(t, id), 1)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ids[shard] = append(a.ids[shard], id)
	}
	return err
}

// read consumes one shard until everything that was acknowledged has come by.
func (a *acknowledged) read(t *testing.T, r *clickstream.Reader, shard int) {
	t.Helper()
	missing := slices.Clone(a.ids[shard])
	arrived := func(entries []clickstream.Entry) {
		for _, entry := range entries {
			missing = slices.DeleteFunc(missing, func(id affiliate.ClickID) bool { return strings.Contains(string(entry.Batch), string(id.UUID[:])) })
			if err := r.Ack(t.Context(), shard, entry.ID); err != nil {
				t.Error(err)
			}
		}
	}
	arrived(must[[]clickstream.Entry](t)(r.Own(t.Context(), shard, "0")))
	for len(missing) > 0 {
		entries := must[[]clickstream.Entry](t)(r.Next(t.Context(), shard))
		if arrived(entries); len(entries) == 0 {
			t.Fatalf("shard %d lost %d of %d acknowledged clicks", shard, len(missing), len(a.ids[shard]))
		}
	}
}

func sixteenShardsAreWrittenReadAndTrimmed(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	ctx, client := t.Context(), connect(t, at)
	writer, r, tail := clickstream.NewWriter(client, sixteen), readerOf(t, at, sixteen, "one"), clickstream.NewTail(client, sixteen)
	const each = 120 // what is trimmed goes by the hundred
	var written acknowledged
	var writers sync.WaitGroup
	for shard := range sixteen {
		writers.Go(func() {
			for range each {
				if err := written.write(t, writer, shard); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()

	// A click is looked for where it belongs.
	wanted := newID()
	if err := writer.Append(ctx, clickstream.Shard(wanted, sixteen), batchOf(t, wanted), 1); err != nil {
		t.Fatal(err)
	}
	if click, err := tail.Find(ctx, wanted, 2000); err != nil || click == nil {
		t.Errorf("not in the tail: %v, %v", click, err)
	}

	// Sixteen readers that block at the same time.
	var readers sync.WaitGroup
	for shard := range sixteen {
		readers.Go(func() {
			for left := each; left > 0; {
				entries, err := r.Next(ctx, shard)
				if err != nil {
					t.Error(err)
					return
				}
				for _, entry := range entries {
					if entry.Shard != shard {
						t.Errorf("shard %d gave an entry of %d", shard, entry.Shard)
					}
					if err := r.Ack(ctx, shard, entry.ID); err != nil {
						t.Error(err)
					}
				}
				left -= len(entries)
			}
		})
	}
	readers.Wait()
	for shard := range sixteen {
		trimmed, err := r.Trim(ctx, shard)
		if err != nil || trimmed < 100 || trimmed > each+1 {
			t.Errorf("shard %d: %d of %d trimmed, %v", shard, trimmed, each, err)
		}
	}
}
