package webhook

import (
	"crypto/hmac"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Tolerance is the greatest difference between the timestamp of a received message and
// the time of its arrival, in both directions.
const Tolerance = 5 * time.Minute

// maxMessageID is the maximum length of the id of a received message, in bytes.
const maxMessageID = 256

// Signature holds the headers of a received message that is signed as in Standard
// Webhooks.
type Signature struct {
	ID         string // identifies the message; the same in every repetition
	Timestamp  string // Unix seconds
	Signatures string // separated by spaces, each as in the result of Sign
}

// ErrSignature means that a received message is not signed with one of the secrets, or
// that its timestamp is not within Tolerance.
var ErrSignature = errors.New("the signature is not valid")

// Verify checks that one of the secrets has signed a body that arrives at the given time.
// The time that the comparison takes does not depend on the signatures. Errors:
// ErrSignature.
func Verify(secrets []Secret, s Signature, body []byte, now time.Time) error {
	seconds, err := strconv.ParseInt(s.Timestamp, 10, 64)
	if err != nil || s.ID == "" || len(s.ID) > maxMessageID {
		return ErrSignature
	}
	at := time.Unix(seconds, 0)
	if at.Before(now.Add(-Tolerance)) || at.After(now.Add(Tolerance)) {
		return ErrSignature
	}
	for _, secret := range secrets {
		expected := []byte(Sign([]Secret{secret}, s.ID, at, body))
		for given := range strings.SplitSeq(s.Signatures, " ") {
			if hmac.Equal([]byte(given), expected) {
				return nil
			}
		}
	}
	return ErrSignature
}

// ParseSecrets parses one secret, or several secrets separated by commas.
func ParseSecrets(text string) ([]Secret, error) {
	var secrets []Secret
	for part := range strings.SplitSeq(text, ",") {
		secret, err := ParseSecret(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}
