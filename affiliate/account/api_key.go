package account

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// APIKey is a key as a row of the table api_keys. The text of a secret key is not stored: it is
// looked up by its digest.
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

// DefaultRollGrace is how long a rolled key keeps working.
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

// Roll returns k after a successor was created. k keeps working until the grace period
// ends; without a grace period it stops at once. If k expires before the end of the
// grace period, its expiry does not change. Errors: NOT_FOUND if k is not active or
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

// CheckSecretKeys checks whether a mode may get another secret key. active is the number
// of its active secret keys. Errors: API_KEY_LIMIT_EXCEEDED.
func CheckSecretKeys(active int) error {
	if active >= MaxSecretKeys {
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
	// EnforceOrigins says that clicks from origins that are not allowed are rejected.
	// Otherwise these clicks are recorded and marked.
	EnforceOrigins bool
	// RequireOrigin says that clicks without an origin are rejected too.
	RequireOrigin bool
}
