package servers

import (
	"net/netip"
	"testing"
)

// An outgoing connection could take a port from the range of the kernel while its server
// restarts. So free ports must be outside that range.
func TestFreeAddresses_AreDifferentAndInRange(t *testing.T) {
	free, err := FreeAddresses(50)
	if err != nil || len(free) != 50 {
		t.Fatalf("FreeAddresses(50) = %v, %v", free, err)
	}
	seen := map[netip.AddrPort]bool{}
	for _, text := range free {
		address, err := netip.ParseAddrPort(text)
		if err != nil || !address.Addr().IsLoopback() || address.Port() < lowestPort || address.Port() >= lowestPort+portCount || seen[address] {
			t.Errorf("%s is not a new loopback address with a port from %d to %d (error: %v)", text, lowestPort, lowestPort+portCount-1, err)
		}
		seen[address] = true
	}
}
