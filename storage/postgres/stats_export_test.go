package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// The statements whose plans are under test.
const (
	FoldStatsSQL       = foldStats
	PartnerStatsSQL    = partnerStats
	PartnerBalancesSQL = partnerBalances
)

// AddDeltas is addDeltas.
func AddDeltas(ctx context.Context, tx pgx.Tx, deltas ...affiliate.StatsDelta) error {
	return addDeltas(ctx, tx, deltas...)
}

// FoldIn is FoldStats in a transaction of the caller's.
func FoldIn(ctx context.Context, tx pgx.Tx, limit int) (int64, error) { return fold(ctx, tx, limit) }

// PartnerProgramsSQL are the statements of a partner's list of programmes.
func PartnerProgramsSQL(filter affiliate.PartnerProgramFilter) (page, count string) {
	return partnerProgramsSQL(filter)
}

// PartnerCommissionsSQL are the statements of a partner's list of commissions
// with their arguments.
func (s *Store) PartnerCommissionsSQL(
	ctx context.Context, partner affiliate.UserID, mode affiliate.Mode,
	filter affiliate.PartnerCommissionFilter, order affiliate.CommissionOrder, page affiliate.Page,
) (pageSQL string, pageArgs []any, countSQL string, countArgs []any, err error) {
	where, err := s.partnerCommissionConditions(ctx, partner, mode, filter)
	pageSQL, countSQL = partnerCommissionsSQL(where, order)
	return pageSQL, append(append([]any{}, where.args...), page.Size, page.Offset()), countSQL, where.args, err
}
