package commission

import (
	"github.com/tributary-hq/tributary/affiliate"
)

// Sum is the number of commissions and the sum of their amounts.
type Sum struct {
	Count       int64
	AmountCents int64 // minor units
}

func (s Sum) plus(other Sum) Sum {
	return Sum{s.Count + other.Count, s.AmountCents + other.AmountCents}
}

// Group is the sum of commissions with the same status, review flag and
// currency.
type Group struct {
	Status      Status
	NeedsReview bool
	Currency    string
	Sum
}

// Stats counts the commissions that match a filter. Amounts of different
// currencies are never added.
type Stats struct {
	// Capped says that the stats cover only MaxSearchTotal commissions although the
	// search matches more.
	Capped bool
	// Count and NeedsReview include commissions of all currencies.
	Count       int64
	NeedsReview int64
	// Currency is the currency of the programme, or of the workspace if the filter
	// names no programme. InCurrency is the sum of the commissions in that currency.
	Currency   string
	InCurrency Sum
	// ByStatus counts commissions of all currencies, but adds up only amounts in
	// Currency.
	ByStatus map[Status]Sum
	// ByCurrency has an element for each currency that occurs.
	ByCurrency map[string]Sum
}

// NewStats adds up groups. Several groups may have the same status, review
// flag and currency.
func NewStats(currency string, groups []Group) Stats {
	stats := Stats{Currency: currency, ByStatus: map[Status]Sum{}, ByCurrency: map[string]Sum{}}
	for _, group := range groups {
		if group.Count == 0 {
			continue
		}
		stats.Count += group.Count
		if group.NeedsReview {
			stats.NeedsReview += group.Count
		}
		stats.ByCurrency[group.Currency] = stats.ByCurrency[group.Currency].plus(group.Sum)
		if group.Currency != currency {
			group.AmountCents = 0
		}
		stats.ByStatus[group.Status] = stats.ByStatus[group.Status].plus(group.Sum)
	}
	stats.InCurrency = stats.ByCurrency[currency]
	return stats
}

// AverageCents returns the mean amount of the commissions in Currency, rounded half up;
// 0 if there are none.
func (s Stats) AverageCents() int64 {
	average, _ := affiliate.MulDiv(s.InCurrency.AmountCents, 1, s.InCurrency.Count)
	return average
}
