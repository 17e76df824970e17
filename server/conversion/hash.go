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
// with another of the same kind in the same workspace, and with nothing else.
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

// agent hashes a user agent under its month.
func (h hasher) agent(workspace affiliate.WorkspaceID, agent string, at time.Time) []byte {
	return h.sum(workspace, "customer_user_agent "+at.UTC().Format("2006-01"), agent)
}
