package notification

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// UnsubscribeTokens creates and checks the tokens in the unsubscribe links of mails. With
// a token, a client can disable the mail of one category for one user. A token never
// expires, because the links of old mails must work.
type UnsubscribeTokens struct{ keys affiliate.HashKeys }

// NewUnsubscribeTokens returns tokens that are signed with a key derived from the first hash
// key. Tokens that were signed with a key derived from another hash key are valid too.
func NewUnsubscribeTokens(hashKeys affiliate.HashKeys) UnsubscribeTokens {
	return UnsubscribeTokens{keys: affiliate.HashKeys(hashKeys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("unsubscribe"))
		return mac.Sum(nil)
	}))}
}

// Token returns the token of a user and a category. The same arguments always give the
// same token.
func (u UnsubscribeTokens) Token(user affiliate.UserID, category Category) string {
	payload := append(user.UUID[:], category...)
	return base64.RawURLEncoding.EncodeToString(append(payload, u.signatures(payload).First()...))
}

// Parse returns the user and the category of a token. ok is false if the token was not
// created by Token with one of the keys.
func (u UnsubscribeTokens) Parse(token string) (user affiliate.UserID, category Category, ok bool) {
	const idSize = len(uuid.UUID{})
	data, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(data) < idSize+sha256.Size {
		return affiliate.UserID{}, "", false
	}
	payload, signature := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if !u.signatures(payload).Has(signature) {
		return affiliate.UserID{}, "", false
	}
	copy(user.UUID[:], payload)
	return user, Category(payload[idSize:]), true
}

func (u UnsubscribeTokens) signatures(payload []byte) affiliate.Digests {
	return u.keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write(payload)
		return mac.Sum(nil)
	})
}
