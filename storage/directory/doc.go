// Package directory stores a copy of the public keys, referral codes, short links and
// signing keys in Redis. With this copy, the collectors can process a click without the
// database.
//
//	core (reads Postgres) ── Writer ──▶ Redis ──▶ Reader (cache) ── collectors
//	                           └─ publishes each change ──▶ ┘
//
// Every value has a version. The writer obtains the version before it reads the state
// from Postgres. A write has no effect if a newer version is stored. Therefore the newest
// state remains, whatever the order of the writes. A deletion is stored as a value with a
// version. A marker key exists if the directory is complete. Without the marker, a
// missing entry does not count as absent.
//
// The package guarantees:
//
//   - The result Absent means that the entry does not exist in the core's data. If Redis
//     does not respond, or if the directory is being rebuilt after a loss of data, the
//     result is Blind.
//   - A new or activated entry works for every Reader as soon as its write is
//     acknowledged, because Readers cache only usable entries.
//   - A change of a usable entry reaches a connected Reader when Redis publishes it, and
//     every Reader within 30 seconds.
//
// It has these limits:
//
//   - If Redis evicts single keys, the directory is wrong. The maxmemory-policy must be
//     noeviction.
//   - If Redis loses its last second of writes, a deletion can be lost.
//
// A periodic job of the core repairs both faults.
package directory

import (
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/tributary-hq/tributary/affiliate"
)

// The text in braces puts all keys into the same slot of a Cluster, so that one MGET can
// read an entry and the marker at the same time.
const (
	keyPrefix  = "{directory}:"
	markerKey  = keyPrefix + "complete"
	rebuildKey = keyPrefix + "rebuild"
	signingKey = keyPrefix + "signing-keys"
	channel    = keyPrefix + "changed"
	// everything is the message after which Readers drop their whole caches.
	everything = "*"
)

// keyBufferSize is the size of the stack buffer in which a key is built. A longer key
// needs a second allocation.
const keyBufferSize = 192

func publicKeyKey(digest [32]byte) string {
	var buffer [keyBufferSize]byte
	key := append(buffer[:0], keyPrefix+"pk:"...)
	return string(hex.AppendEncode(key, digest[:]))
}

func referralCodeKey(scope affiliate.Scope, code string) string {
	var buffer [keyBufferSize]byte
	key := append(buffer[:0], keyPrefix+"code:"...)
	key = append(key, scope.Workspace.String()...)
	key = append(key, ':')
	key = append(key, scope.Mode...)
	key = append(key, ':')
	return string(append(key, affiliate.FoldCode(code)...))
}

func linkKey(key string) string { return keyPrefix + "link:" + key }

// A stored value consists of the version as 19 decimal digits, a flag and the marshalled
// protobuf message. The version is text because Lua numbers cannot represent every int64.
const (
	versionDigits = 19
	flagPresent   = '+'
	flagDeleted   = '-'
)

func encodeVersion(version int64) (string, error) {
	if version < 0 {
		return "", errors.New("directory: a version must not be negative")
	}
	digits := strconv.FormatInt(version, 10)
	return "0000000000000000000"[len(digits):] + digits, nil
}

// decode splits a stored value. present is false for a deleted entry. ok is false if the
// value does not have the format of this package.
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
