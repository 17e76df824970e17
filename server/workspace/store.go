package workspace

import (
	"context"
	"iter"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
)

// Store reads and changes workspaces in the database, with their members, invitations,
// API keys and audit logs.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// Workspace returns a workspace. Errors: NOT_FOUND.
	Workspace(ctx context.Context, id affiliate.WorkspaceID) (account.Workspace, error)
	// Members returns one page of members, oldest first, and counts all members, up to
	// affiliate.MaxTotal.
	Members(ctx context.Context, workspace affiliate.WorkspaceID, page affiliate.Page) ([]account.TeamMember, int64, error)
	// OpenInvites returns one page of the invitations that are open at the given time,
	// newest first, and counts all open invitations, up to affiliate.MaxTotal.
	OpenInvites(ctx context.Context, workspace affiliate.WorkspaceID, now time.Time, page affiliate.Page) ([]account.MemberInvite, int64, error)
	// ActiveKeys returns the keys of a scope that are valid at the given time, newest
	// first.
	ActiveKeys(ctx context.Context, scope affiliate.Scope, now time.Time) ([]account.APIKey, error)
	// AuditLog returns one page of audit records, newest first, and counts all records
	// that match the filter, up to affiliate.MaxTotal. The result includes records of the
	// scope's mode and records without a mode. Errors: NOT_FOUND if the filter names an
	// unknown actor or resource. An actor or resource is known if it exists in the scope
	// or if a record names it.
	AuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter, page affiliate.Page) ([]affiliate.AuditEntry, int64, error)
	// ExportAuditLog returns the records of all pages of AuditLog, from one snapshot of
	// the database. The iteration uses a database connection until it ends. An error is
	// the last element. Errors: the same as AuditLog, and SERVICE_UNAVAILABLE if too many
	// exports are running.
	ExportAuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter) iter.Seq2[affiliate.AuditEntry, error]
}

// Tx is a transaction on one workspace.
type Tx interface {
	server.MemberTx
	server.KeyTx
	// LockSettings locks the workspace like LockWorkspace and returns it. Errors:
	// NOT_FOUND.
	LockSettings(ctx context.Context, id affiliate.WorkspaceID) (account.Workspace, error)
	UpdateWorkspace(ctx context.Context, w account.Workspace) error
	// LockBooks waits for the transactions that have written to the ledger of a workspace.
	// Others wait until this transaction ends. Errors: SERVICE_UNAVAILABLE if the lock is
	// not free within a few seconds.
	LockBooks(ctx context.Context, workspace affiliate.WorkspaceID) error
	// HasVerifiedMember reports whether a member of a workspace has an address and has
	// verified it. email must be in lower case.
	HasVerifiedMember(ctx context.Context, workspace affiliate.WorkspaceID, email string) (bool, error)
	// Workspace returns the workspace. Errors: NOT_FOUND.
	Workspace(ctx context.Context, id affiliate.WorkspaceID) (account.Workspace, error)
	// LockUserByID locks a user. Errors: NOT_FOUND.
	LockUserByID(ctx context.Context, id affiliate.UserID) error
	// Account returns an account. Errors: NOT_FOUND.
	Account(ctx context.Context, id affiliate.UserID) (account.Account, error)
	CountOwners(ctx context.Context, workspace affiliate.WorkspaceID) (int, error)
	UpdateRole(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) error
	// DeleteMember removes a user from the members of a workspace. It does not delete the
	// user.
	DeleteMember(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID) error
	// RevokeSessions revokes all sessions of a user.
	RevokeSessions(ctx context.Context, user affiliate.UserID, at time.Time) error
	// AccountByEmail returns the account of the given kind with the given address. email
	// must be in lower case.
	AccountByEmail(ctx context.Context, kind affiliate.AccountKind, email string) (account account.Account, found bool, err error)

	// LockInvite locks and returns an invitation. Errors: NOT_FOUND.
	LockInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID) (account.MemberInvite, error)
	// LockInvitesTo locks and returns the invitations of an e-mail address that were not
	// accepted, revoked or replaced. The result can include expired invitations.
	LockInvitesTo(ctx context.Context, workspace affiliate.WorkspaceID, email string) ([]account.MemberInvite, error)
	// InsertInvite stores an invitation with the digests of its tokens.
	InsertInvite(ctx context.Context, invite account.MemberInvite, digests account.InviteDigests) error
	// EndInvite marks an invitation as ended, so that it cannot be accepted.
	EndInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time) error
	// EndInvitesBy ends the open invitations that were created by inviter and whose role
	// is one of roles. It returns the ids of the ended invitations.
	EndInvitesBy(ctx context.Context, workspace affiliate.WorkspaceID, inviter affiliate.UserID, roles []affiliate.Role, at time.Time) ([]affiliate.InviteID, error)

	// LockKey locks and returns a key. Errors: NOT_FOUND.
	LockKey(ctx context.Context, scope affiliate.Scope, id affiliate.APIKeyID) (account.APIKey, error)
	// CountSecretKeys counts the secret keys of a scope that are valid at the given time.
	CountSecretKeys(ctx context.Context, scope affiliate.Scope, now time.Time) (int, error)
	InsertKey(ctx context.Context, key account.NewAPIKey) error
	// UpdateKey stores when a key expires, when it was revoked and when it was rolled.
	UpdateKey(ctx context.Context, key account.APIKey) error

	// Audit adds a record to the audit log.
	Audit(ctx context.Context, line affiliate.AuditLine) error
	// Notify stores notifications.
	Notify(ctx context.Context, notifications ...notification.Notification) error
	// SendMail stores mails, which are sent after the commit.
	SendMail(ctx context.Context, mails ...notification.Mail) error
	// Enqueue inserts jobs that run after the commit.
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
}
