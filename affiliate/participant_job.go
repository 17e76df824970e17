package affiliate

import "time"

// ReviewPending goes on with what the suspension of a participant, or its end,
// means for the commissions that wait, behind those that the move itself took:
// Move is one of the two. It takes one block, the oldest first, and is followed by
// another of its kind; where another move was made by now it is over.
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
