package conversion

import (
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// StoredConversion is a recorded conversion with its current decision. The fields of the
// embedded Conversion that an attribution needs are set.
type StoredConversion struct {
	Conversion
	CurrentDecision
	BuyerErased bool
}

// CurrentDecision has the data about the decision in force that the row of a conversion contains.
type CurrentDecision struct {
	Decision       affiliate.DecisionID `db:"decision_id"`
	Attributed     bool
	Reason         attribution.Reason       `db:"reason_code"`
	Program        *affiliate.ProgramID     `db:"program_id"`
	Participant    *affiliate.ParticipantID `db:"participant_id"`
	Link           *affiliate.LinkID        `db:"link_id"`
	RecurringIndex *int
}

// DecisionInForce returns the data about a new decision that the row of a conversion contains.
func DecisionInForce(d attribution.Decision) CurrentDecision {
	return CurrentDecision{
		Decision: d.ID, Attributed: d.Attributed, Reason: d.Reason,
		Program: d.Program, Participant: d.Participant, Link: d.Link, RecurringIndex: d.RecurringIndex,
	}
}

// LockedAttribution is a stored conversion that a person assigns to a participant, with
// the rows that the assignment changes. The transaction has locked all of these rows.
type LockedAttribution struct {
	StoredConversion
	// Assignee is the participant to whom the conversion is assigned; nil if the
	// workspace and mode have no participant with the requested id.
	Assignee *attribution.Earner
	// Customer is nil without a buyer. Customer.Payments does not include this conversion.
	Customer *attribution.FoundCustomer
	Rates    map[string]attribution.FXRate // as in attribution.Inputs
	// CurrentCommission is the commission of the current decision. It is nil if
	// nothing is earned, or if the commission was rejected or refunded.
	CurrentCommission *commission.Locked
}

// Refusal returns an error if the conversion cannot be assigned to the requested participant.
// Errors: VALIDATION_ERROR if the participant is unknown, or already earns a commission from
// the conversion; PARTICIPANT_ERASED.
func (a LockedAttribution) Refusal(requested affiliate.ParticipantID) error {
	switch {
	case a.Assignee == nil:
		return affiliate.Invalid("participant_id", "must be a participant of this workspace and mode")
	case a.Participant != nil && *a.Participant == requested && a.CurrentCommission != nil:
		return affiliate.Invalid("participant_id", "must not be the participant who already earns a commission from the conversion")
	case a.Assignee.ParticipantErased:
		return affiliate.Refuse(affiliate.ReasonParticipantErased)
	}
	return nil
}

// Reattribution is a person's decision that replaces the current decision, with the effects of the replacement.
type Reattribution struct {
	Conversion    Conversion // with its new version
	Decision      attribution.Decision
	NewCommission *commission.Commission // commission of Decision, not yet lowered by refunds; nil if nothing is earned
	// Changes holds, in this order: the change of the previous decision's commission, if it has
	// one, and the changes that create NewCommission and adjust it to an open dispute and to
	// earlier refunds.
	Changes []commission.Change
	Binding *attribution.Binding  // the customer's new binding; nil if it does not change
	Recount []affiliate.ProgramID // programmes in which the customer's payments must be counted again
	Deltas  []analytics.StatsDelta
	Audit   affiliate.AuditLine
}

// Reattribute returns the effects of replacing the current decision with d. The parameter earned is the
// commission of d; nil if nothing is earned. The parameter reason is the text that the person entered.
func (a LockedAttribution) Reattribute(d attribution.Decision, earned *commission.Commission, by affiliate.Actor, at time.Time, reason string) (Reattribution, error) {
	if !d.Attributed {
		return Reattribution{}, fmt.Errorf("conversion %s was assigned to a participant but is not attributed: %s", a.ID, d.Reason)
	}
	d.Supersedes = &a.Decision
	after := a.Conversion
	after.Version++
	changes, err := BeginCommission(earned, after, by, &reason, at)
	if err != nil {
		return Reattribution{}, err
	}
	if a.CurrentCommission != nil {
		withdrawn, err := withdraw(*a.CurrentCommission, by, at, reason)
		if err != nil {
			return Reattribution{}, err
		}
		changes = append([]commission.Change{withdrawn}, changes...)
	}
	r := Reattribution{
		Conversion: after, Decision: d, NewCommission: earned, Changes: changes,
		Binding: a.newBinding(), Deltas: append(a.reversedDeltas(d.DecidedAt), after.StatsDeltas(d, earned)...),
		Audit: affiliate.AuditLine{
			Workspace: a.Workspace, Mode: &a.Mode, Actor: by, At: at,
			Action: "conversion.reattribute", ResourceType: "conversion", ResourceID: a.ID,
			Before: attributionAuditFields{Program: a.Program, Participant: a.Participant},
			After:  attributionAuditFields{Program: d.Program, Participant: d.Participant, Reason: reason},
		},
	}
	switch {
	case a.CustomerRef == nil:
	case a.Program == nil:
		r.Recount = []affiliate.ProgramID{*d.Program}
	case *a.Program != *d.Program:
		r.Recount = []affiliate.ProgramID{*d.Program, *a.Program}
	}
	return r, nil
}

// attributionAuditFields holds the fields that the audit log shows for a reattribution.
type attributionAuditFields struct {
	Program     *affiliate.ProgramID     `json:"program_id"`
	Participant *affiliate.ParticipantID `json:"participant_id"`
	Reason      string                   `json:"reason,omitempty"`
}

// Commission returns the commission of the new decision, after refunds; nil if there is
// none.
func (r Reattribution) Commission() *commission.Commission {
	if r.NewCommission == nil {
		return nil
	}
	return &r.Changes[len(r.Changes)-1].After
}

// Events returns the webhook events of the reattribution.
func (r Reattribution) Events() []affiliate.Event {
	events := []affiliate.Event{r.Conversion.Event(affiliate.EventConversionReattributed, r.Decision, r.Audit.At)}
	for _, change := range r.Changes {
		events = append(events, change.Events()...)
	}
	return events
}

// reattributedReason is the rejection reason of a commission whose conversion was
// assigned to another participant. The history shows the text that the person entered.
const reattributedReason = "reattributed"

// withdraw rejects the commission, or claws it back if it is paid.
func withdraw(c commission.Locked, by affiliate.Actor, at time.Time, reason string) (commission.Change, error) {
	t := commission.Transition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Actor: by, At: at, Note: &reason,
		Move: commission.MoveClawBack, RefundReason: commission.ReassignedSale,
	}
	if c.Status != commission.Paid {
		rejectionReason := reattributedReason
		t.Move, t.Reason = commission.MoveReject, &rejectionReason
	}
	return c.Move(t)
}

