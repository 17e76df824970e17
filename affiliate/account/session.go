package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mileusna/useragent"

	"github.com/tributary-hq/tributary/affiliate"
)

// Lifetimes of credentials (docs/merchant/authentication.md#log-in-and-keep-the-session).
const (
	AccessTokenLife      = 15 * time.Minute
	RefreshTokenIdle     = 30 * 24 * time.Hour
	RefreshTokenAbsolute = 90 * 24 * time.Hour
	// BrowserIdle is the idle time of a browser that does not keep the user logged in.
	BrowserIdle = 12 * time.Hour
)

// Session is one login: a family of refresh tokens that descend from it, or the secret of a
// browser. It is a row of the table sessions.
type Session struct {
	ID            affiliate.SessionID `db:"id,fixed"`
	User          affiliate.UserID    `db:"user_id,fixed"`
	CreatedAt     time.Time           `db:"created_at,fixed"`
	IdleExpiresAt time.Time           // the idle time after the last refresh, at most ExpiresAt
	ExpiresAt     time.Time           `db:"expires_at,fixed"` // 90 days after CreatedAt
	RevokedAt     *time.Time
	BrowserDigest []byte // SHA-256 of the browser's secret; nil if the session has refresh tokens
	KeepLoggedIn  bool   // the browser keeps the user logged in
	// Device is the browser and the system of the login (DeviceName).
	Device string `db:"device,fixed"`
	// Network is the shortened client address (/24 or /48) at LastUsedAt. It is empty if unknown.
	Network    string
	LastUsedAt time.Time // the login or the last refresh
}

// NewSession returns a session of the user that begins at the given time, in the given network
// and with the given user agent.
func NewSession(user affiliate.UserID, network, agent string, now time.Time) Session {
	return Session{
		ID:            affiliate.NewID[affiliate.SessionID](now),
		User:          user,
		CreatedAt:     now,
		IdleExpiresAt: now.Add(RefreshTokenIdle),
		ExpiresAt:     now.Add(RefreshTokenAbsolute),
		Device:        DeviceName(agent),
		Network:       network,
		LastUsedAt:    now,
	}
}

// Names that DeviceName uses. Package useragent also returns parts of unknown user agents,
// which can be any text.
var (
	browserNames = []string{
		useragent.Chrome, useragent.Edge, useragent.Firefox, useragent.Opera, useragent.OperaMini, useragent.OperaTouch,
		useragent.Safari, useragent.SamsungBrowser, useragent.Vivaldi, useragent.InternetExplorer, "Huawei Browser", "Miui Browser",
	}
	systemNames = []string{useragent.Android, useragent.ChromeOS, useragent.FreeBSD, useragent.IOS, useragent.Linux, useragent.MacOS, useragent.Windows}
)

// DeviceName returns the browser and the system of a user agent for people, for example
// "Firefox on Linux". It returns only one of them if the other is unknown, or "".
func DeviceName(agent string) string {
	parsed := useragent.Parse(agent)
	var known []string
	if slices.Contains(browserNames, parsed.Name) {
		known = append(known, parsed.Name)
	}
	if slices.Contains(systemNames, parsed.OS) {
		known = append(known, parsed.OS)
	}
	return strings.Join(known, " on ")
}

// recentLogin is the time after a login in which calls that need the password accept the login instead.
const recentLogin = 15 * time.Minute

// IsRecentLogin reports whether a session began at most 15 minutes ago. The id of a session
// contains the time of the login. Refreshing the session does not change the id.
func IsRecentLogin(session affiliate.SessionID, now time.Time) bool {
	began, ok := session.Time()
	return ok && now.Sub(began) <= recentLogin
}

