// Package directory stores a copy of the public keys, referral codes, short links and
// signing keys in Redis. With this copy, the collectors can process a click without the
// database. It also stores the fingerprints of the hash keys of the core.
//
//	core, Writer       ── writes an entry ──────────────────▶  Redis
//	core, Writer       ── publishes the key of the entry ───▶  Redis
//	collector, Reader  ◀── receives the key of the entry ────  Redis
//	collector, Reader  ◀── reads the entry into its cache ───  Redis
//
// The core is the process that uses the database.
//
// Every entry has a version. The core obtains the version before it reads the state of
// the entry from Postgres. A write has no effect if Redis already has the same or a newer
// version. Therefore the newest state remains, in whatever order the writes arrive. A
// deletion is stored as a value with a version too.
//
// A marker key in Redis shows that the directory is complete. If the marker does not
// exist, it is unknown whether a missing entry exists in Postgres.
//
// The package guarantees:
//
//   - The result Absent means that the entry does not exist in Postgres. If Redis does
//     not respond, the result is Unknown. The result is also Unknown for a missing entry
//     while the directory is being rebuilt after a loss of data.
//   - A new or activated entry works for every Reader as soon as its write is
//     acknowledged. Readers cache only usable entries (active codes, active links and
//     keys that are not revoked), so no cache can contain an older, unusable state.
//   - A Reader that is connected to Redis uses the new state of an entry as soon as it
//     receives the published change. Every other Reader uses it within 30 seconds.
//   - While Redis does not respond, a link leads to the target that the Reader has read
//     last, for at most 24 hours after that read. The same holds for a link that is missing
//     while the directory is being rebuilt. An entry that Redis returns is always preferred.
//     With SaveLinks and LoadLinks, this also holds after a restart.
//
// It has these limits:
//
//   - If Redis evicts a key, Readers treat an existing entry as absent. The
//     maxmemory-policy must be noeviction.
//   - If Redis loses its last second of writes, a deletion can be lost.
//
// A periodic job of the core repairs the directory after both faults.
package directory

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// The text in braces puts all keys into the same slot of a Cluster, so that one MGET can
// read an entry and the marker at the same time.
const (
	keyPrefix      = "{directory}:"
	markerKey      = keyPrefix + "complete"
	rebuildKey     = keyPrefix + "rebuild"
	signingKeysKey = keyPrefix + "signing-keys"
	hashKeysKey    = keyPrefix + "hash-keys"
	changeChannel  = keyPrefix + "changed"
	// dropAllMessage is a message on changeChannel. A Reader that receives this message expires
	// all its cached entries. Any other message is the key of one changed entry.
	dropAllMessage = "*"
)

// keyBufferSize is the size of the buffer on the stack in which a key is built. A longer
// key needs one more heap allocation.
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
	return string(append(key, click.FoldCode(code)...))
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
	return fmt.Sprintf("%0*d", versionDigits, version), nil
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
