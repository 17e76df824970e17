package workspace

import (
	"context"
	"crypto/sha256"
	"iter"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store has workspaces with their members, invitations, keys and audit log.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// Workspace returns a workspace. Errors: NOT_FOUND.
	Workspace(ctx context.Context, id affiliate.WorkspaceID) (affiliate.Workspace, error)
	// Members returns one page, oldest first, and the number of all members up to
	// affiliate.MaxTotal.
	Members(ctx context.Context, workspace affiliate.WorkspaceID, page affiliate.Page) ([]affiliate.TeamMember, int64, error)
	// OpenInvites returns one page of the invitations that are open at now, newest
	// first, and the number of all up to affiliate.MaxTotal.
	OpenInvites(ctx context.Context, workspace affiliate.WorkspaceID, now time.Time, page affiliate.Page) ([]affiliate.MemberInvite, int64, error)
	// LiveKeys returns the keys of a mode that are live at now, newest first.
	LiveKeys(ctx context.Context, scope affiliate.Scope, now time.Time) ([]affiliate.APIKey, error)
	// AuditLog returns one page of the entries of the mode and of the workspace as a
	// whole, newest first, and the number of all up to affiliate.MaxTotal. Errors:
	// NOT_FOUND for the id of an actor or a resource that the workspace does not have
	// in the mode and that no entry names.
	AuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter, page affiliate.Page) ([]affiliate.AuditEntry, int64, error)
	// ExportAuditLog returns all of these entries as one snapshot has them. The loop
	// over them holds a connection until it ends; an error is the last element.
	// Errors: those of AuditLog; SERVICE_UNAVAILABLE if too many exports are running.
	ExportAuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter) iter.Seq2[affiliate.AuditEntry, error]
}

// Tx is a transaction on one workspace.
type Tx interface {
	// LockWorkspace locks the workspace, under which its members, invitations and keys
	// change one after the other. Errors: NOT_FOUND.
	LockWorkspace(ctx context.Context, id affiliate.WorkspaceID) error
	// LockSettings does the same and returns the workspace. Errors: NOT_FOUND.
	LockSettings(ctx context.Context, id affiliate.WorkspaceID) (affiliate.Workspace, error)
	UpdateWorkspace(ctx context.Context, w affiliate.Workspace) error

	// Member returns a member. Errors: NOT_FOUND.
	Member(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID) (affiliate.TeamMember, error)
	CountOwners(ctx context.Context, workspace affiliate.WorkspaceID) (int, error)
	UpdateRole(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) error
	// DeleteMember deletes a user's place in a workspace. The user stays.
	DeleteMember(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID) error
	// RevokeSessions revokes all sessions of a user.
	RevokeSessions(ctx context.Context, user affiliate.UserID, at time.Time) error
	// AccountByEmail returns the account of a kind with that address, in lower case.
	AccountByEmail(ctx context.Context, kind affiliate.AccountKind, email string) (account affiliate.Account, found bool, err error)

	// LockInvite returns an invitation and locks it. Errors: NOT_FOUND.
	LockInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID) (affiliate.MemberInvite, error)
	// LockInvitesTo returns the invitations of an address that have not ended, and
	// locks them. They may have expired.
	LockInvitesTo(ctx context.Context, workspace affiliate.WorkspaceID, email string) ([]affiliate.MemberInvite, error)
	// InsertInvite stores an invitation with the digest of its token.
	InsertInvite(ctx context.Context, invite affiliate.MemberInvite, digest [sha256.Size]byte) error
	// EndInvite ends an invitation, which cannot be accepted afterwards.
	EndInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time) error
	// EndInvitesBy ends the open invitations that a member made to one of the roles,
	// and returns their ids.
	EndInvitesBy(ctx context.Context, workspace affiliate.WorkspaceID, by affiliate.UserID, roles []affiliate.Role, at time.Time) ([]affiliate.InviteID, error)

	// LockKey returns a key and locks it. Errors: NOT_FOUND.
	LockKey(ctx context.Context, scope affiliate.Scope, id affiliate.APIKeyID) (affiliate.APIKey, error)
	// CountSecretKeys counts the secret keys of a mode that are live at now.
	CountSecretKeys(ctx context.Context, scope affiliate.Scope, now time.Time) (int, error)
	InsertKey(ctx context.Context, key affiliate.NewAPIKey) error
	// UpdateKey stores when a key expires and when it was revoked or rolled.
	UpdateKey(ctx context.Context, key affiliate.APIKey) error

	// Audit appends to the audit log.
	Audit(ctx context.Context, line affiliate.AuditLine) error
	// Enqueue inserts jobs that are worked after the commit.
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
}
