package conversion

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// hasher computes keyed hashes of data that identifies a buyer. The hashes of user agents do
// not depend on the workspace, unlike those of privacy.BuyerKeys, because the fraud rules
// compare them with the hashes of partners' and visitors' user agents.
type hasher struct{ keys privacy.BuyerKeys }

// ipAddress returns the hash of an IP address. The hash also depends on the current
// month, so that a buyer cannot be tracked for more than a month.
func (h hasher) ipAddress(workspace affiliate.WorkspaceID, addr netip.Addr, now time.Time) []byte {
	return h.keys.Sum(workspace, "customer_ip "+now.UTC().Format("2006-01"), addr.Unmap().String()).First()
}

// agents returns two hashes of a user agent for each hash key: the hash for the current month
// and the hash for the previous month. The first is the hash of new data. The stored hash of a
// partner's or visitor's user agent depends on the month in which it was stored. With the two
// hashes, the buyer's user agent can be compared with hashes that were stored in these two
// months.
func (h hasher) agents(agent string, now time.Time) [][]byte {
	year, month, _ := now.UTC().Date()
	lastMonth := time.Date(year, month, 0, 0, 0, 0, 0, time.UTC) // day 0 is the last day of the previous month
	keys := affiliate.HashKeys(h.keys)
	return append(fraud.AgentHash(keys, agent, now), fraud.AgentHash(keys, agent, lastMonth)...)
}

// buyer returns the data about the buyer that can be derived from a stored conversion.
// The fraud rules compare this data.
func (h hasher) buyer(c conversion.Conversion) attribution.Buyer {
	var b attribution.Buyer
	if c.CustomerEmailHash != nil {
		b.OwnsEmail = func(email string) bool {
			hashes, _, ok := h.keys.Email(c.Workspace, email)
			return ok && hashes.Has(c.CustomerEmailHash)
		}
	}
	if c.CustomerUAHash != nil {
		b.AgentHashes = [][]byte{c.CustomerUAHash}
	}
	return b
}

// setEmail sets the data of a conversion that comes from the buyer's e-mail address, and returns
// the hashes that earlier conversions of the buyer can have.
func (h hasher) setEmail(c *conversion.Conversion, address string) (earlier [][]byte) {
	hashes, domain, ok := h.keys.Email(c.Workspace, address)
	if !ok {
		return nil
	}
	c.CustomerEmailHash, c.CustomerEmailDomain = hashes.First(), &domain
	return hashes[1:]
}

// customerRef returns the reference of a customer, or nil if the id is empty. A customer that was
// first stored under another hash key keeps that reference, so that its binding, its payments and
// its other conversions are found. With one key, nothing is read.
func (s *Service) customerRef(ctx context.Context, scope affiliate.Scope, id string) (*string, error) {
	if id == "" {
		return nil, nil
	}
	refs := s.hasher.keys.CustomerRefs(scope.Workspace, id)
	ref := refs[0]
	if len(refs) > 1 {
		known, err := conversions.KnownCustomer(ctx, s.db, scope, refs)
		if err != nil {
			return nil, fmt.Errorf("find the reference of a customer: %w", err)
		}
		if known != "" {
			ref = known
		}
	}
	return &ref, nil
}
