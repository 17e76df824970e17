package payout

import (
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

// Due holds the amount that could be paid to one participant in one currency, and the values that decide about it.
type Due struct {
	Payee
	ProgramName       string
	PartnerName       string
	CommissionCount   int64
	CommissionCents   int64 // of payable commissions
	AdjustmentCents   int64 // other ledger entries that are in no open payout
	PeriodStart       *time.Time
	PeriodEnd         *time.Time
	MinPayoutCents    int64   // in minor units of Currency; 0 means no minimum
	Method            *Method // nil if the partner has set none
	AccountHeld       bool    // Details.HeldUntil is in the future
	ParticipantStatus participant.Status
	ParticipantErased bool
}

// AmountCents returns the amount that a payout would have, also if the participant is excluded.
func (d Due) AmountCents() int64 { return d.CommissionCents + d.AdjustmentCents }

// Exclusion is the reason why a participant gets no payout.
type Exclusion string

// The exclusions.
const (
	BelowMinimum           Exclusion = "below_minimum"
	NoPayoutMethod         Exclusion = "no_payout_method"
	AccountChanged         Exclusion = "payout_account_changed"
	ParticipantNotApproved Exclusion = "participant_not_approved"
	NegativeBalance        Exclusion = "negative_balance"
)

// Exclusion returns the first reason why no payout can be made from d; empty if there is
// no such reason. An amount of 0 counts as below the minimum even if no minimum is set.
func (d Due) Exclusion() Exclusion {
	switch cents := d.AmountCents(); {
	case d.ParticipantStatus != participant.Approved || d.ParticipantErased:
		return ParticipantNotApproved
	case d.Method == nil:
		return NoPayoutMethod
	case d.AccountHeld:
		return AccountChanged
	case cents < 0:
		return NegativeBalance
	case cents == 0 || cents < d.MinPayoutCents:
		return BelowMinimum
	}
	return ""
}

// WithAccountOf returns d with the method of p if p is confirmed. A confirmed payout keeps its
// account, so a later change of the partner's payout method does not exclude it.
func (d Due) WithAccountOf(p Payout) Due {
	if p.InitiatedAt != nil {
		d.Method, d.AccountHeld = &p.Method, false
	}
	return d
}

// WithCommissions returns d with the count, the amount and the period of the given commissions.
func (d Due) WithCommissions(commissions []Candidate) Due {
	d.CommissionCount, d.CommissionCents, d.PeriodStart, d.PeriodEnd = int64(len(commissions)), 0, nil, nil
	for _, c := range commissions {
		d.CommissionCents += c.AmountCents
		if d.PeriodStart == nil || c.ApprovedAt.Before(*d.PeriodStart) {
			d.PeriodStart = &c.ApprovedAt
		}
		if d.PeriodEnd == nil || c.ApprovedAt.After(*d.PeriodEnd) {
			d.PeriodEnd = &c.ApprovedAt
		}
	}
	return d
}

// MaxBatchCommissions is the greatest number of commissions in a batch with several payouts. A
// single payout may have more. Every move of a batch or payout runs in one transaction, which
// must finish within the time limit of a request even if the database is busy. The move that
// marks payouts as paid takes about 0.3 ms for each commission.
const MaxBatchCommissions = 25_000

// FitBatch returns the elements that fit into one batch, but at least one. It sorts them by
// PeriodStart, so that the longest wait comes first. The next batches pay the rest.
func FitBatch(payable []Due) []Due {
	waitingSince := func(d Due) time.Time {
		if d.PeriodStart == nil {
			return time.Time{}
		}
		return *d.PeriodStart
	}
	payable = slices.SortedStableFunc(slices.Values(payable), func(a, b Due) int { return waitingSince(a).Compare(waitingSince(b)) })
	var commissions int64
	for i, d := range payable {
		if commissions += d.CommissionCount; commissions > MaxBatchCommissions && i > 0 {
			return payable[:i]
		}
	}
	return payable
}

// BatchParticipants returns the participants of a new batch: FitBatch chooses among those without an Exclusion.
func BatchParticipants(due []Due) []affiliate.ParticipantID {
	payable := slices.DeleteFunc(slices.Clone(due), func(d Due) bool { return d.Exclusion() != "" })
	var participants []affiliate.ParticipantID
	for _, d := range FitBatch(payable) {
		participants = append(participants, d.Participant)
	}
	return participants
}

// Candidate is a locked commission that is in a payout or may be added to one.
type Candidate struct {
	ID          affiliate.CommissionID
	Participant affiliate.ParticipantID `db:"participant_id"`
	Currency    string
	Payout      *affiliate.PayoutID `db:"payout_id"` // the payout with the commission; nil if no payout has it
	AmountCents int64
	ApprovedAt  time.Time
	// Payable says that the commission's status, review flag and disputes allow it in a new or existing payout.
	Payable bool
}

// LimitAmount returns d with an amount that is at most the amount of the payout. A payout therefore
// never exceeds the amount that a member has seen and confirmed. New bonuses wait for the next payout.
func (d Due) LimitAmount(p Payout) Due {
	if excess := d.AmountCents() - p.AmountCents; excess > 0 {
		d.AdjustmentCents -= excess
	}
	return d
}

// WithAmounts returns the payout with the amounts of d, which must have no Exclusion.
func (p Payout) WithAmounts(d Due) Payout {
	p.AmountCents, p.AdjustmentCents, p.CommissionCount = d.AmountCents(), d.AdjustmentCents, d.CommissionCount
	p.PeriodStart, p.PeriodEnd, p.Method = d.PeriodStart, d.PeriodEnd, *d.Method
	return p
}

// RecheckedPayouts has the changes of payouts whose amounts were computed again.
type RecheckedPayouts struct {
	Changes  []Change
	Open     []affiliate.PayoutID // the payouts that are not canceled
	Kept     []Candidate          // the commissions that stay in these payouts
	Released []Candidate          // the commissions that leave their payouts
}

// Recheck makes the move t with each of the payouts and computes its amount again. If the new
// amount cannot be paid, Recheck cancels the payout. The parameter due has the amounts due to
// the participants, and held has the commissions in the payouts.
func (t Transition) Recheck(payouts []Payout, due []Due, held []Candidate) (RecheckedPayouts, error) {
	amounts := dueByBalance(due)
	payable := map[affiliate.PayoutID][]Candidate{}
	for _, c := range held {
		if c.Payable {
			payable[*c.Payout] = append(payable[*c.Payout], c)
		}
	}
	var r RecheckedPayouts
	canceled := map[affiliate.PayoutID]bool{}
	for _, p := range payouts {
		d := amounts[balance{p.Participant, p.Currency}].WithCommissions(payable[p.ID])
		// The amount due does not contain the adjustments of open payouts. This payout is
		// open too, so its own adjustment is added again.
		d.AdjustmentCents += p.AdjustmentCents
		d = d.WithAccountOf(p).LimitAmount(p)
		move := t
		if canceled[p.ID] = d.Exclusion() != ""; canceled[p.ID] {
			move.Move = MoveCancel
		}
		change, refusal := move.Apply(p)
		if refusal != nil {
			return r, refusal
		}
		if !canceled[p.ID] {
			change.After = change.After.WithAmounts(d)
			r.Open = append(r.Open, p.ID)
		}
		r.Changes = append(r.Changes, change)
	}
	for _, c := range held {
		if c.Payable && !canceled[*c.Payout] {
			r.Kept = append(r.Kept, c)
		} else {
			r.Released = append(r.Released, c)
		}
	}
	return r, nil
}

func dueByBalance(due []Due) map[balance]Due {
	found := make(map[balance]Due, len(due))
	for _, d := range due {
		found[balance{d.Participant, d.Currency}] = d
	}
	return found
}

// Readd returns the retry c of a payout with the released commissions, which must be payable
// and in no other payout. The parameter due has the amounts due to the participant. The payout
// gets the current amounts of the commissions and the adjustment that is due now, but not more
// than its amount before. It keeps its account. Errors: PAYOUT_STATE_INVALID.
func (c Change) Readd(released []Candidate, due []Due) (Change, error) {
	p := c.After
	d := dueByBalance(due)[balance{p.Participant, p.Currency}].WithCommissions(released).WithAccountOf(p).LimitAmount(p)
	if d.Exclusion() != "" || len(released) == 0 && p.CommissionCount > 0 {
		return c, c.Before.Refuse()
	}
	c.After = p.WithAmounts(d)
	return c, nil
}

// balance identifies the balance of a participant in one currency.
type balance struct {
	Participant affiliate.ParticipantID
	Currency    string
}
