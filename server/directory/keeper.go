// Package directory keeps the edge directory up to date. The edge directory is the copy
// of public keys, referral codes, short links and signing keys that collectors read, so
// that they need no database.
//
//	change ─commit─┬▶ SyncNow, before the response ─────────┐
//	               └▶ job SyncDirectory ─▶ Worker ──────────┤
//	                                                        ├─▶ Sink (writes if newer)
//	start, marker missing, after an outage, hourly ─▶ Keep ─┘
//
// Every write carries a version. A writer takes the version first and then reads the
// state that it writes. The sink keeps the entry with the highest version. SyncNow and
// the job take their version after the change was committed. A writer with a higher
// version took it even later, so it has read the change too. Therefore the sink ends with
// the newest state, in whatever order the writers write.
//
// The package guarantees that a change is in the directory before the call that made it
// returns, if the database and the directory respond within 100 ms. Otherwise the job of
// the change writes it. If the directory has lost its data, Keep fills it again and marks
// it as complete only after that. If a job fails in all its attempts, the next sweep
// writes its change. No more than one page of entries is in memory at a time.
//
// The package guarantees nothing while the directory cannot be reached. Collectors then
// use their caches, or accept clicks without resolving them.
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
	// defaultCheckInterval is the time between two checks of the marker.
	defaultCheckInterval = 500 * time.Millisecond
	// defaultSweepInterval is the time between two sweeps, which write all entries. A sweep
	// repairs what no job repairs: the change of a job that failed in all its attempts, a
	// write that Redis lost in a failover, and a key that has expired since it was
	// written.
	defaultSweepInterval = time.Hour
	// pageSize is the number of keys, or of codes with their links, in one read and
	// write.
	pageSize = 1000
)

// Config configures a Keeper.
type Config struct {
	// SigningKeys are the public keys that verify access tokens. nil means that Keep
	// writes no signing keys.
	SigningKeys *edgev1.SigningKeys
	// Now is the clock. It decides whether a public key has expired and whether a promo
	// code is usable.
	Now func() time.Time
	// Log receives rebuilds and failures.
	Log *slog.Logger
	// Check is the time between two checks of the marker; 0 means 500 ms.
	Check time.Duration
	// Sweep is the time between two writes of all entries; 0 means an hour.
	Sweep time.Duration
}

// Keeper copies entries from the database (Source) to the edge directory (Sink).
type Keeper[R any, B Batch] struct {
	source Source
	sink   Sink[R, B]
	cfg    Config
	// SyncNow does nothing before pausedUntil (Unix nanoseconds).
	pausedUntil atomic.Int64
}

// New returns a Keeper. Several processes may each run a Keeper on the same directory.
func New[R any, B Batch](source Source, sink Sink[R, B], cfg Config) *Keeper[R, B] {
	if cfg.Check == 0 {
		cfg.Check = defaultCheckInterval
	}
	if cfg.Sweep == 0 {
		cfg.Sweep = defaultSweepInterval
	}
	return &Keeper[R, B]{source: source, sink: sink, cfg: cfg}
}

// Keep checks and repairs the directory until ctx ends. It sweeps at the start,
// because changes may have been lost before.
func (k *Keeper[R, B]) Keep(ctx context.Context) error {
	var (
		swept  time.Time // zero if a sweep is due at the next check
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
		result, err := k.check(ctx, time.Since(swept) >= k.cfg.Sweep)
		switch {
		case err != nil:
			if !failed && !errors.Is(err, context.Canceled) {
				k.cfg.Log.ErrorContext(ctx, "the edge directory cannot be kept up to date", "error", err)
			}
			failed, swept = true, time.Time{}
		case result == rebuildReplaced:
			// Another keeper has begun a rebuild, which replaced this one. A new rebuild at
			// once would replace the other one in turn. Give the other keeper as much time
			// as this rebuild took.
			took := time.Since(began)
			wait = took + rand.N(took+k.cfg.Check) //nolint:gosec // a random delay, not a secret
		default:
			if failed {
				k.cfg.Log.InfoContext(ctx, "the edge directory is kept up to date again")
			}
			failed = false
			if result == allWritten {
				swept = time.Now()
			}
		}
	}
}

// outcome is the result of one check.
type outcome int

const (
	nothingToDo     outcome = iota // the directory is complete and no sweep was due
	allWritten                     // all entries were written
	rebuildReplaced                // all entries were written, but another rebuild has begun
)

// check rebuilds the directory if its marker is missing. If the marker exists and sweep
// is set, check writes all entries.
func (k *Keeper[R, B]) check(ctx context.Context, sweep bool) (outcome, error) {
	complete, err := k.sink.Complete(ctx)
	if err != nil {
		return nothingToDo, err
	}
	if complete {
		if !sweep {
			return nothingToDo, nil
		}
		return allWritten, k.writeAll(ctx)
	}
	rebuild, err := k.sink.BeginRebuild(ctx)
	if err != nil {
		return nothingToDo, err
	}
	if err := k.writeAll(ctx); err != nil {
		return nothingToDo, err
	}
	marked, err := k.sink.MarkComplete(ctx, rebuild)
	if err != nil {
		return nothingToDo, err
	}
	if !marked {
		return rebuildReplaced, nil
	}
	k.cfg.Log.InfoContext(ctx, "the edge directory has been rebuilt")
	return allWritten, nil
}

// writeAll writes all entries, page by page. Each page has a version of its own.
func (k *Keeper[R, B]) writeAll(ctx context.Context) error {
	if k.cfg.SigningKeys != nil {
		err := k.writePage(ctx, func(version int64, batch B) error {
			batch.PutSigningKeys(version, k.cfg.SigningKeys)
			return nil
		})
		if err != nil {
			return err
		}
	}
	var key affiliate.APIKey
	for more := true; more; {
		err := k.writePage(ctx, func(version int64, batch B) error {
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
	return k.writeCodes(ctx, func() ([]affiliate.ReferralTarget, error) {
		page, err := k.source.ReferralTargetsAfter(ctx, target, k.cfg.Now(), pageSize)
		if len(page) > 0 {
			target = page[len(page)-1]
		}
		return page, err
	})
}

// writeCodes writes the codes that next returns, and their links, page by page. It stops after
// the first page that has fewer entries than pageSize.
func (k *Keeper[R, B]) writeCodes(ctx context.Context, next func() ([]affiliate.ReferralTarget, error)) error {
	for more := true; more; {
		err := k.writePage(ctx, func(version int64, batch B) error {
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

// writePage writes one page of entries in a batch of its own.
func (k *Keeper[R, B]) writePage(ctx context.Context, read func(version int64, batch B) error) error {
	return k.write(ctx, k.sink.Batch(), read)
}

// write takes a version, calls read to add entries with this version to the batch, and
// writes the batch.
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
