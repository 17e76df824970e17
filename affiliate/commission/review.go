package commission

import (
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

// ReviewPending is the job that flags the pending commissions of a suspended participant for
// review, or removes this flag after the participant was reinstated, depending on Move. A job
// processes one block of commissions, the oldest first, and enqueues the job for the next
// block. The job does nothing if the status of the participant was changed in the meantime.
type ReviewPending struct {
	Workspace   affiliate.WorkspaceID   `json:"workspace"`
	Mode        affiliate.Mode          `json:"mode"`
	Program     affiliate.ProgramID     `json:"program"`
	Participant affiliate.ParticipantID `json:"participant"`
	Move        participant.Move        `json:"move"`
	Since       time.Time               `json:"since"` // when the move was made
	// User, Key or ServiceToken made the move. All are nil if Tributary itself made it.
	User         *affiliate.UserID         `json:"user,omitempty"`
	Key          *affiliate.APIKeyID       `json:"key,omitempty"`
	ServiceToken *affiliate.ServiceTokenID `json:"service_token,omitempty"`
	// After and AfterID are CreatedAt and ID of the last commission in the previous block.
	After   time.Time              `json:"after"`
	AfterID affiliate.CommissionID `json:"after_id"`
}

// Kind returns the name of the job.
func (ReviewPending) Kind() string { return "review_pending" }

// The codes that ReviewPending writes into the histories of commissions.
const (
	codeParticipantSuspended  = "participant_suspended"
	codeParticipantReinstated = "participant_reinstated"
)

// AddsFlag reports whether the job adds the review flag. Otherwise it removes the flag.
func (job ReviewPending) AddsFlag() bool { return job.Move == participant.SuspendParticipant }

// MustChange reports whether the job has to change the commission c of the participant.
func (job ReviewPending) MustChange(c Commission) bool {
	return c.Status == Pending && slices.Contains(c.ReviewReasons, participant.ReviewParticipantSuspended) != job.AddsFlag()
}

// Transition returns the transition that the job makes, without the id of the commission. Its
// Code marks the history entries that the job has written.
func (job ReviewPending) Transition(at time.Time) Transition {
	if at.Before(job.Since) { // the clocks of two processes differ
		at = job.Since
	}
	t := Transition{
		Scope: affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, Program: job.Program,
		Actor: affiliate.Actor{User: job.User, Key: job.Key, ServiceToken: job.ServiceToken}, At: at, ReviewReasons: []string{participant.ReviewParticipantSuspended},
	}
	code, note := codeParticipantSuspended, "The partner was suspended."
	t.Move = MoveFlag
	if !job.AddsFlag() {
		code, note = codeParticipantReinstated, "The partner was reinstated."
		t.Move = MoveClearReview
	}
	t.Code, t.Note = &code, &note
	return t
}

// ApproveDueCommissions is the job that approves commissions whose hold period has
// ended. It has no arguments; the job looks up the due commissions when it runs.
type ApproveDueCommissions struct{}

// Kind returns the name of the job.
func (ApproveDueCommissions) Kind() string { return "approve_due_commissions" }

// DueCommission is a commission that was due for automatic approval when it was read. It
// was read without a lock, so it may have changed since then.
type DueCommission struct {
	affiliate.Scope
	Program       affiliate.ProgramID `db:"program_id"`
	ID            affiliate.CommissionID
	AutoApproveAt time.Time
}

// ApprovalCounts counts the outcomes of one run of ApproveDueCommissions.
type ApprovalCounts struct {
	Approved int
	// Skipped counts commissions that were no longer due, or locked by other transactions.
	Skipped int
	// Failed counts internal errors. FirstFailure is the first of them.
	Failed       int
	FirstFailure error
}
