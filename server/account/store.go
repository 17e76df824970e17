package account

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store keeps accounts and sessions.
type Store interface {
	// CreateMerchant refuses with EMAIL_TAKEN. The user is who did it, from where
	// by says.
	CreateMerchant(ctx context.Context, user affiliate.User, passwordHash string, member affiliate.Member,
		keys []affiliate.NewAPIKey, session affiliate.Session, refresh [sha256.Size]byte, by affiliate.Actor) error
	// CreatePartner refuses with EMAIL_TAKEN. The user is who did it, from where by
	// says.
	CreatePartner(ctx context.Context, user affiliate.User, passwordHash string,
		session affiliate.Session, refresh [sha256.Size]byte, by affiliate.Actor) error
	// MemberInviteOpen reports whether a token can be accepted.
	MemberInviteOpen(ctx context.Context, digest [sha256.Size]byte, now time.Time) (bool, error)
	// AcceptMemberInvite spends a token and makes the user, whose address the
	// invitation tells, a member with a session. An account of the address without
	// a workspace takes the user's place and gets its name and password, and loses
	// its sessions. The user is who did it, from where by says. Errors: NOT_FOUND
	// for a token that cannot be accepted, EMAIL_TAKEN.
	AcceptMemberInvite(ctx context.Context, digest [sha256.Size]byte, user affiliate.User, passwordHash string,
		session affiliate.Session, refresh [sha256.Size]byte, by affiliate.Actor) (affiliate.Account, error)
	// Account finds an account by kind and lower-case address.
	Account(ctx context.Context, kind affiliate.AccountKind, email string) (account affiliate.Account, ok bool, err error)
	// NoteLogin notes a try as failed and then counts the subject's other failures
	// since an instant, and tells the last. OpenSession forgets it.
	NoteLogin(ctx context.Context, try affiliate.LoginTryID, subject []byte, now, since time.Time) (others int, last time.Time, err error)
	// WithdrawLogin forgets a try that was not made.
	WithdrawLogin(ctx context.Context, try affiliate.LoginTryID) error
	// OpenSession also forgets the subject's failures and, when it is not empty,
	// stores a renewed password hash.
	OpenSession(ctx context.Context, session affiliate.Session, refresh [sha256.Size]byte, subject []byte, renewedHash string) error
	// RotateRefreshToken spends one token and stores the next. A token that is
	// unknown, spent, expired, revoked or, when kind is given, of the other kind
	// is refused with REFRESH_TOKEN_INVALID; a spent one also revokes its session.
	RotateRefreshToken(ctx context.Context, spent, fresh [sha256.Size]byte, kind *affiliate.AccountKind, now time.Time) (affiliate.Account, affiliate.SessionID, error)
	// NoteOrigin notes from where a partner used its account.
	NoteOrigin(ctx context.Context, o affiliate.Origin) error
	// EndSession revokes the session of a token, spent or not.
	EndSession(ctx context.Context, refresh [sha256.Size]byte, now time.Time) error
}
