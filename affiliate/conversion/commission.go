package conversion

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// BeginCommission returns the changes that create the commission of a conversion. The parameter earned
// is the commission; the result is empty if it is nil. If the conversion has already been refunded in
// part or in full, or is disputed, the result also has the changes that adjust the commission.
func BeginCommission(earned *commission.Commission, conversion Conversion, by affiliate.Actor, note *string, at time.Time) ([]commission.Change, error) {
	if earned == nil {
		return nil, nil
	}
	changes := []commission.Change{commission.NewChange(*earned, by, note)}
	changes[0].Transition.OccurredAt = &conversion.OccurredAt
	current := commission.Locked{Commission: *earned}
	if conversion.Status == Disputed {
		disputed, err := current.FollowDispute(commission.DisputeOpen, at)
		if err != nil {
			return nil, err
		}
		changes = append(changes, disputed...)
		current.Commission = changes[len(changes)-1].After
	}
	if conversion.Refunded() {
		lowered, err := current.FollowRefunds(conversion.SaleRefunds(), commission.RefundedSale, at)
		if err != nil {
			return nil, err
		}
		changes = append(changes, lowered...)
	}
	return changes, nil
}

// NewCommission returns the commission that a conversion earns. The decision must have
// an Earning. The commission is pending during its hold period. Without a hold period
// it is approved at once if the rules approve automatically and no review is needed.
func NewCommission(id affiliate.CommissionID, c Conversion, d attribution.Decision, at time.Time) commission.Commission {
	earner, calc := d.Earning.Earner, d.Earning.Calculation
	rules := earner.Rule.Rules
	earned := commission.Commission{
		ID:                    id,
		Scope:                 c.Scope,
		Program:               earner.Program,
		Participant:           earner.Participant,
		Partner:               earner.Partner,
		Conversion:            c.ID,
		Decision:              d.ID,
		ExternalTransactionID: c.ExternalTransactionID,
		Click:                 d.Click,
		PromoCode:             d.PromoCode,
		CustomerRef:           c.CustomerRef,
		Status:                commission.Pending,
		Type:                  calc.Type(),
		EventType:             c.EventType,
		RateBps:               calc.RateBps,
		FlatCents:             calc.FlatCents,
		AmountCents:           calc.AmountCents,
		OriginalAmountCents:   calc.AmountCents,
		Currency:              calc.Currency,
		BaseAmountCents:       calc.BaseAmountCents,
		SaleAmountCents:       c.Cents,
		SaleCurrency:          c.Currency,
		RecurringIndex:        d.RecurringIndex,
		NeedsReview:           len(calc.ReviewReasons) > 0,
		ReviewReasons:         calc.ReviewReasons,
		Dispute:               commission.DisputeNone,
		Rule:                  earner.Rule,
		Version:               1,
		CreatedAt:             at,
		UpdatedAt:             at,
	}
	if calc.FXRate != nil {
		date, err := time.Parse(time.DateOnly, *calc.FXDate)
		if err != nil {
			panic("affiliate: a calculation has an invalid rate date: " + *calc.FXDate)
		}
		earned.FXRate, earned.FXDate = calc.FXRate, &date
	}
	due := at
	if rules.HoldDays > 0 {
		due = at.Add(time.Duration(rules.HoldDays) * 24 * time.Hour)
		earned.HoldUntil = &due
	}
	if rules.AutoApproval {
		earned.AutoApproveAt = &due
		if rules.HoldDays == 0 && !earned.NeedsReview {
			system := affiliate.System.String()
			earned.Status = commission.Approved
			earned.ApprovedAt, earned.ApprovedBy = &at, &system
		}
	}
	return earned
}

// StatsDeltas returns the deltas that add the conversion to the counts of d.Participant
// and d.Link. The revenue does not include the refunded part. If the commission is in
// another currency than the sale, it has a separate delta.
func (c Conversion) StatsDeltas(d attribution.Decision, commission *commission.Commission) []analytics.StatsDelta {
	conversionDelta := analytics.StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, Link: d.Link, At: d.DecidedAt, Conversions: 1,
	}
	if c.EventType == affiliate.Signup {
		conversionDelta.Signups = 1
	}
	if c.EventType.Priced() {
		conversionDelta.Currency, conversionDelta.RevenueCents = c.Currency, c.Refundable()
	}
	switch {
	case commission == nil:
		return []analytics.StatsDelta{conversionDelta}
	case conversionDelta.Currency == "" || conversionDelta.Currency == commission.Currency:
		conversionDelta.Currency, conversionDelta.CommissionCents = commission.Currency, commission.AmountCents
		return []analytics.StatsDelta{conversionDelta}
	}
	commissionDelta := analytics.StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, At: d.DecidedAt,
		Currency: commission.Currency, CommissionCents: commission.AmountCents,
	}
	return []analytics.StatsDelta{conversionDelta, commissionDelta}
}
