package affiliate

import "crypto/hmac"

// MaxHashKeys is the maximum number of hash keys of a deployment.
const MaxHashKeys = 3

// HashKeys are the secret keys of the digests that the service stores instead of addresses,
// customer ids and user agents. The first key makes the digests of new data. A stored digest
// can be one of any of the keys, so stored digests are searched under all keys. There is more
// than one key only while the key is being rotated.
type HashKeys [][]byte

// First returns the key of new data.
func (k HashKeys) First() []byte { return k[0] }

// Digests returns the digests of a value under all keys. sum returns the digest of the value
// under one key.
func (k HashKeys) Digests(sum func(key []byte) []byte) Digests {
	digests := make(Digests, len(k))
	for i, key := range k {
		digests[i] = sum(key)
	}
	return digests
}

// String returns a text without the keys.
func (k HashKeys) String() string { return "(secret)" }

// Digests are the digests of one value under all hash keys, in the order of the keys.
type Digests [][]byte

// First returns the digest that is stored for new data.
func (d Digests) First() []byte { return d[0] }

// Has reports whether a stored digest is one of the digests.
func (d Digests) Has(stored []byte) bool {
	for _, digest := range d {
		if hmac.Equal(digest, stored) {
			return true
		}
	}
	return false
}

// HasAny reports whether one of several stored digests is one of the digests.
func (d Digests) HasAny(stored Digests) bool {
	for _, digest := range stored {
		if d.Has(digest) {
			return true
		}
	}
	return false
}

// Union returns the digests, followed by those of others that are not among them.
func (d Digests) Union(others Digests) Digests {
	all := append(Digests(nil), d...)
	for _, digest := range others {
		if !all.Has(digest) {
			all = append(all, digest)
		}
	}
	return all
}
