package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	// secretPrefix is the prefix of the text form of a secret (Standard Webhooks).
	secretPrefix = "whsec_"
	secretSize   = 32
)

// Secret is the key that signs bodies. Its text form is whsec_ and the base64 encoding
// of the key.
type Secret []byte

// NewSecret returns a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, secretSize)
	// crypto/rand.Read never fails: it crashes the program instead.
	_, _ = rand.Read(key)
	return key
}

// ParseSecret parses the text form of a secret.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, errors.New("a signing secret must begin with " + secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 {
		return nil, errors.New("a signing secret must be base64 after " + secretPrefix)
	}
	return key, nil
}

// Text returns the text form. The service shows it to the merchant once.
func (s Secret) Text() string { return secretPrefix + base64.StdEncoding.EncodeToString(s) }

// redactedSecret is what logs and JSON documents show instead of a secret.
const redactedSecret = "(secret)"

// String returns a constant that does not reveal the secret.
func (s Secret) String() string { return redactedSecret }

// Format prints the same constant for all formatting verbs, including those that print
// bytes.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedSecret) }

// MarshalText returns the same constant for encoders, including those of log/slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redactedSecret), nil }

// Sign returns the value of the webhook-signature header: one signature for each secret,
// separated by spaces. A signature is the text "v1," and the HMAC-SHA256, in base64, of
// this text:
//
//	<id>.<at in Unix seconds>.<body>
//
// id must not contain a dot.
func Sign(secrets []Secret, id string, at time.Time, body []byte) string {
	signed := make([]byte, 0, len(id)+len(body)+22)
	signed = append(signed, id...)
	signed = append(signed, '.')
	signed = strconv.AppendInt(signed, at.Unix(), 10)
	signed = append(signed, '.')
	signed = append(signed, body...)
	var header []byte
	for i, secret := range secrets {
		if i > 0 {
			header = append(header, ' ')
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write(signed)
		header = append(header, "v1,"...)
		header = base64.StdEncoding.AppendEncode(header, mac.Sum(nil))
	}
	return string(header)
}

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

// Verify checks that a body that arrives at the given time was signed with one of the secrets,
// and that the timestamp is within Tolerance. The comparison with one signature takes the same
// time for each signature of the right length. Errors: ErrSignature.
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
