package analytics

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Period is a span of quarters of an hour that includes From and excludes To.
type Period struct {
	From, To Quarter
	Zone     *time.Location // the time zone in which days begin
}

const (
	// defaultDays is the length of a period whose start is not given.
	defaultDays = 30
	// maxDays is the maximum length of a period: five years.
	maxDays = 5 * 366
	// maxHourDays is the maximum length of a period that is divided into hours.
	maxHourDays = 7
	// MaxPoints is the maximum number of intervals of a time series.
	MaxPoints = 1000
)

// ParsePeriod parses the query parameters dateFrom, dateTo and timezone, as
// affiliate.ParsePeriod does. By default, a period ends today and has 30 days.
func ParsePeriod(from, to, timezone string, now time.Time) (Period, affiliate.Violations) {
	parsed, zone, wrong := parse(from, to, timezone)
	if wrong != nil {
		return Period{}, wrong
	}
	end := affiliate.StartOfDay(dateOf(now, zone).AddDate(0, 0, 1), zone)
	if parsed.Before != nil {
		end = *parsed.Before
	}
	start := affiliate.StartOfDay(dateOf(end.Add(-time.Nanosecond), zone).AddDate(0, 0, 1-defaultDays), zone)
	if parsed.From != nil {
		start = *parsed.From
	}
	return newPeriod(start, end, zone)
}

// maxCohorts is the maximum and the default number of cohorts. A cohort is a month of first conversions.
const maxCohorts = 24

// ParseCohorts does the same as ParsePeriod for cohorts. The period is extended to whole
// months. By default, a period ends with the current month and has 24 months.
func ParseCohorts(from, to, timezone string, now time.Time) (Period, affiliate.Violations) {
	parsed, zone, wrong := parse(from, to, timezone)
	if wrong != nil {
		return Period{}, wrong
	}
	end := affiliate.StartOfDay(dateOf(now, zone).AddDate(0, 0, 1), zone)
	if parsed.Before != nil {
		end = *parsed.Before
	}
	last := monthOf(dateOf(end.Add(-time.Nanosecond), zone))
	first := last.AddDate(0, 1-maxCohorts, 0)
	if parsed.From != nil {
		if parsed.From.After(end) {
			return newPeriod(*parsed.From, end, zone)
		}
		first = monthOf(dateOf(*parsed.From, zone))
	}
	start := affiliate.StartOfDay(first, zone)
	end = affiliate.StartOfDay(last.AddDate(0, 1, 0), zone)
	p, wrong := newPeriod(start, end, zone)
	if wrong == nil && len(p.Starts(EachMonth)) > maxCohorts {
		wrong.Add("date_from", "must be in the 24 months that end with the month of {date_to}")
	}
	return p, wrong
}

func parse(from, to, timezone string) (affiliate.Period, *time.Location, affiliate.Violations) {
	parsed, wrong := affiliate.ParsePeriod(from, to, timezone)
	if wrong != nil {
		return parsed, nil, wrong
	}
	zone, err := time.LoadLocation(timezone)
	if err != nil { // ParsePeriod has accepted the name
		zone = time.UTC
	}
	return parsed, zone, nil
}

func newPeriod(start, end time.Time, zone *time.Location) (Period, affiliate.Violations) {
	p := Period{From: QuarterOf(start), To: QuarterFrom(end), Zone: zone}
	var wrong affiliate.Violations
	switch {
	case p.From >= p.To && end.Before(start):
		wrong.Add("date_from", "must not be after {date_to}, which is the end of today by default")
	case p.To-p.From > maxDays*quartersPerDay:
		wrong.Add("date_from", "must be at most five years before {date_to}")
	}
	return p, wrong
}

// Check returns the violations of the limits on a period that is divided into the given intervals.
func (p Period) Check(interval Interval) affiliate.Violations {
	var wrong affiliate.Violations
	switch {
	// A day in which a zone sets its clocks back has up to 25 hours.
	case interval == Hour && p.To-p.From > maxHourDays*quartersPerDay+4:
		wrong.Add("interval", "must be day, week or month if the period has more than seven days")
	case interval != Hour && len(p.Starts(interval)) > MaxPoints:
		wrong.Add("interval", "must divide the period into at most 1000 intervals")
	}
	return wrong
}

