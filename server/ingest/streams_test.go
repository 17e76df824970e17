package ingest

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// appendToStreams appends clicks as a collector with the given number of streams does. It
// returns the number of clicks that are not in the first stream.
func (s *stream) appendToStreams(streams, clicks int) (further int) {
	s.Helper()
	writer := clickstream.NewWriter(s.client, streams)
	for range clicks {
		c := newClick()
		raw, err := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{c}})
		check(s, err)
		shard := clickstream.Shard(clickID(c), streams)
		check(s, writer.Append(s.Context(), shard, raw, 1))
		if shard > 0 {
			further++
		}
	}
	return further
}

// Collectors are configured with more streams than the core, which is configured with one.
// The first collector has written before the core starts, the second one begins later.
func TestIngester_ReadsMoreStreamsThanConfigured(t *testing.T) {
	const clicks, streams = 200, 16
	s := newStream(t, redistest.New(t))
	ingester, _ := s.ingester("one", s.DB)
	ingester.cfg.ClaimEvery = time.Hour // clicks that are claimed again would be counted again
	var warned atomic.Bool
	ingester.deps.Log = slog.New(warningFlag{slog.DiscardHandler, &warned})
	further := s.appendToStreams(4, clicks)

	defer run(ingester)()
	pgtest.Eventually(t, "the clicks of 4 streams are stored", func() bool { return s.clicks() == clicks })
	further += s.appendToStreams(streams, clicks)
	pgtest.Eventually(t, "the clicks of 16 streams are stored", func() bool { return s.clicks() == 2*clicks })

	if counted := int(testutil.ToFloat64(ingester.metrics.unexpected)); counted != further || !warned.Load() {
		t.Errorf("%d clicks were counted and a warning was logged: %v, want %d and true", counted, warned.Load(), further)
	}
	pgtest.Eventually(t, "the entries are removed from all streams", func() bool {
		for shard := range streams {
			if s.client.XLen(t.Context(), clickstream.Key(shard)).Val() > 0 {
				return false
			}
		}
		return true
	})
}
