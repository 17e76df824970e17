// Package directory keeps the edge directory right: what collectors know of
// public keys, referral codes, short links and signing keys without a database.
//
//	change ─commit─▶ job SyncDirectory ─▶ Worker ──┐
//	                                               ├─▶ Sink (set if newer)
//	marker gone, start, outage, hourly ──▶ Keep ───┘
//
// Every write carries a version that was taken before its state was read, and
// the sink keeps the highest. A job is inserted with the change that it follows
// and takes its version after that commit; whoever has a higher one took it
// later still, and so has read the change as well. Whatever the order in which
// writers run, what stays is the state after the last change.
//
// It guarantees that a change reaches a reachable directory with its job, a
// moment after the commit; that a directory which lost its data is filled again
// and only then says of itself that it is whole; and that a job which was given
// up is made good by the next sweep. Memory is bounded by one page.
//
// It does not promise anything about the time for which the directory cannot be
// reached: the edge keeps working from its cache, or blind.
package directory

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

const (
	// defaultCheck bounds the time for which a lost directory goes unnoticed.
	defaultCheck = 500 * time.Millisecond
	// defaultSweep bounds the life of an error that no job mends: a job that was
	// given up, a write that Redis forgot when it fell over, a key that expired.
	defaultSweep = time.Hour
	// pageSize is how many keys, or codes with their links, are read and written at
	// a time.
	pageSize = 1000
)

// Config says what a Keeper works with besides its two ends.
type Config struct {
	// SigningKeys are the public halves of the access token keys; nil writes none.
	SigningKeys *edgev1.SigningKeys
	// Now is the clock by which keys end.
	Now func() time.Time
	// Log hears of rebuilds and of failures.
	Log *slog.Logger
	// Check is how often the marker is looked at; 0 means every 500 ms.
	Check time.Duration
	// Sweep is how often everything is written once more; 0 means every hour.
	Sweep time.Duration
}

// Keeper takes the truth from a Source to a Sink.
type Keeper[R any, B Batch] struct {
	source Source
	sink   Sink[R, B]
	cfg    Config
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

// Keep watches over the directory until ctx ends. It sweeps at the start, since
// nobody knows what happened before.
func (k *Keeper[R, B]) Keep(ctx context.Context) error {
	var (
		swept  time.Time // zero: as soon as possible
		failed bool      // said once per outage
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
				k.cfg.Log.ErrorContext(ctx, "the edge directory cannot be kept right", "error", err)
			}
			failed, swept = true, time.Time{}
		case whole == lost:
			// Another keeper's rebuild has replaced ours. Beginning again at once would
			// replace theirs; in the time that ours took it can end.
			took := time.Since(began)
			wait = took + rand.N(took+k.cfg.Check) //nolint:gosec // spreads keepers, no secret
		default:
			if failed {
				k.cfg.Log.InfoContext(ctx, "the edge directory is kept right again")
			}
			failed = false
			if whole == filled {
				swept = time.Now()
			}
		}
	}
}

// outcome is what came of looking at the directory.
type outcome int

const (
	untouched outcome = iota // it is whole, and no sweep was due
	filled                   // everything was written
	lost                     // everything was written, and the marker is not ours to set
)

// look rebuilds a directory without its marker, and sweeps one that has it.
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

// fill writes everything, page by page, each under a version of its own.
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
				if digest, ok := digestOf(target); ok {
					batch.PutPublicKey(version, digest, k.keyEntry(target))
				}
			}
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

// codes writes the pages that next reads, with their links, until one is short.
func (k *Keeper[R, B]) codes(ctx context.Context, next func() ([]affiliate.ReferralTarget, error)) error {
	for more := true; more; {
		err := k.page(ctx, func(version int64, batch B) error {
			targets, err := next()
			if err != nil {
				return err
			}
			for _, target := range targets {
				batch.PutReferralCode(version, target.Scope, target.Code, codeEntry(target))
			}
			for target := range eachLink(targets) {
				batch.PutLink(version, target.Link.Key, linkEntry(target))
			}
			more = len(targets) == pageSize
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// page takes a version, lets read collect what it finds under it, and writes it.
func (k *Keeper[R, B]) page(ctx context.Context, read func(version int64, batch B) error) error {
	version, err := k.source.DirectoryVersion(ctx)
	if err != nil {
		return err
	}
	batch := k.sink.Batch()
	if err := read(version, batch); err != nil {
		return err
	}
	return batch.Flush(ctx)
}
