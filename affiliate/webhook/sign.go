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
	// secretPrefix begins the text of a secret (Standard Webhooks).
	secretPrefix = "whsec_"
	secretSize   = 32
)

// Secret signs. Its text form is whsec_ and base64; the key is what was encoded.
type Secret []byte

// NewSecret makes a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, secretSize)
	// crypto/rand.Read never fails: it crashes the program instead.
	_, _ = rand.Read(key)
	return key
}

// ParseSecret reads the text form.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, errors.New("a signing secret begins with " + secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 {
		return nil, errors.New("a signing secret is base64 after " + secretPrefix)
	}
	return key, nil
}

// Text is the form that a merchant sees, once.
func (s Secret) Text() string { return secretPrefix + base64.StdEncoding.EncodeToString(s) }

// hidden is what logs and documents have of a secret.
const hidden = "(secret)"

// String hides the secret.
func (s Secret) String() string { return hidden }

// Format hides it from the verbs that print bytes as well.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides it from encoders, those of log/slog among them.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Sign is the value of webhook-signature: for each secret v1 and the HMAC-SHA256 of
// id, time in unix seconds and body, joined by dots. The id has no dot.
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
