// Package directory keeps the edge directory up to date: what collectors know of
// public keys, referral codes, short links and signing keys without a database.
//
//	change ─commit─┬▶ SyncNow, before the response ─┐
//	               └▶ job SyncDirectory ─▶ Worker ──┤
//	                                                ├─▶ Sink (set if newer)
//	marker gone, start, outage, hourly ─▶ Keep ─────┘
//
// Every write carries a version that was taken before its state was read, and the
// sink keeps the highest. SyncNow and the job take their version after the commit of
// the change. A writer with a higher version took it later, so it has read the change
// too. Whatever the order of the writers, the sink ends with the newest state.
//
// Guarantees: a change is in the directory before the call that made it returns, if
// the database and the directory answer within 100 ms; otherwise with the change's
// job. A directory that lost its data is filled again and is marked complete only
// after that. The next sweep does the work of a job that was given up. Memory is
// bounded by one page.
//
// Not guaranteed: anything while the directory cannot be reached. The edge then works
// from its cache or accepts clicks unresolved.
package directory

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

const (
	// defaultCheck is the time between two checks of the marker.
	defaultCheck = 500 * time.Millisecond
	// defaultSweep bounds the life of an error that no job repairs: a job that was
	// given up, a write that Redis lost in a failover, a key that expired.
	defaultSweep = time.Hour
	// pageSize is the number of keys, or of codes with their links, in one read and
	// write.
	pageSize = 1000
)

// Config configures a Keeper.
type Config struct {
	// SigningKeys are the public halves of the access token keys; nil writes none.
	SigningKeys *edgev1.SigningKeys
	// Now is the clock that decides whether a key has ended.
	Now func() time.Time
	// Log receives rebuilds and failures.
	Log *slog.Logger
	// Check is the time between two checks of the marker; 0 means 500 ms.
	Check time.Duration
	// Sweep is the time between two writes of all entries; 0 means an hour.
	Sweep time.Duration
}

// Keeper copies the truth from a Source to a Sink.
type Keeper[R any, B Batch] struct {
	source Source
	sink   Sink[R, B]
	cfg    Config
	// SyncNow does nothing before pausedUntil (Unix nanoseconds).
	pausedUntil atomic.Int64
}

// New makes a Keeper. Several processes may run one each.
func New[R any, B Batch](source Source, sink Sink[R, B], cfg Config) *Keeper[R, B] {
	if cfg.Check == 0 {
		cfg.Check = defaultCheck
	}
	if cfg.Sweep == 0 {
		cfg.Sweep = defaultSweep
	}
	return &Keeper[R, B]{source: source, sink: sink, cfg: cfg}
}

// Keep checks and repairs the directory until ctx ends. It sweeps at the start,
// because changes may have been lost before.
func (k *Keeper[R, B]) Keep(ctx context.Context) error {
	var (
		swept  time.Time // zero: as soon as possible
		failed bool      // the outage has been logged
	)
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = k.cfg.Check
		began := time.Now()
		whole, err := k.look(ctx, time.Since(swept) >= k.cfg.Sweep)
		switch {
		case err != nil:
			if !failed && !errors.Is(err, context.Canceled) {
				k.cfg.Log.ErrorContext(ctx, "the edge directory cannot be kept up to date", "error", err)
			}
			failed, swept = true, time.Time{}
		case whole == lost:
			// Another keeper's rebuild has replaced this one. A new attempt would replace
			// that in turn, so leave it the time that this one took.
			took := time.Since(began)
			wait = took + rand.N(took+k.cfg.Check) //nolint:gosec // spreads keepers, no secret
		default:
			if failed {
				k.cfg.Log.InfoContext(ctx, "the edge directory is kept up to date again")
			}
			failed = false
			if whole == filled {
				swept = time.Now()
			}
		}
	}
}

// outcome is the result of one check.
type outcome int

const (
	untouched outcome = iota // the directory is complete and no sweep was due
	filled                   // all entries were written
	lost                     // all entries were written, but another rebuild has begun
)

// look rebuilds a directory that has no marker. It sweeps a complete one if sweep is
// set.
func (k *Keeper[R, B]) look(ctx context.Context, sweep bool) (outcome, error) {
	complete, err := k.sink.Complete(ctx)
	if err != nil {
		return untouched, err
	}
	if complete {
		if !sweep {
			return untouched, nil
		}
		return filled, k.fill(ctx)
	}
	rebuild, err := k.sink.BeginRebuild(ctx)
	if err != nil {
		return untouched, err
	}
	if err := k.fill(ctx); err != nil {
		return untouched, err
	}
	whole, err := k.sink.MarkComplete(ctx, rebuild)
	if err != nil {
		return untouched, err
	}
	if !whole {
		return lost, nil
	}
	k.cfg.Log.InfoContext(ctx, "the edge directory has been rebuilt")
	return filled, nil
}

// fill writes all entries, page by page. Each page has a version of its own.
func (k *Keeper[R, B]) fill(ctx context.Context) error {
	if k.cfg.SigningKeys != nil {
		err := k.page(ctx, func(version int64, batch B) error {
			batch.PutSigningKeys(version, k.cfg.SigningKeys)
			return nil
		})
		if err != nil {
			return err
		}
	}
	var key affiliate.APIKey
	for more := true; more; {
		err := k.page(ctx, func(version int64, batch B) error {
			keys, err := k.source.PublicKeysAfter(ctx, key, pageSize)
			if err != nil {
				return err
			}
			for _, target := range keys {
				key = target.APIKey
			}
			k.putKeys(version, batch, keys)
			more = len(keys) == pageSize
			return nil
		})
		if err != nil {
			return err
		}
	}
	var target affiliate.ReferralTarget
	return k.codes(ctx, func() ([]affiliate.ReferralTarget, error) {
		page, err := k.source.ReferralTargetsAfter(ctx, target, k.cfg.Now(), pageSize)
		if len(page) > 0 {
			target = page[len(page)-1]
		}
		return page, err
	})
}

// codes writes the pages that next reads, with their links, until a page is short.
func (k *Keeper[R, B]) codes(ctx context.Context, next func() ([]affiliate.ReferralTarget, error)) error {
	for more := true; more; {
		err := k.page(ctx, func(version int64, batch B) error {
			targets, err := next()
			if err != nil {
				return err
			}
			putTargets(version, batch, targets)
			more = len(targets) == pageSize
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// page writes a batch of many entries.
func (k *Keeper[R, B]) page(ctx context.Context, read func(version int64, batch B) error) error {
	return k.write(ctx, k.sink.Batch(), read)
}

// write takes a version, lets read collect entries under it, and writes them.
func (k *Keeper[R, B]) write(ctx context.Context, batch B, read func(version int64, batch B) error) error {
	version, err := k.source.DirectoryVersion(ctx)
	if err != nil {
		return err
	}
	if err := read(version, batch); err != nil {
		return err
	}
	return batch.Flush(ctx)
}
