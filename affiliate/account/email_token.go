package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// EmailTokenPurpose is what a token that was mailed to an address can be used for.
type EmailTokenPurpose string

// The purposes of e-mail tokens. A token for verification proves that the user reads the
// mail of the account's address. A token for a change proves the same for the new address
// and makes it the address of the account. A token for a reset sets a new password.
const (
	TokenVerify EmailTokenPurpose = "verify"
	TokenChange EmailTokenPurpose = "change"
	TokenReset  EmailTokenPurpose = "reset"
)

// Lifetimes of e-mail tokens. A reset is valid for a shorter time, because its token gives
// access to the account.
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

// NewEmailToken returns a token that begins at the given time, its text and the digest of
// the text. The text has 256 random bits and a prefix, by which people and secret
// scanners recognize it.
func NewEmailToken(user affiliate.UserID, purpose EmailTokenPurpose, address string, at time.Time) (token EmailToken, text string, digest [sha256.Size]byte) {
	prefix, life := "ver_", VerifyTokenLife
	if purpose == TokenReset {
		prefix, life = "rst_", ResetTokenLife
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // crypto/rand.Read never fails
	text = prefix + base64.RawURLEncoding.EncodeToString(random)
	token = EmailToken{User: user, Purpose: purpose, Address: address, CreatedAt: at, ExpiresAt: at.Add(life)}
	return token, text, DigestEmailToken(text)
}

// NewClaimToken returns a token with which the owner of an account that somebody else has made
// sets the first password. It is valid as long as an invitation.
func NewClaimToken(user User, at time.Time) (token EmailToken, text string, digest [sha256.Size]byte) {
	token, text, digest = NewEmailToken(user.ID, TokenReset, user.Email, at)
	token.ExpiresAt = at.Add(InviteLife)
	return token, text, digest
}

// DigestEmailToken returns the digest by which a token is looked up.
func DigestEmailToken(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// Usable reports whether the token has neither been used nor expired at the given time.
func (t EmailToken) Usable(now time.Time) bool { return t.UsedAt == nil && now.Before(t.ExpiresAt) }

// Verifies reports whether the token verifies an address of the account at the given
// time: its current address, or the address to which it changes.
func (t EmailToken) Verifies(account Account, now time.Time) bool {
	if !t.Usable(now) {
		return false
	}
	return t.Purpose == TokenChange || t.Purpose == TokenVerify && t.Address == account.User.Email
}

// Resets reports whether the token sets a new password of the account at the given time.
func (t EmailToken) Resets(account Account, now time.Time) bool {
	return t.Purpose == TokenReset && t.Usable(now) && t.Address == account.User.Email && account.MayLogIn()
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
