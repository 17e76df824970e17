package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

// CheckParticipation checks that the partner takes part in the programme. If program is
// nil, there is nothing to check. Errors: NOT_FOUND.
func CheckParticipation(ctx context.Context, db *DB, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID) error {
	if program == nil {
		return nil
	}
	const known = `select exists (select from participants t where t.partner_id = $1 and t.mode = $2 and t.program_id = $3)`
	var found bool
	if err := db.QueryRow(ctx, known, partner, mode, *program).Scan(&found); err != nil {
		return fmt.Errorf("participation: %w", err)
	}
	if !found {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}

// CheckFilter checks that the programme, participant and payout batch of a filter exist
// in the scope. Without this check, a filter with an unknown id would return an empty
// list. Nil values are not checked. Errors: NOT_FOUND.
func CheckFilter(
	ctx context.Context, db *DB, scope affiliate.Scope, program *affiliate.ProgramID, participant *affiliate.ParticipantID, batch *payout.BatchID,
) error {
	if program == nil && participant == nil && batch == nil {
		return nil
	}
	const known = `
		select
			($3::uuid is null or exists (select from programs where workspace_id = $1 and mode = $2 and id = $3))
			and ($4::uuid is null or exists (select from participants where workspace_id = $1 and mode = $2 and id = $4))
			and ($5::uuid is null or exists (select from payout_batches where workspace_id = $1 and mode = $2 and id = $5))`
	var found bool
	if err := db.QueryRow(ctx, known, scope.Workspace, scope.Mode, program, participant, batch).Scan(&found); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if !found {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}

// ExistInMode reports whether all records exist in the scope.
func ExistInMode(ctx context.Context, db *DB, scope affiliate.Scope, records []affiliate.Record) (bool, error) {
	const known = `
		select
			(@program::uuid is null or exists (select from programs where workspace_id = @workspace and mode = @mode and id = @program))
			and (@participant::uuid is null or exists (select from participants where workspace_id = @workspace and mode = @mode and id = @participant))
			and (@commission::uuid is null or exists (select from commissions where workspace_id = @workspace and mode = @mode and id = @commission))
			and (@conversion::uuid is null or exists (select from conversions where workspace_id = @workspace and mode = @mode and id = @conversion))
			and (@payout::uuid is null or exists (select from payouts where workspace_id = @workspace and mode = @mode and id = @payout))
			and (@payout_batch::uuid is null or exists (select from payout_batches where workspace_id = @workspace and mode = @mode and id = @payout_batch))
			and (@link::uuid is null or exists (select from links where workspace_id = @workspace and mode = @mode and id = @link))
			and (@promo_code::uuid is null or exists (select from promo_codes where workspace_id = @workspace and mode = @mode and id = @promo_code))
			and (@fraud_event::uuid is null or exists (select from fraud_events where workspace_id = @workspace and mode = @mode and id = @fraud_event))
			and (@webhook::uuid is null or exists (select from webhook_endpoints where workspace_id = @workspace and mode = @mode and id = @webhook))`
	args := pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode}
	for _, record := range records {
		args[string(record.Kind)] = record.ID
	}
	var found bool
	if err := db.QueryRow(ctx, known, args).Scan(&found); err != nil {
		return false, fmt.Errorf("look for records: %w", err)
	}
	return found, nil
}
