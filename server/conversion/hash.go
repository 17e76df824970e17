package conversion

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// hasher turns what identifies a buyer into keyed hashes. A hash can be compared
// with another of the same kind in the same workspace, and with nothing else; but
// for user agents, which fraud rules compare with those of partners and clicks.
type hasher struct{ key []byte }

func (h hasher) sum(workspace affiliate.WorkspaceID, kind, value string) []byte {
	mac := hmac.New(sha256.New, h.key)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(workspace.UUID[:])
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// customerRef stands for the merchant's id of the buyer.
func (h hasher) customerRef(workspace affiliate.WorkspaceID, id string) string {
	return hex.EncodeToString(h.sum(workspace, "customer_id", id))
}

// email hashes the folded address, so that variants of one mailbox are equal;
// the domain is kept in clear.
func (h hasher) email(workspace affiliate.WorkspaceID, address string) (hash []byte, domain string, ok bool) {
	local, domain, ok := affiliate.FoldEmail(address)
	if !ok {
		return nil, "", false
	}
	return h.sum(workspace, "customer_email", local+"@"+domain), domain, true
}

// address hashes an address under its month, so that nobody can be followed for
// longer.
func (h hasher) address(workspace affiliate.WorkspaceID, addr netip.Addr, at time.Time) []byte {
	return h.sum(workspace, "customer_ip "+at.UTC().Format("2006-01"), addr.Unmap().String())
}

// agents hashes a user agent under its month and the one before, in that order.
// Partners' are hashed alike, in whatever month they were seen.
func (h hasher) agents(agent string, at time.Time) [][]byte {
	year, month, _ := at.UTC().Date()
	before := time.Date(year, month, 0, 0, 0, 0, 0, time.UTC)
	return [][]byte{affiliate.AgentHash(h.key, agent, at), affiliate.AgentHash(h.key, agent, before)}
}

// buyer is what fraud rules can compare of a conversion that is stored.
func (h hasher) buyer(c affiliate.Conversion) affiliate.Buyer {
	var b affiliate.Buyer
	if c.CustomerEmailHash != nil {
		b.HasAddress = func(email string) bool {
			hash, _, ok := h.email(c.Scope.Workspace, email)
			return ok && hmac.Equal(hash, c.CustomerEmailHash)
		}
	}
	if c.CustomerUAHash != nil {
		b.AgentHashes = [][]byte{c.CustomerUAHash}
	}
	return b
}
