package affiliate

import (
	"strconv"
	"time"
)

// AnnouncementID identifies an announcement.
type AnnouncementID = ID[Announcement]

// Announcement is a text for the approved participants of a programme.
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
