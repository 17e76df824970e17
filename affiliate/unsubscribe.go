package affiliate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"
)

// UnsubscribeTokens creates and checks the tokens in the unsubscribe links of mails. With
// a token, a client can disable the mail of one category for one user. A token never
// expires, because the links of old mails must work.
type UnsubscribeTokens struct{ key []byte }

// NewUnsubscribeTokens returns tokens that are signed with a key derived from hashKey.
func NewUnsubscribeTokens(hashKey []byte) UnsubscribeTokens {
	mac := hmac.New(sha256.New, hashKey)
	mac.Write([]byte("unsubscribe"))
	return UnsubscribeTokens{key: mac.Sum(nil)}
}

// Token returns the token of a user and a category. The same arguments always give the
// same token.
func (u UnsubscribeTokens) Token(user UserID, category NotificationCategory) string {
	payload := append(user.UUID[:], category...)
	return base64.RawURLEncoding.EncodeToString(append(payload, u.signature(payload)...))
}

// Parse returns the user and the category of a token. ok is false if the token was not
// created by Token with the same key.
func (u UnsubscribeTokens) Parse(token string) (user UserID, category NotificationCategory, ok bool) {
	const idSize = len(uuid.UUID{})
	data, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(data) < idSize+sha256.Size {
		return UserID{}, "", false
	}
	payload, signature := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if !hmac.Equal(signature, u.signature(payload)) {
		return UserID{}, "", false
	}
	copy(user.UUID[:], payload)
	return user, NotificationCategory(payload[idSize:]), true
}

func (u UnsubscribeTokens) signature(payload []byte) []byte {
	mac := hmac.New(sha256.New, u.key)
	mac.Write(payload)
	return mac.Sum(nil)
}
