package affiliate

import "time"

// CommissionChange is a commission around a move. Everything that follows from
// the move is read off it, and nothing that follows is decided anywhere else.
type CommissionChange struct {
	Before     *Commission // nil: it came into being
	After      Commission
	Transition CommissionTransition
}

// Created is the change by which a commission begins; note is why a person
// caused it.
func Created(c Commission, actor Actor, note *string) CommissionChange {
	return CommissionChange{After: c, Transition: CommissionTransition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Move: MoveCreate, Actor: actor, At: c.CreatedAt, Note: note,
	}}
}

// Note is what the history says about the change.
func (c CommissionChange) Note() *string {
	if c.Transition.Note != nil {
		return c.Transition.Note
	}
	return c.Transition.Reason
}

// owedCents is what of a commission stands in the ledger: nothing before
// approval and after the end, all of it between.
func (c Commission) owedCents() int64 {
	if c.Status == CommissionApproved || c.Status == CommissionPaid {
		return c.AmountCents
	}
	return 0
}

// EarnedCents is what of a commission counts as earned: all of it unless it was
// rejected. What was refunded has an amount of 0.
func (c Commission) EarnedCents() int64 {
	if c.Status == CommissionRejected {
		return 0
	}
	return c.AmountCents
}

// EarnedCents is by how much the change raises what its participant has earned.
func (c CommissionChange) EarnedCents() int64 {
	if c.Before == nil {
		return c.After.EarnedCents()
	}
	return c.After.EarnedCents() - c.Before.EarnedCents()
}

// LedgerEntry is what the change adds to the ledger; nil: nothing. So the sum of
// a commission's entries is always what is owed for it.
func (c CommissionChange) LedgerEntry() *LedgerEntry {
	cents := c.After.owedCents()
	kind := EntryCommissionApproved
	if c.Before != nil {
		cents -= c.Before.owedCents()
		switch {
		case cents < 0 && c.Before.Status == CommissionPaid:
			kind = EntryClawback
		case cents < 0:
			kind = EntryCommissionReversed
		}
	}
	if cents == 0 {
		return nil
	}
	at := c.Transition.At
	return &LedgerEntry{
		ID: NewID[LedgerEntry](at), Scope: c.After.Scope, Program: c.After.Program, Participant: c.After.Participant,
		Partner: c.After.Partner, Type: kind, AmountCents: cents, Currency: c.After.Currency,
		Commission: &c.After.ID, CreatedBy: c.Transition.Actor.String(), CreatedAt: at,
	}
}

// CommissionCount is a group of commissions that lists count together.
type CommissionCount struct {
	Scope       Scope
	Program     ProgramID
	Status      CommissionStatus
	NeedsReview bool
	Currency    string
	Day         time.Time // 00:00 UTC of the day in which they came into being
}

// Counted is the group that a commission is counted in.
func (c Commission) Counted() CommissionCount {
	return CommissionCount{
		Scope: c.Scope, Program: c.Program, Status: c.Status, NeedsReview: c.NeedsReview, Currency: c.Currency,
		Day: c.CreatedAt.UTC().Truncate(24 * time.Hour),
	}
}

// Events are what the world is told of the change.
func (c CommissionChange) Events() []Event {
	at := c.Transition.At
	if c.Before == nil {
		events := []Event{CommissionEvent(EventCommissionCreated, at, nil, c.After)}
		if c.After.Status == CommissionApproved {
			events = append(events, CommissionEvent(EventCommissionApproved, at, nil, c.After))
		}
		if c.After.NeedsReview {
			events = append(events, CommissionEvent(EventCommissionReviewRequired, at, nil, c.After))
		}
		return events
	}
	event := CommissionEvent(commissionMoves[c.Transition.Move].event, at, c.Before, c.After)
	if event.Name == EventCommissionRefunded {
		event.Object = c.refundedPayload()
	}
	return []Event{event}
}

// refundedPayload is the object of commission.refunded.
func (c CommissionChange) refundedPayload() any {
	type refund struct {
		Type          string       `json:"type"`         // full or partial
		AmountCents   int64        `json:"amount_cents"` // that the commission lost
		Reason        RefundReason `json:"reason"`
		ClawbackCents int64        `json:"clawback_cents"` // of it, after it was paid
	}
	told := refund{Type: "partial", AmountCents: c.Before.AmountCents - c.After.AmountCents, Reason: c.Transition.Why}
	if c.After.Status == CommissionRefunded {
		told.Type = "full"
	}
	if c.Before.Status == CommissionPaid {
		told.ClawbackCents = told.AmountCents
	}
	return struct {
		commissionPayload
		Refund refund `json:"refund"`
	}{c.After.payload(), told}
}
