package conversion

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// hasher computes keyed hashes of data that identifies a buyer. The hash of a value
// depends on the kind of data and on the workspace, so equal values in two workspaces
// have different hashes. The hashes of user agents are an exception. They do not depend
// on the workspace, because the fraud rules compare them with the hashes of partners' and
// visitors' user agents.
type hasher struct{ key []byte }

func (h hasher) sum(workspace affiliate.WorkspaceID, kind, value string) []byte {
	mac := hmac.New(sha256.New, h.key)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(workspace.UUID[:])
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// customerRef returns the hash of a customer id in hexadecimal digits. The customer id is
// the merchant's id for the buyer.
func (h hasher) customerRef(workspace affiliate.WorkspaceID, id string) string {
	return hex.EncodeToString(h.sum(workspace, "customer_id", id))
}

// email returns the hash of an e-mail address, and the address's domain in clear text. It
// normalises the address before hashing, so that different spellings of one mailbox's
// address have equal hashes. ok is false if the text is not an e-mail address.
func (h hasher) email(workspace affiliate.WorkspaceID, address string) (hash []byte, domain string, ok bool) {
	local, domain, ok := affiliate.FoldEmail(address)
	if !ok {
		return nil, "", false
	}
	return h.sum(workspace, "customer_email", local+"@"+domain), domain, true
}

// ipAddress returns the hash of an IP address. The hash also depends on the current
// month, so that a buyer cannot be tracked for more than a month.
func (h hasher) ipAddress(workspace affiliate.WorkspaceID, addr netip.Addr, now time.Time) []byte {
	return h.sum(workspace, "customer_ip "+now.UTC().Format("2006-01"), addr.Unmap().String())
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
			hash, _, ok := h.email(c.Scope.Workspace, email)
			return ok && hmac.Equal(hash, c.CustomerEmailHash)
		}
	}
	if c.CustomerUAHash != nil {
		b.AgentHashes = [][]byte{c.CustomerUAHash}
	}
	return b
}