// Refresh returns the session of an account with its idle expiry extended, after a use in the
// given network. If kind is not nil, the account must be of this kind. Errors: REFRESH_TOKEN_INVALID.
func (s Session) Refresh(account Account, kind *affiliate.AccountKind, network string, now time.Time) (Session, error) {
	ended := s.RevokedAt != nil || !now.Before(s.IdleExpiresAt) || !now.Before(s.ExpiresAt)
	if ended || !account.MayLogIn() || kind != nil && account.Kind != *kind {
		return Session{}, affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)
	}
	s.IdleExpiresAt, s.Network, s.LastUsedAt = now.Add(s.idleTime()), network, now
	if s.ExpiresAt.Before(s.IdleExpiresAt) {
		s.IdleExpiresAt = s.ExpiresAt
	}
	return s, nil
}

// BindBrowser returns the session of an account with a browser instead of refresh tokens. digest
// is the SHA-256 digest of the browser's secret. The account must be of the given kind. Errors:
// REFRESH_TOKEN_INVALID.
func (s Session) BindBrowser(account Account, kind affiliate.AccountKind, digest [sha256.Size]byte, keepLoggedIn bool, now time.Time) (Session, error) {
	s.BrowserDigest, s.KeepLoggedIn = digest[:], keepLoggedIn
	return s.Refresh(account, &kind, s.Network, now)
}

// idleTime returns the time without a refresh after which the session ends.
func (s Session) idleTime() time.Duration {
	if s.BrowserDigest != nil && !s.KeepLoggedIn {
		return BrowserIdle
	}
	return RefreshTokenIdle
}

// RefreshToken is a stored refresh token with its session.
type RefreshToken struct {
	Session
	UsedAt *time.Time // nil if not used; a token can be used once
}

// LoginAttempt is an attempt to log in. It counts as failed until a session is created.
type LoginAttempt struct {
	ID affiliate.LoginAttemptID
	// Subject has the digests of the account's kind and e-mail address. The first digest is stored.
	Subject affiliate.Digests
	// Bucket has the digests that LoginBucket returns. The first digest is stored. Only
	// attempts in the same bucket delay each other.
	Bucket affiliate.Digests
	At     time.Time
}

// LoginSubject returns the keyed digests of an account's kind and e-mail address. Stored login attempts
// contain the first digest instead of the address. The parameter email must be in lower case.
func LoginSubject(keys affiliate.HashKeys, kind affiliate.AccountKind, email string) affiliate.Digests {
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("login:" + string(kind) + ":" + email))
		return mac.Sum(nil)
	})
}

// LoginCaller has the facts about a caller from which LoginBucket chooses the caller's bucket.
type LoginCaller struct {
	// Session is set for calls with a valid session.
	Session affiliate.SessionID
	// Network is the shortened client address (/24 or /48).
	Network string
	// KnownDevice is true if the user has logged in with this device before (DeviceHash).
	KnownDevice bool
}

// LoginBucket returns the keyed digests of the caller's bucket. A bucket has the failed logins
// to one account from one session, from the known devices of one network, or from the other
// devices of one network. A stranger who fails on purpose therefore delays neither the sessions
// nor the known devices of the owner, nor the owner's attempts from other networks. The
// parameter email must be in lower case.
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

// Limits on failed logins to one account. After freeLoginFailures failed attempts in a bucket
// (LoginBucket) within LoginFailureWindow, each further attempt has to wait. The wait begins
// with a second and doubles with each failure, up to longestLoginWait.
const (
	LoginFailureWindow = 15 * time.Minute
	freeLoginFailures  = 10
	longestLoginWait   = time.Minute
)

// LoginWait returns how long an attempt at the given time has to wait. The parameter failures
// is the number of failed attempts in the same bucket within LoginFailureWindow, and the
// parameter last is the time of the latest of them.
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

// deviceSize is the length of a device hash in bytes.
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

// EmailTokenPurpose is the purpose of a token that was mailed to an address.
type EmailTokenPurpose string

// The purposes of e-mail tokens. A token for verification proves that the user reads the mail
// of the account's address. A token for a change proves that the user reads the mail of a new
// address, and makes it the address of the account. A token for a reset sets a new password.
const (
	TokenVerify EmailTokenPurpose = "verify"
	TokenChange EmailTokenPurpose = "change"
	TokenReset  EmailTokenPurpose = "reset"
)

