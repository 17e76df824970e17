package affiliate

// CommissionSum is how many commissions there are and what they come to.
type CommissionSum struct {
	Count       int64
	AmountCents int64 // minor units
}

func (s CommissionSum) plus(other CommissionSum) CommissionSum {
	return CommissionSum{s.Count + other.Count, s.AmountCents + other.AmountCents}
}

// CommissionGroup is the sum of commissions that are alike.
type CommissionGroup struct {
	Status      CommissionStatus
	NeedsReview bool
	Currency    string
	CommissionSum
}

// CommissionStats counts the commissions that a filter leaves. Amounts of several
// currencies are never added.
type CommissionStats struct {
	// Capped: the stats are of MaxSearchTotal commissions, and the search finds more.
	Capped bool
	// Count and NeedsReview are of every currency.
	Count       int64
	NeedsReview int64
	// Currency is the programme's, the workspace's where none is named; InCurrency
	// is what is in it.
	Currency   string
	InCurrency CommissionSum
	// ByStatus counts every currency and adds up amounts in Currency only.
	ByStatus map[CommissionStatus]CommissionSum
	// ByCurrency has those that occur.
	ByCurrency map[string]CommissionSum
}

// NewCommissionStats puts groups together, of which several may be alike.
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

// AverageCents is the mean amount of those in Currency, rounded half up; 0
// without any.
func (s CommissionStats) AverageCents() int64 {
	average, _ := mulDiv(s.InCurrency.AmountCents, 1, s.InCurrency.Count)
	return average
}
