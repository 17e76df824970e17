package affiliate

import (
	"slices"
	"time"
)

// ReviewPending flags the pending commissions of a suspended participant for review,
// or takes that flag off the commissions of a reinstated one. Move is one of the two.
// One job moves one block of commissions, the oldest first, and enqueues the next
// block. It does nothing if the participant was moved again.
type ReviewPending struct {
	Workspace   WorkspaceID     `json:"workspace"`
	Mode        Mode            `json:"mode"`
	Program     ProgramID       `json:"program"`
	Participant ParticipantID   `json:"participant"`
	Move        ParticipantMove `json:"move"`
	Since       time.Time       `json:"since"` // when the move was made
	// User or Key is who made the move; neither: the service itself.
	User *UserID   `json:"user,omitempty"`
	Key  *APIKeyID `json:"key,omitempty"`
	// After and AfterID are when the last commission of the block before was
	// created, and its id.
	After   time.Time    `json:"after"`
	AfterID CommissionID `json:"after_id"`
}

// Kind names the job.
func (ReviewPending) Kind() string { return "review_pending" }

// The codes of a ReviewPending in the histories of commissions.
const (
	codeParticipantSuspended  = "participant_suspended"
	codeParticipantReinstated = "participant_reinstated"
)

// Flags reports whether the job adds the flag. Otherwise it takes the flag off.
func (job ReviewPending) Flags() bool { return job.Move == SuspendParticipant }

// Concerns reports whether the job has to move the commission, which belongs to the
// participant.
func (job ReviewPending) Concerns(c Commission) bool {
	return c.Status == CommissionPending && slices.Contains(c.ReviewReasons, ReviewParticipantSuspended) != job.Flags()
}

// Transition returns the move that the job makes of each commission, except the id of
// the commission. Its code tells the lines of the job from all others in a history.
func (job ReviewPending) Transition(at time.Time) CommissionTransition {
	if at.Before(job.Since) { // the clocks of two processes differ
		at = job.Since
	}
	t := CommissionTransition{
		Scope: Scope{Workspace: job.Workspace, Mode: job.Mode}, Program: job.Program,
		Actor: Actor{User: job.User, Key: job.Key}, At: at, ReviewReasons: []string{ReviewParticipantSuspended},
	}
	code, note := codeParticipantSuspended, "The partner was suspended."
	t.Move = MoveFlag
	if !job.Flags() {
		code, note = codeParticipantReinstated, "The partner was reinstated."
		t.Move = MoveClearReview
	}
	t.Code, t.Note = &code, &note
	return t
}
