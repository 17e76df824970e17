package affiliate

import (
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"time"
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

// MailDigest returns the keyed digest under which the suppression of an address is
// stored. Upper and lower case of the address make no difference.
func MailDigest(hashKey []byte, address string) []byte {
	mac := hmac.New(sha256.New, hashKey)
	mac.Write([]byte("mail:" + strings.ToLower(address)))
	return mac.Sum(nil)
}

// ProviderMessageRetention is how long the ids of the messages of the mail provider are
// stored. A message that is repeated later is processed again, which has no further
// effect on suppressed addresses.
const ProviderMessageRetention = 7 * 24 * time.Hour
