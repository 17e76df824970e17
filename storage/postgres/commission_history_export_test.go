package postgres

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// MoveTogether makes several moves in one transaction, as payouts and refunds do. It
// locks all commissions with one statement and applies all changes together. All moves
// must be of one scope. A commission can move more than once. If one move fails, no
// move is made.
func (s *Store) MoveTogether(ctx context.Context, moves ...commission.Transition) error {
	return s.InTx(ctx, func(tx *Tx) error {
		ids := make([]affiliate.CommissionID, len(moves))
		for i, move := range moves {
			ids[i] = move.Commission
		}
		found, err := lockCommissions(ctx, tx, moves[0].Scope, ids)
		if err != nil {
			return err
		}
		locked := map[affiliate.CommissionID]commission.Locked{}
		for _, c := range found {
			locked[c.ID] = c
		}
		var changes []commission.Change
		for _, move := range moves {
			c, ok := locked[move.Commission]
			if !ok {
				return affiliate.Refuse(affiliate.ReasonNotFound)
			}
			change, err := c.Move(move)
			if err != nil {
				return err
			}
			c.Commission = change.After
			locked[c.ID] = c
			changes = append(changes, change)
		}
		return tx.ApplyCommissionChanges(ctx, changes...)
	})
}
