package affiliate

import (
	"fmt"
	"time"
)

// IdempotencyTTL is how long a response is stored under its Idempotency-Key.
const IdempotencyTTL = 24 * time.Hour

// IdempotencyKey identifies a request that a client may repeat. The repeated request
// has no effect and gets the first response.
type IdempotencyKey struct {
	Method      string // full name of the RPC
	Key         string // ^[A-Za-z0-9_-]{1,80}$
	Fingerprint []byte // keyed hash of the request
	At          time.Time
}

// Item returns the key of item n of a request with several items. Clients cannot send
// such a key, and different requests with the same key have different item keys.
func (k IdempotencyKey) Item(n int) IdempotencyKey {
	k.Key = fmt.Sprintf("%s.%x.%d", k.Key, k.Fingerprint, n)
	return k
}
