package account

import (
	"crypto/sha256"
	"hash/crc32"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// KeyKind distinguishes the kinds of keys: the two kinds of API keys, and service tokens
// (docs/merchant/authentication.md).
type KeyKind string

// A secret key gives access to the conversion API and the audit endpoints. A public key
// can only register clicks. A service token gives access to the merchant's routes.
const (
	SecretKey  KeyKind = "secret"
	PublicKey  KeyKind = "public"
	ServiceKey KeyKind = "service"
)

const (
	// A key has keyRandom random characters, which are 190 random bits, followed by
	// keyChecksum characters with a CRC-32. With the checksum, a mistyped key is
	// rejected without a database lookup, and secret scanners can recognize real keys.
	keyRandom   = 32
	keyChecksum = 6
	keyPrefix   = len("sk_live_")
	keyLength   = keyPrefix + keyRandom + keyChecksum
)

// Key is a valid API key or service token in clear text. Formatting functions do not print it.
type Key struct {
	Kind KeyKind
	Mode affiliate.Mode
	text string
}

// NewKey returns a key of 190 random bits.
func NewKey(kind KeyKind, mode affiliate.Mode) Key {
	text := prefixOf(kind, mode) + affiliate.RandomBase62(keyRandom)
	return Key{Kind: kind, Mode: mode, text: text + checksum(text)}
}

// ParseKey parses a key and checks its prefix, alphabet, length and checksum. It needs
// no lookup, so invalid keys are rejected cheaply.
func ParseKey(s string) (Key, bool) {
	if len(s) != keyLength {
		return Key{}, false
	}
	for kind := range keyPrefixes {
		for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
			if strings.HasPrefix(s, prefixOf(kind, mode)) {
				body, sum := s[:keyLength-keyChecksum], s[keyLength-keyChecksum:]
				return Key{Kind: kind, Mode: mode, text: s}, isBase62(body[keyPrefix:]) && checksum(body) == sum
			}
		}
	}
	return Key{}, false
}

