package privacy

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// Store runs transactions and reads erasures.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// Erasure returns an erasure, and whether the erasure log contains it. Errors: NOT_FOUND.
	Erasure(ctx context.Context, id privacy.ErasureID) (e privacy.Erasure, logged bool, err error)
	// Erased reports whether a subject was erased.
	Erased(ctx context.Context, subject privacy.ErasureSubject, id uuid.UUID) (bool, error)
	// MarkLogged stores that the erasure log contains an erasure.
	MarkLogged(ctx context.Context, id privacy.ErasureID, at time.Time) error
	// Advance processes the next page of an erasure in one transaction. previous is the page
	// that the caller got before and whose work it has done; it is empty in the first call.
	// Errors: NOT_FOUND.
	Advance(ctx context.Context, id privacy.ErasureID, previous privacy.ErasurePage, now time.Time) (privacy.ErasurePage, error)
	// UnfinishedErasures returns the erasures that were inserted before the given time and have
	// not finished.
	UnfinishedErasures(ctx context.Context, before time.Time) ([]privacy.ErasureID, error)
	// AbandonedAccounts returns at most limit accounts that nobody has claimed
	// (account.User.Unclaimed) and that take part in no programme.
	AbandonedAccounts(ctx context.Context, limit int) ([]affiliate.UserID, error)
	// Enqueue inserts jobs. An erasure whose job has not ended gets no second one.
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
}

// Tx is a transaction of the store.
type Tx interface {
	// OwnsProgram reports whether a programme belongs to a workspace, in either mode.
	OwnsProgram(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID) (bool, error)
	// LockParticipant locks a participant. found is false if the programme has no such
	// participant in the mode. LockParticipantByID does the same without a programme.
	LockParticipant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (p participant.Participant, found bool, err error)
	LockParticipantByID(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ParticipantID) (p participant.Participant, found bool, err error)
	// LockParticipations locks the participations of a partner that were not erased before.
	LockParticipations(ctx context.Context, partner affiliate.UserID) ([]participant.Participant, error)
	// LockAccount and LockWorkspaceForErasure lock an account or a workspace, even if it is
	// erased. LockMembers ends the invitations of members and locks the accounts of a
	// workspace's members.
	LockAccount(ctx context.Context, id affiliate.UserID) (a privacy.ErasableAccount, found bool, err error)
	LockWorkspaceForErasure(ctx context.Context, id affiliate.WorkspaceID) (w privacy.ErasableWorkspace, found bool, err error)
	LockMembers(ctx context.Context, workspace affiliate.WorkspaceID) ([]privacy.ErasableAccount, error)
	// HasOpenPayout and WorkspaceHasOpenPayout report whether a payout is pending or
	// processing.
	HasOpenPayout(ctx context.Context, participants []participant.Participant) (bool, error)
	WorkspaceHasOpenPayout(ctx context.Context, workspace affiliate.WorkspaceID) (bool, error)
	// Receipt returns the amounts of a participant that were not paid.
	Receipt(ctx context.Context, p participant.Participant) (privacy.ErasureReceipt, error)

	// EraseParticipant replaces what people can see of a locked participant. It returns the
	// texts that the job searches for.
	EraseParticipant(ctx context.Context, p participant.Participant, at time.Time) (texts []string, err error)
	// EraseAccount replaces the personal data of a locked account and ends its access.
	EraseAccount(ctx context.Context, a privacy.ErasableAccount, digests privacy.AddressDigests, at time.Time) error
	// EraseAccountTraces removes the data of a partner's account from the audit logs and the
	// invitations of workspaces.
	EraseAccountTraces(ctx context.Context, a privacy.ErasableAccount, at time.Time) error
	// EraseWorkspace ends every access to a workspace and replaces its settings and
	// programmes. EndConnections disconnects its payment processors.
	EraseWorkspace(ctx context.Context, id affiliate.WorkspaceID, at time.Time) error
	EndConnections(ctx context.Context, workspace affiliate.WorkspaceID, at time.Time) error
	// EndFeed deletes the state of a feed of notifications.
	EndFeed(ctx context.Context, feed notification.FeedID) error
	// These methods delete all exports with data of a participant, of a partner's account, or
	// of a workspace.
	DeleteExportsWithParticipant(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ParticipantID) error
	DeleteExportsWithPartner(ctx context.Context, user affiliate.UserID) error
	DeleteExportsOfWorkspace(ctx context.Context, id affiliate.WorkspaceID) error
	// InsertErasure stores an erasure and its job.
	InsertErasure(ctx context.Context, e privacy.Erasure, texts []string, participants []participant.Participant) error

	// Publish stores webhook events. Audit appends a line to the audit log of a workspace.
	Publish(ctx context.Context, events ...affiliate.Event) error
	Audit(ctx context.Context, line affiliate.AuditLine) error
}

// Directory is the edge directory.
type Directory interface {
	// DeleteCodes deletes codes and short links from the directory.
	DeleteCodes(ctx context.Context, codes privacy.DirectoryCodes) error
}

// DeadLetters is the Redis stream of the clicks that could not be stored. Package
// storage/clickstream implements it.
type DeadLetters interface {
	// Delete reads a page of the records after a position and deletes the records that the
	// search selects. last is the position of the last record of the page. more is false if the
	// page was the last one.
	Delete(ctx context.Context, search affiliate.DeadLetterSearch, after affiliate.StreamPosition) (last affiliate.StreamPosition, more bool, err error)
}

// Log is the erasure log: a file outside the database.
type Log interface {
	// Append writes an entry. When it returns nil, the entry is on disk.
	Append(entry privacy.ErasureLogEntry) error
}

// Analytics keeps the sums of the analytics. Package server/analytics implements it.
type Analytics interface {
	// AddAll adds all entries of the log of a workspace to the sums. After an erasure, neither
	// the log nor the sums then contain the erased values.
	AddAll(ctx context.Context, workspace affiliate.WorkspaceID) error
}
