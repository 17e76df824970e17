// Package seal encrypts secret values before they are stored in the database. It uses
// AES-256-GCM. An encrypted value is called a sealed value.
//
// The keys have names (kid). A sealed value consists of the name of its key, a colon, a
// random nonce, the ciphertext and the authentication tag. The first key in the setting
// encrypts new values. All keys in the setting can decrypt values. To replace the key
// that encrypts, an operator puts a new key in front of the others. The operator can
// remove an old key when no stored value is encrypted with it.
//
// The package guarantees that a sealed value cannot be decrypted if it was changed or
// truncated, or if the additional data is not the data with which it was encrypted.
//
// The package does not hide the length of a value. It gives no guarantee if more than
// 2^32 values are encrypted with one key.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

const (
	// keySize is the key size of AES-256 in bytes.
	keySize = 32
	// separator is the character after the name of the key, both in a sealed value and in
	// the setting. Names do not contain it.
	separator = ':'
)

// Keys encrypts and decrypts values. Its methods are safe for concurrent use.
type Keys struct {
	sealingKid string                 // the name of the key that encrypts
	keys       map[string]cipher.AEAD // all keys by name
}

var kidPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// New parses the setting TRIBUTARY_ENCRYPTION_KEYS, a list in the form `kid:base64,…`.
// Each key has 32 bytes. The error contains all faults, with the positions of the
// entries. It does not contain the names of the keys, because an operator may have
// written a key in the place of a name.
func New(keys string) (*Keys, error) {
	k := &Keys{keys: map[string]cipher.AEAD{}}
	var wrong []error
	first := map[string]int{}
	for i, entry := range strings.Split(keys, ",") {
		position := i + 1
		fault := func(format string, args ...any) {
			wrong = append(wrong, fmt.Errorf("entry %d: "+format, append([]any{position}, args...)...))
		}
		kid, encoded, found := strings.Cut(strings.TrimSpace(entry), string(separator))
		if !found {
			fault("must be kid:base64")
			continue
		}
		if !kidPattern.MatchString(kid) {
			fault("the kid must be 1 to 32 letters, digits, dots, dashes and underscores")
		} else if first[kid] != 0 {
			fault("has the kid of entry %d", first[kid])
		} else {
			first[kid] = position
		}
		key, err := base64.StdEncoding.Strict().DecodeString(encoded)
		switch {
		case err != nil:
			fault("the key is not base64")
		case len(key) != keySize:
			fault("the key has %d bytes, must have %d", len(key), keySize)
		default:
			aead, err := newAEAD(key)
			if err != nil {
				fault("%w", err)
			}
			k.keys[kid] = aead
		}
		if i == 0 {
			k.sealingKid = kid
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return k, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Seal encrypts plain. The result can be decrypted only with the same additional data
// (aad), which the result does not contain. For example, if aad is the id of the value's
// owner, the value cannot be decrypted as the value of another owner.
func (k *Keys) Seal(plain, aad []byte) []byte {
	sealed := append([]byte(k.sealingKid), separator)
	return k.keys[k.sealingKid].Seal(sealed, nil, plain, aad)
}

// Open decrypts a result of Seal. aad must be the same as in the call of Seal.
func (k *Keys) Open(sealed, aad []byte) ([]byte, error) {
	kid, text, found := bytes.Cut(sealed, []byte{separator})
	if !found {
		return nil, errors.New("sealed value: it has no key name")
	}
	key, ok := k.keys[string(kid)]
	if !ok {
		return nil, errors.New("sealed value: its key is not configured")
	}
	plain, err := key.Open(nil, nil, text, aad)
	if err != nil {
		return nil, fmt.Errorf("sealed value: %w", err)
	}
	return plain, nil
}

// SealMailToken encrypts the token of the link in a mail (notification.Mail.Secret). The id
// of the mail is the additional data, so the result cannot be decrypted as the token of
// another mail.
func (k *Keys) SealMailToken(mail notification.MailID, token string) []byte {
	return k.Seal([]byte(token), mail.UUID[:])
}

// OpenMailToken decrypts a result of SealMailToken. mail must be the same as in the call
// of SealMailToken.
func (k *Keys) OpenMailToken(mail notification.MailID, sealed []byte) (token string, err error) {
	plain, err := k.Open(sealed, mail.UUID[:])
	return string(plain), err
}

// SealInvite returns the id of an invitation, followed by its encrypted token. The id is the
// additional data, so the token cannot be decrypted as the token of another invitation.
func (k *Keys) SealInvite(id affiliate.InviteID, token string) []byte {
	return append(id.UUID[:], k.Seal([]byte(token), id.UUID[:])...)
}

// OpenInvite decrypts a result of SealInvite.
func (k *Keys) OpenInvite(sealed []byte) (id affiliate.InviteID, token string, err error) {
	if len(sealed) < len(id.UUID) {
		return id, "", errors.New("sealed invitation: it has no id")
	}
	copy(id.UUID[:], sealed)
	plain, err := k.Open(sealed[len(id.UUID):], id.UUID[:])
	return id, string(plain), err
}
