package webhook

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// deniedRanges lists ranges of addresses that must not be called, so that no webhook
// reaches the operator's network. before says whether the address before the range may be
// called, and after whether the address after the range may be called.
var deniedRanges = []struct {
	first, last   string
	before, after bool
}{
	{"0.0.0.0", "0.255.255.255", false, true},
	{"10.0.0.0", "10.255.255.255", true, true},
	{"100.64.0.0", "100.127.255.255", true, true},
	{"127.0.0.0", "127.255.255.255", true, true},
	{"168.63.129.16", "168.63.129.16", true, true},
	{"169.254.0.0", "169.254.255.255", true, true},
	{"172.16.0.0", "172.31.255.255", true, true},
	{"192.0.0.0", "192.0.0.255", true, true},
	{"192.0.2.0", "192.0.2.255", true, true},
	{"192.88.99.0", "192.88.99.255", true, true},
	{"192.168.0.0", "192.168.255.255", true, true},
	{"198.18.0.0", "198.19.255.255", true, true},
	{"198.51.100.0", "198.51.100.255", true, true},
	{"203.0.113.0", "203.0.113.255", true, true},
	{"224.0.0.0", "239.255.255.255", true, false},
	{"240.0.0.0", "255.255.255.255", false, false},

	{"::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, true},
	{"::", "::", false, false},
	{"::1", "::1", false, false},
	{"::2", "::ffff:ffff", false, false}, // IPv4-compatible
	{"64:ff9b::", "64:ff9b::ffff:ffff", false, false},
	{"64:ff9b::808:808", "64:ff9b::808:808", false, false}, // even if it contains a public address
	{"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", false, false},
	{"100::", "100::ffff:ffff:ffff:ffff", false, false},
	{"2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", true, false},
	{"2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", false, true},
	{"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true, true},
	{"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true, true},
	{"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", true, true},
	{"4000::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true, false},
	{"5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, false},
	{"8000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, false},
	{"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, false},
	{"fd00:ec2::254", "fd00:ec2::254", false, false},
	{"fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, false},
	{"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, false},
	{"ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, false},
}

func TestMayCall_AtTheEndsOfDeniedRanges(t *testing.T) {
	expect := func(address netip.Addr, want bool) {
		t.Helper()
		if got := mayCall(address); address.IsValid() && got != want {
			t.Errorf("MayCall(%s) = %v, want %v", address, got, want)
		}
	}
	for _, r := range deniedRanges {
		first, last := netip.MustParseAddr(r.first), netip.MustParseAddr(r.last)
		expect(first, false)
		expect(last, false)
		if first != last {
			expect(first.Next(), false)
			expect(last.Prev(), false)
		}
		expect(first.Prev(), r.before)
		expect(last.Next(), r.after)
		if first.Is4() {
			expect(mapped(first), false)
			expect(mapped(last), false)
			if r.before {
				expect(mapped(first.Prev()), true)
			}
			if r.after {
				expect(mapped(last.Next()), true)
			}
		}
	}
	for _, p := range deniedPrefixes {
		if p != p.Masked() {
			t.Errorf("the prefix %s has bits set after its length", p)
		}
	}
}

func TestMayCall_Addresses(t *testing.T) {
	for address, want := range map[string]bool{
		"100.63.255.255": true, "100.128.0.1": true, "172.15.0.1": true, "172.32.0.1": true,
		"8.8.8.8": true, "1.1.1.1": true, "223.255.255.255": true, "2606:4700::1111": true, "2000::": true, "2a00::1": true,
		"2001:200::": true, "::ffff:8.8.8.8": true,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:0.0.0.0": false,
		"169.254.169.254": false, "169.254.170.2": false, "100.100.100.200": false, "192.0.0.192": false, "fd00:ec2::254": false,
		"::127.0.0.1": false, "::ffff:0:127.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false,
		"fe80::1%eth0": false, "2606:4700::1111%eth0": false, "::ffff:8.8.8.8%eth0": false,
	} {
		if got := mayCall(netip.MustParseAddr(address)); got != want {
			t.Errorf("MayCall(%s) = %v, want %v", address, got, want)
		}
	}
	if (Addresses{}).MayCall(netip.AddrPort{}) {
		t.Error("MayCall of the zero AddrPort = true")
	}
}

func TestMayCall_WithoutAllowListDeniesPrivateAddresses(t *testing.T) {
	for _, to := range []string{"127.0.0.1:443", "127.0.0.1:8443", "[::1]:443", "10.0.0.1:443", "8.8.8.8:80", "8.8.8.8:6379"} {
		if (Addresses{}).MayCall(netip.MustParseAddrPort(to)) {
			t.Errorf("MayCall(%s) = true", to)
		}
	}
}

func TestMayCall_AllowedAddressOnAnyPort(t *testing.T) {
	a := Addresses{
		Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.7/32")},
		Own:     []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("198.20.0.1")},
	}
	for to, want := range map[string]bool{
		"127.0.0.1:443": true, "127.0.0.1:22": true, "127.255.255.255:6379": true, "[::ffff:127.0.0.1]:80": true,
		"[fd00::1]:1": true, "[fd00::1%eth0]:443": false, "192.0.2.7:443": true,
		"192.0.2.6:443": false, "10.0.0.1:443": false, "[::1]:443": false, "[fc00::1]:443": false, "198.20.0.1:443": false,
		"8.8.8.8:443": true, "8.8.8.8:22": false,
	} {
		if got := a.MayCall(netip.MustParseAddrPort(to)); got != want {
			t.Errorf("MayCall(%s) = %v, want %v", to, got, want)
		}
	}
}

func TestMayCall_DeniesOwnAddresses(t *testing.T) {
	a := Addresses{Own: []netip.Addr{
		netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("::ffff:8.8.8.8"), netip.MustParseAddr("2606:4700::1111%eth0"), {},
	}}
	for to, want := range map[string]bool{
		"8.8.4.4:443": false, "[::ffff:8.8.4.4]:443": false, "8.8.8.8:8443": false, "[::ffff:8.8.8.8]:443": false, "[2606:4700::1111]:443": false,
		"8.8.4.5:443": true, "[2606:4700::1112]:443": true,
	} {
		if got := a.MayCall(netip.MustParseAddrPort(to)); got != want {
			t.Errorf("MayCall(%s) = %v, want %v", to, got, want)
		}
	}
}

// The operations manual lists all refused addresses and ports, in the order of the code.
func TestMayCall_ManualListsDeniedRanges(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	var addresses, ports []string
	for _, p := range deniedPrefixes {
		addresses = append(addresses, p.String())
	}
	for _, r := range deniedPorts {
		if r.first == r.last {
			ports = append(ports, strconv.Itoa(int(r.first)))
		} else {
			ports = append(ports, fmt.Sprintf("%d–%d", r.first, r.last))
		}
	}
	for pattern, want := range map[string][]string{"(?m)^\\| `([0-9a-f.:]+/[0-9]+)` \\|": addresses, `(?m)^\| ([0-9–]+) \|`: ports} {
		var listed []string
		for _, row := range regexp.MustCompile(pattern).FindAllSubmatch(page, -1) {
			listed = append(listed, string(row[1]))
		}
		if !slices.Equal(listed, want) {
			t.Errorf("the page lists %q, want %q", listed, want)
		}
	}
}

func TestMayCall_Ports(t *testing.T) {
	denied := map[uint16]bool{}
	last := uint16(firstUserPort - 1)
	for _, r := range deniedPorts {
		if r.first <= last || r.last < r.first {
			t.Errorf("the range of ports %d to %d is not in ascending order", r.first, r.last)
		}
		last = r.last
		for port := r.first; port <= r.last; port++ {
			denied[port] = true
		}
	}
	for n := range 1 << 16 {
		port := uint16(n)
		want := port == 443 || port >= 1024 && !denied[port]
		to := netip.AddrPortFrom(netip.MustParseAddr("8.8.8.8"), port)
		if (Addresses{}).MayCall(to) != want {
			t.Errorf("MayCall(%s) = %v, want %v", to, !want, want)
		}
	}
	for port, want := range map[uint16]bool{
		0: false, 22: false, 25: false, 80: false, 442: false, 443: true, 444: false, 1023: false, 1024: true, 65535: true,
		2375: false, 2379: false, 3000: true, 3306: false, 3389: false, 5432: false, 5672: false, 5900: false, 6000: false,
		6379: false, 6443: false, 8000: true, 8080: true, 8443: true, 8883: false, 9092: false, 9200: false, 9443: true,
		10250: false, 11211: false, 27017: false,
	} {
		if portAllowed(port) != want {
			t.Errorf("portAllowed(%d) = %v, want %v", port, !want, want)
		}
	}
}

func FuzzMayCall(f *testing.F) {
	for _, r := range deniedRanges {
		for _, address := range []string{r.first, r.last} {
			f.Add(netip.MustParseAddr(address).AsSlice(), uint16(443))
		}
	}
	f.Add(mapped(netip.MustParseAddr("8.8.8.8")).AsSlice(), uint16(8443))
	f.Add(netip.MustParseAddr("2606:4700::1111").AsSlice(), uint16(22))
	f.Fuzz(func(t *testing.T, raw []byte, port uint16) {
		address, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		to := netip.AddrPortFrom(address, port)
		got := (Addresses{}).MayCall(to)
		if want := public(address) && portAllowed(port); got != want {
			t.Fatalf("MayCall(%s) = %v, want %v", to, got, want)
		}
		inner := address.Unmap()
		if got && (!inner.IsGlobalUnicast() || inner.IsPrivate() || inner.IsLoopback() || inner.IsUnspecified() ||
			inner.IsMulticast() || inner.IsLinkLocalUnicast() || inner.IsInterfaceLocalMulticast()) {
			t.Fatalf("MayCall(%s) = true, although the address is not public", to)
		}
		if inner.Is4() && got != (Addresses{}).MayCall(netip.AddrPortFrom(mapped(inner), port)) {
			t.Fatalf("MayCall(%s) = %v, but not for the IPv6 form of the address", to, got)
		}
		if (Addresses{Own: []netip.Addr{address}}).MayCall(to) {
			t.Fatalf("MayCall(%s) = true, although it is an address of this machine", to)
		}
		allowed := Addresses{Allowed: []netip.Prefix{netip.PrefixFrom(inner, inner.BitLen())}, Own: []netip.Addr{address}}
		if !allowed.MayCall(to) {
			t.Fatalf("MayCall(%s) = false, although the address is in the allow-list", to)
		}
	})
}

// public reports whether an address is not in deniedPrefixes. It is an independent
// implementation, which checks the bits of the address.
func public(address netip.Addr) bool {
	b := address.As16()
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	if address.Is4() || hi == 0 && lo>>32 == 0xffff {
		return public4(uint32(lo))
	}
	switch {
	case bits.LeadingZeros64(hi) != 2: // 2000::/3 begins with 001
		return false
	case hi>>48 == 0x2001 && (hi>>32&0xffff <= 0x1ff || hi>>32&0xffff == 0xdb8):
		return false
	case hi>>48 == 0x2002, hi>>44 == 0x3fff0:
		return false
	}
	return true
}

func public4(n uint32) bool {
	switch first := n >> 24; {
	case first == 0, first == 10, first == 127, first >= 224:
		return false
	}
	switch n >> 16 {
	case 0xa9fe, 0xc0a8, 0xc612, 0xc613:
		return false
	}
	switch n >> 8 {
	case 0xc00000, 0xc00002, 0xc05863, 0xc63364, 0xcb0071:
		return false
	}
	return n>>22 != 100<<2|1 && n>>20 != 172<<4|1 && n != 0xa83f8110
}

func mayCall(address netip.Addr) bool {
	return Addresses{}.MayCall(netip.AddrPortFrom(address, 443))
}

// mapped returns an IPv4 address in IPv6 form.
func mapped(address netip.Addr) netip.Addr { return netip.AddrFrom16(address.As16()) }
