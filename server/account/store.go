package account

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// Store reads and writes accounts and sessions. If a method has the result found, it is
// false if the row does not exist.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// AccountByEmail returns the account of the given kind with the given address. email
	// must be in lower case.
	AccountByEmail(ctx context.Context, kind affiliate.AccountKind, email string) (account account.Account, found bool, err error)
	// Account returns an account. Errors: NOT_FOUND.
	Account(ctx context.Context, id affiliate.UserID) (account.Account, error)
	// EmailToken returns the e-mail token with the digest.
	EmailToken(ctx context.Context, digest [sha256.Size]byte) (token account.EmailToken, found bool, err error)
	// InviteByToken returns the invitation one of whose tokens has the digest. mailed reports
	// whether this is the token of the mail. Errors: NOT_FOUND.
	InviteByToken(ctx context.Context, digest [sha256.Size]byte) (invite account.MemberInvite, mailed bool, err error)
	// ParticipantInviteAddress returns the e-mail address, in lower case, to which the
	// invitation to a programme with the digest was sent. mailed reports whether the token
	// in the mail has the digest. The address is empty if the invitation cannot be
	// accepted at the given time.
	ParticipantInviteAddress(ctx context.Context, digest [sha256.Size]byte, now time.Time) (address string, mailed bool, err error)
	// AddLoginAttempt stores a login attempt as failed.
	AddLoginAttempt(ctx context.Context, attempt account.LoginAttempt) error
	// OtherLoginFailures counts the failed attempts since the given time that have the
	// same bucket as attempt. It does not count attempt itself. last is the time of the
	// newest counted attempt.
	OtherLoginFailures(ctx context.Context, attempt account.LoginAttempt, since time.Time) (count int, last time.Time, err error)
	// KnowsDevice reports whether a user has used a device since the given time.
	KnowsDevice(ctx context.Context, user affiliate.UserID, device affiliate.Digests, since time.Time) (known bool, err error)
	// DeleteLoginAttempt deletes a login attempt.
	DeleteLoginAttempt(ctx context.Context, id affiliate.LoginAttemptID) error
	// RevokeSessionOfToken revokes the session to which a refresh token belongs, even if
	// the token has already been exchanged. If the token is unknown, the method does
	// nothing.
	RevokeSessionOfToken(ctx context.Context, digest [sha256.Size]byte, at time.Time) error
	// LoginChallenge returns the challenge with a digest.
	LoginChallenge(ctx context.Context, digest [sha256.Size]byte) (challenge account.LoginChallenge, found bool, err error)
	// StoreOrigin stores the network and the browser from which a user opened or
	// refreshed a session.
	StoreOrigin(ctx context.Context, o fraud.Origin) error
}

