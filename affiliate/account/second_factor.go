package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Properties of second factors (docs/merchant/authentication.md#second-factor).
const (
	// TOTPStep is the time for which an authenticator app shows a code (RFC 6238).
	TOTPStep = 30 * time.Second
	// totpDrift is the number of steps by which the clock of the app may differ.
	totpDrift = 1
	// ChallengeLife is how long a login waits for its code.
	ChallengeLife = 5 * time.Minute
	// maxChallengeFailures is the number of wrong codes after which a challenge ends.
	maxChallengeFailures = 5
	// NotifiedCodeFailures is the number of wrong codes in a row after which the user is
	// notified.
	NotifiedCodeFailures = 3
	// maxCodeFailures is the number of wrong codes in a row after which all codes are refused
	// until the password is reset.
	maxCodeFailures = 100
	// RecoveryCodes is the number of recovery codes of a second factor.
	RecoveryCodes = 10
	// recoveryCodeBytes are 80 random bits, which cannot be guessed.
	recoveryCodeBytes = 10
)

// ChallengeField is the key of the challenge in the metadata of SECOND_FACTOR_REQUIRED. The
// field of the REST response has the same name.
const ChallengeField = "challenge"

// SecondFactor is the TOTP of an account (RFC 6238).
type SecondFactor struct {
	User affiliate.UserID `db:"user_id"`
	// Secret is the encrypted secret.
	Secret    []byte
	CreatedAt time.Time
	// ConfirmedAt is nil if the user has not shown yet that the app has the secret. The
	// factor then has no effect.
	ConfirmedAt *time.Time
	// LastStep is the time step of the latest code that was accepted.
	LastStep int64
	// Failures is the number of wrong codes since the latest code that was accepted or the
	// latest reset of the password.
	Failures int
}

// CheckFailures checks whether a code may be tried. Without this limit, a person who knows
// the password could try codes for weeks, because each is one of a million. Errors:
// INVALID_CREDENTIALS.
func (f SecondFactor) CheckFailures() error {
	if f.Failures < maxCodeFailures {
		return nil
	}
	return &affiliate.Error{Reason: affiliate.ReasonInvalidCredentials, Message: "There were 100 wrong codes in a row. Codes are refused until the password is reset."}
}

// MatchStep returns the time step of a code that is valid at the given time. matches reports
// whether the code belongs to a time step. A code is valid one step before and after its own step, unless
// LastStep is its step or a later step: each code works once. ok is false if the code is not
// valid.
func (f SecondFactor) MatchStep(now time.Time, matches func(step int64) bool) (step int64, ok bool) {
	current := now.Unix() / int64(TOTPStep/time.Second)
	for step := current - totpDrift; step <= current+totpDrift; step++ {
		if step > f.LastStep && matches(step) {
			return step, true
		}
	}
	return 0, false
}

// LoginChallenge is a login whose password was right and that waits for a code.
type LoginChallenge struct {
	User      affiliate.UserID `db:"user_id"`
	Failures  int              // wrong codes
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Open reports whether a code can complete the login.
func (c LoginChallenge) Open(now time.Time) bool {
	return now.Before(c.ExpiresAt) && c.Failures < maxChallengeFailures
}

// NewLoginChallenge returns a challenge, its text for the client and the digest that is
// stored instead of the text.
func NewLoginChallenge(user affiliate.UserID, at time.Time) (c LoginChallenge, text string, digest [sha256.Size]byte) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
	text = "chl_" + base64.RawURLEncoding.EncodeToString(random[:])
	return LoginChallenge{User: user, CreatedAt: at, ExpiresAt: at.Add(ChallengeLife)}, text, DigestLoginChallenge(text)
}

// DigestLoginChallenge returns the digest under which a challenge is stored.
func DigestLoginChallenge(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// NewRecoveryCodes returns recovery codes, and the digests that are stored instead of them.
func NewRecoveryCodes() (codes []string, digests [][]byte) {
	for range RecoveryCodes {
		var random [recoveryCodeBytes]byte
		_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
		text := strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))
		code := text[:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:]
		digest, _ := DigestRecoveryCode(code)
		codes, digests = append(codes, code), append(digests, digest)
	}
	return codes, digests
}

// DigestRecoveryCode returns the digest under which a recovery code is stored. Case, spaces
// and dashes are ignored. ok is false if the text cannot be a recovery code.
func DigestRecoveryCode(text string) (digest []byte, ok bool) {
	normal := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(text))
	random, err := base32.StdEncoding.DecodeString(normal)
	if err != nil || len(random) != recoveryCodeBytes {
		return nil, false
	}
	sum := sha256.Sum256(random)
	return sum[:], true
}
