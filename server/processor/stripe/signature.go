package stripe

import (
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/tributary-hq/tributary/server/processor"
)

// tolerance is the greatest number of seconds between the time in the signature and now.
const tolerance = int64(webhook.DefaultTolerance / time.Second)

// Verify checks the signature of a message. The library compares the signature. It does not
// compare the time, because it would use the clock of the process and accept every time in
// the future.
func (c *Client) Verify(body []byte, header string, secrets []string, now time.Time) error {
	at, ok := signedAt(header)
	if !ok || at < now.Unix()-tolerance || at > now.Unix()+tolerance {
		return processor.ErrSignature
	}
	for _, secret := range secrets {
		// Everybody can compute the signature of an empty secret.
		if secret != "" && webhook.ValidatePayloadIgnoringTolerance(body, header, secret) == nil {
			return nil
		}
	}
	return processor.ErrSignature
}

// signedAt returns the time in the header, in Unix seconds. ok is false unless the header
// has exactly one valid time. The signature covers the time.
func signedAt(header string) (at int64, ok bool) {
	for part := range strings.SplitSeq(header, ",") {
		text, found := strings.CutPrefix(part, "t=")
		if !found {
			continue
		}
		if ok {
			return 0, false
		}
		var err error
		if at, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, false
		}
		ok = true
	}
	return at, ok
}
