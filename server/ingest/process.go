package ingest

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/clickstream"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
)

// process stores the clicks of entries, and the records that cannot be stored as clicks (dead records). It
// acknowledges the entries.
// If ctx ends before everything is stored, the entries are not acknowledged and will be
// read again.
func (i *Ingester) process(ctx context.Context, entries []clickstream.Entry) {
	batch := make([]*decodedEntry, len(entries))
	for n, entry := range entries {
		p := decodeEntry(entry, latestReceipt(i.deps.StoredAt(clickstream.EntryTime(entry.ID)), i.deps.Now()))
		i.metrics.fromFuture.Add(float64(p.fromFuture))
		batch[n] = &p
	}
	ctx, endSpans := i.startSpans(ctx, batch)
	defer endSpans()
	if i.resolve(ctx, batch) != nil {
		return
	}
	i.markUnique(ctx, batch)
	if i.storeAll(ctx, batch) != nil || i.storeDead(ctx, batch) != nil {
		return
	}
	i.acknowledge(ctx, batch)
}

// markUnique marks the clicks that are the first click of their visitor within 24 hours.
// It must run before the clicks are stored, because the field Unique of a stored click
// does not change.
func (i *Ingester) markUnique(ctx context.Context, batch []*decodedEntry) {
	if i.deps.Visitors == nil {
		return
	}
	var clicks []*click.Click
	for _, p := range batch {
		for n := range p.records {
			clicks = append(clicks, &p.records[n].click)
		}
	}
	i.metrics.uniqueUnknown.Add(float64(i.deps.Visitors.MarkUnique(ctx, clicks)))
}

