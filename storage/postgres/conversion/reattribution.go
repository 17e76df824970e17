package conversion

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// lockCustomerOf locks the customer of a stored conversion in the same way as
// lockCustomers. It does nothing if the conversion has no customer.
const lockCustomerOf = `
	insert into customers as u (workspace_id, mode, ref, created_at)
	select c.workspace_id, c.mode, c.customer_ref, c.created_at
	from conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3 and c.customer_ref is not null
	on conflict (workspace_id, mode, ref) do update set created_at = u.created_at`

var lockConversion = `
	select ` + conversionColumns + `
	from conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3
	for no key update`

// findParticipant reads the participant to whom a merchant assigns a conversion. The
// participant can belong to any programme of the mode.
const findParticipant = `
	select ` + earnerColumns + `
	from (
		select t.workspace_id, t.mode, t.program_id, t.id as participant_id from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.id = $3
	) as x` + earnerOfX

// findActiveCommission selects the commission that belongs to the decision in force,
// unless the commission was rejected or refunded.
const findActiveCommission = `
	select m.id
	from conversions c
	join commissions m on m.workspace_id = c.workspace_id and m.mode = c.mode and m.decision_id = c.decision_id
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3 and m.status in ('pending', 'approved', 'paid')`

// LockAttribution locks a conversion that a member assigns to a participant, and
// everything that changes with it. It locks customer, conversion and commission in this
// order. Errors: NOT_FOUND.
func LockAttribution(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ConversionID, participant affiliate.ParticipantID,
) (conversion.LockedAttribution, error) {
	var a conversion.LockedAttribution
	batch := &pgx.Batch{}
	batch.Queue(lockCustomerOf, scope.Workspace, scope.Mode, id)
	batch.Queue(lockConversion, scope.Workspace, scope.Mode, id).Query(func(rows pgx.Rows) (err error) {
		a.StoredConversion, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[conversion.StoredConversion])
		if errors.Is(err, pgx.ErrNoRows) {
			err = affiliate.Refuse(affiliate.ReasonNotFound)
		}
		return err
	})
	postgres.QueueFirst(batch, &a.Assignee, findParticipant, scope.Workspace, scope.Mode, participant)
	var commissions []affiliate.CommissionID
	postgres.QueueValues(batch, &commissions, findActiveCommission, scope.Workspace, scope.Mode, id)
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return a, err
	}
	locked, err := payouts.LockCommissions(ctx, tx, scope, commissions)
	if err != nil {
		return a, err
	}
	for _, c := range locked {
		if c.Status != commission.Rejected && c.Status != commission.Refunded {
			a.CurrentCommission = &c
		}
	}
	err = readCustomerAndRates(ctx, tx, &a)
	return a, err
}

// readCustomerAndRates reads the customer and exchange rates of a locked attribution.
func readCustomerAndRates(ctx context.Context, tx *postgres.Tx, a *conversion.LockedAttribution) error {
	batch := &pgx.Batch{}
	found := attribution.Inputs{Assigned: a.Assignee}
	queueRates(batch, a.Conversion, &found)
	if a.CustomerRef != nil {
		a.Customer = queueCustomerReads(batch, a.Scope, *a.CustomerRef)
		queuePaymentsBefore(batch, a.Conversion, a.Customer)
	}
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return err
	}
	a.Rates = found.Rates
	if a.Customer != nil && a.RecurringIndex != nil && a.Program != nil {
		// The payment gets the number that comes after this count. If the conversion
		// stays in its programme, the payment therefore keeps its recurring_index.
		payments := a.Customer.Payments[*a.Program]
		payments.Count = *a.RecurringIndex - 1
		a.Customer.Payments[*a.Program] = payments
	}
	return nil
}

// ApplyReattribution stores a reattribution of a locked conversion, with its effects.
func ApplyReattribution(ctx context.Context, tx *postgres.Tx, r conversion.Reattribution) error {
	c, batch := r.Conversion, &pgx.Batch{}
	queueSupersede(batch, c, r.Decision)
	if c.Click != nil {
		batch.Queue(deleteAwaitedClick, c.Workspace, c.Mode, c.ID, c.Click)
	}
	if r.NewCommission != nil {
		commissions.Queue(batch, *r.NewCommission)
	}
	if r.Decision.Participant != nil {
		queueTestParticipant(batch, c.Scope, *r.Decision.Participant)
	}
	if r.Binding != nil {
		queueBinding(batch, c, *r.Binding)
	}
	if len(r.Recount) > 0 {
		queueRecount(batch, c.Scope, *c.CustomerRef, r.Recount)
	}
	counters.Queue(batch, r.Deltas...)
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return err
	}
	if err := payouts.UpdatePayouts(ctx, tx, r.Changes); err != nil {
		return err
	}
	if err := commissions.StoreChanges(ctx, tx, r.Changes...); err != nil {
		return err
	}
	if err := tx.Publish(ctx, r.Events()...); err != nil {
		return err
	}
	return tx.Audit(ctx, r.Audit)
}

// supersede replaces the decision in force of a locked conversion.
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

// ApplyLateAttribution puts a decision about a locked conversion in force, with
// everything that follows from it. The conversion no longer waits for its click.
func ApplyLateAttribution(ctx context.Context, tx *postgres.Tx, l conversion.LateAttribution) error {
	c, d, batch := l.Conversion, l.Decision, &pgx.Batch{}
	queueSupersede(batch, c, d)
	batch.Queue(deleteAwaitedClick, c.Workspace, c.Mode, c.ID, c.Click)
	queueOutcomes(batch, outcome{signals{conversion: c, inputs: l.Inputs}, d, l.NewCommission})
	commissions.QueueChanges(batch, l.Changes...)
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return err
	}
	if !d.Attributed {
		// Only the reason has changed, and this causes no event.
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
