package notification

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// AnnouncementID identifies an announcement.
type AnnouncementID = affiliate.ID[Announcement]

// Announcement is a text for the approved participants of a programme, or of the operator
// for all workspaces. An announcement of the operator has no scope, programme and author.
type Announcement struct {
	ID         AnnouncementID
	Scope      affiliate.Scope
	Program    affiliate.ProgramID
	Title      string
	Body       string
	CreatedBy  *affiliate.ActorID
	CreatedAt  time.Time
	Recipients int64 // number of participants to whom it was sent
}

// Limits on the announcements of one programme, because each of them is mailed to all
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

// CheckText checks the title and the body. Both must have a character that can be seen,
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

// CheckAnnouncement checks whether another announcement may be made. recent is the number
// of the programme's announcements in the last AnnouncementWindow, and first is the time
// of the first of them. Errors: PROGRAM_STATE_INVALID if the programme is not active;
// RATE_LIMIT_EXCEEDED.
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
