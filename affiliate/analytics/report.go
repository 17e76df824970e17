package analytics

import (
	"cmp"
	"math/big"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Figures holds counts of clicks and conversions. Amounts in different currencies are never added up.
type Figures struct {
	Plain   Counts            // the counts that are not amounts
	Amounts map[string]Counts // the amounts by currency
}

// Add adds the counts of a sum with the given currency.
func (f *Figures) Add(currency string, counts Counts) {
	if currency == "" {
		f.Plain = f.Plain.Plus(counts)
		return
	}
	if f.Amounts == nil {
		f.Amounts = map[string]Counts{}
	}
	f.Amounts[currency] = f.Amounts[currency].Plus(counts)
}

// AddAll adds the figures of other. The parameter sign is 1, or -1 to subtract them.
func (f *Figures) AddAll(other Figures, sign int64) {
	add := func(currency string, counts Counts) {
		if sign < 0 {
			counts = counts.Negated()
		}
		f.Add(currency, counts)
	}
	add("", other.Plain)
	for currency, counts := range other.Amounts {
		add(currency, counts)
	}
}

// DropClicks sets the numbers of clicks to zero.
func (f *Figures) DropClicks() { f.Plain[Clicks], f.Plain[UniqueClicks], f.Plain[BotClicks] = 0, 0, 0 }

// IsZero reports whether all counts are zero.
func (f *Figures) IsZero() bool {
	for _, counts := range f.Amounts {
		if counts != (Counts{}) {
			return false
		}
	}
	return f.Plain == Counts{}
}

// View says how numbers are shown.
type View struct {
	Currency    string // of the amounts in the metrics
	IncludeBots bool
	// HideCosts leaves out the metrics that show what a partner costs the merchant.
	HideCosts bool
}

// Metrics holds the numbers that are shown, with amounts in minor units. A quotient is nil if its divisor is 0.
type Metrics struct {
	Clicks, UniqueClicks, Signups, Conversions, NewCustomers int64
	RevenueCents, RefundedCents, CommissionCents             int64
	NetRevenueCents                                          *int64
	ConversionRate                                           *float64 // new customers ÷ clicks, four decimals
	EventsPerClick                                           *float64 // conversions ÷ clicks, four decimals
	EPCCents, AOVCents                                       *int64   // commission ÷ clicks, revenue ÷ orders
	ReturnOnCommission                                       *float64 // (revenue − refunds) ÷ commission, four decimals
}

// Metrics returns the numbers that are shown in the given view.
func (f *Figures) Metrics(v View) Metrics {
	amounts := f.Amounts[v.Currency]
	m := Metrics{
		Clicks: f.Plain[Clicks], UniqueClicks: f.Plain[UniqueClicks], Signups: f.Plain[Signups],
		Conversions: f.Plain[Conversions], NewCustomers: f.Plain[NewCustomers],
		RevenueCents: amounts[RevenueCents], RefundedCents: amounts[RefundedCents], CommissionCents: amounts[CommissionCents],
	}
	if v.IncludeBots {
		m.Clicks += f.Plain[BotClicks]
	}
	m.ConversionRate = Ratio(m.NewCustomers, m.Clicks)
	m.EventsPerClick = Ratio(m.Conversions, m.Clicks)
	m.EPCCents = quotient(m.CommissionCents, m.Clicks)
	m.AOVCents = quotient(m.RevenueCents, amounts[Orders])
	if !v.HideCosts {
		net := m.RevenueCents - m.RefundedCents - m.CommissionCents
		m.NetRevenueCents = &net
		m.ReturnOnCommission = Ratio(m.RevenueCents-m.RefundedCents, m.CommissionCents)
	}
	return m
}

// CurrencyAmounts holds the amounts in one currency.
type CurrencyAmounts struct {
	Currency                                     string
	RevenueCents, RefundedCents, CommissionCents int64
	NetRevenueCents                              *int64
}

// ByCurrency returns the amounts of all currencies that occur, in alphabetical order.
func (f *Figures) ByCurrency(v View) []CurrencyAmounts {
	list := []CurrencyAmounts{}
	for currency, counts := range f.Amounts {
		if counts == (Counts{}) {
			continue
		}
		amounts := CurrencyAmounts{currency, counts[RevenueCents], counts[RefundedCents], counts[CommissionCents], nil}
		if !v.HideCosts {
			net := amounts.RevenueCents - amounts.RefundedCents - amounts.CommissionCents
			amounts.NetRevenueCents = &net
		}
		list = append(list, amounts)
	}
	slices.SortFunc(list, func(a, b CurrencyAmounts) int { return strings.Compare(a.Currency, b.Currency) })
	return list
}

// Ratio returns a divided by b with four decimals, rounded half away from zero; nil if b is 0.
func Ratio(a, b int64) *float64 {
	tenThousandths := divide(new(big.Int).Mul(big.NewInt(a), big.NewInt(10_000)), b)
	if tenThousandths == nil {
		return nil
	}
	// The nearest float64 of a quotient with four decimals prints as this quotient.
	ratio := float64(tenThousandths.Int64()) / 10_000
	return &ratio
}

// quotient returns a divided by b, rounded half away from zero; nil if b is 0.
func quotient(a, b int64) *int64 {
	q := divide(big.NewInt(a), b)
	if q == nil {
		return nil
	}
	rounded := q.Int64()
	return &rounded
}

func divide(a *big.Int, b int64) *big.Int {
	if b == 0 {
		return nil
	}
	divisor := big.NewInt(b)
	// Half away from zero: (2|a| + |b|) / 2|b| with the sign of the quotient.
	negative := a.Sign()*divisor.Sign() < 0
	double := new(big.Int).Abs(a)
	double.Lsh(double, 1).Add(double, new(big.Int).Abs(divisor))
	q := double.Quo(double, new(big.Int).Lsh(new(big.Int).Abs(divisor), 1))
	if negative {
		q.Neg(q)
	}
	return q
}

// Point holds the figures of an interval of a time series.
type Point struct {
	Start time.Time
	Figures
}

// Series is a time series of a period.
type Series struct {
	period Period
	starts []Quarter
	Points []Point // by interval, in the order of time
}

// NewSeries returns a time series whose figures are zero.
func NewSeries(p Period, interval Interval) *Series {
	s := &Series{period: p, starts: p.Starts(interval)}
	s.Points = make([]Point, len(s.starts))
	for i, start := range s.starts {
		s.Points[i].Start = start.Time()
	}
	return s
}

// Add adds the quarters of a day that lie in the period.
func (s *Series) Add(day Day, currency string, quarters Quarters) {
	next := 0 // the first interval that begins after the previous quarter
	for _, quarter := range quarters {
		at := day.First() + Quarter(quarter.Index)
		if !s.period.Contains(at) {
			continue
		}
		if next == 0 {
			next = sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > at })
		}
		for next < len(s.starts) && s.starts[next] <= at {
			next++
		}
		s.Points[next-1].Add(currency, quarter.Counts)
	}
}

