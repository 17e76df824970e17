package conversion

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// readPriorTotals reads the totals even if the stored rules have no tiers, because the rules of
// a preview can have them.
const readPriorTotals = `
	select ` + priorTotals + `
	from programs p, participants t
	where p.workspace_id = $1 and p.mode = $2 and t.workspace_id = $1 and t.mode = $2 and t.id = $3 and p.id = t.program_id`

// ReadExample adds the exchange rates to the inputs of a decision about an example. If
// participant is not nil, it also replaces in.Assigned by this participant. Errors: NOT_FOUND
// if the participant is not in the programme of in.Assigned.
func ReadExample(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, in attribution.Inputs, participant *affiliate.ParticipantID,
) (attribution.Inputs, error) {
	batch := &pgx.Batch{}
	queueRates(batch, conversion.Conversion{Sale: in.Sale, OccurredAt: in.OccurredAt}, &in)
	var found *attribution.Earner
	var totals []attribution.PriorTotals
	if participant != nil {
		postgres.QueueFirst(batch, &found, findParticipant, scope.Workspace, scope.Mode, *participant)
		postgres.QueueValues(batch, &totals, readPriorTotals, scope.Workspace, scope.Mode, *participant)
	}
	err := db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error { return postgres.Send(ctx, tx, batch) })
	if err != nil || participant == nil {
		return in, err
	}
	if found == nil || len(totals) == 0 || found.Program != in.Assigned.Program {
		return in, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	found.PriorTotals, in.Assigned = totals[0], found
	return in, nil
}
