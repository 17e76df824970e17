// Package account has the rules of accounts, workspaces and their members, and of the
// credentials that give access to them: sessions, second factors, keys and tokens.
package account

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"net/mail"
	"strings"
	"time"
	"unicode"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// BareAddress reports whether s is an e-mail address without a display name or a
// comment. Accounts are distinguished by the text of their e-mail addresses. If display
// names and comments were allowed, the owner of one mailbox could open many accounts.
func BareAddress(s string) bool {
	parsed, err := mail.ParseAddress(s)
	return err == nil && parsed.Address == s
}

// User is an account. A merchant's user belongs to at most one workspace, a partner's
// user belongs to none.
type User struct {
	ID    affiliate.UserID
	Kind  affiliate.AccountKind
	Email string // lower case
	// EmailVerified is true if the user has proved access to the mailbox of Email.
	EmailVerified bool
	// SecondFactor is true if a login requires a code of an authenticator app.
	SecondFactor bool
	Name         string
	Country      *string // ISO 3166-1 alpha-2
	// Locale is the language in which the user reads the apps. It is empty until the user chooses one.
	Locale    Locale
	CreatedAt time.Time
	// Unclaimed is true for an account that a merchant has created, until its owner sets a
	// password. Until then, nobody can log in to the account.
	Unclaimed bool
}

// Locale is a language of the apps.
type Locale string

// The languages. A user who has not chosen one, and a workspace, have English.
const (
	English Locale = "en"
	German  Locale = "de"
)

// Member is a user's membership in a workspace.
type Member struct {
	Workspace affiliate.WorkspaceID
	Role      affiliate.Role
	// SecondFactorRequired is true if the workspace requires a second factor of its members.
	SecondFactorRequired bool
}

// TeamMember is a member with name and e-mail address, as lists of members show it.
type TeamMember struct {
	ID    affiliate.UserID
	Name  string
	Email string // lower case
	Role  affiliate.Role
	// SecondFactor is true if the member has a second factor.
	SecondFactor bool
	CreatedAt    time.Time // when the user became a member
}

// Account is a user with its credentials and its membership in a workspace.
type Account struct {
	User
	PasswordHash string
	// Member is nil for partners, and for merchants who were removed from their
	// workspace.
	Member *Member `db:"-"`
}

// MayLogIn reports whether the account may have sessions. A merchant who was removed
// from its workspace cannot log in.
func (a Account) MayLogIn() bool { return a.Kind == affiliate.Partner || a.Member != nil }

// Registration says who can create accounts of one kind, merchant or partner.
type Registration string

// With OpenRegistration, everybody can register. With InviteRegistration, a person needs the
// token of an invitation. With ClosedRegistration, nobody can register: an account is created
// only if a person accepts an invitation to an existing workspace.
const (
	OpenRegistration   Registration = "open"
	InviteRegistration Registration = "invite"
	ClosedRegistration Registration = "closed"
)

// SetupCode returns the code with which the first workspace of an installation can be created,
// in groups of four characters. All cores of the installation have the same code, because it is
// derived from the first hash key. It has 80 random bits.
func SetupCode(keys affiliate.HashKeys) string {
	mac := hmac.New(sha256.New, keys.First())
	mac.Write([]byte("setup code"))
	code := base32.StdEncoding.EncodeToString(mac.Sum(nil)[:10])
	return strings.Join([]string{code[:4], code[4:8], code[8:12], code[12:]}, "-")
}

// IsSetupCode reports whether a person has entered the code of SetupCode. Case, spaces and
// hyphens are ignored.
func IsSetupCode(keys affiliate.HashKeys, entered string) bool {
	plain := strings.NewReplacer("-", "", " ", "")
	return hmac.Equal([]byte(plain.Replace(strings.ToUpper(entered))), []byte(plain.Replace(SetupCode(keys))))
}

// MemberNotification returns a notification about a member for the feed of the workspace. The
// parameter facts has the values of the placeholders in the text of the notification.
func MemberNotification(
	workspace affiliate.WorkspaceID, kind notification.Type, member affiliate.UserID, at time.Time, facts map[string]string,
) notification.Notification {
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(workspace), kind, nil, at)
	n.Workspace, n.User, n.Resource, n.Facts = &workspace, &member, &member.UUID, facts
	return n
}

// Notification returns a notification about an account, for the feed of the
// member's workspace, or for the feed of the partner. The result is empty for a merchant who is
// not a member of a workspace, because this user has no feed.
func Notification(account Account, kind notification.Type, at time.Time, facts map[string]string) []notification.Notification {
	user := account.ID
	if account.Member != nil {
		return []notification.Notification{MemberNotification(account.Member.Workspace, kind, user, at, facts)}
	}
	if account.Kind != affiliate.Partner {
		return nil
	}
	n := notification.NewNotification(affiliate.Partner, notification.PartnerFeed(user), kind, nil, at)
	n.User, n.Resource, n.Facts = &user, &user.UUID, facts
	return []notification.Notification{n}
}

