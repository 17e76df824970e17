package analytics

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// StatsDelta holds the numbers that one change adds to the counts of a participant and a
// link. Numbers can be negative. Amounts are in minor units of Currency.
type StatsDelta struct {
	Scope           affiliate.Scope
	Program         affiliate.ProgramID
	Participant     affiliate.ParticipantID
	Link            *affiliate.LinkID
	At              time.Time
	Currency        string // empty if there are no amounts
	Clicks          int64
	Signups         int64
	Conversions     int64
	RevenueCents    int64
	CommissionCents int64
}

// FoldStats is the job that adds new deltas (see StatsDelta) to the stored sums. It has
// no arguments; the job looks up the deltas when it runs.
type FoldStats struct{}

// Kind returns the name of the job.
func (FoldStats) Kind() string { return "fold_stats" }

// AddAnalytics is the job that adds new clicks and changed conversions to the sums of the
// analytics. It has no arguments; the job looks up what is new when it runs.
type AddAnalytics struct{}

// Kind returns the name of the job.
func (AddAnalytics) Kind() string { return "add_analytics" }
