package affiliate

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

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

// Union returns the digests d, followed by the digests in others that d does not have.
func (d Digests) Union(others Digests) Digests {
	all := append(Digests(nil), d...)
	for _, digest := range others {
		if !all.Has(digest) {
			all = append(all, digest)
		}
	}
	return all
}

// SettingKeys are the keys of a setting. The first key is used for new data.
type SettingKeys struct {
	Setting string
	Keys    []SettingKey
	// Replaceable means that no stored data needs the keys, so that all of them can be
	// replaced at once.
	Replaceable bool
}

// SettingKey is a key of a setting. ID is empty if the keys of the setting have no ids.
type SettingKey struct {
	ID     string
	Secret []byte
}

// KeyFingerprint is the stored record of a key. If the key has no id, KeyID is its
// fingerprint.
type KeyFingerprint struct {
	Setting     string
	KeyID       string
	Fingerprint []byte
	IsFirst     bool // the key was the first one of the setting at the latest start of a core
}

// fingerprintSize is the size of a fingerprint in bytes. It is long enough that two keys
// have different fingerprints.
const fingerprintSize = 8

// Fingerprints returns the fingerprints of the keys. A fingerprint does not help to find its
// key, because keys are random and have at least 32 bytes.
func (k SettingKeys) Fingerprints() []KeyFingerprint {
	prints := make([]KeyFingerprint, len(k.Keys))
	for i, key := range k.Keys {
		mac := hmac.New(sha256.New, key.Secret)
		mac.Write([]byte("key fingerprint\x00" + k.Setting))
		sum := mac.Sum(nil)[:fingerprintSize]
		prints[i] = KeyFingerprint{Setting: k.Setting, KeyID: key.ID, Fingerprint: sum, IsFirst: i == 0}
		if key.ID == "" {
			prints[i].KeyID = hex.EncodeToString(sum)
		}
	}
	return prints
}

// Stored reports whether the fingerprints of all keys are among the stored ones, and the first
// key is the stored first one. Then Check returns no error, and nothing has to be stored.
func (k SettingKeys) Stored(stored []KeyFingerprint) bool {
	for _, key := range k.Fingerprints() {
		same := func(known KeyFingerprint) bool {
			return known.Setting == key.Setting && known.KeyID == key.KeyID && known.IsFirst == key.IsFirst && bytes.Equal(known.Fingerprint, key.Fingerprint)
		}
		if !slices.ContainsFunc(stored, same) {
			return false
		}
	}
	return true
}

// Check compares the keys with the stored fingerprints of the same setting. It returns an
// error if a key has the id of another key. Unless the keys are replaceable, it also returns
// an error if the key is missing that was the first one at the latest start: the newest
// stored data needs it. A rotation adds a key before it removes an old one.
func (k SettingKeys) Check(stored []KeyFingerprint) error {
	current := k.Fingerprints()
	for _, known := range stored {
		if known.Setting != k.Setting {
			continue
		}
		i := slices.IndexFunc(current, func(key KeyFingerprint) bool { return key.KeyID == known.KeyID })
		switch {
		case i >= 0 && !bytes.Equal(current[i].Fingerprint, known.Fingerprint):
			return fmt.Errorf("%s: the key %s is not the key with which this database was used; set the right key, or give a new key a new id; "+
				"if the right key is lost, run `core keys reset %[1]s`", k.Setting, known.KeyID)
		case i < 0 && known.IsFirst && !k.Replaceable:
			return fmt.Errorf("%s: the key is missing that was the first one at the latest start; add it again, at the end of the list if a new key replaces it; "+
				"if it is lost, run `core keys reset %[1]s`", k.Setting)
		}
	}
	return nil
}
