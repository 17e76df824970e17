package affiliate

import (
	"regexp"
	"testing"
)

// The keys of items must differ from each other, even if two different requests have the
// same key. Clients must not be able to send such keys.
func TestIdempotencyKey_ItemKeysAreUnique(t *testing.T) {
	a := IdempotencyKey{Method: "m", Key: "k", Fingerprint: []byte{1}}
	b := IdempotencyKey{Method: "m", Key: "k", Fingerprint: []byte{2}}
	clientKey := regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	seen := map[string]bool{}
	for _, key := range []IdempotencyKey{a.Item(0), a.Item(1), b.Item(0), b.Item(1)} {
		if seen[key.Key] || clientKey.MatchString(key.Key) {
			t.Errorf("the item key %q is not unique, or a client could send it", key.Key)
		}
		seen[key.Key] = true
	}
}
