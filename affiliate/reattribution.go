package affiliate

import (
	"fmt"
	"time"
)

// StoredConversion is a recorded conversion with the decision in force. Of the buyer it
// has what an attribution needs.
type StoredConversion struct {
	Conversion
	Decision       DecisionID
	Attributed     bool
	Program        *ProgramID
	Participant    *ParticipantID
	Link           *LinkID
	RecurringIndex *int
}

// LockedAttribution is a stored conversion that a person gives to a participant, with
// everything that goes along. All of it is locked.
type LockedAttribution struct {
	StoredConversion
	// To is the participant who gets the conversion; nil if the mode does not have them.
	To *Earner
	// Customer is nil if the buyer was not named. Its payments are those before this
	// conversion.
	Customer *FoundCustomer
	Rates    map[string]FXRate // as in AttributionInputs
	// Earned is what the decision in force earns; nil: nothing, or it was rejected or
	// refunded.
	Earned *LockedCommission
}

// Refusal says why the conversion may not be given to a participant; nil: it may.
// Errors: VALIDATION_ERROR if the participant is unknown, or has the conversion and earns
// by it; PARTICIPANT_ERASED.
func (a LockedAttribution) Refusal(to ParticipantID) error {
	switch {
	case a.To == nil:
		return Invalid("participant_id", "must be a participant of this workspace and mode")
	case a.Participant != nil && *a.Participant == to && a.Earned != nil:
		return Invalid("participant_id", "must be another participant than the one who has the conversion and earns by it")
	case a.To.ParticipantErased:
		return Refuse(ReasonParticipantErased)
	}
	return nil
}

// Reattribution is a person's decision that supersedes the one in force, with
// everything that follows from it.
type Reattribution struct {
	Conversion Conversion // with its new version
	Decision   Decision
	Begun      *Commission // what the decision earns, before any refund; nil: nothing
	// Changes are the changes of the commission that the decision before has earned,
	// and then those of Begun.
	Changes []CommissionChange
	Binding *Binding    // the customer's new one; nil: it stays
	Recount []ProgramID // where the customer's payments are counted again
	Deltas  []StatsDelta
	Audit   AuditLine
}

// Reattribute returns what follows when d, by which commission is earned, supersedes
// the decision in force. The reason is the person's own text.
func (a LockedAttribution) Reattribute(d Decision, commission *Commission, by Actor, at time.Time, reason string) (Reattribution, error) {
	if !d.Attributed {
		return Reattribution{}, fmt.Errorf("conversion %s is given to a participant and not attributed: %s", a.ID, d.Reason)
	}
	d.Supersedes = &a.Decision
	after := a.Conversion
	after.Version++
	changes, err := BeginCommission(commission, after, by, &reason, at)
	if err != nil {
		return Reattribution{}, err
	}
	if a.Earned != nil {
		taken, err := a.Earned.takeAway(by, at, reason)
		if err != nil {
			return Reattribution{}, err
		}
		changes = append([]CommissionChange{taken}, changes...)
	}
	r := Reattribution{
		Conversion: after, Decision: d, Begun: commission, Changes: changes,
		Binding: a.newBinding(), Deltas: append(a.takenBack(d.DecidedAt), d.Brought(after, commission)...),
		Audit: AuditLine{
			Workspace: a.Scope.Workspace, Mode: &a.Scope.Mode, Actor: by, At: at,
			Action: "conversion.reattribute", ResourceType: "conversion", ResourceID: a.ID,
			Before: auditedAttribution{Program: a.Program, Participant: a.Participant},
			After:  auditedAttribution{Program: d.Program, Participant: d.Participant, Reason: reason},
		},
	}
	switch {
	case a.CustomerRef == nil:
	case a.Program == nil:
		r.Recount = []ProgramID{*d.Program}
	case *a.Program != *d.Program:
		r.Recount = []ProgramID{*d.Program, *a.Program}
	}
	return r, nil
}

