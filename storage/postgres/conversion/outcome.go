package conversion

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	frauds "github.com/tributary-hq/tributary/storage/postgres/fraud"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// commissionAfter returns the commission after the last change, or nil without changes.
func commissionAfter(changes []commission.Change) *commission.Commission {
	if len(changes) == 0 {
		return nil
	}
	return &changes[len(changes)-1].After
}

// outcome is the decision about a conversion and the new commission that it earns.
type outcome struct {
	signals
	decision   attribution.Decision
	commission *commission.Commission // nil if the conversion earns nothing
}

// queueOutcomes queues the statements that follow from decisions: they insert commissions and
// fraud events, add redemptions, bind customers and update the stats. The caller queues the
// statements that insert conversions and change commissions.
func queueOutcomes(batch *pgx.Batch, all ...outcome) {
	var earned []commission.Commission
	var deltas []analytics.StatsDelta
	for _, o := range all {
		if o.commission != nil {
			earned = append(earned, *o.commission)
		}
		if o.decision.Attributed {
			deltas = append(deltas, o.conversion.StatsDeltas(o.decision, o.commission)...)
		}
	}
	commissions.Queue(batch, earned...)
	counters.Queue(batch, deltas...)
	for _, o := range all {
		c, d := o.conversion, o.decision
		if d.Attributed {
			queueTestParticipant(batch, c.Scope, *d.Participant)
		}
		frauds.QueueEvent(batch, c, d, o.commission)
		if d.Redeems != nil {
			queueRedemption(batch, c.Scope, *d.Redeems)
		}
		if d.Attributed && c.CustomerRef != nil {
			queueBindingAndPayment(batch, o)
		}
	}
}

// lockTestParticipant keeps a participant from being deleted until the transaction ends.
const lockTestParticipant = `
	select from participants where workspace_id = $1 and mode = $2 and id = $3 for key share`

// queueTestParticipant queues a statement that makes the transaction fail with
// privacy.ErrParticipantDeleted if a deletion of test data has deleted the participant
// after the decision. Participants of live mode are never deleted.
func queueTestParticipant(batch *pgx.Batch, scope affiliate.Scope, id affiliate.ParticipantID) {
	if scope.Mode != affiliate.ModeTest {
		return
	}
	batch.Queue(lockTestParticipant, scope.Workspace, scope.Mode, id).Exec(postgres.IfNone(privacy.ErrParticipantDeleted))
}

// queueBindingAndPayment binds the customer of an attributed conversion, unless the customer is
// already bound, and adds 1 to the customer's payments if the conversion is a payment.
func queueBindingAndPayment(batch *pgx.Batch, o outcome) {
	c, d := o.conversion, o.decision
	if o.inputs.Customer.Binding == nil {
		queueBinding(batch, c, newBinding(c, o.inputs, d))
	}
	if d.RecurringIndex != nil {
		batch.Queue(countPayment, c.Workspace, c.Mode, c.CustomerRef, d.Program, c.OccurredAt)
	}
}

// attributedEarner returns the participant to whom a decision attributes the conversion.
func attributedEarner(in attribution.Inputs, d attribution.Decision) attribution.Earner {
	switch *d.Method {
	case attribution.ByClick:
		return in.FoundClick.Earner
	case attribution.ByPromoCode:
		return in.FoundPromoCode.Earner
	case attribution.ByCustomer:
		return in.Customer.Binding.Earner
	case attribution.ByAssignment:
		return *in.Assigned
	}
	panic("postgres: unexpected attribution method " + string(*d.Method))
}

// outcomeEvents appends the events of a conversion's commission and of its fraud signals.
func outcomeEvents(events []affiliate.Event, c conversion.Conversion, d attribution.Decision, changes []commission.Change) []affiliate.Event {
	for _, change := range changes {
		events = append(events, change.Events()...)
	}
	return append(events, frauds.Events(c, d)...)
}

// redemptionJobs returns a job that updates the edge directory if a decision uses the
// last allowed redemption of a promo code. The edge must then no longer offer the code.
func redemptionJobs(scope affiliate.Scope, in attribution.Inputs, d attribution.Decision) []affiliate.Job {
	code := in.FoundPromoCode
	if d.Redeems == nil || code.MaxRedemptions == nil || code.Redemptions+1 < *code.MaxRedemptions {
		return nil
	}
	return []affiliate.Job{affiliate.SyncDirectory{Workspace: scope.Workspace, Participant: &code.Participant}}
}

// insertConversions inserts the conversions whose external id does not exist yet and returns
// their ids. Only this statement finds all duplicates: if several transactions insert an
// external id, one of them succeeds.
var insertConversions = postgres.RowsOf[newConversionRow](`
	insert into conversions ({columns})
	values {rows}
	on conflict (workspace_id, mode, external_transaction_id) do nothing
	returning id`)

type newConversionRow struct {
	conversion.Conversion
	conversion.CurrentDecision
	FraudScore   int
	FraudSignals []fraud.Signal
}

// rowOfConversion returns the row to insert for a conversion and the decision about it.
func rowOfConversion(c conversion.Conversion, d attribution.Decision) newConversionRow {
	return newConversionRow{c, conversion.DecisionInForce(d), fraud.Score(d.Trace.Fraud), signalsOf(d)}
}

// signalsOf returns the fraud signals of a decision; not nil, because they become JSON.
func signalsOf(d attribution.Decision) []fraud.Signal {
	return append([]fraud.Signal{}, d.Trace.Fraud...)
}

var insertDecisions = postgres.RowsOf[newDecision](`insert into attribution_decisions ({columns}) values {rows}`)

type newDecision struct {
	affiliate.Scope
	attribution.Decision
}

// queueDecisions adds the decisions of outcomes to a batch.
func queueDecisions(batch *pgx.Batch, all ...outcome) {
	rows := make([]newDecision, len(all))
	for i, o := range all {
		rows[i] = newDecision{o.conversion.Scope, o.decision}
	}
	insertDecisions.Queue(batch, rows...)
}

// claimKeys claims the idempotency keys of the reports that have one. It sets the stored
// response or the error of each report whose key was claimed before.
func claimKeys(ctx context.Context, tx *postgres.Tx, all []*Report) error {
	keyed := slices.DeleteFunc(slices.Clone(all), func(r *Report) bool { return r.Key == nil })
	if len(keyed) == 0 {
		return nil
	}
	slices.SortFunc(keyed, func(a, b *Report) int {
		return cmp.Or(a.Conversion.Compare(b.Conversion.Scope), cmp.Compare(a.Key.Method, b.Key.Method), cmp.Compare(a.Key.Key, b.Key.Key))
	})
	batch := &pgx.Batch{}
	for _, r := range keyed {
		postgres.QueueClaim(batch, r.Conversion.Scope, *r.Key, &r.keyClaimed)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	for _, r := range keyed {
		if r.keyClaimed {
			continue
		}
		stored, err := postgres.ReadStored(ctx, tx, r.Conversion.Scope, *r.Key)
		r.Replay = stored.Response
		var refusal *affiliate.Error
		switch {
		case errors.As(err, &refusal):
			r.Err = err
		case err != nil:
			return err
		}
	}
	return nil
}
