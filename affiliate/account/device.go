package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"regexp"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// DeviceMemory is how long a device is remembered after its last use. A sign-in from
// another device causes a notification.
const DeviceMemory = 90 * 24 * time.Hour

// deviceSize is in bytes.
const deviceSize = 16

var versionNumber = regexp.MustCompile(`[0-9]+(?:[._][0-9]+)*`)

// DeviceHash returns the keyed hashes of the device with which a user signs in: the browser,
// without its version, in a network. The hashes of two users are always different.
func DeviceHash(keys affiliate.HashKeys, user affiliate.UserID, network, agent string) affiliate.Digests {
	browser := versionNumber.ReplaceAllString(agent, "")
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("device\x00"))
		mac.Write(user.UUID[:])
		mac.Write([]byte(network + "\x00" + browser))
		return mac.Sum(nil)[:deviceSize]
	})
}