// storeAll stores all records of the batch. If the database rejects the data of the batch,
// storeAll stores each entry separately, so that an invalid entry does not affect the
// others. It returns an error only if ctx ended.
func (i *Ingester) storeAll(ctx context.Context, batch []*decodedEntry) error {
	total := 0
	for _, p := range batch {
		total += len(p.records)
	}
	clicks := make([]click.Click, 0, total)
	now := i.deps.Now()
	for _, p := range batch {
		for n := range p.records {
			p.records[n].click.CreatedAt = now
			clicks = append(clicks, p.records[n].click)
		}
	}
	err := i.retry(ctx, func(ctx context.Context) error { return i.put(ctx, clicks) })
	if !rejectsData(err) {
		return err
	}
	i.metrics.rejections.Inc()
	for _, p := range batch {
		if err := i.storeEntry(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// storeEntry stores the records of one entry together. If the database rejects the data in
// maxDataAttempts attempts, storeEntry stores the records one by one. It does not use the
// delivery count of the stream as the number of attempts, because that count also grows
// when an entry is read and not processed.
func (i *Ingester) storeEntry(ctx context.Context, p *decodedEntry) error {
	clicks := make([]click.Click, len(p.records))
	for n, r := range p.records {
		clicks[n] = r.click
	}
	for attempt := 1; ; attempt++ {
		err := i.retry(ctx, func(ctx context.Context) error { return i.put(ctx, clicks) })
		if !rejectsData(err) {
			return err
		}
		i.metrics.rejections.Inc()
		if attempt == maxDataAttempts {
			return i.storeEach(ctx, p)
		}
		// A retry can succeed, for example if a table partition was missing for a short
		// time.
		if !pause(ctx, i.cfg.FirstDelay<<attempt) {
			return ctx.Err()
		}
	}
}

// storeEach stores the records of an entry one by one. A record that the database rejects
// becomes a dead record.
func (i *Ingester) storeEach(ctx context.Context, p *decodedEntry) error {
	for _, r := range p.records {
		err := i.retry(ctx, func(ctx context.Context) error { return i.put(ctx, []click.Click{r.click}) })
		switch {
		case rejectsData(err):
			p.dead = append(p.dead, deadRecord{id: r.click.ID, reason: click.Rejected, raw: r.raw, cause: err})
		case err != nil:
			return err
		}
	}
	return nil
}

func (i *Ingester) put(ctx context.Context, batch []click.Click) error {
	if len(batch) == 0 {
		return nil
	}
	began := i.deps.Now()
	if err := clicks.Store(ctx, i.deps.DB, batch); err != nil {
		return err
	}
	i.metrics.observeBatch(len(batch), i.deps.Now().Sub(began))
	return nil
}

// resolve looks up the targets (programme and participant) of clicks that the collector could not
// look up. A record whose target does not exist becomes a dead record.
func (i *Ingester) resolve(ctx context.Context, batch []*decodedEntry) error {
	var sources []click.Source
	seen := make(map[click.Source]bool)
	for _, p := range batch {
		for _, r := range p.records {
			if r.source != nil && !seen[*r.source] {
				seen[*r.source] = true
				sources = append(sources, *r.source)
			}
		}
	}
	if len(sources) == 0 {
		return nil
	}
	found, err := i.lookUp(ctx, sources)
	if err != nil {
		return err
	}
	for _, p := range batch {
		p.records = slices.DeleteFunc(p.records, func(r record) bool {
			if r.source == nil {
				return false
			}
			reason := found[*r.source].DeadReason
			if reason != "" {
				p.dead = append(p.dead, deadRecord{id: r.click.ID, reason: reason, raw: r.raw})
			}
			return reason != ""
		})
		for n := range p.records {
			if r := &p.records[n]; r.source != nil {
				r.resolve(found[*r.source].Target)
			}
		}
	}
	return nil
}

// lookUp finds the target of each source (public key and referral code). If the database rejects
// the data of the sources, lookUp looks up each source separately.
func (i *Ingester) lookUp(ctx context.Context, sources []click.Source) (map[click.Source]click.Resolution, error) {
	found := make(map[click.Source]click.Resolution, len(sources))
	query := func(batch []click.Source) error {
		return i.retry(ctx, func(ctx context.Context) error {
			resolutions, err := clicks.Resolve(ctx, i.deps.DB, batch)
			if err != nil {
				return err
			}
			for n, source := range batch {
				found[source] = resolutions[n]
			}
			return nil
		})
	}
	err := query(sources)
	if !rejectsData(err) {
		return found, err
	}
	for _, source := range sources {
		err := query([]click.Source{source})
		switch {
		case rejectsData(err):
			found[source] = click.Resolution{DeadReason: click.Rejected}
		case err != nil:
			return nil, err
		}
	}
	return found, nil
}

// storeDead writes all dead records with their reasons to the table of dead letters.
// Before that it writes the malformed and the rejected records to the dead-letter stream.
func (i *Ingester) storeDead(ctx context.Context, batch []*decodedEntry) error {
	var invalid []clickstream.DeadLetter
	var letters []click.DeadLetter
	now := i.deps.Now()
	for _, p := range batch {
		for _, l := range p.dead {
			if l.reason == click.Malformed || l.reason == click.Rejected {
				invalid = append(invalid, clickstream.DeadLetter{Entry: p.entry.ID, Reason: string(l.reason), Record: l.raw})
				i.deps.Log.Error("a click cannot be stored", "click", l.id.String(), "entry", p.entry.ID, "shard", p.entry.Shard, "reason", l.reason, "error", l.cause)
			}
			if l.id.IsZero() {
				l.id = affiliate.NewID[affiliate.ClickID](now)
			}
			letters = append(letters, click.DeadLetter{ID: l.id, Reason: l.reason, Record: l.raw, At: now})
		}
	}
	if len(letters) == 0 {
		return nil
	}
	if err := i.retry(ctx, func(ctx context.Context) error { return i.deps.Reader.DeadLetter(ctx, invalid) }); err != nil {
		return err
	}
	err := i.retry(ctx, func(ctx context.Context) error { return clicks.StoreDeadLetters(ctx, i.deps.DB, letters) })
	if rejectsData(err) {
		// A retry would fail again and would block all other clicks. The malformed and
		// rejected records are already in the dead-letter stream.
		i.deps.Log.Error("the database rejected dead letters", "letters", len(letters), "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	for _, l := range letters {
		i.metrics.dead.WithLabelValues(string(l.Reason)).Inc()
	}
	return nil
}

// acknowledge acknowledges the entries of a batch after their clicks were committed. If
// an acknowledgement fails, the entries are read and stored again, which changes nothing.
func (i *Ingester) acknowledge(ctx context.Context, batch []*decodedEntry) {
	shards := make(map[int][]string)
	for _, p := range batch {
		shards[p.entry.Shard] = append(shards[p.entry.Shard], p.entry.ID)
	}
	for shard, ids := range shards {
		if err := i.deps.Reader.Ack(ctx, shard, ids...); err != nil {
			i.deps.Log.Warn("entries could not be acknowledged and will be read again", "shard", shard, "entries", len(ids), "error", err)
			continue
		}
		i.metrics.acknowledged.Add(float64(len(ids)))
	}
}

// retry calls the given function until it succeeds, the database rejects the data, or ctx
// ends.
func (i *Ingester) retry(ctx context.Context, call func(context.Context) error) error {
	delay := i.cfg.FirstDelay
	var warned time.Time
	for {
		attempt, cancel := context.WithTimeout(ctx, storeTimeout)
		err := call(attempt)
		cancel()
		if err == nil || rejectsData(err) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i.metrics.unreachable.Inc()
		if now := i.deps.Now(); now.Sub(warned) >= time.Minute {
			warned = now
			i.deps.Log.Warn("clicks cannot be stored now and will be retried", "error", err)
		}
		if !pause(ctx, delay) {
			return ctx.Err()
		}
		delay = min(2*delay, maxDelay)
	}
}

func rejectsData(err error) bool {
	var rejection *clicks.DataError
	return errors.As(err, &rejection)
}

const maxBatchSpans = 100

// startSpans starts a span for each click whose request has a recorded trace, in that trace, but
// at most maxBatchSpans. The statements of the batch belong to the first span. The other spans
// have a link to the first span. The returned function ends the spans.
func (i *Ingester) startSpans(ctx context.Context, batch []*decodedEntry) (context.Context, func()) {
	batchCtx := ctx
	var started []trace.Span
	for _, p := range batch {
		for _, r := range p.records {
			parent, ok := spans.FromReference(ctx, r.trace)
			if !ok || len(started) == maxBatchSpans {
				continue
			}
			options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
			if len(started) > 0 {
				options = append(options, trace.WithLinks(trace.LinkFromContext(batchCtx)))
			}
			clickCtx, span := i.deps.Tracer.Start(parent, "store click", options...)
			spans.SetClick(clickCtx, r.click.ID)
			if len(started) == 0 {
				batchCtx = clickCtx //nolint:fatcontext // set once
			}
			started = append(started, span)
		}
	}
	return batchCtx, func() {
		for _, span := range started {
			span.End()
		}
	}
}
