package analytics

// Counts holds the numbers of a sum. All of them can be added up, and all can be negative in a
// change of a sum. Amounts are in minor units of the currency of the sum. A sum without a
// currency contains the numbers before Orders, a sum with a currency contains the others.
type Counts [countsLen]int64

// The indexes of Counts. Their order is part of the format of stored sums.
const (
	Clicks       = iota // clicks, without those of bots
	UniqueClicks        // first clicks of their visitors in 24 hours
	BotClicks           // clicks of bots
	Conversions         // conversions of all event types
	Signups             // conversions of the types signup and lead
	NewCustomers        // first attributed conversions of their customers, and attributed conversions without a customer
	Approved            // conversions whose commission is approved or paid
	Paid                // conversions whose commission is paid

	Orders          // conversions of the types purchase and renewal
	RevenueCents    // amounts of these conversions, before refunds
	RefundedCents   // refunded part of RevenueCents
	CommissionCents // commissions that are pending, approved or paid

	countsLen
)

// Plus returns the sum of both.
func (c Counts) Plus(other Counts) Counts {
	for i, n := range other {
		c[i] += n
	}
	return c
}

// Negated returns the counts with the opposite sign.
func (c Counts) Negated() Counts {
	for i := range c {
		c[i] = -c[i]
	}
	return c
}
