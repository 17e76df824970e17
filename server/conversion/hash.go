package conversion

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// hasher computes keyed hashes of the data that identifies a buyer. A hash can only be
// compared with a hash of the same kind in the same workspace. The hashes of user agents
// are an exception: they do not depend on the workspace, and the fraud rules compare them
// with the user agents of partners and clicks.
type hasher struct{ key []byte }

func (h hasher) sum(workspace affiliate.WorkspaceID, kind, value string) []byte {
	mac := hmac.New(sha256.New, h.key)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(workspace.UUID[:])
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// customerRef returns the hash of the merchant's id of the buyer, in hexadecimal digits.
func (h hasher) customerRef(workspace affiliate.WorkspaceID, id string) string {
	return hex.EncodeToString(h.sum(workspace, "customer_id", id))
}

// email returns the hash of an e-mail address and its domain in clear text. It hashes the
// folded address, so that variants of one mailbox have equal hashes. ok is false if the
// text is not an address.
func (h hasher) email(workspace affiliate.WorkspaceID, address string) (hash []byte, domain string, ok bool) {
	local, domain, ok := affiliate.FoldEmail(address)
	if !ok {
		return nil, "", false
	}
	return h.sum(workspace, "customer_email", local+"@"+domain), domain, true
}

// address returns the hash of an IP address and the month. The hash changes every month,
// so that a buyer cannot be tracked for a longer time.
func (h hasher) address(workspace affiliate.WorkspaceID, addr netip.Addr, at time.Time) []byte {
	return h.sum(workspace, "customer_ip "+at.UTC().Format("2006-01"), addr.Unmap().String())
}

// agents returns the hash of a user agent for the month of at, then the hash for the
// month before. The user agents of partners are hashed in the same way, with the month in
// which they were stored, so both hashes are needed for the comparison.
func (h hasher) agents(agent string, at time.Time) [][]byte {
	year, month, _ := at.UTC().Date()
	before := time.Date(year, month, 0, 0, 0, 0, 0, time.UTC)
	return [][]byte{affiliate.AgentHash(h.key, agent, at), affiliate.AgentHash(h.key, agent, before)}
}

// buyer returns the data about the buyer that the fraud rules can compare if they have
// only the stored conversion.
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
