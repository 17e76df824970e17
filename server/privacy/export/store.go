package export

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/bundle"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// Store is the database of exports.
type Store interface {
	// InTx runs fn in a transaction. It can run fn several times.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// Snapshot runs fn with a Reader, which uses a connection until fn has returned.
	Snapshot(ctx context.Context, fn func(r Reader) error) error
	// ExportOfJob returns the export of a workspace. Errors: NOT_FOUND.
	ExportOfJob(ctx context.Context, workspace affiliate.WorkspaceID, id privacy.ExportID) (privacy.Export, error)
	// ExportOfToken returns the complete export of a token that has not expired. Errors:
	// NOT_FOUND.
	ExportOfToken(ctx context.Context, digest [sha256.Size]byte, now time.Time) (privacy.Export, error)
	// Chunk returns a piece of a bundle. Errors: NOT_FOUND.
	Chunk(ctx context.Context, id privacy.ExportID, number int) ([]byte, error)
}

// Reader reads the records of a bundle in one snapshot.
type Reader interface {
	// Page reads at most limit records of a part that follow a position.
	Page(ctx context.Context, part bundle.Part, from bundle.Source, after privacy.ExportPosition, limit int) (bundle.Page, error)
	// Count counts the records of a part, at most limit.
	Count(ctx context.Context, part bundle.Part, from bundle.Source, limit int) (int, error)
	// Participations returns the participations of a partner in a fixed order.
	Participations(ctx context.Context, user affiliate.UserID) ([]privacy.ParticipationKey, error)
	// Participation returns one participation. Errors: NOT_FOUND.
	Participation(ctx context.Context, scope affiliate.Scope, id affiliate.ParticipantID) (privacy.ParticipationKey, error)
}

// Tx is a transaction.
type Tx interface {
	// OwnsProgram reports whether a programme belongs to a workspace, in any mode.
	OwnsProgram(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID) (bool, error)
	// ShareParticipant, LockUser and LockSubjectWorkspace keep an erasure of the subject from
	// beginning until the transaction ends.
	ShareParticipant(
		ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
	) (p participant.Participant, found bool, err error)
	LockUser(ctx context.Context, user affiliate.UserID) (exists bool, err error)
	LockSubjectWorkspace(ctx context.Context, id affiliate.WorkspaceID) (exists bool, err error)

	// LockExport locks the export of a subject that is being made or can be downloaded. The
	// result is nil if there is none.
	LockExport(ctx context.Context, subject privacy.ExportSubject, now time.Time) (*privacy.Export, error)
	// InsertExport stores a new export. inserted is false if another export of the subject is
	// being made.
	InsertExport(ctx context.Context, e privacy.Export) (inserted bool, err error)
	// TakeExport gives a locked export to the process that e.Lease names.
	TakeExport(ctx context.Context, e privacy.Export) error
	// SaveProgress stores pieces of a bundle and the progress. saved is false if the export
	// was deleted, or if another process makes the bundle.
	SaveProgress(ctx context.Context, e privacy.Export, chunks [][]byte) (saved bool, err error)
	// CompleteExport stores that the bundle is complete. completed is false in the same cases.
	CompleteExport(ctx context.Context, e privacy.Export) (completed bool, err error)
	// DropExport deletes an export, unless another process makes the bundle.
	DropExport(ctx context.Context, e privacy.Export) error

	InsertToken(ctx context.Context, token privacy.ExportToken, digest [sha256.Size]byte) error
	// AddRecipient adds a member to whom the link is mailed. Recipients returns those who are
	// still members.
	AddRecipient(ctx context.Context, id privacy.ExportID, user affiliate.UserID, at time.Time) error
	Recipients(ctx context.Context, e privacy.Export) ([]privacy.ExportRecipient, error)
	WorkspaceName(ctx context.Context, id affiliate.WorkspaceID) (string, error)

	Audit(ctx context.Context, line affiliate.AuditLine) error
	AuditAccount(ctx context.Context, line affiliate.AccountAuditLine) error
	Publish(ctx context.Context, events ...affiliate.Event) error
	Notify(ctx context.Context, notifications ...notification.Notification) error
	SendMail(ctx context.Context, mails ...notification.Mail) error
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
}
