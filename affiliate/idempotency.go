package affiliate

import (
	"bytes"
	"fmt"
	"time"
)

// IdempotencyTTL is how long a response is stored under its Idempotency-Key.
const IdempotencyTTL = 24 * time.Hour

// IdempotencyKey identifies a request that a client may repeat. A repeated request has
// no effect and gets the response of the first request.
type IdempotencyKey struct {
	Method      string // full name of the RPC
	Key         string // ^[A-Za-z0-9_-]{1,80}$
	Fingerprint []byte // keyed hash of the request
	// Earlier are hashes of the request under the other hash keys. The same request may have
	// been stored with one of these hashes.
	Earlier Digests
	At      time.Time
}

// IsOf reports whether a stored fingerprint is a fingerprint of the same request.
func (k IdempotencyKey) IsOf(stored []byte) bool {
	return bytes.Equal(k.Fingerprint, stored) || k.Earlier.Has(stored)
}

// Item returns the key of item n of a request with several items. Clients cannot send
// the key of an item, because it contains dots. Different requests with the same key
// have different item keys, because an item key contains the fingerprint of the request.
func (k IdempotencyKey) Item(n int) IdempotencyKey {
	k.Key = fmt.Sprintf("%s.%x.%d", k.Key, k.Fingerprint, n)
	return k
}