// Row holds the figures of a value of a dimension.
type Row struct {
	Value string // empty: clicks and conversions without a value
	Label string
	Metrics
}

// Breakdown holds the rows of a breakdown, sorted.
type Breakdown struct {
	Rows  []Row
	Other Figures // of the values that are not counted separately
}

// NewBreakdown returns the breakdown of total by the values of a dimension. The parameter byValue has the
// figures of each value that is counted separately. Its entry OtherValues has the figures of all other values.
func NewBreakdown(total Figures, byValue map[string]*Figures, metric string, v View) Breakdown {
	var b Breakdown
	without := total
	without.Amounts = map[string]Counts{}
	for currency, counts := range total.Amounts {
		without.Amounts[currency] = counts
	}
	for value, figures := range byValue {
		without.AddAll(*figures, -1)
		switch {
		case value == OtherValues:
			b.Other = *figures
		case !figures.IsZero():
			b.Rows = append(b.Rows, Row{Value: value, Metrics: figures.Metrics(v)})
		}
	}
	if !without.IsZero() {
		b.Rows = append(b.Rows, Row{Metrics: without.Metrics(v)})
	}
	slices.SortFunc(b.Rows, func(x, y Row) int { return cmp.Or(y.compare(x, metric), strings.Compare(x.Value, y.Value)) })
	return b
}

// Page returns the rows of a page.
func (b Breakdown) Page(p affiliate.Page) []Row {
	start := min(p.Offset(), int64(len(b.Rows)))
	return b.Rows[start:min(start+int64(p.Size), int64(len(b.Rows)))]
}

// compare compares a metric of two rows. A ratio without a value is the lowest.
func (m Metrics) compare(other Row, metric string) int {
	switch metric {
	case "uniqueClicks":
		return cmp.Compare(m.UniqueClicks, other.UniqueClicks)
	case "signups":
		return cmp.Compare(m.Signups, other.Signups)
	case "conversions":
		return cmp.Compare(m.Conversions, other.Conversions)
	case "newCustomers":
		return cmp.Compare(m.NewCustomers, other.NewCustomers)
	case "revenueCents":
		return cmp.Compare(m.RevenueCents, other.RevenueCents)
	case "refundedCents":
		return cmp.Compare(m.RefundedCents, other.RefundedCents)
	case "commissionCents":
		return cmp.Compare(m.CommissionCents, other.CommissionCents)
	case "netRevenueCents":
		return compareOptional(m.NetRevenueCents, other.NetRevenueCents)
	case "conversionRate":
		return compareOptional(m.ConversionRate, other.ConversionRate)
	case "eventsPerClick":
		return compareOptional(m.EventsPerClick, other.EventsPerClick)
	case "epcCents":
		return compareOptional(m.EPCCents, other.EPCCents)
	case "aovCents":
		return compareOptional(m.AOVCents, other.AOVCents)
	case "returnOnCommission":
		return compareOptional(m.ReturnOnCommission, other.ReturnOnCommission)
	default:
		return cmp.Compare(m.Clicks, other.Clicks)
	}
}

func compareOptional[T cmp.Ordered](a, b *T) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// Step is a step of the funnel.
type Step struct {
	Name  string
	Count int64
	Rate  *float64 // Count ÷ Count of the step before, or ÷ clicks if there are no signups; nil for the first step
}

// Funnel returns the steps from clicks to paid commissions.
func (f *Figures) Funnel(v View) []Step {
	steps := []Step{
		{Name: "clicks", Count: f.Metrics(v).Clicks},
		{Name: "signups", Count: f.Plain[Signups]},
		{Name: "conversions", Count: f.Plain[Conversions]},
		{Name: "approved", Count: f.Plain[Approved]},
		{Name: "paid", Count: f.Plain[Paid]},
	}
	for i := 1; i < len(steps); i++ {
		before := steps[i-1]
		if before.Name == "signups" && before.Count == 0 {
			before = steps[i-2]
		}
		steps[i].Rate = Ratio(steps[i].Count, before.Count)
	}
	return steps
}

// OtherValues is the value in the key of a sum of all values that are not counted separately.
const OtherValues = ""

// Program holds the id and the currency of a programme.
type Program struct {
	ID       affiliate.ProgramID
	Currency string
}

// Participation is a participant of a partner, with the currency of its programme.
type Participation struct {
	Workspace   affiliate.WorkspaceID
	Program     affiliate.ProgramID
	Participant affiliate.ParticipantID
	Currency    string
}
