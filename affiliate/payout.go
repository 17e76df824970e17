package affiliate

// PayoutID identifies a payout.
type PayoutID = ID[Payout]

// Payout is what one participant is paid in one currency at a time.
type Payout struct{}
