package notification

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Some notifications are repeated every week or month. They are due from summaryHour on.
// If no process was running at that time, they are created up to summaryLate later.
const (
	summaryHour = 8
	summaryLate = 24 * time.Hour
)

// A Monday or a month begins at different times in different time zones. farthestZone is
// more than the difference between any time zone and UTC.
const farthestZone = 15 * time.Hour

// SummaryWeek returns the Monday that follows the week of the summaries that are due
// around the given time, as midnight in UTC. found is false if no summary is due in any
// time zone.
func SummaryWeek(now time.Time) (monday time.Time, found bool) {
	monday = now.UTC().Add(farthestZone).Truncate(24 * time.Hour)
	for monday.Weekday() != time.Monday {
		monday = monday.AddDate(0, 0, -1)
	}
	return monday, now.Before(monday.Add(summaryHour*time.Hour + summaryLate + farthestZone))
}

// WeekBefore returns the week before a Monday in a time zone. due reports whether its
// summary is due now.
func WeekBefore(monday time.Time, zone *time.Location, now time.Time) (week affiliate.Period, due bool) {
	end := time.Date(monday.Year(), monday.Month(), monday.Day(), 0, 0, 0, 0, zone)
	begin := end.AddDate(0, 0, -7)
	at := time.Date(monday.Year(), monday.Month(), monday.Day(), summaryHour, 0, 0, 0, zone)
	return affiliate.Period{From: &begin, Before: &end}, !now.Before(at) && now.Before(at.Add(summaryLate))
}

// MonthBefore returns the month (UTC) before the month of the given time. due reports
// whether its summary is due now.
func MonthBefore(now time.Time) (month affiliate.Period, due bool) {
	end := time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	begin, at := end.AddDate(0, -1, 0), end.Add(summaryHour*time.Hour)
	return affiliate.Period{From: &begin, Before: &end}, !now.Before(at) && now.Before(at.Add(summaryLate))
}

// WorkspaceZone is a workspace with its time zone.
type WorkspaceZone struct {
	ID       affiliate.WorkspaceID
	Timezone string // IANA
}

// WorkspaceSummary is what has happened in a workspace in a period, in live mode.
type WorkspaceSummary struct {
	Conversions  int64
	Commissions  int64
	Earned       map[string]int64 // amounts of the commissions by currency
	Applications int64
}

// Text returns the summary as text. It is empty if nothing has happened.
func (s WorkspaceSummary) Text(week affiliate.Period) string {
	var parts []string
	if s.Conversions > 0 {
		parts = append(parts, affiliate.Counted(s.Conversions, "conversion"))
	}
	if s.Commissions > 0 {
		parts = append(parts, affiliate.Counted(s.Commissions, "new commission")+amountsText(" of ", s.Earned))
	}
	if s.Applications > 0 {
		parts = append(parts, affiliate.Counted(s.Applications, "new partner"))
	}
	if len(parts) == 0 {
		return ""
	}
	last := week.Before.AddDate(0, 0, -1)
	return fmt.Sprintf("%s to %s: %s.", week.From.Format("2 January"), last.Format("2 January 2006"), strings.Join(parts, ", "))
}

// PartnerSummary is what a partner has earned in a period, in live mode.
type PartnerSummary struct {
	Commissions int64
	Earned      map[string]int64 // amounts of the commissions by currency
	Payouts     int64
	Paid        map[string]int64 // amounts of the payouts by currency
}

// Text returns the summary as text. It is empty if nothing has happened.
func (s PartnerSummary) Text(month affiliate.Period) string {
	var parts []string
	if s.Commissions > 0 {
		parts = append(parts, affiliate.Counted(s.Commissions, "commission")+amountsText(" of ", s.Earned))
	}
	if s.Payouts > 0 {
		parts = append(parts, affiliate.Counted(s.Payouts, "payout")+amountsText(" of ", s.Paid))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s.", month.From.Format("January 2006"), strings.Join(parts, ", "))
}

// amountsText returns the amounts of several currencies after a prefix. It is empty if all
// amounts are zero.
func amountsText(prefix string, amounts map[string]int64) string {
	var texts []string
	for _, currency := range slices.Sorted(maps.Keys(amounts)) {
		if amounts[currency] != 0 {
			texts = append(texts, affiliate.FormatMoney(affiliate.Money{Cents: amounts[currency], Currency: currency}))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return prefix + strings.Join(texts, " and ")
}

// SummaryNotification returns a summary for a feed. It has no mode.
func SummaryNotification(audience affiliate.AccountKind, feed FeedID, text string, at time.Time) Notification {
	kind := NotifyWeeklySummary
	if audience == affiliate.Partner {
		kind = NotifyMonthlySummary
	}
	n := NewNotification(audience, feed, kind, nil, at)
	if audience == affiliate.Merchant {
		workspace := affiliate.WorkspaceID(feed)
		n.Workspace = &workspace
	}
	n.Facts = map[string]string{"summary": text}
	return n
}

// MissingMethodNotification returns the notification for a partner to whom money is owed
// and who has no payout method. owed holds the amounts by currency.
func MissingMethodNotification(partner affiliate.UserID, mode affiliate.Mode, owed map[string]int64, at time.Time) Notification {
	n := NewNotification(affiliate.Partner, PartnerFeed(partner), NotifyPayoutMethodMissing, &mode, at)
	n.Facts = map[string]string{"amount": amountsText("", owed)}
	return n
}

// NotifyPeriodically is the job that creates the notifications that are repeated every
// week or month.
type NotifyPeriodically struct{}

// Kind returns the name of the job.
func (NotifyPeriodically) Kind() string { return "notify_periodically" }

// SendDigests is the job that sends mails with gathered notifications.
type SendDigests struct{}

// Kind returns the name of the job.
func (SendDigests) Kind() string { return "send_digests" }
