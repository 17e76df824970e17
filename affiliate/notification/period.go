package notification

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
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

// SummaryWeek returns the Monday, as midnight in UTC, on which summaries of the week before are
// due around the given time. The result found is false if no summary is due in any time zone.
func SummaryWeek(now time.Time) (monday time.Time, found bool) {
	monday = now.UTC().Add(farthestZone).Truncate(24 * time.Hour)
	for monday.Weekday() != time.Monday {
		monday = monday.AddDate(0, 0, -1)
	}
	return monday, now.Before(monday.Add(summaryHour*time.Hour + summaryLate + farthestZone))
}

// WeekBefore returns the week before a Monday in a time zone. The result due reports whether
// the summary of this week is due.
func WeekBefore(monday time.Time, zone *time.Location, now time.Time) (week affiliate.Period, due bool) {
	end := time.Date(monday.Year(), monday.Month(), monday.Day(), 0, 0, 0, 0, zone)
	begin := end.AddDate(0, 0, -7)
	at := time.Date(monday.Year(), monday.Month(), monday.Day(), summaryHour, 0, 0, 0, zone)
	return affiliate.Period{From: &begin, Before: &end}, !now.Before(at) && now.Before(at.Add(summaryLate))
}

// MonthBefore returns the month (UTC) before the month of the given time. The result due
// reports whether the summary of this month is due.
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

// WorkspaceSummary has the new conversions, commissions and partners of a workspace in a period, in live mode.
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

// PartnerSummary has the commissions and the payouts of a partner in a period, in live mode.
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

// SummaryNotification returns a notification with a summary for a feed. The notification has no mode.
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

// MissingMethodNotification returns the notification for a partner to whom money is owed and
// who has no payout method. The parameter owed has the amounts by currency.
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

// AnnouncementID identifies an announcement.
type AnnouncementID = affiliate.ID[Announcement]

// Announcement is a text of a merchant for the approved participants of a programme, or a text of the
// operator for all workspaces. An announcement of the operator has no scope, programme and author.
type Announcement struct {
	ID         AnnouncementID
	Scope      affiliate.Scope
	Program    affiliate.ProgramID
	Title      string
	Body       string
	CreatedBy  *affiliate.ActorID
	CreatedAt  time.Time
	Recipients int64 // number of participants to whom the text was sent
}

// SentAnnouncement is an announcement to participants in a list.
type SentAnnouncement struct {
	ID            AnnouncementID
	Program       affiliate.ProgramID `db:"program_id"`
	Title         string
	Body          string
	CreatedBy     *affiliate.ActorID
	CreatedByName *string // current name; nil if the member has left
	CreatedAt     time.Time
	Recipients    *int64 // nil if the audit record does not exist any more
}

// Limits on the announcements of one programme, because each announcement is mailed to all
// partners.
const (
	maxAnnouncements   = 5
	AnnouncementWindow = 24 * time.Hour
)

// The longest title and body of an announcement, in code points. The proto files have the
// same limits.
const (
	maxAnnouncementTitle = 120
	maxAnnouncementBody  = 5000
)

// NewProductAnnouncement returns an announcement of the operator for all workspaces.
// Errors: VALIDATION_ERROR.
func NewProductAnnouncement(title, body string, at time.Time) (Announcement, error) {
	a := Announcement{
		ID: affiliate.NewID[AnnouncementID](at), Title: strings.TrimSpace(title), Body: strings.TrimSpace(body), CreatedAt: at,
	}
	return a, a.CheckText()
}

// CheckText checks the title and the body. Both must have at least one visible character,
// because the title is the subject of a mail. Errors: VALIDATION_ERROR.
func (a Announcement) CheckText() error {
	var found affiliate.Violations
	for _, text := range []struct {
		field, value string
		most         int
	}{{"title", a.Title, maxAnnouncementTitle}, {"body", a.Body, maxAnnouncementBody}} {
		if utf8.RuneCountInString(text.value) > text.most || !utf8.ValidString(text.value) || !strings.ContainsFunc(text.value, isVisible) {
			found.Add(text.field, fmt.Sprintf("must have 1 to %d characters, at least one of them visible", text.most))
		}
	}
	return found.Err()
}

func isVisible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// CheckAnnouncement checks whether another announcement may be made. The parameter recent is
// the number of the programme's announcements in the last AnnouncementWindow, and the parameter
// first is the time of the first of these. Errors: PROGRAM_STATE_INVALID if the programme is
// not active; RATE_LIMIT_EXCEEDED.
func CheckAnnouncement(status program.Status, recent int, first, now time.Time) error {
	if status != program.Active {
		return status.Refuse()
	}
	if recent < maxAnnouncements {
		return nil
	}
	refusal := affiliate.Refuse(affiliate.ReasonRateLimitExceeded)
	wait := first.Add(AnnouncementWindow).Sub(now)
	refusal.Metadata = map[string]string{"retry_after": strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second)))}
	return refusal
}
