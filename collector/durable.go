package collector

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector/journal"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

const (
	// drainEvery is the time between two checks whether the journal has records.
	drainEvery = 250 * time.Millisecond
	// drainRetry is the pause after a failed replay.
	drainRetry = 2 * time.Second
	// drainRest is the ratio of rest to work of a replay: with three parts of rest it
	// uses a quarter of the stream's throughput.
	drainRest = 3
	// maxDrainRest bounds one rest.
	maxDrainRest = time.Second
	// streamTimeout is how long a batch waits for the stream if there is a journal.
	streamTimeout = time.Second
	// finishTimeout bounds the last replay of a stopping collector.
	finishTimeout = 3 * time.Second
)

var errAway = errors.New("the stream does not answer")

// durable is the Sink of a collector with a journal. A batch goes to the stream or, if
// that fails, to the journal, which is replayed when the stream answers again. A batch
// whose command failed may be in the stream all the same; then its clicks are there
// twice, with the same ids.
type durable struct {
	stream Sink
	// missing returns the name of the dependency that the stream lacks, or "".
	missing func(context.Context) string
	journal *journal.Journal
	// away is true for a shard whose last batch failed. Its batches go to the journal
	// until a check finds that the stream answers.
	away    []atomic.Bool
	metrics *metrics
	log     *slog.Logger
}

// Append makes a batch durable in the stream or in the journal.
func (d *durable) Append(ctx context.Context, shard int, batch []byte, n int) error {
	err := errAway
	if !d.away[shard].Load() {
		stream, cancel := context.WithTimeout(ctx, streamTimeout)
		err = d.stream.Append(stream, shard, batch, n)
		cancel()
		if err == nil {
			return nil
		}
		d.away[shard].Store(true)
	}
	if journalErr := d.journal.Append(ctx, batch, n); journalErr != nil {
		return errors.Join(err, journalErr)
	}
	d.metrics.journaled.Add(float64(n))
	return nil
}

// run replays the journal until ctx ends: records of an earlier process and records of
// outages. New clicks do not wait for it.
func (d *durable) run(ctx context.Context) {
	failing := false
	for pause := drainEvery; ; {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = drainEvery
		// A broken journal tries its disk here and not during a request.
		_ = d.journal.Try()
		// A drain that fails leaves a new segment, so check the stream first.
		waiting := d.journal.Stats().Segments > 0
		if !waiting && !d.anyAway() || d.missing(ctx) != "" {
			continue
		}
		for shard := range d.away {
			d.away[shard].Store(false)
		}
		if !waiting {
			continue
		}
		err := d.journal.Drain(ctx, d.replay)
		switch {
		case err == nil:
			failing = false
			d.log.LogAttrs(ctx, slog.LevelInfo, "the journal is replayed")
		case ctx.Err() == nil:
			pause = drainRetry
			if !failing {
				failing = true
				d.log.LogAttrs(ctx, slog.LevelWarn, "clicks wait in the journal: the stream does not take them", slog.Any("error", err))
			}
		}
	}
}

func (d *durable) anyAway() bool {
	for shard := range d.away {
		if d.away[shard].Load() {
			return true
		}
	}
	return false
}

// replay appends one record of the journal to the stream and then rests.
func (d *durable) replay(ctx context.Context, batch []byte, n int) error {
	began := time.Now()
	if err := d.append(ctx, batch, n); err != nil {
		return err
	}
	rest := time.NewTimer(min(drainRest*time.Since(began), maxDrainRest))
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-rest.C:
		return nil
	}
}

// append moves one record of the journal to the shards of its clicks. The number of
// shards may have changed since it was written.
func (d *durable) append(ctx context.Context, batch []byte, n int) error {
	for shard, part := range d.split(batch, n) {
		if part.n == 0 {
			continue
		}
		flush, cancel := context.WithTimeout(ctx, flushTimeout)
		err := d.stream.Append(flush, shard, part.clicks, part.n)
		cancel()
		if err != nil {
			return err
		}
	}
	d.metrics.replayed.Add(float64(n))
	return nil
}

// finish replays the journal after the last request, so that a collector that does not
// start again leaves no clicks on its disk if possible. The next start replays the rest.
func (d *durable) finish(ctx context.Context) {
	if d.journal.Stats().Clicks == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if err := d.journal.Drain(ctx, d.append); err != nil {
		d.log.LogAttrs(ctx, slog.LevelWarn, "clicks stay in the journal until this collector starts again",
			slog.Int64("clicks", d.journal.Stats().Clicks), slog.Any("error", err))
	}
}

type shardPart struct {
	clicks []byte
	n      int
}

// split divides a batch by the shards of its clicks. Records that are not clicks go to
// the first shard, and ingestion makes dead letters of them.
func (d *durable) split(batch []byte, n int) []shardPart {
	shards := len(d.away)
	if shards == 1 {
		return []shardPart{{batch, n}}
	}
	parts := make([]shardPart, shards)
	for rest := batch; len(rest) > 0; {
		shard, size := 0, len(rest)
		if field, kind, tag := protowire.ConsumeTag(rest); tag > 0 && field == batchClicks && kind == protowire.BytesType {
			if click, used := protowire.ConsumeBytes(rest[tag:]); used > 0 {
				size = tag + used
				if id, ok := idOf(click); ok {
					shard = clickstream.Shard(id, shards)
				}
			}
		}
		p := &parts[shard]
		p.clicks = append(p.clicks, rest[:size]...)
		p.n++
		rest = rest[size:]
	}
	return parts
}

// idOf returns the id of a marshalled edge.v1.Click, its first field.
func idOf(click []byte) (affiliate.ClickID, bool) {
	field, kind, n := protowire.ConsumeTag(click)
	if n < 0 || field != clickID || kind != protowire.BytesType {
		return affiliate.ClickID{}, false
	}
	raw, n := protowire.ConsumeBytes(click[n:])
	if n < 0 {
		return affiliate.ClickID{}, false
	}
	return affiliate.IDFromBytes[affiliate.Click](raw)
}
