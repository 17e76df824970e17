package servers

import (
	"net/netip"
	"testing"
)

// A port that an outgoing connection may take could be gone when its server is started
// again.
func TestFreeAddressesAreOfServersAlone(t *testing.T) {
	free, err := FreeAddresses(50)
	if err != nil || len(free) != 50 {
		t.Fatal(free, err)
	}
	seen := map[netip.AddrPort]bool{}
	for _, text := range free {
		address, err := netip.ParseAddrPort(text)
		if err != nil || !address.Addr().IsLoopback() || address.Port() < lowestPort || address.Port() >= lowestPort+ports || seen[address] {
			t.Errorf("%s, %v", text, err)
		}
		seen[address] = true
	}
}
