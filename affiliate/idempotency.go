package affiliate

import (
	"fmt"
	"time"
)

// IdempotencyTTL is how long an answer is kept under its Idempotency-Key.
const IdempotencyTTL = 24 * time.Hour

// IdempotencyKey names a request that may be sent again: the second time it has
// no effect and gets the first answer.
type IdempotencyKey struct {
	Method      string // full name of the RPC
	Key         string // ^[A-Za-z0-9_-]{1,80}$
	Fingerprint []byte // keyed hash of the request
	At          time.Time
}

// Item is the key of the nth thing that one request asks for. Clients cannot send
// it, and another request under the same key has others.
func (k IdempotencyKey) Item(n int) IdempotencyKey {
	k.Key = fmt.Sprintf("%s.%x.%d", k.Key, k.Fingerprint, n)
	return k
}
