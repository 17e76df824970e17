package partner

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// PartnerBalancesSQL is a statement whose query plan a test checks.
var PartnerBalancesSQL = partnerBalances

// PartnerCommissionSQL is a statement whose query plan a test checks.
var PartnerCommissionSQL = partnerCommissionSQL

// PartnerProgramsSQL returns the statements for a page of a partner's programmes and for
// the total.
func PartnerProgramsSQL(filter partner.ProgramFilter) (page, count string) {
	return partnerProgramsSQL(filter)
}

// PartnerCommissionsSQL returns the statements for a page of a partner's commissions and
// for the total, and their arguments.
func PartnerCommissionsSQL(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode,
	filter partner.CommissionFilter, order commission.Order, page affiliate.Page,
) (pageSQL string, pageArgs []any, countSQL string, countArgs []any, err error) {
	where, err := partnerCommissionConditions(ctx, db, partner, mode, filter)
	pageSQL, countSQL = partnerCommissionsSQL(where, order)
	return pageSQL, append(append([]any{}, where.Args...), page.Size, page.Offset()), countSQL, where.Args, err
}

// RelatedSalesSQL returns the statement of a lookup and its arguments.
func RelatedSalesSQL(user affiliate.UserID, mode affiliate.Mode, lookup partner.SaleLookup) (sql string, args []any) {
	return relatedSalesSQL(user, mode, lookup)
}
