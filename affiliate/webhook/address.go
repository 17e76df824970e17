package webhook

import "net/netip"

// Addresses says which addresses may be called.
type Addresses struct {
	// Allowed is the operator's list: what is in it may be called whatever it is, on
	// any port. Empty by default.
	Allowed []netip.Prefix
	// Own are this machine's.
	Own []netip.Addr
}

// MayCall reports whether an address may be called on a port.
func (a Addresses) MayCall(to netip.AddrPort) bool { return to.IsValid() }
