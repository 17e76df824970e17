package analytics

import (
	"maps"
	"slices"
	"sort"
	"time"
)

// CohortKey identifies a stored sum of the customers whose first conversion was in the month
// Cohort, and of their conversions in the month Month. Months begin in UTC.
//
// If Owner is zero, the cohort has all customers of the workspace. If Owner has a programme, the sum
// has only customers whose first conversion belongs to it, and only conversions that belong to it. The
// same applies to a participant, which needs a programme, and to a link, which needs a participant.
type CohortKey struct {
	Owner
	Cohort   Month  `sql:"date"`
	Month    Month  `sql:"date"`
	Currency string // empty for the numbers of customers and conversions
}

// CohortCounts holds the numbers of a cohort in a month.
type CohortCounts struct {
	Customers int64 // customers with a conversion in the month
	Totals
}

// CohortSums holds sums of cohorts by their keys.
type CohortSums map[CohortKey]CohortCounts

// AddCustomer adds a customer to the cohorts of the workspace, and of the programme, participant and
// link of the customer's first conversion. The parameter sign is 1, or -1 to subtract the customer.
func (s CohortSums) AddCustomer(c *Customer, sign int64) {
	if c.First.IsZero() {
		return
	}
	levels := []Owner{{}, {Program: c.Program}, {Program: c.Program, Participant: c.Participant}}
	if !c.Link.IsZero() {
		levels = append(levels, c.Owner)
	}
	for _, level := range levels {
		s.add(level, MonthOf(c.FirstAt), c.Activity, sign)
	}
}

func (s CohortSums) add(level Owner, cohort Month, activity Activity, sign int64) {
	active := map[Month]bool{}
	for of, totals := range activity {
		if !level.contains(of.Owner) {
			continue
		}
		if of.Currency == "" && totals.Conversions > 0 {
			active[of.Month] = true
		}
		if sign < 0 {
			totals = totals.negated()
		}
		key := CohortKey{level, cohort, of.Month, of.Currency}
		s[key] = CohortCounts{s[key].Customers, s[key].plus(totals)}
	}
	for month := range active {
		key := CohortKey{level, cohort, month, ""}
		s[key] = CohortCounts{s[key].Customers + sign, s[key].Totals}
	}
}

// contains reports whether other has the same value for every id of o that is not zero.
func (o *Owner) contains(other Owner) bool {
	narrowed := *o
	return narrowed.Narrow(other) && narrowed == other
}

// Cohort holds the customers whose first attributed conversion was in one month.
type Cohort struct {
	Start time.Time
	Size  int64
	Cells []CohortCounts // by month, from the month of the cohort
}

// CohortReport computes the cohorts of a period from the stored sums, whose months begin in
// UTC. The months of the report begin in the time zone of the period. In the hours around the
// beginning of a month, a conversion can be in another month of the report than in UTC. These
// hours are the windows. For each customer with a conversion in a window, Move subtracts the
// customer from the months in UTC and adds the customer to the months of the report.
type CohortReport struct {
	period   Period
	currency string // of the amounts
	first    Month
	starts   []Quarter // of the months
	cohorts  []Cohort
}

// NewCohortReport returns an empty report. The period has whole months (ParseCohorts).
func NewCohortReport(p Period, currency string) *CohortReport {
	r := &CohortReport{period: p, currency: currency, starts: p.Starts(EachMonth)}
	if len(r.starts) == 0 {
		return r
	}
	r.first = MonthOf(p.From.Time().In(p.Zone))
	r.cohorts = make([]Cohort, len(r.starts))
	for i, start := range r.starts {
		r.cohorts[i] = Cohort{Start: start.Time(), Cells: make([]CohortCounts, len(r.starts)-i)}
	}
	return r
}

// Months returns the first and the last month of the report; first > last if it has none.
func (r *CohortReport) Months() (first, last Month) {
	return r.first, r.first + Month(len(r.starts)) - 1 //nolint:gosec // at most 24 months
}

// Windows returns the spans of time in which the month of a conversion in UTC is not its month
// in the report, in the order of time. They do not overlap.
func (r *CohortReport) Windows() []Period {
	if len(r.starts) == 0 {
		return nil
	}
	var windows []Period
	month := r.first
	for _, start := range append(slices.Clone(r.starts), r.period.To) {
		if inUTC := QuarterOf(month.Time()); inUTC != start {
			windows = append(windows, Period{From: min(inUTC, start), To: max(inUTC, start)})
		}
		month++
	}
	return windows
}

// Add adds a stored sum, unless its months are outside the report or its currency is another one.
func (r *CohortReport) Add(cohort, month Month, currency string, counts CohortCounts) {
	i, j := int(cohort-r.first), int(month-cohort)
	if i < 0 || i >= len(r.cohorts) || j < 0 || j >= len(r.cohorts[i].Cells) || currency != "" && currency != r.currency {
		return
	}
	cell := &r.cohorts[i].Cells[j]
	cell.Customers, cell.Totals = cell.Customers+counts.Customers, cell.plus(counts.Totals)
}

// Move moves a customer from the months in UTC to the months of the report, in the cohorts of
// the given owner. The parameter conversions has the customer's conversions in the windows.
func (r *CohortReport) Move(of Owner, c *Customer, conversions []Conversion) {
	if !of.contains(c.Owner) {
		return
	}
	sums := CohortSums{}
	sums.add(of, MonthOf(c.FirstAt), c.Activity, -1)
	r.addAll(sums)
	first := QuarterOf(c.FirstAt)
	if !r.period.Contains(first) {
		return
	}
	activity := maps.Clone(c.Activity)
	for i := range conversions {
		at := QuarterOf(conversions[i].OccurredAt)
		activity.Add(&conversions[i], MonthOf(at.Time()), -1)
		if at < r.period.To {
			activity.Add(&conversions[i], r.monthOf(at), 1)
		}
	}
	clear(sums)
	sums.add(of, r.monthOf(first), activity, 1)
	r.addAll(sums)
}

func (r *CohortReport) addAll(sums CohortSums) {
	for key, counts := range sums {
		r.Add(key.Cohort, key.Month, key.Currency, counts)
	}
}

// monthOf returns the month of the report that contains a quarter of the period.
func (r *CohortReport) monthOf(q Quarter) Month {
	return r.first + Month(sort.Search(len(r.starts), func(i int) bool { return r.starts[i] > q })) - 1 //nolint:gosec // at most 24 months
}

// Cohorts returns the cohorts, the oldest first.
func (r *CohortReport) Cohorts() []Cohort {
	for i := range r.cohorts {
		// The first conversion of each customer is in the first month of the customer's cohort.
		r.cohorts[i].Size = r.cohorts[i].Cells[0].Customers
	}
	return r.cohorts
}
