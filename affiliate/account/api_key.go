package account

import (
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// APIKey is a stored key. A secret key is stored as its digest, prefix and last
// characters only.
type APIKey struct {
	ID         affiliate.APIKeyID
	Scope      affiliate.Scope
	Kind       KeyKind
	Name       string
	PublicText string // the whole key, for public keys only
	Prefix     string
	Last4      string
	CreatedAt  time.Time
	LastUsedAt *time.Time // to the minute
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	RolledAt   *time.Time // when its successor was created; a key has at most one successor
}

// NewAPIKey is a key that is not stored yet, with the digest by which it is looked up.
type NewAPIKey struct {
	APIKey
	Digest [sha256.Size]byte
}

// MaxSecretKeys is the greatest number of active secret keys of a mode, including rolled
// keys in their grace period.
const MaxSecretKeys = 10

// DefaultRollGrace is how long a rolled key keeps working.
const DefaultRollGrace = 24 * time.Hour

// GenerateAPIKey creates a random key. It returns the key in clear text and the record
// to store.
func GenerateAPIKey(kind KeyKind, scope affiliate.Scope, name string, at time.Time) (Key, NewAPIKey) {
	text := NewKey(kind, scope.Mode)
	key := NewAPIKey{
		Digest: text.Digest(),
		APIKey: APIKey{
			ID:        affiliate.NewID[affiliate.APIKeyID](at),
			Scope:     scope,
			Kind:      kind,
			Name:      name,
			Prefix:    text.Prefix(),
			Last4:     text.Last4(),
			CreatedAt: at,
		},
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
