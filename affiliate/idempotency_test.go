package affiliate

import (
	"regexp"
	"testing"
)

// No two things share a key, whatever the requests under one key, and none has a
// key that a client could send.
func TestItemsHaveKeysOfTheirOwn(t *testing.T) {
	a := IdempotencyKey{Method: "m", Key: "k", Fingerprint: []byte{1}}
	b := IdempotencyKey{Method: "m", Key: "k", Fingerprint: []byte{2}}
	sent := regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	seen := map[string]bool{}
	for _, key := range []IdempotencyKey{a.Item(0), a.Item(1), b.Item(0), b.Item(1)} {
		if seen[key.Key] || sent.MatchString(key.Key) {
			t.Errorf("%q", key.Key)
		}
		seen[key.Key] = true
	}
}