// newBinding returns the customer's binding to the participant to whom the conversion
// is assigned. The new binding has the time of the previous binding. It also has the
// window of the previous binding if the programme is the same. newBinding returns nil
// if no customer is known, or if the customer is bound to another participant than the
// previous participant of the conversion. In these cases the binding does not change.
func (a LockedAttribution) newBinding() *attribution.Binding {
	if a.Customer == nil {
		return nil
	}
	before := a.Customer.Binding
	if before != nil && (a.Participant == nil || before.Participant != *a.Participant) {
		return nil
	}
	binding := attribution.Binding{BoundAt: a.OccurredAt, SignalAt: a.OccurredAt, Earner: *a.Assignee}
	if before != nil {
		binding.BoundAt, binding.SignalAt = before.BoundAt, before.SignalAt
	}
	binding.WindowEndsAt = click.WindowEnd(binding.BoundAt, binding.WindowDays)
	if before != nil && before.Program == binding.Program {
		binding.WindowEndsAt = before.WindowEndsAt
	}
	return &binding
}

// reversedDeltas returns the deltas that subtract the conversion from the counts of the
// participant to whom it was credited. Earlier refunds were subtracted before. The commission
// is subtracted when it is rejected or clawed back.
func (a LockedAttribution) reversedDeltas(at time.Time) []analytics.StatsDelta {
	if !a.Attributed || a.Program == nil || a.Participant == nil {
		return nil
	}
	previous := attribution.Decision{Program: a.Program, Participant: a.Participant, Link: a.Link, DecidedAt: at}
	deltas := a.StatsDeltas(previous, nil)
	for i := range deltas {
		d := &deltas[i]
		d.Conversions, d.Signups, d.RevenueCents = -d.Conversions, -d.Signups, -d.RevenueCents
	}
	return deltas
}

// LateAttribution is a new decision about a conversion whose click arrived after the
// conversion was recorded. The decision supersedes the decision in force.
type LateAttribution struct {
	Conversion    Conversion // with its new version
	Inputs        attribution.Inputs
	Decision      attribution.Decision
	NewCommission *commission.Commission // commission of Decision, not yet lowered by refunds; nil if nothing is earned
	Changes       []commission.Change
}

// AttributeLate returns the effects of replacing the current decision with d. The parameter in has
// the inputs of d. The parameter commission is the commission of d; nil if nothing is earned.
func (c StoredConversion) AttributeLate(in attribution.Inputs, d attribution.Decision, commission *commission.Commission) (LateAttribution, error) {
	d.Supersedes = &c.Decision
	after := c.Conversion
	after.Version++
	changes, err := BeginCommission(commission, after, affiliate.System, nil, d.DecidedAt)
	return LateAttribution{Conversion: after, Inputs: in, Decision: d, NewCommission: commission, Changes: changes}, err
}

// AttributeLateClick is the job that attributes conversions again when the click that
// their reports named has arrived after the reports.
type AttributeLateClick struct{ click.AwaitedClick }

// Kind returns the name of the job.
func (AttributeLateClick) Kind() string { return "attribute_awaited" }
