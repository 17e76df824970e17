package notification

import (
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// SuppressionReason is the reason why an address gets no mail.
type SuppressionReason string

// The reasons why an address gets no mail. They are stored with the suppression.
const (
	SuppressionBounced    SuppressionReason = "bounced"    // a permanent bounce
	SuppressionComplained SuppressionReason = "complained" // the owner called a mail spam
	SuppressionSuppressed SuppressionReason = "suppressed" // the mail provider sends no mail to it
	SuppressionRefused    SuppressionReason = "refused"    // the mail server refused the address
)

// MailDigest returns the keyed digests of an address. The suppression of the address is
// stored under the first of them. Upper and lower case of the address make no difference.
func MailDigest(keys affiliate.HashKeys, address string) affiliate.Digests {
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("mail:" + strings.ToLower(address)))
		return mac.Sum(nil)
	})
}

// ProviderMessageRetention is how long the ids of the messages of the mail provider are
// stored. A message that is repeated later is processed again, which has no further
// effect on suppressed addresses.
const ProviderMessageRetention = 7 * 24 * time.Hour
