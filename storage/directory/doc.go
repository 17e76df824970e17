// Package directory is the edge's view of public keys, referral codes, short
// links and signing keys: what a collector needs to answer a click without a
// database.
//
//	core (Postgres is the truth) ── Writer ──▶ Redis ──▶ Reader (30 s cache) ── collectors
//	                                  └─ publishes what changed ─▶ ┘
//
// Every value carries a version that its writer took before it read the truth,
// and a write is refused when a newer one is there, so that any race of writers
// ends with the newest state. A deletion is a value too. A marker key says that
// everything is in: without it nothing that is not found counts as absent.
//
// It guarantees that Absent means that the core has said so: while Redis does
// not answer, or is being filled anew after it lost its data, the answer is
// Blind. A change reaches a connected Reader as soon as Redis has it, and any
// Reader within 30 seconds.
//
// It does not promise that the directory is right when Redis evicts single keys
// (maxmemory-policy must be noeviction), nor that a deletion survives Redis
// losing its last second of writes: the core's sweep mends that.
package directory

import (
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/tributary-hq/tributary/affiliate"
)

// The braces put all keys into one Cluster slot, so that one MGET can read an
// entry and the marker in the same instant.
const (
	keyPrefix  = "{directory}:"
	markerKey  = keyPrefix + "complete"
	rebuildKey = keyPrefix + "rebuild"
	signingKey = keyPrefix + "signing-keys"
	channel    = keyPrefix + "changed"
	// everything, published, drops whole caches.
	everything = "*"
)

// keySpace is room for nearly every key: what a Reader finds in its cache needs
// no memory of its own.
const keySpace = 192

func appendPublicKeyKey(dst []byte, digest [32]byte) []byte {
	dst = append(dst, keyPrefix+"pk:"...)
	return hex.AppendEncode(dst, digest[:])
}

func appendReferralCodeKey(dst []byte, scope affiliate.Scope, code string) []byte {
	dst = append(dst, keyPrefix+"code:"...)
	dst = append(dst, scope.Workspace.String()...)
	dst = append(dst, ':')
	dst = append(dst, scope.Mode...)
	dst = append(dst, ':')
	return append(dst, affiliate.FoldCode(code)...)
}

func appendLinkKey(dst []byte, key string) []byte {
	dst = append(dst, keyPrefix+"link:"...)
	return append(dst, key...)
}

func publicKeyKey(digest [32]byte) string { return string(appendPublicKeyKey(nil, digest)) }

func referralCodeKey(scope affiliate.Scope, code string) string {
	return string(appendReferralCodeKey(nil, scope, code))
}

func linkKey(key string) string { return string(appendLinkKey(nil, key)) }

// A stored value is nineteen decimal digits of version, one flag and the
// protobuf. Digits, because Lua's numbers cannot hold an int64 whole.
const (
	versionDigits = 19
	flagPresent   = '+'
	flagDeleted   = '-'
)

func encodeVersion(version int64) (string, error) {
	if version < 0 {
		return "", errors.New("directory: a version is never negative")
	}
	digits := strconv.FormatInt(version, 10)
	return "0000000000000000000"[len(digits):] + digits, nil
}

// decode splits a stored value; present is false for a tombstone, ok for
// nothing that this package wrote.
func decode(stored string) (payload string, present, ok bool) {
	if len(stored) <= versionDigits {
		return "", false, false
	}
	switch stored[versionDigits] {
	case flagPresent:
		return stored[versionDigits+1:], true, true
	case flagDeleted:
		return "", false, true
	}
	return "", false, false
}
