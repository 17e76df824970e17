package conversion

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	frauds "github.com/tributary-hq/tributary/storage/postgres/fraud"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// commissionAfter returns the commission after the last change, or nil if there are no
// changes.
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

// queueOutcomes queues the statements that follow from decisions: they insert commissions
// and fraud events, count redemptions, bind customers and update the stats. The caller
// queues the statements for the conversions and calls commissions.QueueChanges for the
// commissions.
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

// queueBindingAndPayment binds the customer of an attributed conversion to the
// participant, unless the customer is already bound. If the conversion is a recurring
// payment, it also counts the payment.
func queueBindingAndPayment(batch *pgx.Batch, o outcome) {
	c, d := o.conversion, o.decision
	if o.inputs.Customer.Binding == nil {
		queueBinding(batch, c, newBinding(c, o.inputs, d))
	}
	if d.RecurringIndex != nil {
		batch.Queue(countPayment, c.Workspace, c.Mode, c.CustomerRef, d.Program, c.OccurredAt)
	}
}

// attributedEarner returns the participant to whom a decision attributes the conversion,
// with the rules of the programme.
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

// outcomeEvents appends the events of a conversion's commission and of its fraud
// signals.
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
	return []affiliate.Job{affiliate.SyncDirectory{Workspace: scope.Workspace, Participant: &code.Earner.Participant}}
}
