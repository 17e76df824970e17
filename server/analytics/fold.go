package analytics

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

// A request that adds entries starts new transactions only until maxAdding has passed.
// After maxLastAdding it cancels the transaction that still runs, so that it can respond.
const (
	maxAdding     = time.Second
	maxLastAdding = 5 * time.Second
)

// fold adds the oldest entries of the log of a workspace and mode to the sums, in one
// transaction. It does not wait for other transactions that change the same sums.
func fold(ctx context.Context, db *postgres.DB, log *slog.Logger, scope affiliate.Scope, now time.Time) (r result, err error) {
	err = db.InTx(ctx, func(tx *postgres.Tx) error {
		r = result{}
		locked, err := rollups.TryLock(ctx, tx, scope)
		if err != nil || !locked {
			r.busy = !locked
			return err
		}
		r.more, err = foldNext(ctx, tx, log, scope, now)
		return err
	})
	if err != nil {
		return result{}, fmt.Errorf("add clicks and conversions to the sums: %w", err)
	}
	return r, nil
}

// foldNext adds the oldest entries of the log to the sums. more is true if entries may be
// left.
func foldNext(ctx context.Context, tx *postgres.Tx, log *slog.Logger, scope affiliate.Scope, now time.Time) (more bool, err error) {
	entries, more, err := rollups.TakeEntries(ctx, tx, scope)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	sums, weights := analytics.Sums{}, analytics.Weights{}
	if err := addClicks(ctx, tx, log, scope, entries, sums, weights); err != nil {
		return false, err
	}
	if err := recountConversions(ctx, tx, scope, conversionsOf(entries), now, sums, weights); err != nil {
		return false, err
	}
	if err := addSums(ctx, tx, scope, sums, weights); err != nil {
		return false, err
	}
	for _, entry := range entries {
		if entry.Erased == nil {
			continue
		}
		left, err := eraseValues(ctx, tx, scope, *entry.Erased)
		if err != nil {
			return false, err
		}
		more = more || left
	}
	return more, nil
}

// addWaiting adds the entries of the log of the selected workspaces to the sums. If this
// fails or takes too long, the response does not contain all entries.
func (s *Service) addWaiting(ctx context.Context, selected selection) {
	left := requestBudget()
	adding, cancel := context.WithTimeout(ctx, maxLastAdding)
	defer cancel()
	for _, workspace := range selected.workspaces() {
		scope := affiliate.Scope{Workspace: workspace, Mode: selected.mode}
		if _, err := s.addEntries(adding, scope, left); err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelError, "the newest clicks and conversions could not be added to the analytics", slog.Any("error", err))
		}
	}
}

