package analytics

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// LogEntry is an entry of the log: a change that is not part of the sums yet.
type LogEntry struct {
	Clicks      []byte                   // a ClickLog; nil if the entry has no clicks
	OldestClick *time.Time               // the time of the oldest click, or nil without clicks
	Conversions []affiliate.ConversionID // conversions that may have changed
	// Erased is a participant whose clicks lose their personal values.
	Erased *affiliate.ParticipantID
}

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
