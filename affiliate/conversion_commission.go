package affiliate

import "time"

// BeginCommission returns the changes that create the commission of a conversion. It
// returns no changes if commission is nil. If the conversion has already been refunded in
// part or in full, or is disputed, further changes apply this to the commission.
func BeginCommission(commission *Commission, conversion Conversion, by Actor, note *string, at time.Time) ([]CommissionChange, error) {
	if commission == nil {
		return nil, nil
	}
	changes := []CommissionChange{NewCommissionChange(*commission, by, note)}
	changes[0].Transition.OccurredAt = &conversion.OccurredAt
	current := LockedCommission{Commission: *commission}
	if conversion.Status == ConversionDisputed {
		disputed, err := current.FollowDispute(DisputeOpen, at)
		if err != nil {
			return nil, err
		}
		changes = append(changes, disputed...)
		current.Commission = changes[len(changes)-1].After
	}
	if conversion.Refunded() {
		lowered, err := current.FollowRefunds(conversion.SaleRefunds(), RefundedSale, at)
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
func NewCommission(id CommissionID, c Conversion, d Decision, at time.Time) Commission {
	earner, calc := d.Earning.Earner, d.Earning.Calculation
	rules := earner.Rule.Rules
	commission := Commission{
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
		Status:                CommissionPending,
		Type:                  calc.Type(),
		EventType:             c.EventType,
		RateBps:               calc.RateBps,
		FlatCents:             calc.FlatCents,
		AmountCents:           calc.AmountCents,
		OriginalAmountCents:   calc.AmountCents,
		Currency:              calc.Currency,
		BaseAmountCents:       calc.BaseAmountCents,
		SaleAmountCents:       c.Sale.Paid.Cents,
		SaleCurrency:          c.Sale.Paid.Currency,
		RecurringIndex:        d.RecurringIndex,
		NeedsReview:           len(calc.ReviewReasons) > 0,
		ReviewReasons:         calc.ReviewReasons,
		Dispute:               DisputeNone,
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
		commission.FXRate, commission.FXDate = calc.FXRate, &date
	}
	due := at
	if rules.HoldDays > 0 {
		due = at.Add(time.Duration(rules.HoldDays) * 24 * time.Hour)
		commission.HoldUntil = &due
	}
	if rules.AutoApproval {
		commission.AutoApproveAt = &due
		if rules.HoldDays == 0 && !commission.NeedsReview {
			system := System.String()
			commission.Status = CommissionApproved
			commission.ApprovedAt, commission.ApprovedBy = &at, &system
		}
	}
	return commission
}
