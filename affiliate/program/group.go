package program

import (
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Group is a set of a programme's partners with a rate of its own. It has the mode of the
// programme.
type Group struct {
	ID        affiliate.GroupID     `db:"id,fixed"`
	Workspace affiliate.WorkspaceID `db:"workspace_id,fixed"`
	Program   affiliate.ProgramID   `db:"program_id,fixed"`
	Name      string                // unique in the programme; case does not matter
	Rate
	Participants int64     `db:"-"` // not stored; counted when the group is read
	Version      int       // increases by one with every change
	CreatedAt    time.Time `db:"created_at,fixed"`
	UpdatedAt    time.Time
}

// GroupPatch changes some fields of a group.
type GroupPatch struct {
	Name affiliate.Change[string]
	// Setting one of Bps and FlatCents clears the other.
	Bps       affiliate.Change[int64]
	FlatCents affiliate.Change[int64]
}

// Check returns the violations of the patch that do not depend on the group.
func (p GroupPatch) Check() affiliate.Violations {
	var found affiliate.Violations
	if p.Name.Given && p.Name.Apply("", "") == "" {
		found.Add("name", affiliate.IsRequired)
	}
	if p.Bps.HasValue() && p.FlatCents.HasValue() {
		found.Add("flat_amount_cents", affiliate.MustNotBeWith("percentage"))
	}
	return found
}

// Patch returns g with the given changes. The caller sets UpdatedAt. Errors: VALIDATION_ERROR.
func (g Group) Patch(patch GroupPatch) (Group, error) {
	found := patch.Check()
	g.Name = patch.Name.Apply(g.Name, "")
	rate := Rate{Bps: patch.Bps.ApplyOptional(g.Bps), FlatCents: patch.FlatCents.ApplyOptional(g.FlatCents)}
	switch {
	case patch.Bps.HasValue():
		rate.FlatCents = nil
	case patch.FlatCents.HasValue():
		rate.Bps = nil
	}
	rate.Check("", &found)
	g.Rate = rate
	return g, found.Err()
}

// GroupObject is a group as the audit log shows it.
type GroupObject struct {
	ID      affiliate.GroupID   `json:"id"`
	Program affiliate.ProgramID `json:"program_id"`
	Name    string              `json:"name"`
	RateObject
	Version int `json:"version"`
}

// Object returns g as the audit log shows it.
func (g Group) Object() GroupObject {
	return GroupObject{ID: g.ID, Program: g.Program, Name: g.Name, RateObject: g.Rate.Object(), Version: g.Version}
}

// GroupNotInProgram returns the error for a group that does not belong to the
// programme.
func GroupNotInProgram() *affiliate.Error {
	return affiliate.Invalid("group_id", "must be a group of the programme")
}

// GroupNameTaken returns the error for a name that another group of the programme has.
func GroupNameTaken() *affiliate.Error {
	return affiliate.Invalid("name", "must differ from the names of the programme's other groups")
}

// GroupInUse returns the error for deleting a group that has participants. If
// participants is 0, the group cannot be deleted because an open invitation refers to
// it.
func GroupInUse(participants int64) *affiliate.Error {
	refused := affiliate.Refuse(affiliate.ReasonGroupInUse)
	refused.Metadata = map[string]string{affiliate.GroupMembers: strconv.FormatInt(participants, 10)}
	if participants == 0 {
		refused.Message = "An open invitation refers to the group. Revoke it first."
	}
	return refused
}
