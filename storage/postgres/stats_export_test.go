package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/partner"
)

// Statements whose query plans the tests check.
const (
	FoldStatsSQL       = foldStats
	PartnerBalancesSQL = partnerBalances
)

// AddDeltas calls addDeltas.
func AddDeltas(ctx context.Context, tx pgx.Tx, deltas ...analytics.StatsDelta) error {
	return addDeltas(ctx, tx, deltas...)
}

// FoldIn does the work of FoldStats in the given transaction.
func FoldIn(ctx context.Context, tx pgx.Tx, limit int) (int64, error) {
	return foldDeltas(ctx, tx, limit)
}

// PartnerProgramsSQL returns the statements for a page of a partner's programmes and for
// the total.
func PartnerProgramsSQL(filter partner.ProgramFilter) (page, count string) {
	return partnerProgramsSQL(filter)
}

// PartnerCommissionsSQL returns the statements for a page of a partner's commissions and
// for the total, and their arguments.
func (s *Store) PartnerCommissionsSQL(
	ctx context.Context, partner affiliate.UserID, mode affiliate.Mode,
	filter partner.CommissionFilter, order commission.Order, page affiliate.Page,
) (pageSQL string, pageArgs []any, countSQL string, countArgs []any, err error) {
	where, err := s.partnerCommissionConditions(ctx, partner, mode, filter)
	pageSQL, countSQL = partnerCommissionsSQL(where, order)
	return pageSQL, append(append([]any{}, where.args...), page.Size, page.Offset()), countSQL, where.args, err
}
