package analytics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/analytics"
)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestParsePeriod(t *testing.T) {
	t.Parallel()
	now := at("2026-03-30T10:07:00Z")
	for _, tc := range []struct{ name, from, to, zone, wantFrom, wantTo string }{
		{"default", "", "", "", "2026-03-01T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"default in a zone that has begun the next day", "", "", "Pacific/Kiritimati", "2026-03-01T10:00:00Z", "2026-03-31T10:00:00Z"},
		{"only an end", "", "2026-02-10", "", "2026-01-12T00:00:00Z", "2026-02-11T00:00:00Z"},
		{"only a start", "2026-03-29", "", "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-30T22:00:00Z"},
		{"half hours", "2026-03-29", "2026-03-29", "Asia/Kolkata", "2026-03-28T18:30:00Z", "2026-03-29T18:30:00Z"},
		{"quarters of an hour", "2026-03-29", "2026-03-29", "Asia/Kathmandu", "2026-03-28T18:15:00Z", "2026-03-29T18:15:00Z"},
		{"a day of 24 hours and a half", "2026-04-05", "2026-04-05", "Australia/Lord_Howe", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},
		{"instants", "2026-03-01T10:07:00Z", "2026-03-01T10:16:00Z", "", "2026-03-01T10:00:00Z", "2026-03-01T10:30:00Z"},
	} {
		p, wrong := analytics.ParsePeriod(tc.from, tc.to, tc.zone, now)
		if err := wrong.Err(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if got, want := p.From.Time().Format(time.RFC3339)+" "+p.To.Time().Format(time.RFC3339), tc.wantFrom+" "+tc.wantTo; got != want {
			t.Errorf("%s: the period is %s, want %s", tc.name, got, want)
		}
	}
	for name, tc := range map[string][3]string{
		"unknown zone": {"", "", "Mars/Olympus"}, "no date": {"today", "", ""}, "start after today": {"2026-04-02", "", ""},
		"start after the end": {"2026-03-02", "2026-03-01", ""}, "more than five years": {"2020-01-01", "2026-01-01", ""},
	} {
		if _, wrong := analytics.ParsePeriod(tc[0], tc[1], tc[2], now); wrong.Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The nights in which zones change their clocks have shorter and longer days, and hours that
// occur twice or are missing.
func TestStarts_NightsWithChangedClocks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		zone, date string
		hours      int
		want       string // some of the starts of hours
	}{
		{"Europe/Berlin", "2026-03-29", 23, "2026-03-29T00:00:00Z 2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-10-25", 25, "2026-10-25T00:00:00Z 2026-10-25T01:00:00Z"},
		// At 02:00 the clock shows 01:30, so half an hour occurs twice.
		{"Australia/Lord_Howe", "2026-04-05", 25, "2026-04-04T14:00:00Z 2026-04-04T15:00:00Z 2026-04-04T15:30:00Z"},
		// At 02:00 the clock shows 02:30.
		{"Australia/Lord_Howe", "2026-10-04", 24, "2026-10-03T14:30:00Z 2026-10-03T15:30:00Z 2026-10-03T16:00:00Z"},
		{"Asia/Kathmandu", "2026-05-01", 24, "2026-04-30T18:15:00Z 2026-04-30T19:15:00Z"},
	} {
		p, wrong := analytics.ParsePeriod(tc.date, tc.date, tc.zone, at("2026-12-01T00:00:00Z"))
		if err := wrong.Err(); err != nil {
			t.Fatal(err)
		}
		var starts []string
		for _, start := range p.Starts(analytics.Hour) {
			starts = append(starts, start.Time().Format(time.RFC3339))
		}
		if all := strings.Join(starts, " "); len(starts) != tc.hours || !strings.Contains(all, tc.want) {
			t.Errorf("%s in %s has the hours %s, want %d with %s", tc.date, tc.zone, all, tc.hours, tc.want)
		}
		if days := p.Starts(analytics.EachDay); len(days) != 1 || days[0] != p.From {
			t.Errorf("%s in %s has the days %v, want one", tc.date, tc.zone, days)
		}
		previous := p.Previous()
		if previous.To != p.From || len(previous.Starts(analytics.EachDay)) != 1 {
			t.Errorf("the period before %s in %s is %v, want one day", tc.date, tc.zone, previous)
		}
	}
}

func TestStarts_WeeksAndMonths(t *testing.T) {
	t.Parallel()
	p, _ := analytics.ParsePeriod("2026-01-28", "2026-03-03", "America/New_York", at("2026-12-01T00:00:00Z"))
	for interval, want := range map[analytics.Interval]string{
		analytics.Week:      "2026-01-26 2026-02-02 2026-02-09 2026-02-16 2026-02-23 2026-03-02",
		analytics.EachMonth: "2026-01-01 2026-02-01 2026-03-01",
	} {
		var starts []string
		for _, start := range p.Starts(interval) {
			starts = append(starts, start.Time().In(p.Zone).Format(time.DateOnly))
		}
		if got := strings.Join(starts, " "); got != want {
			t.Errorf("the starts of each %s are %s, want %s", interval, got, want)
		}
	}
}
