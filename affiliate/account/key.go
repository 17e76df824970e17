package account

import (
	"crypto/sha256"
	"hash/crc32"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
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

// keyPrefixes maps each kind of key to the beginning of its prefix.
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
