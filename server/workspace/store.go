package workspace

import (
	"context"
	"crypto/sha256"
	"iter"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is the part of the database that the service uses: workspaces with their members,
// invitations, API keys and audit log.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// Workspace returns a workspace. Errors: NOT_FOUND.
	Workspace(ctx context.Context, id affiliate.WorkspaceID) (affiliate.Workspace, error)
	// Members returns one page of members, oldest first, and counts all members, up to
	// affiliate.MaxTotal.
	Members(ctx context.Context, workspace affiliate.WorkspaceID, page affiliate.Page) ([]affiliate.TeamMember, int64, error)
	// OpenInvites returns one page of the invitations that are open at now, newest first,
	// and counts all of them, up to affiliate.MaxTotal.
	OpenInvites(ctx context.Context, workspace affiliate.WorkspaceID, now time.Time, page affiliate.Page) ([]affiliate.MemberInvite, int64, error)
	// ActiveKeys returns the keys of a mode that are valid at now, newest first.
	ActiveKeys(ctx context.Context, scope affiliate.Scope, now time.Time) ([]affiliate.APIKey, error)
	// AuditLog returns one page of audit records, newest first, and counts all records that
	// match the filter, up to affiliate.MaxTotal. It covers the records of the mode and the
	// records that belong to no mode. Errors: NOT_FOUND if the filter has the id of an actor
	// or a resource, the workspace does not have it in this mode, and no record has the id.
	AuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter, page affiliate.Page) ([]affiliate.AuditEntry, int64, error)
	// ExportAuditLog returns all records that AuditLog would return. They come from one
	// snapshot of the database. The loop over them uses a connection until it ends. An error
	// is the last element. Errors: the same as AuditLog, and SERVICE_UNAVAILABLE if too many
	// exports are running.
	ExportAuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter) iter.Seq2[affiliate.AuditEntry, error]
}

// Tx is a transaction on one workspace.
type Tx interface {
	// LockWorkspace locks the workspace, so that its members, invitations and keys change
	// one after the other. Errors: NOT_FOUND.
	LockWorkspace(ctx context.Context, id affiliate.WorkspaceID) error
	// LockSettings locks the workspace in the same way and returns it. Errors: NOT_FOUND.
	LockSettings(ctx context.Context, id affiliate.WorkspaceID) (affiliate.Workspace, error)
	UpdateWorkspace(ctx context.Context, w affiliate.Workspace) error

	// Member returns a member. Errors: NOT_FOUND.
	Member(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID) (affiliate.TeamMember, error)
	CountOwners(ctx context.Context, workspace affiliate.WorkspaceID) (int, error)
	UpdateRole(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) error
	// DeleteMember removes a user from a workspace. It does not delete the user.
	DeleteMember(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID) error
	// RevokeSessions revokes all sessions of a user.
	RevokeSessions(ctx context.Context, user affiliate.UserID, at time.Time) error
	// AccountByEmail returns the account with the kind and the address, which must be in
	// lower case.
	AccountByEmail(ctx context.Context, kind affiliate.AccountKind, email string) (account affiliate.Account, found bool, err error)

	// LockInvite locks and returns an invitation. Errors: NOT_FOUND.
	LockInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID) (affiliate.MemberInvite, error)
	// LockInvitesTo locks and returns the invitations of an address that were not accepted,
	// revoked or replaced. The result can contain expired invitations.
	LockInvitesTo(ctx context.Context, workspace affiliate.WorkspaceID, email string) ([]affiliate.MemberInvite, error)
	// InsertInvite stores an invitation with the digest of its token.
	InsertInvite(ctx context.Context, invite affiliate.MemberInvite, digest [sha256.Size]byte) error
	// EndInvite ends an invitation, so that it cannot be accepted.
	EndInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time) error
	// EndInvitesBy ends the open invitations to one of the roles that the member by created.
	// It returns their ids.
	EndInvitesBy(ctx context.Context, workspace affiliate.WorkspaceID, by affiliate.UserID, roles []affiliate.Role, at time.Time) ([]affiliate.InviteID, error)

	// LockKey locks and returns a key. Errors: NOT_FOUND.
	LockKey(ctx context.Context, scope affiliate.Scope, id affiliate.APIKeyID) (affiliate.APIKey, error)
	// CountSecretKeys counts the secret keys of a mode that are valid at now.
	CountSecretKeys(ctx context.Context, scope affiliate.Scope, now time.Time) (int, error)
	InsertKey(ctx context.Context, key affiliate.NewAPIKey) error
	// UpdateKey stores the times at which a key expires, was revoked and was rolled.
	UpdateKey(ctx context.Context, key affiliate.APIKey) error

	// Audit adds a record to the audit log.
	Audit(ctx context.Context, line affiliate.AuditLine) error
	// Enqueue inserts jobs that run after the commit.
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
}
