package affiliate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// AnnouncementID identifies an announcement.
type AnnouncementID = ID[Announcement]

// Announcement is a text for the approved participants of a programme, or of the operator
// for all workspaces. An announcement of the operator has no scope, programme and author.
type Announcement struct {
	ID         AnnouncementID
	Scope      Scope
	Program    ProgramID
	Title      string
	Body       string
	CreatedBy  UserID
	CreatedAt  time.Time
	Recipients int64 // number of participants to whom it was sent
}

// Limits on the announcements of one programme (DECISIONS.md section 20).
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
	title, body = strings.TrimSpace(title), strings.TrimSpace(body)
	var found Violations
	for _, text := range []struct {
		field, value string
		most         int
	}{{"title", title, maxAnnouncementTitle}, {"body", body, maxAnnouncementBody}} {
		if n := utf8.RuneCountInString(text.value); n < 1 || n > text.most || !utf8.ValidString(text.value) {
			found.Add(text.field, fmt.Sprintf("must have 1 to %d characters", text.most))
		}
	}
	return Announcement{ID: NewID[Announcement](at), Title: title, Body: body, CreatedAt: at}, found.Err()
}

// CheckAnnouncement checks whether another announcement may be made. recent is the number
// of the programme's announcements in the last AnnouncementWindow, and first is the time
// of the first of them. Errors: PROGRAM_STATE_INVALID if the programme is not active;
// RATE_LIMIT_EXCEEDED.
func CheckAnnouncement(status ProgramStatus, recent int, first, now time.Time) error {
	if status != ProgramActive {
		return refuseStatus(ReasonProgramStateInvalid, status)
	}
	if recent < maxAnnouncements {
		return nil
	}
	refusal := Refuse(ReasonRateLimitExceeded)
	wait := first.Add(AnnouncementWindow).Sub(now)
	refusal.Metadata = map[string]string{"retry_after": strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second)))}
	return refusal
}
