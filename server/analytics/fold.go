package analytics

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
)

// maxEntries is the maximum number of entries of the log in one transaction. An entry has at
// most 5,000 clicks or 2,000 conversions.
const maxEntries = 20

// fold adds the oldest entries of the log of a workspace and mode to the sums, in one
// transaction. It returns true if entries may be left. If wait is false and another transaction
// changes the sums of the workspace and mode, it does nothing.
func fold(ctx context.Context, store Store, scope affiliate.Scope, wait bool) (more bool, err error) {
	err = store.InTx(ctx, func(tx Tx) error {
		more = false
		if wait {
			if err := tx.Lock(ctx, scope); err != nil {
				return err
			}
		} else if locked, err := tx.TryLock(ctx, scope); err != nil || !locked {
			return err
		}
		entries, err := tx.TakeEntries(ctx, scope, maxEntries)
		if err != nil || len(entries) == 0 {
			return err
		}
		more = len(entries) == maxEntries
		sums, weights := analytics.Sums{}, analytics.Weights{}
		if err := addClicks(ctx, tx, scope, entries, sums, weights); err != nil {
			return err
		}
		if err := recountConversions(ctx, tx, scope, conversionsOf(entries), sums, weights); err != nil {
			return err
		}
		sums.AddProgramSums()
		if err := addSums(ctx, tx, scope, sums, weights); err != nil {
			return err
		}
		for _, entry := range entries {
			if entry.Erased != nil {
				if err := eraseValues(ctx, tx, scope, *entry.Erased); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("add clicks and conversions to the sums: %w", err)
	}
	return more, nil
}

// maxRequestFolds is the maximum number of transactions in which a request adds entries of the
// log to the sums of a workspace.
const maxRequestFolds = 5

// addWaiting adds the entries of the log of the selected workspaces to the sums.
func (s *Service) addWaiting(ctx context.Context, selected selection) error {
	for _, workspace := range selected.workspaces() {
		if err := addEntries(ctx, s.store, affiliate.Scope{Workspace: workspace, Mode: selected.mode}, maxRequestFolds); err != nil {
			return err
		}
	}
	return nil
}

// AddAll adds all entries of the log of a workspace to the sums, in both modes. After an
// erasure, neither the log nor the sums then contain the erased values.
func (s *Service) AddAll(ctx context.Context, workspace affiliate.WorkspaceID) error {
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		if err := addEntries(ctx, s.store, affiliate.Scope{Workspace: workspace, Mode: mode}, math.MaxInt); err != nil {
			return err
		}
	}
	return nil
}

// addEntries adds entries of the log to the sums in at most the given number of transactions.
func addEntries(ctx context.Context, store Store, scope affiliate.Scope, transactions int) error {
	more, err := store.IsWaiting(ctx, scope)
	for ; err == nil && more && transactions > 0; transactions-- {
		more, err = fold(ctx, store, scope, true)
	}
	return err
}

// addClicks adds the clicks of the entries to the sums. It leaves out the personal values of
// the clicks of erased participants, because an erasure does not change the log.
func addClicks(ctx context.Context, tx Tx, scope affiliate.Scope, entries []analytics.LogEntry, sums analytics.Sums, weights analytics.Weights) error {
	clicks := analytics.Sums{}
	added := analytics.Weights{}
	for _, entry := range entries {
		if err := clicks.AddClicks(entry.Clicks, added); err != nil {
			return err
		}
	}
	if len(clicks) == 0 {
		return nil
	}
	erased, workspace, err := tx.Erased(ctx, scope, clicks.Participants())
	if err != nil {
		return err
	}
	if len(erased) > 0 {
		clicks.DropErased(erased, workspace)
	}
	sums.AddAll(clicks)
	weights.AddAll(added)
	return nil
}

// erasedSums is the maximum number of sums that eraseValues reads at once.
const erasedSums = 5000

// eraseValues removes the clicks of an erased participant from the sums of their personal
// values. The clicks stay in the totals, like other clicks without a value.
func eraseValues(ctx context.Context, tx Tx, scope affiliate.Scope, participant affiliate.ParticipantID) error {
	_, workspace, err := tx.Erased(ctx, scope, []affiliate.ParticipantID{participant})
	if err != nil {
		return err
	}
	for {
		found, err := tx.ClickSums(ctx, scope, participant, analytics.ErasedDimensions(workspace), erasedSums)
		if err != nil || len(found) == 0 {
			return err
		}
		changes := found.WithoutClicks()
		changes.AddProgramSums()
		if err := addSums(ctx, tx, scope, changes, nil); err != nil {
			return err
		}
	}
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

// recountConversions subtracts conversions as they were counted before, and adds them as they
// are now.
func recountConversions(
	ctx context.Context, tx Tx, scope affiliate.Scope, ids []affiliate.ConversionID, sums analytics.Sums, weights analytics.Weights,
) error {
	if len(ids) == 0 {
		return nil
	}
	before, err := tx.CountedConversions(ctx, scope, ids)
	if err != nil {
		return err
	}
	after, err := tx.CurrentConversions(ctx, scope, ids)
	if err != nil {
		return err
	}
	var stored []analytics.Conversion
	var deleted []affiliate.ConversionID
	customers := map[string]bool{}
	for _, id := range ids {
		counted, wasCounted := before[id]
		current, exists := after[id]
		if wasCounted && exists {
			current.KeepClickValues(&counted)
			after[id] = current
		}
		switch {
		case exists && current != counted:
			stored = append(stored, current)
		case !exists && wasCounted:
			deleted = append(deleted, id)
		}
		customers[counted.Customer], customers[current.Customer] = true, true
	}
	if err := tx.StoreCounted(ctx, scope, stored, deleted); err != nil {
		return err
	}
	delete(customers, "")
	if err := markFirsts(ctx, tx, scope, slices.Collect(maps.Keys(customers)), before, after); err != nil {
		return err
	}
	for _, counted := range before {
		sums.AddConversion(&counted, -1)
	}
	for id, current := range after {
		sums.AddConversion(&current, 1)
		if counted, ok := before[id]; ok {
			weights.AddConversion(&current, &counted)
		} else {
			weights.AddConversion(&current, nil)
		}
	}
	return nil
}

// markFirsts sets FirstOfCustomer in the conversions before and after a change. A change can
// make another conversion the first one of its customer: markFirsts adds these conversions to
// both maps.
func markFirsts(
	ctx context.Context, tx Tx, scope affiliate.Scope, customers []string, before, after map[affiliate.ConversionID]analytics.Conversion,
) error {
	if len(customers) == 0 {
		return nil
	}
	counted, current, err := tx.Firsts(ctx, scope, customers)
	if err != nil {
		return err
	}
	var changed []analytics.First
	var without []string
	var others []affiliate.ConversionID
	for _, customer := range customers {
		was, is := counted[customer], current[customer]
		if was == is.Conversion {
			continue
		}
		if is.Conversion.IsZero() {
			without = append(without, customer)
		} else {
			changed = append(changed, is)
		}
		for _, id := range []affiliate.ConversionID{was, is.Conversion} {
			_, recountedBefore := before[id]
			_, recountedAfter := after[id]
			if !id.IsZero() && !recountedBefore && !recountedAfter {
				others = append(others, id)
			}
		}
	}
	if len(others) > 0 {
		unchanged, err := tx.CountedConversions(ctx, scope, others)
		if err != nil {
			return err
		}
		maps.Copy(before, unchanged)
		maps.Copy(after, unchanged)
	}
	for id, c := range before {
		c.FirstOfCustomer = c.Customer != "" && counted[c.Customer] == id
		before[id] = c
	}
	for id, c := range after {
		c.FirstOfCustomer = c.Customer != "" && current[c.Customer].Conversion == id
		after[id] = c
	}
	return tx.StoreFirsts(ctx, scope, changed, without)
}

// addSums selects the values that are counted separately and adds the changes of the sums to the
// stored sums.
func addSums(ctx context.Context, tx Tx, scope affiliate.Scope, changes analytics.Sums, weights analytics.Weights) error {
	changes.DropEmpty()
	if len(changes) == 0 {
		return nil
	}
	weights.KeepOnly(changes)
	kept, err := tx.Values(ctx, scope, changes.DayValues())
	if err != nil {
		return err
	}
	selection := analytics.SelectValues(kept, weights)
	if err := tx.StoreValues(ctx, scope, selection.Changed, selection.Replaced); err != nil {
		return err
	}
	changes.KeepApart(selection.Kept)
	if len(selection.Replaced) > 0 {
		replaced, err := tx.TakeValueSums(ctx, scope, selection.Replaced)
		if err != nil {
			return err
		}
		replaced.KeepApart(selection.Kept)
		changes.AddAll(replaced)
	}
	stored, err := tx.Sums(ctx, scope, changes)
	if err != nil {
		return err
	}
	changes.AddAll(stored)
	return tx.StoreSums(ctx, scope, changes)
}
