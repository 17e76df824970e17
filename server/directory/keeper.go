// Package directory keeps the edge directory up to date. The edge directory is a copy of
// public keys, referral codes, short links and signing keys in Redis. Collectors read the
// copy and therefore need no access to the database. The directory also has the fingerprints
// of the hash keys, with which collectors compare their own hash keys.
//
//	change is committed ─┬─▶ SyncNow, before the response ──┐
//	                     └─▶ job SyncDirectory ─▶ Worker ───┼─▶ edge directory
//	                                                        │
//	at the start, every hour, after an outage,              │
//	and if the directory's data is lost ─▶ Keep ────────────┘
//
// Keep writes all entries in a sweep or a rebuild. A sweep runs while the directory is
// complete. A rebuild runs if the directory has lost data: the directory contains a
// marker, which is set after all entries have been written and is lost together with the
// data.
//
// Several writers can write the same entry in any order. The directory still ends with
// the newest state, because each write has a version and the directory keeps the entry with
// the highest version. A writer first takes a new version and then reads the state that
// it writes. SyncNow and the job take their versions after the change was committed, so
// they read the change. A writer with a higher version has taken its version later, so it
// has read the change too.
//
// The package guarantees that a change is in the directory before the call that made the
// change returns, if the database and the directory respond within 100 ms. Otherwise the
// job of the change writes the change. If the job fails in all its attempts, the next
// sweep writes the change. If the directory has lost its data, Keep writes all entries
// and then sets the marker. At most one page of entries is in memory at a time.
//
// The package guarantees nothing while the directory cannot be reached. Collectors then
// use their caches, or accept clicks without looking up the link.
//
// Each region has a directory of its own (Regions). A change reaches the directories of other
// regions with its job, usually within a second. If a region cannot be reached, a sweep writes
// the change when the region is back.
package directory

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	edge "github.com/tributary-hq/tributary/storage/directory"

	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	directories "github.com/tributary-hq/tributary/storage/postgres/directory"
)

const (
	// defaultCheckInterval is the time between two checks of the marker.
	defaultCheckInterval = 500 * time.Millisecond
	// defaultSweepInterval is the time between two sweeps. A sweep writes all entries. It
	// repairs entries that no job repairs: the change of a job that failed in all its
	// attempts, a write that Redis lost in a failover, and a key that has expired after
	// it was written.
	defaultSweepInterval = time.Hour
	// pageSize is the maximum number of keys, or of codes with their links, that are read
	// and written at a time.
	pageSize = 1000
)

// Config configures a Keeper.
type Config struct {
	// SigningKeys are the public keys with which collectors verify access tokens. nil
	// means that Keep writes no signing keys.
	SigningKeys *edgev1.SigningKeys
	// HashKeys are the fingerprints with which collectors compare their first hash key. nil
	// means that Keep writes no fingerprints.
	HashKeys *edgev1.HashKeys
	// Now is the clock. It decides whether a public key has expired and whether a promo
	// code is usable.
	Now func() time.Time
	// Log is the logger for rebuilds and failures.
	Log *slog.Logger
	// Check is the time between two checks of the marker; 0 means 500 ms.
	Check time.Duration
	// Sweep is the time between two sweeps; 0 means an hour.
	Sweep time.Duration
}

// Keeper copies entries from the database to the edge directory.
type Keeper struct {
	db     *postgres.DB
	writer *edge.Writer
	cfg    Config
	// pausedUntil is the time in Unix nanoseconds until which SyncNow and the writes of
	// changes to another region do nothing.
	pausedUntil atomic.Int64
	// sweepDue is true if syncFar has not written a change, so that a sweep must write it.
	sweepDue atomic.Bool
}

// New returns a Keeper. Several processes may each run a Keeper on the same directory.
func New(db *postgres.DB, writer *edge.Writer, cfg Config) *Keeper {
	cfg.Check, cfg.Sweep = cmp.Or(cfg.Check, defaultCheckInterval), cmp.Or(cfg.Sweep, defaultSweepInterval)
	return &Keeper{db: db, writer: writer, cfg: cfg}
}

