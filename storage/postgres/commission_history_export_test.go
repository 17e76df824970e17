package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Bear stores a commission with all that follows from its beginning. The
// conversion that it names is the caller's.
func (s *Store) Bear(ctx context.Context, c affiliate.Commission) error {
	return s.InTx(ctx, func(tx *Tx) error {
		batch := &pgx.Batch{}
		queueCommissions(batch, c)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		change := affiliate.Created(c, affiliate.System, nil)
		return tx.ApplyCommissionChanges(ctx, change)
	})
}

// MoveTogether makes moves of one scope in one transaction, as payouts and
// refunds do: one lock of all, one settlement. One commission may move more than
// once. All are made, or none.
func (s *Store) MoveTogether(ctx context.Context, moves ...affiliate.CommissionTransition) error {
	return s.InTx(ctx, func(tx *Tx) error {
		ids := make([]affiliate.CommissionID, len(moves))
		for i, move := range moves {
			ids[i] = move.Commission
		}
		found, err := lockCommissions(ctx, tx, moves[0].Scope, ids)
		if err != nil {
			return err
		}
		locked := map[affiliate.CommissionID]affiliate.LockedCommission{}
		for _, c := range found {
			locked[c.ID] = c
		}
		var changes []affiliate.CommissionChange
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