// Lifetimes of e-mail tokens. The token of a reset has a shorter life, because it gives access
// to the account.
const (
	VerifyTokenLife = 24 * time.Hour
	ResetTokenLife  = time.Hour
)

// Limits on mails that somebody can request without being the owner of the address: at
// most MaxTokensPerAddress in any TokenLimitWindow. ResetTokenLife is not shorter than
// TokenLimitWindow, so expired tokens can be deleted without an effect on the limit.
const (
	MaxTokensPerAddress = 3
	TokenLimitWindow    = time.Hour
)

// EmailToken is a token in the link of a mail. It works once. The token is stored as a
// digest.
type EmailToken struct {
	User    affiliate.UserID `db:"user_id"`
	Purpose EmailTokenPurpose
	// Address is the address to which the token was mailed, in lower case. A token of the
	// purposes TokenVerify and TokenReset does not work after the account's address has
	// changed.
	Address string
	// Session is the session that requested a change of address. It is nil for other
	// purposes.
	Session   *affiliate.SessionID `db:"session_id"`
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    *time.Time // when it was used or revoked
}

// NewEmailToken returns a token that is valid from the given time, its text and the digest of
// the text. The text has 256 random bits and a prefix, by which people and secret scanners
// recognize it.
func NewEmailToken(user affiliate.UserID, purpose EmailTokenPurpose, address string, at time.Time) (token EmailToken, text string, digest [sha256.Size]byte) {
	prefix, life := "ver_", VerifyTokenLife
	if purpose == TokenReset {
		prefix, life = "rst_", ResetTokenLife
	}
	text = affiliate.RandomToken(prefix)
	token = EmailToken{User: user, Purpose: purpose, Address: address, CreatedAt: at, ExpiresAt: at.Add(life)}
	return token, text, DigestEmailToken(text)
}

// NewClaimToken returns a token with which a user sets the first password of an account that
// another person has created. The token is valid as long as an invitation.
func NewClaimToken(user User, at time.Time) (token EmailToken, text string, digest [sha256.Size]byte) {
	token, text, digest = NewEmailToken(user.ID, TokenReset, user.Email, at)
	token.ExpiresAt = at.Add(InviteLife)
	return token, text, digest
}

// DigestEmailToken returns the digest by which a token is looked up.
func DigestEmailToken(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// Usable reports whether the token has neither been used nor expired at the given time.
func (t EmailToken) Usable(now time.Time) bool { return t.UsedAt == nil && now.Before(t.ExpiresAt) }

// Verifies reports whether the token verifies an address at the given time: the current address
// of the account, or the new address of a change.
func (t EmailToken) Verifies(account Account, now time.Time) bool {
	if !t.Usable(now) {
		return false
	}
	return t.Purpose == TokenChange || t.Purpose == TokenVerify && t.Address == account.Email
}

// Resets reports whether the token sets a new password of the account at the given time.
func (t EmailToken) Resets(account Account, now time.Time) bool {
	return t.Purpose == TokenReset && t.Usable(now) && t.Address == account.Email && account.MayLogIn()
}

// EmailRequest is a request for a mail that the service processes in a job. The response
// is sent before the job looks an address up. Therefore neither the response nor its
// duration says whether an account has the address.
type EmailRequest struct {
	ID      EmailRequestID
	Purpose EmailTokenPurpose     // TokenReset or TokenChange
	Account affiliate.AccountKind `db:"account_kind"`
	// Address is the address in the request, in lower case.
	Address string
	// User and Session requested a change of address. They are nil for TokenReset.
	User      *affiliate.UserID    `db:"user_id"`
	Session   *affiliate.SessionID `db:"session_id"`
	CreatedAt time.Time
}

// EmailRequestID identifies an EmailRequest.
type EmailRequestID = affiliate.ID[EmailRequest]

// ProcessEmailRequest is the job that sends the mail of an EmailRequest.
type ProcessEmailRequest struct {
	Request EmailRequestID `json:"request"`
}

// Kind returns the name of the job.
func (ProcessEmailRequest) Kind() string { return "process_email_request" }
