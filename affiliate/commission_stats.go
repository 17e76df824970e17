package affiliate

// CommissionSum is the number of commissions and the sum of their amounts.
type CommissionSum struct {
	Count       int64
	AmountCents int64 // minor units
}

func (s CommissionSum) plus(other CommissionSum) CommissionSum {
	return CommissionSum{s.Count + other.Count, s.AmountCents + other.AmountCents}
}

// CommissionGroup is the sum of commissions with the same status, review flag and
// currency.
type CommissionGroup struct {
	Status      CommissionStatus
	NeedsReview bool
	Currency    string
	CommissionSum
}

// CommissionStats counts the commissions that match a filter. Amounts of different
// currencies are never added.
type CommissionStats struct {
	// Capped says that the stats cover only MaxSearchTotal commissions although the
	// search matches more.
	Capped bool
	// Count and NeedsReview include commissions of all currencies.
	Count       int64
	NeedsReview int64
	// Currency is the currency of the programme, or of the workspace if the filter
	// names no programme. InCurrency is the sum of the commissions in that currency.
	Currency   string
	InCurrency CommissionSum
	// ByStatus counts commissions of all currencies, but adds up only amounts in
	// Currency.
	ByStatus map[CommissionStatus]CommissionSum
	// ByCurrency has an element for each currency that occurs.
	ByCurrency map[string]CommissionSum
}

// NewCommissionStats adds up groups. Several groups may have the same status, review
// flag and currency.
func NewCommissionStats(currency string, groups []CommissionGroup) CommissionStats {
	stats := CommissionStats{Currency: currency, ByStatus: map[CommissionStatus]CommissionSum{}, ByCurrency: map[string]CommissionSum{}}
	for _, group := range groups {
		if group.Count == 0 {
			continue
		}
		stats.Count += group.Count
		if group.NeedsReview {
			stats.NeedsReview += group.Count
		}
		stats.ByCurrency[group.Currency] = stats.ByCurrency[group.Currency].plus(group.CommissionSum)
		if group.Currency != currency {
			group.AmountCents = 0
		}
		stats.ByStatus[group.Status] = stats.ByStatus[group.Status].plus(group.CommissionSum)
	}
	stats.InCurrency = stats.ByCurrency[currency]
	return stats
}

// AverageCents returns the mean amount of the commissions in Currency, rounded half up;
// 0 if there are none.
func (s CommissionStats) AverageCents() int64 {
	average, _ := MulDiv(s.InCurrency.AmountCents, 1, s.InCurrency.Count)
	return average
}