// LooksLikeKey reports whether s has the prefix of a key, even if it is not a valid
// key.
func LooksLikeKey(s string) bool {
	for _, prefix := range keyPrefixes {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// Reveal returns the clear text of the key. The service shows a secret key once, and a
// public key at any time.
func (k Key) Reveal() string { return k.text }

// Digest returns the SHA-256 of the key. The database stores the digest, and keys are
// looked up by it. A fast hash function is sufficient because the key has 190 random
// bits.
func (k Key) Digest() [sha256.Size]byte { return sha256.Sum256([]byte(k.text)) }

// Prefix returns the prefix of the key, for example sk_live_. Lists show it together
// with Last4.
func (k Key) Prefix() string { return k.text[:keyPrefix] }

// Last4 returns the last four characters.
func (k Key) Last4() string { return k.text[len(k.text)-4:] }

// String returns a form that does not reveal the key, for logs.
func (k Key) String() string { return k.Prefix() + "…" + k.Last4() }

// GoString returns the same as String. The formatting verb %#v uses it.
func (k Key) GoString() string { return k.String() }

var keyPrefixes = map[KeyKind]string{SecretKey: "sk_", PublicKey: "pk_", ServiceKey: "st_"}

func prefixOf(kind KeyKind, mode affiliate.Mode) string {
	return keyPrefixes[kind] + string(mode) + "_"
}

func checksum(s string) string {
	n := crc32.ChecksumIEEE([]byte(s))
	var out [keyChecksum]byte
	for i := keyChecksum - 1; i >= 0; i-- {
		out[i] = affiliate.Base62[n%62]
		n /= 62
	}
	return string(out[:])
}

func isBase62(s string) bool {
	for i := range len(s) {
		if strings.IndexByte(affiliate.Base62, s[i]) < 0 {
			return false
		}
	}
	return true
}

// APIKey is a key as a row of the table api_keys. The text of a secret key is not stored. A key
// is looked up by its digest.
type APIKey struct {
	ID affiliate.APIKeyID `db:"id,fixed"`
	affiliate.Scope
	Kind       KeyKind    `db:"kind,fixed"`
	Name       string     `db:"name,fixed"`
	Digest     []byte     `db:"digest,fixed"`               // Key.Digest
	PublicText string     `db:"public_text,fixed,nullable"` // the whole key, for public keys only
	Prefix     string     `db:"prefix,fixed"`
	Last4      string     `db:"last4,fixed"`
	CreatedAt  time.Time  `db:"created_at,fixed"`
	LastUsedAt *time.Time `db:"last_used_at,fixed"` // to the minute
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	RolledAt   *time.Time // when its successor was created; a key has at most one successor
}

// MaxSecretKeys is the greatest number of active secret keys of a mode, including rolled
// keys in their grace period.
const MaxSecretKeys = 10

// DefaultRollGrace is how long a rolled key keeps working if the request sets no grace period.
const DefaultRollGrace = 24 * time.Hour

// GenerateAPIKey creates a random key. It returns the key in clear text and the record
// to store.
func GenerateAPIKey(kind KeyKind, scope affiliate.Scope, name string, at time.Time) (Key, APIKey) {
	text := NewKey(kind, scope.Mode)
	digest := text.Digest()
	key := APIKey{
		ID: affiliate.NewID[affiliate.APIKeyID](at), Scope: scope, Kind: kind, Name: name, Digest: digest[:],
		Prefix: text.Prefix(), Last4: text.Last4(), CreatedAt: at,
	}
	if kind == PublicKey {
		key.PublicText = text.Reveal()
	}
	return text, key
}

// Active reports whether the key authenticates requests at the given time.
func (k APIKey) Active(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// Roll returns k with the changes that the creation of its successor makes. k keeps working
// until the grace period ends; without a grace period it stops at once. If k expires before the
// end of the grace period, its expiry does not change. Errors: NOT_FOUND if k is not active or
// already has a successor.
func (k APIKey) Roll(grace time.Duration, at time.Time) (APIKey, error) {
	if !k.Active(at) || k.RolledAt != nil {
		return APIKey{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	k.RolledAt = &at
	until := at.Add(grace)
	switch {
	case grace <= 0:
		k.RevokedAt = &at
	case k.ExpiresAt == nil || until.Before(*k.ExpiresAt):
		k.ExpiresAt = &until
	}
	return k, nil
}

// Revoke returns k after it was revoked. Errors: NOT_FOUND if k is not active, or if it
// is a public key, which can only be rolled.
func (k APIKey) Revoke(at time.Time) (APIKey, error) {
	if !k.Active(at) || k.Kind != SecretKey {
		return APIKey{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	k.RevokedAt = &at
	return k, nil
}

// CheckKeys checks whether a mode with the given number of active keys of a kind may get another
// key. The parameter limit is MaxSecretKeys or MaxServiceTokens. Errors: API_KEY_LIMIT_EXCEEDED.
func CheckKeys(active, limit int) error {
	if active >= limit {
		return affiliate.Refuse(affiliate.ReasonAPIKeyLimitExceeded)
	}
	return nil
}

// PublicKeyTarget is a public key with the data that the collector needs to handle
// requests with this key.
type PublicKeyTarget struct {
	APIKey
	// AllowedOrigins are the allowed origins of the workspace. If the list is empty,
	// every origin is allowed.
	AllowedOrigins []string
	// EnforceOrigins says that clicks from origins that are not allowed are rejected. If it is
	// false, these clicks are stored and marked.
	EnforceOrigins bool
	// RequireOrigin says that clicks without an origin are rejected too.
	RequireOrigin bool
}

// ServiceToken is a credential with which a program manages a workspace, in one mode and with
// one role, as a row of the table service_tokens. The text of the token is not stored. A token
// is looked up by its digest.
type ServiceToken struct {
	ID affiliate.ServiceTokenID `db:"id,fixed"`
	affiliate.Scope
	Name string         `db:"name,fixed"`
	Role affiliate.Role `db:"role,fixed"` // never RoleOwner
	// AllowPayouts means that the token may also confirm, process and export payouts if
	// its role permits these calls.
	AllowPayouts bool             `db:"allow_payouts,fixed"`
	Digest       []byte           `db:"digest,fixed"` // Key.Digest
	Prefix       string           `db:"prefix,fixed"`
	Last4        string           `db:"last4,fixed"`
	CreatedBy    affiliate.UserID `db:"created_by,fixed"`
	CreatedAt    time.Time        `db:"created_at,fixed"`
	ExpiresAt    time.Time
	RevokedAt    *time.Time
	RolledAt     *time.Time // when its successor was created; a token has at most one successor
	LastUsedAt   *time.Time `db:"last_used_at,fixed"` // to the minute
	// LastUsedIPPrefix is the network of the client that used the token last, /24 for IPv4
	// and /48 for IPv6. It is written together with LastUsedAt.
	LastUsedIPPrefix *string `db:"last_used_ip_prefix,fixed"`
}

// ListedServiceToken is a token with the current name of the member who created it; nil if the
// member has left the workspace.
type ListedServiceToken struct {
	ServiceToken
	CreatedByName *string
}

// MaxServiceTokens is the greatest number of active service tokens of a mode, including
// rolled tokens in their grace period.
const MaxServiceTokens = 20

// DefaultServiceTokenLife is how long a service token is valid if its creator sets no
// expiry.
const DefaultServiceTokenLife = 90 * 24 * time.Hour

// GenerateServiceToken creates a service token from the fields of t that the creator of the
// token has chosen. It returns the token in clear text and the record to store. If ExpiresAt is
// zero, the token is valid for DefaultServiceTokenLife. Errors: VALIDATION_ERROR if ExpiresAt
// is not after the time at, or more than a year after it.
func GenerateServiceToken(t ServiceToken, at time.Time) (Key, ServiceToken, error) {
	if t.ExpiresAt.IsZero() {
		t.ExpiresAt = at.Add(DefaultServiceTokenLife)
	}
	if !t.ExpiresAt.After(at) || t.ExpiresAt.After(at.AddDate(1, 0, 0)) {
		return Key{}, ServiceToken{}, affiliate.Invalid("expires_at", "must be in the future, at most a year from now")
	}
	text := NewKey(ServiceKey, t.Mode)
	t.ID, t.CreatedAt = affiliate.NewID[affiliate.ServiceTokenID](at), at
	t.Prefix, t.Last4 = text.Prefix(), text.Last4()
	digest := text.Digest()
	t.Digest = digest[:]
	return text, t, nil
}

// Active reports whether the token authenticates requests at the given time.
func (t ServiceToken) Active(now time.Time) bool {
	return t.RevokedAt == nil && now.Before(t.ExpiresAt)
}

// CheckManageable checks whether a member of the given role may create or roll the token.
// Errors: FORBIDDEN if the member is neither an owner nor an admin, or if the token may
// confirm payouts and the member is not an owner.
func (t ServiceToken) CheckManageable(by affiliate.Role) error {
	if by != affiliate.RoleOwner && (by != affiliate.RoleAdmin || t.AllowPayouts) {
		return affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return nil
}

// Roll returns t with the changes that the creation of its successor makes, and the successor
// in clear text and as the record to store. The successor gets the lifetime that t had at its
// creation, at most a year. The token t keeps working until the grace period ends; without a
// grace period it stops at once. If t expires before the end of the grace period, its expiry
// does not change. Errors: NOT_FOUND if t is not active or already has a successor.
func (t ServiceToken) Roll(grace time.Duration, by affiliate.UserID, at time.Time) (rolled ServiceToken, text Key, successor ServiceToken, err error) {
	if !t.Active(at) || t.RolledAt != nil {
		return ServiceToken{}, Key{}, ServiceToken{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	text, successor, err = GenerateServiceToken(ServiceToken{
		Scope: t.Scope, Name: t.Name, Role: t.Role, AllowPayouts: t.AllowPayouts, CreatedBy: by,
		ExpiresAt: at.Add(min(t.ExpiresAt.Sub(t.CreatedAt), at.AddDate(1, 0, 0).Sub(at))),
	}, at)
	if err != nil {
		return ServiceToken{}, Key{}, ServiceToken{}, err
	}
	t.RolledAt = &at
	switch until := at.Add(grace); {
	case grace <= 0:
		t.RevokedAt = &at
	case until.Before(t.ExpiresAt):
		t.ExpiresAt = until
	}
	return t, text, successor, nil
}

// Revoke returns t after it was revoked. Errors: NOT_FOUND if t is not active.
func (t ServiceToken) Revoke(at time.Time) (ServiceToken, error) {
	if !t.Active(at) {
		return ServiceToken{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	t.RevokedAt = &at
	return t, nil
}

// AuditObject returns the fields of the token that the audit log shows.
func (t ServiceToken) AuditObject() map[string]any {
	return map[string]any{
		"name": t.Name, "role": t.Role, "allow_payouts": t.AllowPayouts, "prefix": t.Prefix, "last4": t.Last4,
		"expires_at": affiliate.FormatTime(t.ExpiresAt),
	}
}

// Notification returns the notification that a member has created, rolled or revoked the
// token.
func (t ServiceToken) Notification(kind notification.Type, by affiliate.UserID, at time.Time) notification.Notification {
	n := MemberNotification(t.Workspace, kind, by, at, map[string]string{
		"key": t.Name, "last4": t.Last4, "mode": string(t.Mode), "role": string(t.Role),
	})
	n.Resource = &t.ID.UUID
	return n
}

// KeyNotification returns a notification that a secret key was created, rolled or revoked. The
// parameter by is the member who did this, or the creator of the service token that did it. A
// public key has no notification, because it is not a secret.
func KeyNotification(kind notification.Type, key APIKey, by affiliate.UserID, at time.Time) []notification.Notification {
	if key.Kind != SecretKey {
		return nil
	}
	n := MemberNotification(key.Workspace, kind, by, at, map[string]string{
		"key": key.Name, "last4": key.Last4, "mode": string(key.Mode),
	})
	n.Resource = &key.ID.UUID
	return []notification.Notification{n}
}
