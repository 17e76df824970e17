package affiliate

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"
)

// KeyKind tells the two kinds of API key apart (SPEC.md section 5).
type KeyKind string

// Secret keys open the conversion API and the audit endpoints; public keys
// register clicks and nothing else.
const (
	SecretKey KeyKind = "secret"
	PublicKey KeyKind = "public"
)

const (
	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	// keyRandom characters carry 190 bits; keyChecksum characters hold a CRC-32,
	// so that a mistyped key is refused offline and secret scanners can tell a
	// real key from a lookalike.
	keyRandom   = 32
	keyChecksum = 6
	keyPrefix   = len("sk_live_")
	keyLength   = keyPrefix + keyRandom + keyChecksum
)

// Key is a well-formed API key in clear text. It never prints itself.
type Key struct {
	Kind KeyKind
	Mode Mode
	text string
}

// NewKey makes a key of 190 random bits.
func NewKey(kind KeyKind, mode Mode) Key {
	text := prefixOf(kind, mode) + randomBase62(keyRandom)
	return Key{Kind: kind, Mode: mode, text: text + checksum(text)}
}

// randomBase62 draws n characters, each as likely as any other.
func randomBase62(n int) string {
	drawn := make([]byte, 0, n)
	var draw [keyRandom]byte
	for len(drawn) < n {
		_, _ = rand.Read(draw[:]) // crypto/rand.Read never fails
		for _, b := range draw {
			// 248 = 4 × 62: larger bytes would favour the first letters.
			if b < 248 && len(drawn) < n {
				drawn = append(drawn, base62[b%62])
			}
		}
	}
	return string(drawn)
}

// ParseKey reads a key and checks its prefix, alphabet, length and checksum. It
// needs no look-up, so garbage costs nothing.
func ParseKey(s string) (Key, bool) {
	if len(s) != keyLength {
		return Key{}, false
	}
	for _, kind := range []KeyKind{SecretKey, PublicKey} {
		for _, mode := range []Mode{ModeTest, ModeLive} {
			if strings.HasPrefix(s, prefixOf(kind, mode)) {
				body, sum := s[:keyLength-keyChecksum], s[keyLength-keyChecksum:]
				return Key{Kind: kind, Mode: mode, text: s}, isBase62(body[keyPrefix:]) && checksum(body) == sum
			}
		}
	}
	return Key{}, false
}

// LooksLikeKey reports whether s carries a key's prefix, well-formed or not.
func LooksLikeKey(s string) bool {
	return strings.HasPrefix(s, "sk_") || strings.HasPrefix(s, "pk_")
}

// Reveal is the clear text: shown once for a secret key, always for a public one.
func (k Key) Reveal() string { return k.text }

// Digest is what is stored and looked up: SHA-256 suffices for 190 random bits.
func (k Key) Digest() [sha256.Size]byte { return sha256.Sum256([]byte(k.text)) }

// Prefix and Last4 are what a list shows of a secret key.
func (k Key) Prefix() string { return k.text[:keyPrefix] }

// Last4 are the last four characters.
func (k Key) Last4() string { return k.text[len(k.text)-4:] }

// String hides the key from logs.
func (k Key) String() string { return k.Prefix() + "…" + k.Last4() }

// GoString hides the key from %#v.
func (k Key) GoString() string { return k.String() }

func prefixOf(kind KeyKind, mode Mode) string {
	letter := "s"
	if kind == PublicKey {
		letter = "p"
	}
	return letter + "k_" + string(mode) + "_"
}

func checksum(s string) string {
	n := crc32.ChecksumIEEE([]byte(s))
	var out [keyChecksum]byte
	for i := keyChecksum - 1; i >= 0; i-- {
		out[i] = base62[n%62]
		n /= 62
	}
	return string(out[:])
}

func isBase62(s string) bool {
	for i := range len(s) {
		if strings.IndexByte(base62, s[i]) < 0 {
			return false
		}
	}
	return true
}
