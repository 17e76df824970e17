package affiliate

import (
	"regexp"
	"time"

	// Embeds the time zone database, because hosts and containers may have no zoneinfo
	// directory. If the host has one, it is preferred, because it is newer.
	_ "time/tzdata"
)

// Period is a span of time that includes From and excludes Before. A nil bound means
// that the period is open on that side.
type Period struct {
	From   *time.Time
	Before *time.Time
}

// Contains reports whether t lies in the period.
func (p Period) Contains(t time.Time) bool {
	return (p.From == nil || !t.Before(*p.From)) && (p.Before == nil || t.Before(*p.Before))
}

// ParsePeriod parses the query parameters dateFrom, dateTo and timezone
// (docs/merchant/pagination.md). Each date is YYYY-MM-DD or an RFC 3339 timestamp. A date
// without a time means the whole day in the zone: the period begins at the start of the
// day dateFrom and ends at the end of the day dateTo. A timestamp means a whole
// millisecond, which is the precision of the timestamps in responses. An empty parameter
// means that it was not sent. The default zone is UTC. All violations are returned
// together.
func ParsePeriod(from, to, timezone string) (Period, Violations) {
	var wrong Violations
	zone, ok := LoadZone(timezone)
	if !ok {
		wrong.Add("timezone", MustBeTimezone)
		zone = time.UTC
	}
	first, fromOK := parseBound(from, zone)
	if !fromOK {
		wrong.Add("date_from", MustBeDateOrTimestamp)
	}
	last, toOK := parseBound(to, zone)
	if !toOK {
		wrong.Add("date_to", MustBeDateOrTimestamp)
	}
	if fromOK && toOK && ok && from != "" && to != "" && first.after(last) {
		wrong.Add("date_to", "must not be before {date_from}")
	}
	if wrong != nil {
		return Period{}, wrong
	}
	var p Period
	if from != "" {
		p.From = &first.start
	}
	if to != "" {
		p.Before = &last.end
	}
	return p, nil
}

// MustBeDateOrTimestamp is the message for the first or last day of a period.
const MustBeDateOrTimestamp = "must be a date (YYYY-MM-DD) or an RFC 3339 timestamp"

// bound is the day or the millisecond that a parameter names. It includes start and excludes end.
// It is empty for a timestamp between two milliseconds.
type bound struct {
	start time.Time
	end   time.Time
	// day is the date in the parameter, in UTC; zero for a timestamp.
	day time.Time
	// instant is the timestamp in the parameter; zero for a date.
	instant time.Time
}

// after reports whether a period from b to last would end before it begins. Two dates
// are compared as dates. A date that a zone has skipped is therefore an empty period,
// not an error.
func (b bound) after(last bound) bool {
	switch {
	case !b.day.IsZero() && !last.day.IsZero():
		return b.day.After(last.day)
	case !b.instant.IsZero() && !last.instant.IsZero():
		return b.instant.After(last.instant)
	}
	return !b.start.Before(last.end)
}

func parseBound(s string, zone *time.Location) (bound, bool) {
	if s == "" {
		return bound{}, true
	}
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return bound{start: StartOfDay(day, zone), end: StartOfDay(day.AddDate(0, 0, 1), zone), day: day}, true
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !rfc3339.MatchString(s) {
		return bound{}, false
	}
	start := t.UTC().Truncate(time.Millisecond)
	end := start.Add(time.Millisecond)
	if start.Before(t) {
		start = end
	}
	return bound{start: start, end: end, instant: t}, true
}

// rfc3339 is stricter than time.Parse, which accepts hours of one digit, a decimal
// comma, and offsets of a day or more.
var rfc3339 = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// LoadZone returns the zone with an IANA name, or UTC for an empty name. It rejects Local, which depends on the server.
func LoadZone(name string) (*time.Location, bool) {
	if name == "Local" {
		return nil, false
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}

// ParseEnd parses the end of a period. A date (YYYY-MM-DD) means the end of the day in the
// time zone, and an RFC 3339 timestamp is itself the end, rounded up to a millisecond.
func ParseEnd(text, timezone string) (time.Time, bool) {
	zone, _ := LoadZone(timezone)
	parsed, ok := parseBound(text, zone)
	switch {
	case !ok || text == "":
		return time.Time{}, false
	case parsed.day.IsZero():
		return parsed.start, true
	}
	return parsed.end, true
}

// StartOfDay returns the first instant of a day in a zone. day is the date at 00:00 UTC.
//
// The first instant is not always midnight. If the zone skipped midnight, the day starts
// after the gap. If midnight occurred twice, the day starts at the first midnight. If the zone
// skipped the whole day, the day starts and ends when the next day starts. With this
// definition, days follow each other without gap or overlap.
func StartOfDay(day time.Time, zone *time.Location) time.Time {
	// No zone has ever been more than 16 hours from UTC, so the day starts later than 26 hours before
	// midnight UTC in every zone.
	at := day.Add(-26 * time.Hour).In(zone)
	for {
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		start := day.Add(-time.Duration(offset) * time.Second)
		if start.Before(at) {
			start = at
		}
		if end.IsZero() || start.Before(end) {
			return start.UTC()
		}
		at = end
	}
}
