// Package directory is the edge's copy of public keys, referral codes, short links
// and signing keys: what a collector needs to answer a click without a database.
//
//	core (Postgres is the truth) ── Writer ──▶ Redis ──▶ Reader (cache) ── collectors
//	                                  └─ publishes each change ──▶ ┘
//
// Every value carries a version that its writer took before it read the truth, and
// a write is refused if a newer version is stored. So any race of writers ends with
// the newest state. A deletion is stored as a value. A marker key says that the
// directory is complete; without it a missing entry does not count as absent.
//
// Guarantees: Absent means that the core has written it so. While Redis does not
// answer, or while the directory is rebuilt after a loss of data, the result is
// Blind. An entry that did not exist or was not active works at every Reader as soon
// as its write is acknowledged, because Readers cache usable entries only. A change
// of a usable entry reaches a connected Reader when Redis publishes it, and any
// Reader within 30 seconds.
//
// Limits: the directory can be wrong if Redis evicts single keys (maxmemory-policy
// must be noeviction), and a deletion may not survive the loss of Redis's last
// second of writes. The core's sweep repairs both.
package directory

import (
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/tributary-hq/tributary/affiliate"
)

// The braces put all keys into one Cluster slot, so that one MGET reads an entry and
// the marker at the same instant.
const (
	keyPrefix  = "{directory}:"
	markerKey  = keyPrefix + "complete"
	rebuildKey = keyPrefix + "rebuild"
	signingKey = keyPrefix + "signing-keys"
	channel    = keyPrefix + "changed"
	// everything is the message that drops whole caches.
	everything = "*"
)

// keySpace is the size of the buffer on the stack in which a key is built. Longer
// keys need a second allocation.
const keySpace = 192

func publicKeyKey(digest [32]byte) string {
	var space [keySpace]byte
	key := append(space[:0], keyPrefix+"pk:"...)
	return string(hex.AppendEncode(key, digest[:]))
}

func referralCodeKey(scope affiliate.Scope, code string) string {
	var space [keySpace]byte
	key := append(space[:0], keyPrefix+"code:"...)
	key = append(key, scope.Workspace.String()...)
	key = append(key, ':')
	key = append(key, scope.Mode...)
	key = append(key, ':')
	return string(append(key, affiliate.FoldCode(code)...))
}

func linkKey(key string) string { return keyPrefix + "link:" + key }

// A stored value is a version of nineteen decimal digits, one flag and the protobuf.
// The version is text because Lua's numbers cannot hold every int64.
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

// decode splits a stored value. present is false for a tombstone. ok is false for a
// value that this package did not write.
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
