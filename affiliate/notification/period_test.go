package notification_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// The 9th of March 2026 is a Monday. Clocks change on the 8th in New York.
func TestWeeklySummary_IsDueOnMondayMorning(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		zone, from, before string // the summary is due in this period
		begin, end         string // of the week
	}{
		{"UTC", "2026-03-09T08:00:00Z", "2026-03-10T08:00:00Z", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"},
		{"Pacific/Kiritimati", "2026-03-08T18:00:00Z", "2026-03-09T18:00:00Z", "2026-03-01T10:00:00Z", "2026-03-08T10:00:00Z"},
		{"Pacific/Pago_Pago", "2026-03-09T19:00:00Z", "2026-03-10T19:00:00Z", "2026-03-02T11:00:00Z", "2026-03-09T11:00:00Z"},
		{"Asia/Kathmandu", "2026-03-09T02:15:00Z", "2026-03-10T02:15:00Z", "2026-03-01T18:15:00Z", "2026-03-08T18:15:00Z"},
		{"America/New_York", "2026-03-09T12:00:00Z", "2026-03-10T12:00:00Z", "2026-03-02T05:00:00Z", "2026-03-09T04:00:00Z"},
	} {
		zone, err := time.LoadLocation(tc.zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, moment := range []struct {
			now  time.Time
			want bool
		}{
			{at(t, tc.from).Add(-time.Millisecond), false},
			{at(t, tc.from), true},
			{at(t, tc.before).Add(-time.Millisecond), true},
			{at(t, tc.before), false},
		} {
			monday, found := notification.SummaryWeek(moment.now)
			week, due := notification.WeekBefore(monday, zone, moment.now)
			if due = due && found; due != moment.want {
				t.Errorf("%s at %s: due is %t, want %t", tc.zone, moment.now, due, moment.want)
			}
			if due && (!monday.Equal(at(t, "2026-03-09T00:00:00Z")) || !week.From.Equal(at(t, tc.begin)) || !week.Before.Equal(at(t, tc.end))) {
				t.Errorf("%s at %s: the week before %s is from %s to %s, want %s to %s", tc.zone, moment.now, monday, week.From, week.Before, tc.begin, tc.end)
			}
		}
	}
	for _, quiet := range []string{"2026-03-08T08:00:00Z", "2026-03-11T00:00:00Z", "2026-03-14T12:00:00Z"} {
		if monday, found := notification.SummaryWeek(at(t, quiet)); found {
			t.Errorf("at %s a summary is due somewhere for the week before %s, want none", quiet, monday)
		}
	}
}

func TestMonthBefore_IsDueOnTheFirst(t *testing.T) {
	t.Parallel()
	for now, want := range map[string]bool{
		"2026-03-01T07:59:59Z": false, "2026-03-01T08:00:00Z": true, "2026-03-02T07:59:59Z": true, "2026-03-02T08:00:00Z": false, "2026-03-31T23:00:00Z": false,
	} {
		month, due := notification.MonthBefore(at(t, now))
		if due != want || !month.From.Equal(at(t, "2026-02-01T00:00:00Z")) || !month.Before.Equal(at(t, "2026-03-01T00:00:00Z")) {
			t.Errorf("at %s: the month from %s to %s is due: %t, want %t", now, month.From, month.Before, due, want)
		}
	}
}

func TestSummaries_SayOnlyWhatHasHappened(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 3600)
	begin, end := time.Date(2026, 2, 23, 0, 0, 0, 0, zone), time.Date(2026, 3, 2, 0, 0, 0, 0, zone)
	week := affiliate.Period{From: &begin, Before: &end}
	for _, tc := range []struct {
		got, want string
	}{
		{notification.WorkspaceSummary{}.Text(week), ""},
		{notification.WorkspaceSummary{Conversions: 1, Commissions: 1, Earned: map[string]int64{"EUR": 500}, Applications: 1}.Text(week), "23 February to 1 March 2026: 1 conversion, 1 new commission of 5.00 EUR, 1 new partner."},
		{notification.WorkspaceSummary{Commissions: 3, Earned: map[string]int64{"USD": 1050, "JPY": 300, "EUR": 0}}.Text(week), "23 February to 1 March 2026: 3 new commissions of 300 JPY and 10.50 USD."},
		{notification.WorkspaceSummary{Conversions: 12}.Text(week), "23 February to 1 March 2026: 12 conversions."},
		{notification.PartnerSummary{}.Text(week), ""},
		{notification.PartnerSummary{Commissions: 2, Earned: map[string]int64{"EUR": 700}, Payouts: 1, Paid: map[string]int64{"EUR": 2000}}.Text(week), "February 2026: 2 commissions of 7.00 EUR, 1 payout of 20.00 EUR."},
	} {
		if tc.got != tc.want {
			t.Errorf("the summary is %q, want %q", tc.got, tc.want)
		}
	}
}
