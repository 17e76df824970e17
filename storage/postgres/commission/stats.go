package commission

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Stats counts and sums the commissions that match a filter, in one snapshot.
// If the filter has a search text, it counts at most affiliate.MaxSearchTotal
// commissions. Errors: NOT_FOUND if the filter's programme or participant does not exist.
func Stats(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter commission.Filter) (stats commission.Stats, err error) {
	if err := postgres.CheckFilter(ctx, db, scope, nil, filter.Participant, nil); err != nil {
		return stats, err
	}
	err = db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		currency, err := currencyOf(ctx, tx, scope, filter.Program)
		if err != nil {
			return fmt.Errorf("currency: %w", err)
		}
		groups, err := commissionGroups(ctx, tx, scope, filter)
		if err != nil {
			return fmt.Errorf("commission stats: %w", err)
		}
		stats = commission.NewStats(currency, groups)
		if filter.Search == "" || stats.Count < affiliate.MaxSearchTotal {
			return nil
		}
		where, err := commissionConditions(ctx, tx, scope, filter)
		if err != nil {
			return err
		}
		found, err := countFound(ctx, tx, where)
		stats.Capped = found > affiliate.MaxSearchTotal
		return err
	})
	return stats, err
}

// currencyOf returns the currency of the programme, or of the workspace if program is
// nil.
func currencyOf(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, program *affiliate.ProgramID) (string, error) {
	const (
		programCurrency   = `select currency from programs where workspace_id = $1 and mode = $2 and id = $3`
		workspaceCurrency = `select currency from workspaces where id = $1`
	)
	type row struct{ Currency string }
	if program != nil {
		found, err := postgres.OneRow[row](tx.Query(ctx, programCurrency, scope.Workspace, scope.Mode, *program))
		return found.Currency, err
	}
	found, err := postgres.OneRow[row](tx.Query(ctx, workspaceCurrency, scope.Workspace))
	return found.Currency, err
}

func commissionGroups(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, filter commission.Filter) ([]commission.Group, error) {
	var sql string
	var args []any
	if filter.Search != "" {
		where, err := commissionConditions(ctx, tx, scope, filter)
		if err != nil {
			return nil, err
		}
		sql, args = searchGroupsSQL(where)
	} else {
		spans := spansFor(filter)
		if len(spans) == 0 {
			return nil, nil
		}
		sql, args = groupsSQL(countedConditions(scope, filter), spans)
	}
	rows, err := tx.Query(ctx, sql, append([]any{postgres.PlanForArgs}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[commission.Group])
}
