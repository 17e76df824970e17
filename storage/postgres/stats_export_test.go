package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Statements whose plans are checked.
const (
	FoldStatsSQL       = foldStats
	PartnerStatsSQL    = partnerStats
	PartnerBalancesSQL = partnerBalances
)

// AddDeltas exports addDeltas.
func AddDeltas(ctx context.Context, tx pgx.Tx, deltas ...affiliate.StatsDelta) error {
	return addDeltas(ctx, tx, deltas...)
}

// FoldIn is FoldStats in the caller's transaction.
func FoldIn(ctx context.Context, tx pgx.Tx, limit int) (int64, error) {
	return foldDeltas(ctx, tx, limit)
}

// PartnerProgramsSQL returns the statements of a partner's list of programmes.
func PartnerProgramsSQL(filter affiliate.PartnerProgramFilter) (page, count string) {
	return partnerProgramsSQL(filter)
}

// PartnerCommissionsSQL returns the statements of a partner's list of commissions and
// their arguments.
func (s *Store) PartnerCommissionsSQL(
	ctx context.Context, partner affiliate.UserID, mode affiliate.Mode,
	filter affiliate.PartnerCommissionFilter, order affiliate.CommissionOrder, page affiliate.Page,
) (pageSQL string, pageArgs []any, countSQL string, countArgs []any, err error) {
	where, err := s.partnerCommissionConditions(ctx, partner, mode, filter)
	pageSQL, countSQL = partnerCommissionsSQL(where, order)
	return pageSQL, append(append([]any{}, where.args...), page.Size, page.Offset()), countSQL, where.args, err
}