// Keep checks and repairs the directory until ctx ends. It sweeps at the start, because
// changes may have been lost while no process ran.
func (k *Keeper) Keep(ctx context.Context) error {
	var (
		swept  time.Time // zero if a sweep is due at the next check
		failed bool      // the last check failed, and an error was logged
	)
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = k.cfg.Check
		began := time.Now()
		due := k.sweepDue.Swap(false) || time.Since(swept) >= k.cfg.Sweep
		result, err := k.check(ctx, due)
		switch {
		case err != nil:
			if !failed && !errors.Is(err, context.Canceled) {
				k.cfg.Log.ErrorContext(ctx, "the edge directory cannot be kept up to date", "error", err)
			}
			failed, swept = true, time.Time{}
		case result == rebuildReplaced:
			// Another keeper has begun a rebuild, which replaced this keeper's rebuild.
			// If this keeper began a new rebuild immediately, it would replace the other
			// keeper's rebuild. It therefore waits at least as long as its own rebuild
			// took.
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
	allWritten                     // all entries were written and the directory is complete
	rebuildReplaced                // all entries were written, but another rebuild has begun
)

// check rebuilds the directory if the marker of a complete directory is missing. If the
// marker exists and sweep is true, check runs a sweep.
func (k *Keeper) check(ctx context.Context, sweep bool) (outcome, error) {
	complete, err := k.writer.Complete(ctx)
	if err != nil {
		return nothingToDo, err
	}
	if complete {
		if !sweep {
			return nothingToDo, nil
		}
		return allWritten, k.writeAll(ctx)
	}
	rebuild, err := k.writer.BeginRebuild(ctx)
	if err != nil {
		return nothingToDo, err
	}
	if err := k.writeAll(ctx); err != nil {
		return nothingToDo, err
	}
	marked, err := k.writer.MarkComplete(ctx, rebuild)
	if err != nil {
		return nothingToDo, err
	}
	if !marked {
		return rebuildReplaced, nil
	}
	k.cfg.Log.InfoContext(ctx, "the edge directory has been rebuilt")
	return allWritten, nil
}

// writeAll writes all entries, page by page. It takes a new version for each page.
func (k *Keeper) writeAll(ctx context.Context) error {
	err := k.write(ctx, k.writer.Batch(), func(version int64, batch *edge.Batch) error {
		if k.cfg.SigningKeys != nil {
			batch.PutSigningKeys(version, k.cfg.SigningKeys)
		}
		if k.cfg.HashKeys != nil {
			batch.PutHashKeys(version, k.cfg.HashKeys)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var keyCursor account.APIKey
	for more := true; more; {
		err := k.write(ctx, k.writer.Batch(), func(version int64, batch *edge.Batch) error {
			keys, err := directories.PublicKeysAfter(ctx, k.db, keyCursor, pageSize)
			if err != nil {
				return err
			}
			for _, target := range keys {
				keyCursor = target.APIKey
			}
			k.putKeys(version, batch, keys)
			more = len(keys) == pageSize
			return nil
		})
		if err != nil {
			return err
		}
	}
	var cursor participant.ReferralTarget
	return k.writeCodes(ctx, func() ([]participant.ReferralTarget, error) {
		page, err := directories.ReferralTargetsAfter(ctx, k.db, cursor, k.cfg.Now(), pageSize)
		if len(page) > 0 {
			cursor = page[len(page)-1]
		}
		return page, err
	})
}

// writeCodes writes referral codes and their links, page by page. The function next reads
// the next page. writeCodes stops after the first page that has fewer than pageSize
// codes.
func (k *Keeper) writeCodes(ctx context.Context, next func() ([]participant.ReferralTarget, error)) error {
	for more := true; more; {
		err := k.write(ctx, k.writer.Batch(), func(version int64, batch *edge.Batch) error {
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

// write takes a new version, calls the function read to add entries with this version to
// the batch, and writes the batch.
func (k *Keeper) write(ctx context.Context, batch *edge.Batch, read func(version int64, batch *edge.Batch) error) error {
	version, err := directories.Version(ctx, k.db)
	if err != nil {
		return err
	}
	if err := read(version, batch); err != nil {
		return err
	}
	return batch.Flush(ctx)
}
