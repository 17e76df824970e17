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

// A drain moves all records of the journal to the stream (replay) and deletes them from
// the journal. A record of the journal contains a batch of clicks.
const (
	// drainInterval is the time between two checks whether the journal has records.
	drainInterval = 250 * time.Millisecond
	// drainRetry is the pause after a failed replay.
	drainRetry = 2 * time.Second
	// drainPauseRatio is the ratio of pause to work during a replay. With a ratio of 3 the
	// replay uses a quarter of the stream's throughput.
	drainPauseRatio = 3
	// maxDrainPause bounds each of these pauses.
	maxDrainPause = time.Second
	// streamTimeout bounds the write of a batch to the stream. If the write takes longer,
	// the batch is written to the journal.
	streamTimeout = time.Second
	// finalDrainTimeout bounds the replay at the end of the shutdown.
	finalDrainTimeout = 3 * time.Second
)

var errStreamUnavailable = errors.New("the stream is not available")

// journalSink is the Sink of a collector with a journal. If a batch cannot be written to
// the stream, it is written to the journal, and replayed when the stream is available
// again. If the stream stored the batch although the write failed, its clicks are in the
// stream twice, with the same ids.
type journalSink struct {
	stream Sink
	// missingDependency returns the name of the dependency that cannot be reached, or "" if
	// the stream works.
	missingDependency func(context.Context) string
	journal           *journal.Journal
	// unavailable has a flag for each shard, which is true if the last batch of the shard failed. Further batches of
	// the shard go to the journal until the method run finds that the stream is available again.
	unavailable []atomic.Bool
	metrics     *metrics
	log         *slog.Logger
}

func (s *journalSink) Append(ctx context.Context, shard int, batch []byte, n int) error {
	err := errStreamUnavailable
	if !s.unavailable[shard].Load() {
		streamCtx, cancel := context.WithTimeout(ctx, streamTimeout)
		err = s.stream.Append(streamCtx, shard, batch, n)
		cancel()
		if err == nil {
			return nil
		}
		s.unavailable[shard].Store(true)
	}
	if journalErr := s.journal.Append(ctx, batch, n); journalErr != nil {
		return errors.Join(err, journalErr)
	}
	s.metrics.journaled.Add(float64(n))
	return nil
}

// run replays the journal whenever it contains records, from an earlier process or an
// outage of the stream, until ctx ends. New clicks do not wait for the replay.
func (s *journalSink) run(ctx context.Context) {
	failing := false
	for pause := drainInterval; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = drainInterval
		// Let a broken journal check its disk here, so that no request has to wait for
		// the check.
		_ = s.journal.Recover()
		// Check the stream before the drain, because each failed drain ends the current
		// segment (file) of the journal, so that the next batch creates one more file.
		hasSegments := s.journal.Stats().Segments > 0
		if !hasSegments && !s.anyUnavailable() || s.missingDependency(ctx) != "" {
			continue
		}
		for shard := range s.unavailable {
			s.unavailable[shard].Store(false)
		}
		if !hasSegments {
			continue
		}
		err := s.journal.Drain(ctx, s.replayAndPause)
		switch {
		case err == nil:
			failing = false
			s.log.LogAttrs(ctx, slog.LevelInfo, "the journal was replayed completely")
		case ctx.Err() == nil:
			pause = drainRetry
			if !failing {
				failing = true
				s.log.LogAttrs(ctx, slog.LevelWarn, "clicks wait in the journal because the stream does not accept them", slog.Any("error", err))
			}
		}
	}
}

func (s *journalSink) anyUnavailable() bool {
	for shard := range s.unavailable {
		if s.unavailable[shard].Load() {
			return true
		}
	}
	return false
}

// replayAndPause moves one batch, which can be several joined records, to the stream and
// then pauses, so that most of the stream's throughput is left to new clicks.
func (s *journalSink) replayAndPause(ctx context.Context, batch []byte, n int) error {
	began := time.Now()
	if err := s.replayBatch(ctx, batch, n); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(drainPauseRatio*time.Since(began), maxDrainPause)):
		return nil
	}
}

// replayBatch moves the clicks of one batch from the journal to their shards. A batch may
// contain clicks of several shards, because the journal joins records, and because the
// number of shards may have changed after the journal stored the batch.
func (s *journalSink) replayBatch(ctx context.Context, batch []byte, n int) error {
	for shard, part := range s.split(batch, n) {
		if part.n == 0 {
			continue
		}
		flushCtx, cancel := context.WithTimeout(ctx, flushTimeout)
		err := s.stream.Append(flushCtx, shard, part.clicks, part.n)
		cancel()
		if err != nil {
			return err
		}
	}
	s.metrics.replayed.Add(float64(n))
	return nil
}

// finalDrain replays the journal after the last request, because the collector may never
// be started again. If it fails, the next start replays the remaining records.
func (s *journalSink) finalDrain(ctx context.Context) {
	if s.journal.Stats().Clicks == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finalDrainTimeout)
	defer cancel()
	if err := s.journal.Drain(ctx, s.replayBatch); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "clicks stay in the journal until this collector starts again",
			slog.Int64("clicks", s.journal.Stats().Clicks), slog.Any("error", err))
	}
}

type shardPart struct {
	clicks []byte
	n      int
}

// split divides a batch by the shards of its clicks. It puts data that cannot be read as
// clicks into the first shard. The core stores such data as a dead letter.
func (s *journalSink) split(batch []byte, n int) []shardPart {
	shards := len(s.unavailable)
	if shards == 1 {
		return []shardPart{{batch, n}}
	}
	parts := make([]shardPart, shards)
	for rest := batch; len(rest) > 0; {
		shard, size := 0, len(rest)
		if field, kind, tag := protowire.ConsumeTag(rest); tag > 0 && field == batchFieldClicks && kind == protowire.BytesType {
			if click, used := protowire.ConsumeBytes(rest[tag:]); used > 0 {
				size = tag + used
				if id, ok := clickIDOf(click); ok {
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

// clickIDOf returns the id of a marshalled edge.v1.Click. The id is its first field.
func clickIDOf(click []byte) (affiliate.ClickID, bool) {
	field, kind, n := protowire.ConsumeTag(click)
	if n < 0 || field != clickFieldID || kind != protowire.BytesType {
		return affiliate.ClickID{}, false
	}
	raw, n := protowire.ConsumeBytes(click[n:])
	if n < 0 {
		return affiliate.ClickID{}, false
	}
	return affiliate.IDFromBytes[affiliate.ClickID](raw)
}