// AddAll adds all entries of the log of a workspace to the sums, in both modes. If an
// erasure calls it, neither the log nor the sums contain the erased values afterwards.
func (s *Service) AddAll(ctx context.Context, workspace affiliate.WorkspaceID) error {
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		scope := affiliate.Scope{Workspace: workspace, Mode: mode}
		done, err := s.addEntries(ctx, scope, longBudget())
		if err == nil && !done {
			err = fmt.Errorf("workspace %s: %w", workspace, errBusy)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addEntries adds entries of the log to the sums within the given budget, and subtracts the time for which
// it waits for the lock. It uses no connection while it waits. done is true if no entries are left.
func (s *Service) addEntries(ctx context.Context, scope affiliate.Scope, left *budget) (done bool, err error) {
	more, err := rollups.IsWaiting(ctx, s.db, scope)
	for err == nil && more && time.Now().Before(left.until) {
		var r result
		if r, err = fold(ctx, s.db, s.log, scope, s.now()); err != nil {
			return false, err
		}
		if !r.busy {
			more = r.more
			continue
		}
		if ok, err := left.pause(ctx); !ok {
			return false, err
		}
	}
	return !more, err
}

// addClicks adds the clicks of the entries to the sums, except the personal values of
// erased participants, which the log still contains. It skips an entry that cannot be read,
// so that the others are added. `core analytics recount` counts the skipped clicks.
func addClicks(
	ctx context.Context, tx *postgres.Tx, log *slog.Logger, scope affiliate.Scope, entries []analytics.LogEntry, sums analytics.Sums, weights analytics.Weights,
) error {
	clicks := analytics.Sums{}
	added := analytics.Weights{}
	for i, entry := range entries {
		if err := clicks.AddClicks(entry.Clicks, added); err != nil {
			log.LogAttrs(ctx, slog.LevelError, "an entry of the analytics log cannot be read, so its clicks are not counted",
				slog.String("workspace", scope.Workspace.String()), slog.Time("oldest_click", *entry.OldestClick), slog.Any("error", err))
			return addClicks(ctx, tx, log, scope, slices.Concat(entries[:i], entries[i+1:]), sums, weights)
		}
	}
	if err := dropErased(ctx, tx, scope, clicks); err != nil {
		return err
	}
	sums.AddAll(clicks)
	weights.AddAll(added)
	return nil
}

// dropErased removes the personal values of erased participants from the sums of new clicks.
func dropErased(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, clicks analytics.Sums) error {
	if len(clicks) == 0 {
		return nil
	}
	erased, workspace, err := rollups.Erased(ctx, tx, scope, clicks.Participants())
	if err == nil && len(erased) > 0 {
		clicks.DropErased(erased, workspace)
	}
	return err
}

// erasedSums is the maximum number of sums that one transaction changes because of an erasure.
const erasedSums = 5000

// eraseValues removes the clicks of an erased participant from the sums of personal values.
// The clicks stay in the totals, like other clicks without a value. If sums are left, it
// inserts an entry for the next transaction and returns true.
func eraseValues(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participant affiliate.ParticipantID) (more bool, err error) {
	_, workspace, err := rollups.Erased(ctx, tx, scope, []affiliate.ParticipantID{participant})
	if err != nil {
		return false, err
	}
	found, err := rollups.ClickSums(ctx, tx, scope, participant, analytics.ErasedDimensions(workspace), erasedSums)
	if err != nil || len(found) == 0 {
		return false, err
	}
	if err := addSums(ctx, tx, scope, found.WithoutClicks(), nil); err != nil {
		return false, err
	}
	if len(found) < erasedSums {
		return false, nil
	}
	return true, rollups.AddEntry(ctx, tx, scope, analytics.LogEntry{Erased: &participant})
}

func conversionsOf(entries []analytics.LogEntry) []affiliate.ConversionID {
	seen := map[affiliate.ConversionID]bool{}
	for _, entry := range entries {
		for _, id := range entry.Conversions {
			seen[id] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// maxClickDelay is the time for which a conversion waits for its click. A conversion can be
// attributed to a click that ingestion has not stored yet.
const maxClickDelay = 24 * time.Hour

// addFirsts sets FirstOfCustomer in the maps before and after. It adds to both maps each
// missing conversion that became, or no longer is, the first conversion of its customer.
func addFirsts(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, refs []string, counted, current map[string]*analytics.Customer,
	before, after map[affiliate.ConversionID]analytics.Conversion,
) error {
	firstOf := func(customers map[string]*analytics.Customer, ref string) (first affiliate.ConversionID) {
		if customer := customers[ref]; customer != nil {
			first = customer.First
		}
		return first
	}
	var others []affiliate.ConversionID
	for _, ref := range refs {
		was, is := firstOf(counted, ref), firstOf(current, ref)
		if was == is {
			continue
		}
		for _, id := range []affiliate.ConversionID{was, is} {
			_, isBefore := before[id]
			_, isAfter := after[id]
			if !id.IsZero() && !isBefore && !isAfter {
				others = append(others, id)
			}
		}
	}
	if len(others) > 0 {
		unchanged, err := rollups.CountedConversions(ctx, tx, scope, others)
		if err != nil {
			return err
		}
		maps.Copy(before, unchanged)
		maps.Copy(after, unchanged)
	}
	for id, c := range before {
		c.FirstOfCustomer = c.Customer != "" && firstOf(counted, c.Customer) == id
		before[id] = c
	}
	for id, c := range after {
		c.FirstOfCustomer = c.Customer != "" && firstOf(current, c.Customer) == id
		after[id] = c
	}
	return nil
}

// addSums adds changes, and the resulting changes of the programmes, to the sums. It also selects
// the values of each dimension that have separate sums; the sums of all other values are merged.
func addSums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, changes analytics.Sums, weights analytics.Weights) error {
	changes.DropEmpty()
	if len(changes) == 0 {
		return nil
	}
	weights.KeepOnly(changes)
	kept, err := rollups.Values(ctx, tx, scope, changes.DayValues())
	if err != nil {
		return err
	}
	selection := analytics.SelectValues(kept, weights)
	if err := rollups.StoreValues(ctx, tx, scope, selection.Changed, selection.Replaced); err != nil {
		return err
	}
	changes.MergeOthers(selection.Kept)
	if negative := changes.Negative(); len(negative) > 0 {
		stored, err := rollups.Sums(ctx, tx, scope, negative)
		if err != nil {
			return err
		}
		changes.MoveNegative(stored)
	}
	changes.AddProgramSums()
	if len(selection.Replaced) > 0 {
		replaced, err := rollups.TakeValueSums(ctx, tx, scope, selection.Replaced)
		if err != nil {
			return err
		}
		replaced.MergeOthers(selection.Kept)
		changes.AddAll(replaced)
	}
	stored, err := rollups.Sums(ctx, tx, scope, changes)
	if err != nil {
		return err
	}
	stored.AddAll(changes)
	return rollups.StoreSums(ctx, tx, scope, stored)
}

// lockPause is the time between two attempts to get the lock of the sums.
const lockPause = 20 * time.Millisecond

// budget limits the work of a caller that adds entries of the log.
type budget struct {
	until time.Time     // no further transaction begins after this time
	wait  time.Duration // remaining time to wait for the lock of the sums
}

// requestBudget returns the budget of a request for all its workspaces. longBudget returns the
// budget of an erasure or a recount for one workspace and mode.
func requestBudget() *budget {
	return &budget{until: time.Now().Add(maxAdding), wait: 300 * time.Millisecond}
}

func longBudget() *budget { return &budget{until: time.Now().Add(24 * time.Hour), wait: time.Minute} }

// pause waits for lockPause. It returns false if the budget has no such time left.
func (b *budget) pause(ctx context.Context) (bool, error) {
	if b.wait < lockPause {
		return false, nil
	}
	b.wait -= lockPause
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(lockPause):
		return true, nil
	}
}

// result is the result of one call of fold.
type result struct {
	busy bool // another transaction changes the sums, so nothing was done
	more bool // entries may be left
}
