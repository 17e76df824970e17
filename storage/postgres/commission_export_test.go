package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// SelectDue is the sweep's statement.
const SelectDue = selectDue

// The statements of every move.
const (
	LockCommissionsSQL  = lockCommissionsSQL
	UpdateCommissionSQL = updateCommission
)

// InsertCommission is queueCommission in a transaction of its own.
func (s *Store) InsertCommission(ctx context.Context, c affiliate.Commission, actor affiliate.Actor) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		queueCommission(batch, c)
		queueSettlement(batch, affiliate.Created(c, actor, nil))
		return tx.SendBatch(ctx, batch).Close()
	})
}

// CommissionListSQL are the statements of a list with their arguments.
func (s *Store) CommissionListSQL(
	ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder, page affiliate.Page,
) (pageSQL string, pageArgs []any, countSQL string, countArgs []any, err error) {
	where, err := s.commissionConditions(ctx, scope, filter)
	pageSQL, countSQL = commissionListSQL(where, filter, order)
	return pageSQL, append(append([]any{}, where.args...), page.Size, page.Offset()), countSQL, where.args, err
}
