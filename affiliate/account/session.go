package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"regexp"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Lifetimes of credentials (docs/merchant/authentication.md#log-in-and-keep-the-session).
const (
	AccessTokenLife      = 15 * time.Minute
	RefreshTokenIdle     = 30 * 24 * time.Hour
	RefreshTokenAbsolute = 90 * 24 * time.Hour
)

// Session is a family of refresh tokens: all tokens that descend from one login. It is a row of
// the table sessions.
type Session struct {
	ID            affiliate.SessionID `db:"id,fixed"`
	User          affiliate.UserID    `db:"user_id,fixed"`
	CreatedAt     time.Time           `db:"created_at,fixed"`
	IdleExpiresAt time.Time           // 30 days after the last refresh
	ExpiresAt     time.Time           `db:"expires_at,fixed"` // 90 days after CreatedAt
	RevokedAt     *time.Time
}

// NewSession returns a session of the user that begins at the given time.
func NewSession(user affiliate.UserID, now time.Time) Session {
	return Session{
		ID:            affiliate.NewID[affiliate.SessionID](now),
		User:          user,
		CreatedAt:     now,
		IdleExpiresAt: now.Add(RefreshTokenIdle),
		ExpiresAt:     now.Add(RefreshTokenAbsolute),
	}
}

// recentLogin is how long after a login a call that would need the password does not need it.
const recentLogin = 15 * time.Minute

// IsRecentLogin reports whether a session began at most 15 minutes ago. Calls that refresh the
// session do not change its id, which contains the time of the login.
func IsRecentLogin(session affiliate.SessionID, now time.Time) bool {
	began, ok := session.Time()
	return ok && now.Sub(began) <= recentLogin
}

// Refresh returns the session of an account with its idle expiry extended. If kind is
// not nil, the account must be of this kind. Errors: REFRESH_TOKEN_INVALID.
func (s Session) Refresh(account Account, kind *affiliate.AccountKind, now time.Time) (Session, error) {
	ended := s.RevokedAt != nil || !now.Before(s.IdleExpiresAt) || !now.Before(s.ExpiresAt)
	if ended || !account.MayLogIn() || kind != nil && account.User.Kind != *kind {
		return Session{}, affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)
	}
	s.IdleExpiresAt = now.Add(RefreshTokenIdle)
	if s.ExpiresAt.Before(s.IdleExpiresAt) {
		s.IdleExpiresAt = s.ExpiresAt
	}
	return s, nil
}

// RefreshToken is a stored refresh token with its session.
type RefreshToken struct {
	Session
	UsedAt *time.Time // nil if not used; a token can be used once
}

// LoginAttempt is an attempt to log in. It counts as failed until a session is created.
type LoginAttempt struct {
	ID affiliate.LoginAttemptID
	// Subject are the digests of the account's kind and e-mail address. The first is stored.
	Subject affiliate.Digests
	// Bucket are the digests of LoginBucket. The first is stored. Only attempts in the same
	// bucket delay each other.
	Bucket affiliate.Digests
	At     time.Time
}

// LoginSubject returns the keyed digests of an account's kind and e-mail address. Stored login
// attempts contain the first of them instead of the address. email must be in lower case.
func LoginSubject(keys affiliate.HashKeys, kind affiliate.AccountKind, email string) affiliate.Digests {
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("login:" + string(kind) + ":" + email))
		return mac.Sum(nil)
	})
}

// LoginCaller identifies the origin of attempts that count together.
type LoginCaller struct {
	// Session is set for calls with a valid session.
	Session affiliate.SessionID
	// Network is the shortened client address (/24 or /48).
	Network string
	// KnownDevice is true if the user has logged in with this device before (DeviceHash).
	KnownDevice bool
}

// LoginBucket returns the keyed digests of the bucket in which the failed attempts of a caller
// count for an account. Calls with a session count per session, and other calls per network.
// Known devices have a bucket of their own. A stranger who fails on purpose therefore delays
// neither the sessions nor the known devices of the owner, nor the owner's attempts from other
// networks. email must be in lower case.
func LoginBucket(keys affiliate.HashKeys, kind affiliate.AccountKind, email string, caller LoginCaller) affiliate.Digests {
	name := "network:" + caller.Network
	switch {
	case caller.Session != affiliate.SessionID{}:
		name = "session:" + caller.Session.String()
	case caller.KnownDevice:
		name = "device:" + caller.Network
	}
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("login bucket:" + string(kind) + ":" + email + "\x00" + name))
		return mac.Sum(nil)
	})
}

// Limits on failed logins to one account. After freeLoginFailures failed attempts of a
// bucket (LoginBucket) within LoginFailureWindow, each further attempt has to wait. The
// wait doubles each time, up to longestLoginWait.
const (
	LoginFailureWindow = 15 * time.Minute
	freeLoginFailures  = 10
	longestLoginWait   = time.Minute
)

// LoginWait returns how long an attempt at the given time has to wait. failures is the
// number of earlier failed attempts in its bucket within LoginFailureWindow, and last is the time of
// the latest failed attempt.
func LoginWait(failures int, last, now time.Time) time.Duration {
	if failures < freeLoginFailures {
		return 0
	}
	wait := longestLoginWait
	if doublings := failures - freeLoginFailures; doublings < 6 {
		wait = time.Second << doublings
	}
	return max(0, last.Add(wait).Sub(now))
}

// DeviceMemory is how long a device is remembered after its last use. A sign-in from
// another device causes a notification.
const DeviceMemory = 90 * 24 * time.Hour

// deviceSize is in bytes.
const deviceSize = 16

var versionNumber = regexp.MustCompile(`[0-9]+(?:[._][0-9]+)*`)

// DeviceHash returns the keyed hashes of the device with which a user signs in: the browser,
// without its version, in a network. The hashes of two users are always different.
func DeviceHash(keys affiliate.HashKeys, user affiliate.UserID, network, agent string) affiliate.Digests {
	browser := versionNumber.ReplaceAllString(agent, "")
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("device\x00"))
		mac.Write(user.UUID[:])
		mac.Write([]byte(network + "\x00" + browser))
		return mac.Sum(nil)[:deviceSize]
	})
}
