package affiliate

import (
	"crypto/hmac"
	"crypto/sha256"
)

// MailDigest returns the keyed hash by which the suppression of an address is found.
// address must be in lower case.
func MailDigest(hashKey []byte, address string) []byte {
	mac := hmac.New(sha256.New, hashKey)
	mac.Write([]byte("mail:" + address))
	return mac.Sum(nil)
}
