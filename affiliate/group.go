package affiliate

import "time"

// Group is a set of a programme's partners with a rate of its own.
type Group struct {
	ID           GroupID
	Scope        Scope
	Program      ProgramID
	Name         string
	Rate         Rate
	Participants int64
	Version      int // one more with every change
	CreatedAt    time.Time
	UpdatedAt    time.Time
}