// Tx is a transaction of the store.
type Tx interface {
	// Account returns an account. Errors: NOT_FOUND.
	Account(ctx context.Context, id affiliate.UserID) (account.Account, error)
	// AccountByEmail returns the account of the given kind with the given address. email
	// must be in lower case.
	AccountByEmail(ctx context.Context, kind affiliate.AccountKind, email string) (account account.Account, found bool, err error)
	// LockUserByID locks a user. Errors: NOT_FOUND.
	LockUserByID(ctx context.Context, id affiliate.UserID) error
	// LockUser locks the user of the given kind with the given address. email must be in
	// lower case.
	LockUser(ctx context.Context, kind affiliate.AccountKind, email string) (id affiliate.UserID, found bool, err error)
	// InsertUser stores a user. Errors: EMAIL_TAKEN.
	InsertUser(ctx context.Context, user account.User, passwordHash string) error
	// ResetUser stores a new name and password for an existing account. It also marks the
	// account's address as not verified and deletes the payout method, because the account
	// may now belong to a different person.
	ResetUser(ctx context.Context, user account.User, passwordHash string) error
	// UpdatePasswordHash stores a new hash of the same password.
	UpdatePasswordHash(ctx context.Context, id affiliate.UserID, hash string) error
	// SetPassword stores the hash of a new password.
	SetPassword(ctx context.Context, id affiliate.UserID, hash string) error
	// VerifyEmail marks the address of a user as verified.
	VerifyEmail(ctx context.Context, id affiliate.UserID, at time.Time) error
	// ChangeEmail replaces the address of a user by a verified address. Errors:
	// EMAIL_TAKEN.
	ChangeEmail(ctx context.Context, id affiliate.UserID, email string, at time.Time) error
	// InsertFormerEmail stores the digest of an address that a partner's account had before.
	InsertFormerEmail(ctx context.Context, user affiliate.UserID, digest []byte, at time.Time) error

	// InsertEmailToken stores an e-mail token with its digest.
	InsertEmailToken(ctx context.Context, token account.EmailToken, digest [sha256.Size]byte) error
	// LockEmailToken locks the user of an e-mail token and returns the token. Errors:
	// NOT_FOUND if the user does not exist.
	LockEmailToken(ctx context.Context, user affiliate.UserID, digest [sha256.Size]byte) (token account.EmailToken, found bool, err error)
	// UseEmailToken marks an e-mail token as used.
	UseEmailToken(ctx context.Context, digest [sha256.Size]byte, at time.Time) error
	// RevokeEmailTokens makes all e-mail tokens of a user unusable. It also deletes the
	// user's requests that were not processed yet.
	RevokeEmailTokens(ctx context.Context, user affiliate.UserID, at time.Time) error
	// RevokeEmailChanges makes the tokens unusable with which the address of a user changes.
	// It also deletes the user's requests that were not processed yet.
	RevokeEmailChanges(ctx context.Context, user affiliate.UserID, at time.Time) error
	// CountEmailTokens counts the tokens for an address and a purpose that were created
	// after the given time. It locks the address, so that two transactions do not count at
	// the same time.
	CountEmailTokens(ctx context.Context, purpose account.EmailTokenPurpose, address string, since time.Time) (int, error)
	// Suppressed reports whether mails to an address are held back. address is the result of
	// notification.MailDigest.
	Suppressed(ctx context.Context, address affiliate.Digests) (bool, error)
	// LiftSuppression makes an address receive all mail again. address is the result of
	// notification.MailDigest.
	LiftSuppression(ctx context.Context, address affiliate.Digests) error
	InsertEmailRequest(ctx context.Context, r account.EmailRequest) error
	// EmailRequest returns a request for a mail. found is false if it was processed or
	// deleted.
	EmailRequest(ctx context.Context, id account.EmailRequestID) (request account.EmailRequest, found bool, err error)
	// DeleteEmailRequest deletes a request for a mail. found is false if another
	// transaction has deleted it.
	DeleteEmailRequest(ctx context.Context, id account.EmailRequestID) (found bool, err error)

	// InsertSession stores a session with its first refresh token.
	InsertSession(ctx context.Context, session account.Session, refresh [sha256.Size]byte) error
	// LockRefreshToken returns the refresh token with the digest and its session, and
	// locks both.
	LockRefreshToken(ctx context.Context, digest [sha256.Size]byte) (token account.RefreshToken, found bool, err error)
	// RotateRefreshToken replaces the refresh token of a session. oldDigest and newDigest
	// are the digests of the two tokens. It marks the old token as used, stores the new
	// token, and stores the expiry of the session.
	RotateRefreshToken(ctx context.Context, session account.Session, oldDigest, newDigest [sha256.Size]byte, at time.Time) error
	// RevokeSession revokes a session.
	RevokeSession(ctx context.Context, id affiliate.SessionID, at time.Time) error
	// RevokeSessions revokes all sessions of a user.
	RevokeSessions(ctx context.Context, user affiliate.UserID, at time.Time) error
	// RevokeOtherSessions revokes all sessions of a user except one. except may be nil.
	RevokeOtherSessions(ctx context.Context, user affiliate.UserID, except *affiliate.SessionID, at time.Time) error
	// DeleteBucketFailures deletes all failed attempts in a bucket, and DeleteLoginFailures
	// all failed attempts of a subject.
	DeleteBucketFailures(ctx context.Context, bucket affiliate.Digests) error
	DeleteLoginFailures(ctx context.Context, subject affiliate.Digests) error

	// SecondFactor returns the second factor of a user, also if it was not confirmed.
	SecondFactor(ctx context.Context, user affiliate.UserID) (factor account.SecondFactor, found bool, err error)
	// InsertSecondFactor stores a second factor that is not confirmed. It replaces an earlier
	// factor without a confirmation.
	InsertSecondFactor(ctx context.Context, f account.SecondFactor) error
	// ConfirmSecondFactor stores that a user has confirmed the second factor with the code of
	// a time step, and stores the digests of its recovery codes.
	ConfirmSecondFactor(ctx context.Context, user affiliate.UserID, step int64, recoveryCodes [][]byte, at time.Time) error
	// UseTimeStep stores the time step of a code that was accepted.
	UseTimeStep(ctx context.Context, user affiliate.UserID, step int64) error
	// CountCodeFailure counts a wrong code, and ResetCodeFailures ends the count.
	CountCodeFailure(ctx context.Context, user affiliate.UserID) error
	ResetCodeFailures(ctx context.Context, user affiliate.UserID) error
	// UseRecoveryCode marks a recovery code as used. found is false if the user has no such
	// code or has used it. left is the number of codes that remain.
	UseRecoveryCode(ctx context.Context, user affiliate.UserID, digest []byte, at time.Time) (left int, found bool, err error)
	// DeleteSecondFactor deletes the second factor of a user with its recovery codes, and the
	// user's challenges.
	DeleteSecondFactor(ctx context.Context, user affiliate.UserID) error
	// DeleteEnrolment deletes the second factor of a user if it is not confirmed.
	DeleteEnrolment(ctx context.Context, user affiliate.UserID) error
	// InsertLoginChallenge stores a challenge with its digest.
	InsertLoginChallenge(ctx context.Context, c account.LoginChallenge, digest [sha256.Size]byte) error
	// LoginChallenge returns the challenge with a digest.
	LoginChallenge(ctx context.Context, digest [sha256.Size]byte) (challenge account.LoginChallenge, found bool, err error)
	// CountChallengeFailure counts a wrong code for a challenge.
	CountChallengeFailure(ctx context.Context, digest [sha256.Size]byte) error
	// DeleteLoginChallenge deletes a challenge, and DeleteLoginChallenges all challenges of a
	// user.
	DeleteLoginChallenge(ctx context.Context, digest [sha256.Size]byte) error
	DeleteLoginChallenges(ctx context.Context, user affiliate.UserID) error

	// Workspace returns a workspace. Errors: NOT_FOUND.
	Workspace(ctx context.Context, id affiliate.WorkspaceID) (account.Workspace, error)
	InsertWorkspace(ctx context.Context, w account.Workspace) error
	InsertMember(ctx context.Context, user affiliate.UserID, member account.Member, at time.Time) error
	InsertKey(ctx context.Context, key account.NewAPIKey) error
	// LockInviteByToken locks and returns the invitation one of whose tokens has the digest.
	// mailed reports whether this is the token of the mail. Errors: NOT_FOUND.
	LockInviteByToken(ctx context.Context, digest [sha256.Size]byte) (invite account.MemberInvite, mailed bool, err error)
	// EndInvite marks an invitation as ended, so that it cannot be accepted again.
	EndInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time) error

	// LockWorkspace locks a workspace, so that its members do not change. Errors: NOT_FOUND.
	LockWorkspace(ctx context.Context, id affiliate.WorkspaceID) error
	CountOwners(ctx context.Context, workspace affiliate.WorkspaceID) (int, error)
	// WorkspaceInUse reports whether a workspace has several members or a programme in live
	// mode that was active.
	WorkspaceInUse(ctx context.Context, workspace affiliate.WorkspaceID) (bool, error)
	// RevokeCredentials revokes the secret keys and the service tokens of a workspace.
	RevokeCredentials(ctx context.Context, workspace affiliate.WorkspaceID, at time.Time) error
	// DeleteMember removes a user from the members of a workspace.
	DeleteMember(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID) error
	// EndInvitesBy ends the open invitations of an inviter to the given roles.
	EndInvitesBy(ctx context.Context, workspace affiliate.WorkspaceID, inviter affiliate.UserID, roles []affiliate.Role, at time.Time) ([]affiliate.InviteID, error)

	// Audit appends a line to the audit log of a workspace.
	Audit(ctx context.Context, line affiliate.AuditLine) error
	// AuditAccount appends a line to the audit log of an account.
	AuditAccount(ctx context.Context, line affiliate.AccountAuditLine) error
	// SeeDevice stores that a user has used a device. known reports whether the user has
	// also used it since the given time.
	SeeDevice(ctx context.Context, user affiliate.UserID, device affiliate.Digests, at, since time.Time) (known bool, err error)
	// Notify stores notifications.
	Notify(ctx context.Context, notifications ...notification.Notification) error
	// SendMail stores mails, which are sent after the commit.
	SendMail(ctx context.Context, mails ...notification.Mail) error
	// Enqueue inserts jobs. Workers run them after the commit.
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
}
