// Package seal encrypts what the database keeps and must not show: AES-256-GCM
// under named keys.
//
// A sealed text is its key's name, a colon, a random nonce and the ciphertext
// with its tag. The first key of the setting seals and all of them open, so a
// key is rotated by putting a new one in front, and dropped once nothing that it
// sealed is left. It guarantees that what was changed, cut or moved elsewhere
// (other additional data) does not open.
//
// It does not hide how long a text is, and promises nothing about texts of
// which more than 2^32 were sealed with one key.
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
)

const (
	// keySize makes it AES-256.
	keySize = 32
	// separator ends the key's name. It is the setting's own, so no name has it.
	separator = ':'
)

// Keys seals and opens. Its methods are safe for concurrent use.
type Keys struct {
	sealing string
	keys    map[string]cipher.AEAD
}

var kidForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// New reads TRIBUTARY_ENCRYPTION_KEYS: `kid:base64,…`, each key 32 bytes. The
// error names everything that is wrong, by the entries' positions: a name may be
// a key in the wrong place.
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
		if !kidForm.MatchString(kid) {
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
			k.sealing = kid
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

// Seal encrypts plain. Only who knows the additional data, which is not kept,
// can open it: the id of whom it belongs to keeps a text in its row.
func (k *Keys) Seal(plain, aad []byte) []byte {
	sealed := append([]byte(k.sealing), separator)
	return k.keys[k.sealing].Seal(sealed, nil, plain, aad)
}

// Open decrypts what Seal made with the same additional data.
func (k *Keys) Open(sealed, aad []byte) ([]byte, error) {
	kid, text, found := bytes.Cut(sealed, []byte{separator})
	if !found {
		return nil, errors.New("sealed text: names no key")
	}
	key, ok := k.keys[string(kid)]
	if !ok {
		return nil, errors.New("sealed text: its key is not among ours")
	}
	plain, err := key.Open(nil, nil, text, aad)
	if err != nil {
		return nil, fmt.Errorf("sealed text: %w", err)
	}
	return plain, nil
}