// CommonPassword reports whether a password is easy to guess: a frequent password of at
// least ten characters, one repeated character, or a simple sequence of digits or
// letters. The API checks the length separately.
func CommonPassword(password string) bool {
	folded := strings.ToLower(password)
	if commonPasswords[folded] {
		return true
	}
	return strings.Trim(folded, folded[:1]) == "" ||
		strings.Contains("01234567890123456789"+"9876543210987654321"+"abcdefghijklmnopqrstuvwxyz"+"qwertyuiopasdfghjklzxcvbnm", folded)
}

// PersonalPassword reports whether a password consists of a text that others know about
// the user: the name, the e-mail address or the part of the address before the @. Case,
// spaces, punctuation and digits at the end of the password make no difference.
func PersonalPassword(password, name, email string) bool {
	password = compact(password)
	withoutDigits := strings.TrimRightFunc(password, unicode.IsDigit)
	local, _, _ := strings.Cut(email, "@")
	for _, text := range []string{name, email, local} {
		text = compact(text)
		if text != "" && (password == text || withoutDigits == text) {
			return true
		}
	}
	return false
}

func compact(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// commonPasswords holds frequent passwords of at least ten characters from published
// lists of leaked passwords. Shorter passwords are rejected because of their length.
var commonPasswords = func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(`
		password12 password123 password1234 password12345 password123! password1! passw0rd12 passw0rd123
		p@ssw0rd123 p@ssword123 passwordpassword mypassword mypassword1 newpassword changeme123 changeme1234
		letmein123 letmein1234 welcome123 welcome1234 welcome2024 welcome2025 welcome2026 qwerty1234 qwerty12345 qwerty123456
		1qaz2wsx3edc 1q2w3e4r5t 1q2w3e4r5t6y zaq12wsxcde qazwsxedcrfv q1w2e3r4t5 q1w2e3r4t5y6 asdfghjkl1 asdfghjkl123
		iloveyou12 iloveyou123 iloveyou1234 sunshine12 sunshine123 princess12 princess123 football12 football123
		baseball12 baseball123 superman123 batman12345 dragon1234 monkey1234 master1234 michael123 jennifer12 jordan2323
		charlie123 liverpool1 liverpool123 chelsea123 arsenal123 barcelona1 manchester1 administrator admin12345 admin123456
		administrator1 rootroot123 root123456 test123456 testtest123 testpassword user123456 guest12345 default123
		abcd123456 abc1234567 abc12345678 abcdef123456 abcdefg123 a123456789 a1234567890 123456789a 1234567890a 12345678910
		123456123456 1234512345 1212121212 1231231234 123123123123 1029384756 0987654321 9876543210 147258369a 1472583690
		0123456789 1111111111 qwertyuiop qwertyuiop1 qwertyuiop123 qwerty123! computer123 internet123 whatever123
		trustno1trustno1 starwars123 pokemon123 minecraft123 samsung123 google1234 facebook123 secret1234 secretpassword
	`) {
		set[word] = true
	}
	return set
}()

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
	// recoveryCodeBytes is the number of random bytes in a recovery code. 80 random bits cannot be guessed.
	recoveryCodeBytes = 10
)

// ChallengeField is the name of the challenge in the metadata of the error
// SECOND_FACTOR_REQUIRED, and in the REST response to a login.
const ChallengeField = "challenge"

// SecondFactor is the time-based one-time password (TOTP) of an account (RFC 6238).
type SecondFactor struct {
	User affiliate.UserID `db:"user_id"`
	// Secret is the encrypted secret of the TOTP.
	Secret    []byte
	CreatedAt time.Time
	// ConfirmedAt is nil until the user enters a code, which shows that the app has the secret.
	// Until then, the factor has no effect.
	ConfirmedAt *time.Time
	// LastStep is the time step of the latest code that was accepted.
	LastStep int64
	// Failures is the number of wrong codes since the latest code that was accepted or the
	// latest reset of the password.
	Failures int
}

// CheckFailures checks whether a code may be tried. Without this limit, a person who knows the
// password could try codes for weeks, because there are only a million codes. Errors:
// INVALID_CREDENTIALS.
func (f SecondFactor) CheckFailures() error {
	if f.Failures < maxCodeFailures {
		return nil
	}
	return &affiliate.Error{Reason: affiliate.ReasonInvalidCredentials, Message: "There were 100 wrong codes in a row. Codes are refused until the password is reset."}
}

// MatchStep returns the time step of a code that is valid at the given time. The parameter
// matches reports whether the code belongs to a time step. A code is valid during its own time
// step, the step before and the step after. It is not valid if its step is LastStep or earlier,
// so each code works once.
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
	text = affiliate.RandomToken("chl_")
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