// auditedAttribution has the fields that a reattribution changes.
type auditedAttribution struct {
	Program     *ProgramID     `json:"program_id"`
	Participant *ParticipantID `json:"participant_id"`
	Reason      string         `json:"reason,omitempty"`
}

// Commission returns what the decision earns, with the refunds of its sale; nil:
// nothing.
func (r Reattribution) Commission() *Commission {
	if r.Begun == nil {
		return nil
	}
	return &r.Changes[len(r.Changes)-1].After
}

// Events returns the webhook events of the reattribution.
func (r Reattribution) Events() []Event {
	events := []Event{r.Conversion.Event(EventConversionReattributed, r.Decision, r.Audit.At)}
	for _, change := range r.Changes {
		events = append(events, change.Events()...)
	}
	return events
}

// reattributedReason is the rejection reason of a commission whose conversion was given
// to another participant. The person's own text is in the history.
const reattributedReason = "reattributed"

// takeAway rejects the commission, or claws it back if it is paid.
func (c LockedCommission) takeAway(by Actor, at time.Time, reason string) (CommissionChange, error) {
	t := CommissionTransition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Actor: by, At: at, Note: &reason,
		Move: MoveClawBack, Why: ReassignedSale,
	}
	if c.Status != CommissionPaid {
		because := reattributedReason
		t.Move, t.Reason = MoveReject, &because
	}
	return c.Move(t)
}

// newBinding returns the customer's binding to the participant who gets the conversion.
// It keeps the age of the binding before, and its window if the programme is the same. It
// returns nil if the customer is bound to a third participant: that binding stays.
func (a LockedAttribution) newBinding() *Binding {
	if a.Customer == nil {
		return nil
	}
	before := a.Customer.Binding
	if before != nil && (a.Participant == nil || before.Earner.Participant != *a.Participant) {
		return nil
	}
	to := Binding{BoundAt: a.OccurredAt, SignalAt: a.OccurredAt, Earner: *a.To}
	if before != nil {
		to.BoundAt, to.SignalAt = before.BoundAt, before.SignalAt
	}
	to.WindowEndsAt = WindowEnd(to.BoundAt, to.Earner.WindowDays)
	if before != nil && before.Earner.Program == to.Earner.Program {
		to.WindowEndsAt = before.WindowEndsAt
	}
	return &to
}

// takenBack is what the participant who had the conversion loses of the counts. Refunds
// have taken their part of the revenue before. What it earned is counted by the
// commission's move.
func (a LockedAttribution) takenBack(at time.Time) []StatsDelta {
	if !a.Attributed || a.Program == nil || a.Participant == nil {
		return nil
	}
	had := Decision{Program: a.Program, Participant: a.Participant, Link: a.Link, DecidedAt: at}
	deltas := had.Brought(a.Conversion, nil)
	for i := range deltas {
		d := &deltas[i]
		d.Conversions, d.Signups, d.RevenueCents = -d.Conversions, -d.Signups, -d.RevenueCents
	}
	return deltas
}

// LateAttribution is a decision about a conversion whose click came after it. The
// decision supersedes the one in force.
type LateAttribution struct {
	Conversion Conversion // with its new version
	Inputs     AttributionInputs
	Decision   Decision
	Begun      *Commission // what the decision earns, before any refund; nil: nothing
	Changes    []CommissionChange
}

// AttributeLate returns what follows when d, which was made of the inputs and by which
// commission is earned, supersedes the decision in force.
func (c StoredConversion) AttributeLate(in AttributionInputs, d Decision, commission *Commission) (LateAttribution, error) {
	d.Supersedes = &c.Decision
	after := c.Conversion
	after.Version++
	changes, err := BeginCommission(commission, after, System, nil, d.DecidedAt)
	return LateAttribution{Conversion: after, Inputs: in, Decision: d, Begun: commission, Changes: changes}, err
}
