package conversion

import (
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// Reversals has the refunds and disputes of a sale: the refunds that the merchant reported, and
// the refunds and disputes of each charge at the payment processor. The disputes that the
// merchant reported form one more element of Charges, with the amount of the sale.
type Reversals struct {
	// ReportedCents is the sum of the refunds that were reported to the API.
	ReportedCents int64
	Charges       []ChargeReversal
}

// ChargeReversal has the refunds and disputes of one charge, in minor units of Currency.
type ChargeReversal struct {
	Currency      string
	AmountCents   int64 // of the charge; 0 if unknown
	RefundedCents int64
	Disputes      []ProcessorDispute
	HappenedAt    *time.Time // when the latest event about the charge happened, according to the processor; nil if only the merchant has reported it
}

// reversedCents returns the part of the charge that was refunded or lost in a dispute, in minor units
// of the sale's currency. A refund and a lost dispute of one charge can be about the same money, so the
// sum is limited to the charge. If the charge has another currency than the reported sale, the reversed
// share of the charge is applied to the sale. Lost disputes are only included if withDisputes is true.
func (c ChargeReversal) reversedCents(paid affiliate.Money, withDisputes bool) int64 {
	reversed, whole := c.RefundedCents, c.AmountCents
	if whole == 0 && c.Currency == paid.Currency {
		whole = paid.Cents
	}
	for _, d := range c.Disputes {
		switch {
		case d.Status != commission.DisputeLost || !withDisputes:
		case d.AmountCents == nil && whole == 0:
			return paid.Cents
		case d.AmountCents == nil:
			reversed += whole
		default:
			reversed += *d.AmountCents
		}
	}
	switch {
	case reversed == 0:
		return 0
	case whole == 0:
		return paid.Cents // another currency, and the share is unknown
	case c.Currency != paid.Currency:
		return affiliate.MustMulDiv(paid.Cents, min(reversed, whole), whole)
	}
	return min(reversed, whole)
}

// totalCents returns the reversed part of a sale, which is at most the amount of the sale.
func (r Reversals) totalCents(paid affiliate.Money, withDisputes bool) int64 {
	total := r.ReportedCents
	for _, c := range r.Charges {
		total += c.reversedCents(paid, withDisputes)
	}
	return min(total, paid.Cents)
}

// dispute returns the status of all disputes together: open if any dispute is open, otherwise
// lost if any is lost, otherwise won or none.
func (r Reversals) dispute() commission.DisputeStatus {
	found := map[commission.DisputeStatus]bool{}
	for _, c := range r.Charges {
		for _, d := range c.Disputes {
			found[d.Status] = true
		}
	}
	for _, status := range []commission.DisputeStatus{commission.DisputeOpen, commission.DisputeLost, commission.DisputeWon} {
		if found[status] {
			return status
		}
	}
	return commission.DisputeNone
}

// happenedAt returns the time of the latest event about a charge; nil if it is unknown.
func (r Reversals) happenedAt() *time.Time {
	var latest *time.Time
	for _, c := range r.Charges {
		if c.HappenedAt != nil && (latest == nil || c.HappenedAt.After(*latest)) {
			latest = c.HappenedAt
		}
	}
	return latest
}

// ReportedDispute is the report of a merchant about a dispute. Its status is DisputeOpen,
// DisputeWon or DisputeLost. AmountCents is nil if the report has no amount.
type ReportedDispute struct {
	Scope                 affiliate.Scope
	ExternalTransactionID string
	ExternalDisputeID     string
	Status                commission.DisputeStatus
	AmountCents           *int64
}

// SaleInDispute is a locked conversion about which a merchant reports a dispute.
type SaleInDispute struct {
	StoredConversion
	Dispute *ProcessorDispute // the dispute as it was reported before; nil if the report is the first
}

// Report returns the dispute after a report. A report with the status open does not change a
// closed dispute, because reports can arrive in the wrong order. Errors: DISPUTE_EXCEEDS_AMOUNT
// if more is disputed than was paid, or if nothing was paid.
func (s SaleInDispute) Report(report ReportedDispute) (ProcessorDispute, error) {
	after := ProcessorDispute{ID: report.ExternalDisputeID, Status: report.Status, AmountCents: report.AmountCents}
	if paid := s.Cents; paid == 0 || after.AmountCents != nil && *after.AmountCents > paid {
		return after, &affiliate.Error{
			Reason:   affiliate.ReasonDisputeExceedsAmount,
			Metadata: map[string]string{"disputable_cents": strconv.FormatInt(paid, 10)},
		}
	}
	switch before := s.Dispute; {
	case before == nil:
	case after.Status == commission.DisputeOpen && before.Status != commission.DisputeOpen:
		after.Status, after.AmountCents = before.Status, before.AmountCents
	case after.AmountCents == nil:
		after.AmountCents = before.AmountCents
	}
	return after, nil
}

// LockedSale is a locked conversion with the locked rows that a reversal changes.
type LockedSale struct {
	StoredConversion
	Decision   attribution.Decision // the decision in force
	Commission *commission.Locked   // the commission of the decision in force; nil if there is none
	Reversals  Reversals
	Parked     []Refund // the parked refunds, oldest first
}

// Reversal is the effect of Reversals or of refunds on a conversion and its commission.
type Reversal struct {
	Conversion Conversion
	Commission *commission.Commission // after Changes; nil if the conversion earns none
	Changes    []commission.Change
	Refunds    []Refund // the applied refunds
	Deltas     []analytics.StatsDelta
	Events     []affiliate.Event
}

// Reverse returns the effect of all refunds and disputes. The order in which they arrived does not
// matter, because the effect depends on their current state only. ok is false if nothing changes.
func (s LockedSale) Reverse(at time.Time) (r Reversal, ok bool, err error) {
	before, paid, dispute := s.Conversion, s.Money, s.Reversals.dispute()
	after := before
	after.RefundedAmountCents = s.Reversals.totalCents(paid, true)
	switch {
	case after.RefundedAmountCents > 0:
		after.Status = after.statusAfterRefund(dispute == commission.DisputeOpen)
	case dispute == commission.DisputeOpen:
		after.Status = Disputed
	case paid.Cents > 0 || before.Status == Disputed:
		after.Status = Recorded
	}
	r.Conversion = after
	if s.Commission != nil {
		if r.Changes, err = s.commissionChanges(after, dispute, at); err != nil {
			return r, false, err
		}
		r.Commission = s.commissionAfter(r.Changes)
	}
	if after.Status == before.Status && after.RefundedAmountCents == before.RefundedAmountCents {
		return r, len(r.Changes) > 0, nil
	}
	r.Conversion.Version++
	if more := after.RefundedAmountCents - before.RefundedAmountCents; more != 0 {
		r.Events = append(r.Events, r.Conversion.RefundedEvent(before, s.Decision, at))
		if d := s.Decision; d.Attributed && s.EventType.Priced() {
			r.Deltas = append(r.Deltas, analytics.StatsDelta{
				Scope: s.Scope, Program: *d.Program, Participant: *d.Participant, Link: d.Link, At: at,
				Currency: paid.Currency, RevenueCents: -more,
			})
		}
	}
	return r, true, nil
}

// Refund returns the effect of the parked refunds and of the given refund, which can be nil.
// Errors: those of Apply.
func (s LockedSale) Refund(refund *Refund, at time.Time) (r Reversal, err error) {
	refunds := Refunds{Conversion: s.Conversion, Decision: s.Decision, At: at}
	refunds.ApplyParked(s.Parked...)
	if refund != nil {
		if err := refunds.Apply(*refund); err != nil {
			return r, err
		}
	}
	r = Reversal{Conversion: refunds.Conversion, Refunds: refunds.Applied, Deltas: refunds.Deltas, Events: refunds.Events}
	if s.Commission != nil {
		if r.Changes, err = s.Commission.FollowRefunds(r.Conversion.SaleRefunds(), commission.RefundedSale, at); err != nil {
			return r, err
		}
		r.Commission = s.commissionAfter(r.Changes)
	}
	return r, nil
}

// commissionAfter returns the commission after its changes.
func (s LockedSale) commissionAfter(changes []commission.Change) *commission.Commission {
	if len(changes) == 0 {
		return &s.Commission.Commission
	}
	return &changes[len(changes)-1].After
}

// commissionChanges returns the changes that adjust the commission to the conversion and the
// status of its disputes.
func (s LockedSale) commissionChanges(after Conversion, dispute commission.DisputeStatus, at time.Time) ([]commission.Change, error) {
	current := *s.Commission
	changes, err := current.FollowDispute(dispute, at)
	if err != nil {
		return nil, err
	}
	if len(changes) > 0 {
		current.Commission = changes[0].After
	}
	why := commission.RefundedSale
	if s.Reversals.totalCents(s.Money, false) < after.RefundedAmountCents {
		why = commission.DisputedSale
	}
	refunds, err := current.FollowRefunds(after.SaleRefunds(), why, at)
	changes = append(changes, refunds...)
	for i := range changes {
		changes[i].Transition.OccurredAt = s.Reversals.happenedAt()
	}
	return changes, err
}

// ProcessorDispute is a dispute about a charge.
type ProcessorDispute struct {
	ID string
	// Status is DisputeOpen, DisputeWon or DisputeLost. A closed warning has DisputeWon.
	Status commission.DisputeStatus
	// AmountCents is the disputed amount in ISO 4217 minor units. It is nil if it is unknown, or if
	// the dispute has another currency than the charge. Then the whole charge is disputed.
	AmountCents *int64
	// Stale means that the processor no longer has the dispute and the state comes from the
	// event. A stale state does not reopen a closed dispute.
	Stale bool
}
