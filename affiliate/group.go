package affiliate

import (
	"strconv"
	"time"
)

// Group is a set of a programme's partners with a rate of its own.
type Group struct {
	ID           GroupID
	Scope        Scope
	Program      ProgramID
	Name         string // unique in the programme, whatever the case
	Rate         Rate
	Participants int64
	Version      int // one more with every change
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// GroupPatch changes some fields of a group.
type GroupPatch struct {
	Name Change[string]
	// Setting one of the two clears the other.
	Bps       Change[int64]
	FlatCents Change[int64]
}

// Check reports what is wrong with a patch whatever the group that it meets.
func (p GroupPatch) Check() Violations {
	var found Violations
	if p.Name.Given && p.Name.or("", "") == "" {
		found.Add("name", IsRequired)
	}
	if p.Bps.sets() && p.FlatCents.sets() {
		found.Add("flat_amount_cents", MustNotBeWith("percentage"))
	}
	return found
}

// Patch is g changed by patch; UpdatedAt is the caller's.
func (g Group) Patch(patch GroupPatch) (Group, error) {
	found := patch.Check()
	g.Name = patch.Name.or(g.Name, "")
	rate := Rate{Bps: patch.Bps.orNil(g.Rate.Bps), FlatCents: patch.FlatCents.orNil(g.Rate.FlatCents)}
	switch {
	case patch.Bps.sets():
		rate.FlatCents = nil
	case patch.FlatCents.sets():
		rate.Bps = nil
	}
	rate.Check("", &found)
	g.Rate = rate
	return g, found.Err()
}

// GroupObject is a group as the audit log compares it.
type GroupObject struct {
	ID      GroupID   `json:"id"`
	Program ProgramID `json:"program_id"`
	Name    string    `json:"name"`
	RateObject
	Version int `json:"version"`
}

// Object is g as the audit log compares it.
func (g Group) Object() GroupObject {
	return GroupObject{ID: g.ID, Program: g.Program, Name: g.Name, RateObject: g.Rate.Object(), Version: g.Version}
}

// GroupNotInProgram makes the refusal of a group that the programme does not have.
func GroupNotInProgram() *Error { return Invalid("group_id", "must be a group of the programme") }

// GroupNameTaken makes the refusal of a name that another group of the programme has.
func GroupNameTaken() *Error {
	return Invalid("name", "must differ from the names of the programme's other groups")
}

// GroupInUse makes the refusal to delete a group that has participants, or into which
// an open invitation leads.
func GroupInUse(participants int64) *Error {
	refused := Refuse(ReasonGroupInUse)
	refused.Metadata = map[string]string{"participants": strconv.FormatInt(participants, 10)}
	if participants == 0 {
		refused.Message = "An open invitation leads into the group."
	}
	return refused
}
