package conversion

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// supersede replaces the decision in force with a new one. The transaction must have
// locked the conversion.
const supersede = `
	update conversions
	set decision_id = @decision, attributed = @attributed, reason_code = @reason, program_id = @program, participant_id = @participant,
		link_id = @link, recurring_index = @recurring_index, fraud_score = @fraud_score, fraud_signals = @fraud_signals, version = @version
	where workspace_id = @workspace and mode = @mode and id = @conversion and decision_id = @supersedes`

// LockAwaited locks a conversion whose click has arrived. It also reads those inputs of
// the decision that must be read under locks. It returns the conversion as it is stored
// now, because refunds or another decision may have changed it since the caller read it.
func LockAwaited(
	ctx context.Context, tx *postgres.Tx, c conversion.Conversion, in attribution.Inputs,
) (conversion.StoredConversion, attribution.Inputs, error) {
	s := signals{conversion: c, inputs: in}
	if err := lockSignals(ctx, tx, &s); err != nil {
		return conversion.StoredConversion{}, in, err
	}
	stored, err := postgres.OneRow[conversion.StoredConversion](tx.Query(ctx, lockConversion, c.Workspace, c.Mode, c.ID))
	if err != nil {
		return stored, in, err
	}
	err = readFacts(ctx, tx, &s)
	return stored, s.inputs, err
}

// ApplyLateAttribution puts a decision about a locked conversion in force and stores
// everything that follows from the decision. After that, the conversion no longer waits
// for its click.
func ApplyLateAttribution(ctx context.Context, tx *postgres.Tx, l conversion.LateAttribution) error {
	c, d, batch := l.Conversion, l.Decision, &pgx.Batch{}
	queueSupersede(batch, c, d)
	batch.Queue(deleteAwaitedClick, c.Workspace, c.Mode, c.ID, c.Click)
	queueOutcomes(batch, outcome{signals{conversion: c, inputs: l.Inputs}, d, l.NewCommission})
	commissions.QueueChanges(batch, l.Changes...)
	if err := postgres.Send(ctx, tx, "apply late attribution", batch); err != nil {
		return err
	}
	if !d.Attributed {
		// The conversion is still not attributed. Only the reason has changed, and this
		// causes no event.
		return nil
	}
	events := []affiliate.Event{c.Event(affiliate.EventConversionReattributed, d, d.DecidedAt)}
	if err := tx.Publish(ctx, outcomeEvents(events, c, d, l.Changes)...); err != nil {
		return err
	}
	return tx.Enqueue(ctx, redemptionJobs(c.Scope, l.Inputs, d)...)
}

// queueSupersede queues the statements that store a decision about a locked conversion
// and put it in force, and that make the analytics count the conversion again.
func queueSupersede(batch *pgx.Batch, c conversion.Conversion, d attribution.Decision) {
	batch.Queue(supersede, pgx.NamedArgs{
		"workspace": c.Scope.Workspace, "mode": c.Scope.Mode, "conversion": c.ID, "supersedes": d.Supersedes,
		"decision": d.ID, "attributed": d.Attributed, "reason": d.Reason, "program": d.Program, "participant": d.Participant,
		"link": d.Link, "recurring_index": d.RecurringIndex,
		"fraud_score": fraud.Score(d.Trace.Fraud), "fraud_signals": signalsOf(d), "version": c.Version,
	}).Exec(postgres.IfNone(fmt.Errorf("conversion %s has another decision in force, although it was locked", c.ID)))
	postgres.QueueConversionLog(batch, c.Scope, c.ID)
	queueDecisions(batch, outcome{signals: signals{conversion: c}, decision: d})
}
