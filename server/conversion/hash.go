package conversion

import (
	"crypto/hmac"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// hasher computes keyed hashes of data that identifies a buyer. The hashes of user agents do
// not depend on the workspace, unlike those of affiliate.BuyerKey, because the fraud rules
// compare them with the hashes of partners' and visitors' user agents.
type hasher struct{ key affiliate.BuyerKey }

// ipAddress returns the hash of an IP address. The hash also depends on the current
// month, so that a buyer cannot be tracked for more than a month.
func (h hasher) ipAddress(workspace affiliate.WorkspaceID, addr netip.Addr, now time.Time) []byte {
	return h.key.Sum(workspace, "customer_ip "+now.UTC().Format("2006-01"), addr.Unmap().String())
}

// agents returns two hashes of a user agent: the hash for the current month and the hash
// for the previous month. The stored hash of a partner's or visitor's user agent depends
// on the month in which it was stored. With the two hashes, the buyer's user agent can be
// compared with hashes that were stored in these two months.
func (h hasher) agents(agent string, now time.Time) [][]byte {
	year, month, _ := now.UTC().Date()
	lastMonth := time.Date(year, month, 0, 0, 0, 0, 0, time.UTC) // day 0 is the last day of the previous month
	return [][]byte{affiliate.AgentHash(h.key, agent, now), affiliate.AgentHash(h.key, agent, lastMonth)}
}

// buyer returns the data about the buyer that can be derived from a stored conversion.
// The fraud rules compare this data.
func (h hasher) buyer(c affiliate.Conversion) affiliate.Buyer {
	var b affiliate.Buyer
	if c.CustomerEmailHash != nil {
		b.OwnsEmail = func(email string) bool {
			hash, _, ok := h.key.Email(c.Scope.Workspace, email)
			return ok && hmac.Equal(hash, c.CustomerEmailHash)
		}
	}
	if c.CustomerUAHash != nil {
		b.AgentHashes = [][]byte{c.CustomerUAHash}
	}
	return b
}
