package affiliate

import (
	"regexp"
	"testing"
)

// Item keys differ from each other, even for different requests with the same key, and
// clients cannot send such keys.
func TestIdempotencyKey_ItemKeysAreUnique(t *testing.T) {
	a := IdempotencyKey{Method: "m", Key: "k", Fingerprint: []byte{1}}
	b := IdempotencyKey{Method: "m", Key: "k", Fingerprint: []byte{2}}
	clientKey := regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	seen := map[string]bool{}
	for _, key := range []IdempotencyKey{a.Item(0), a.Item(1), b.Item(0), b.Item(1)} {
		if seen[key.Key] || clientKey.MatchString(key.Key) {
			t.Errorf("%q is repeated or could be sent by a client", key.Key)
		}
		seen[key.Key] = true
	}
}
