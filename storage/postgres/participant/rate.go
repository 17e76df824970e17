package participant

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// countRates reads the index participants_with_rate, which has only the participants with a rate
// of their own or of a group.
var countRates = fmt.Sprintf(`
	select count(*) filter (where has_rate) as own, count(*) filter (where not has_rate) as of_group
	from (
		select num_nonnulls(override_rate_bps, override_flat_amount_cents) > 0 as has_rate
		from participants
		where workspace_id = $1 and mode = $3 and program_id = $2 and status = 'approved'
			and num_nonnulls(group_id, override_rate_bps, override_flat_amount_cents) > 0
		limit %d
	) counted`, affiliate.MaxTotal+1)

// CountRates returns the approved participants of a programme by the rate that applies to them. Of
// the participants with another rate than the programme's, it counts at most affiliate.MaxTotal + 1.
func CountRates(ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID) (participant.RateCounts, error) {
	rows, _ := db.Query(ctx, countRates, scope.Workspace, program, scope.Mode) // CollectExactlyOneRow returns the error
	counts, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[participant.RateCounts])
	if err != nil {
		return counts, err
	}
	approved, err := postgres.ListCount(ctx, db, scope.Workspace, program, postgres.ParticipantCount+string(participant.Approved))
	counts.OfProgram = max(0, approved-counts.Own-counts.OfGroup)
	return counts, err
}