// Previous returns the period of the same length that ends where p begins. If p consists of
// whole days of its zone, the result has the same number of days.
func (p Period) Previous() Period {
	from, to := dateOf(p.From.Time(), p.Zone), dateOf(p.To.Time(), p.Zone)
	start := p.From - (p.To - p.From)
	if QuarterOf(affiliate.StartOfDay(from, p.Zone)) == p.From && QuarterOf(affiliate.StartOfDay(to, p.Zone)) == p.To {
		start = QuarterOf(affiliate.StartOfDay(from.AddDate(0, 0, -int(to.Sub(from)/(24*time.Hour))), p.Zone))
	}
	return Period{From: start, To: p.From, Zone: p.Zone}
}

// Contains reports whether the period contains a quarter.
func (p Period) Contains(q Quarter) bool { return p.From <= q && q < p.To }

// Days returns the first and the last UTC day with a part in the period, which must not be empty.
func (p Period) Days() (first, last Day) { return p.From.Day(), (p.To - 1).Day() }

// Whole returns the UTC days that lie completely in the period; first > last if none do.
func (p Period) Whole() (first, last Day) {
	first, last = p.From.Day(), p.To.Day()-1
	if first.First() < p.From {
		first++
	}
	return first, last
}

// Edges returns the UTC days that lie only partly in the period.
func (p Period) Edges() []Day {
	if p.From >= p.To {
		return nil
	}
	first, last := p.Days()
	var edges []Day
	for _, day := range []Day{first, last} {
		partial := day.First() < p.From || day.First()+quartersPerDay > p.To
		if partial && (len(edges) == 0 || edges[0] != day) {
			edges = append(edges, day)
		}
	}
	return edges
}

// Interval is the length of the intervals of a time series.
type Interval string

// The intervals.
const (
	Hour      Interval = "hour"
	EachDay   Interval = "day"
	Week      Interval = "week"
	EachMonth Interval = "month"
)

// Starts returns the first quarter of each interval that has a part in the period, in the order
// of time. The first interval can begin before the period.
//
// Days begin at the first instant of the date in the zone, weeks on Monday, months on the first
// day. An hour begins when the hour of the clock or the offset of the zone changes, so no hour
// is longer than 60 minutes.
func (p Period) Starts(interval Interval) []Quarter {
	if p.From >= p.To {
		return nil
	}
	if interval == Hour {
		return p.hours()
	}
	var starts []Quarter
	date := dateOf(p.From.Time(), p.Zone)
	switch interval {
	case Week:
		date = date.AddDate(0, 0, -(int(date.Weekday())+6)%7)
	case EachMonth:
		date = monthOf(date)
	case Hour, EachDay:
	}
	for {
		start := QuarterOf(affiliate.StartOfDay(date, p.Zone))
		if start >= p.To {
			return starts
		}
		// If the zone skips a date, the day with this date is empty.
		if n := len(starts); n > 0 && starts[n-1] == start {
			starts = starts[:n-1]
		}
		starts = append(starts, start)
		switch interval {
		case Week:
			date = date.AddDate(0, 0, 7)
		case EachMonth:
			date = date.AddDate(0, 1, 0)
		case Hour, EachDay:
			date = date.AddDate(0, 0, 1)
		}
	}
}

func (p Period) hours() []Quarter {
	type hour struct {
		date   time.Time
		number int
		offset int
	}
	hourOf := func(q Quarter) hour {
		local := q.Time().In(p.Zone)
		_, offset := local.Zone()
		return hour{dateOf(q.Time(), p.Zone), local.Hour(), offset}
	}
	first := p.From
	for hourOf(first-1) == hourOf(p.From) {
		first--
	}
	starts := []Quarter{first}
	for q, current := first+1, hourOf(first); q < p.To; q++ {
		if next := hourOf(q); next != current {
			starts, current = append(starts, q), next
		}
	}
	return starts
}

// dateOf returns the date of an instant in a zone, as 00:00 UTC.
func dateOf(t time.Time, zone *time.Location) time.Time {
	year, month, day := t.In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func monthOf(date time.Time) time.Time {
	return time.Date(date.Year(), date.Month(), 1, 0, 0, 0, 0, time.UTC)
}
