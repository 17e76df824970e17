package account

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store has accounts and sessions. found is false where there is no such row.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// AccountByEmail returns the account of a kind with that address, in lower case.
	AccountByEmail(ctx context.Context, kind affiliate.AccountKind, email string) (account affiliate.Account, found bool, err error)
	// InviteByToken returns the invitation of a token. Errors: NOT_FOUND.
	InviteByToken(ctx context.Context, digest [sha256.Size]byte) (affiliate.MemberInvite, error)
	// AddLoginTry commits an attempt to log in as failed.
	AddLoginTry(ctx context.Context, try affiliate.LoginAttempt) error
	// OtherLoginFailures counts the failed attempts of the subject since an instant,
	// without the try itself, and returns the time of the last.
	OtherLoginFailures(ctx context.Context, try affiliate.LoginAttempt, since time.Time) (count int, last time.Time, err error)
	// DeleteLoginTry deletes an attempt.
	DeleteLoginTry(ctx context.Context, id affiliate.LoginAttemptID) error
	// RevokeSessionOfToken revokes the session of a refresh token, used or not, if
	// there is one.
	RevokeSessionOfToken(ctx context.Context, digest [sha256.Size]byte, at time.Time) error
	// StoreOrigin stores from where a user used its account.
	StoreOrigin(ctx context.Context, o affiliate.Origin) error
}

// Tx is a transaction on accounts and sessions.
type Tx interface {
	// Account returns an account. Errors: NOT_FOUND.
	Account(ctx context.Context, id affiliate.UserID) (affiliate.Account, error)
	// LockUser locks the user of a kind with that address, in lower case.
	LockUser(ctx context.Context, kind affiliate.AccountKind, email string) (id affiliate.UserID, found bool, err error)
	// InsertUser stores a user. Errors: EMAIL_TAKEN.
	InsertUser(ctx context.Context, user affiliate.User, passwordHash string) error
	// ResetUser stores the name and password of a new owner of an account, whose
	// address is no longer verified.
	ResetUser(ctx context.Context, user affiliate.User, passwordHash string) error
	// UpdatePasswordHash stores another hash of the same password.
	UpdatePasswordHash(ctx context.Context, id affiliate.UserID, hash string) error

	// InsertSession stores a session with its first refresh token.
	InsertSession(ctx context.Context, session affiliate.Session, refresh [sha256.Size]byte) error
	// LockRefreshToken returns a token with its session and locks both.
	LockRefreshToken(ctx context.Context, digest [sha256.Size]byte) (token affiliate.RefreshToken, found bool, err error)
	// RotateRefreshToken marks one token of a session as used, stores the next and
	// extends the session's idle time.
	RotateRefreshToken(ctx context.Context, session affiliate.Session, used, next [sha256.Size]byte, at time.Time) error
	// RevokeSession and RevokeSessions revoke a session, or all sessions of a user.
	RevokeSession(ctx context.Context, id affiliate.SessionID, at time.Time) error
	RevokeSessions(ctx context.Context, user affiliate.UserID, at time.Time) error
	// DeleteLoginFailures deletes all failed attempts of a subject.
	DeleteLoginFailures(ctx context.Context, subject []byte) error

	// Workspace returns a workspace. Errors: NOT_FOUND.
	Workspace(ctx context.Context, id affiliate.WorkspaceID) (affiliate.Workspace, error)
	InsertWorkspace(ctx context.Context, w affiliate.Workspace) error
	InsertMember(ctx context.Context, user affiliate.UserID, member affiliate.Member, at time.Time) error
	InsertKey(ctx context.Context, key affiliate.NewAPIKey) error
	// LockInviteByToken returns the invitation of a token and locks it. Errors:
	// NOT_FOUND.
	LockInviteByToken(ctx context.Context, digest [sha256.Size]byte) (affiliate.MemberInvite, error)
	// EndInvite ends an invitation, which cannot be accepted afterwards.
	EndInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time) error

	// Audit and AuditAccount append to the audit log of a workspace or an account.
	Audit(ctx context.Context, line affiliate.AuditLine) error
	AuditAccount(ctx context.Context, line affiliate.AccountAuditLine) error
	// Enqueue inserts jobs that are worked after the commit.
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
}
