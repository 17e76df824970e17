package httpedge

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// ParseProxies parses a comma-separated list of CIDRs and single addresses, the format of
// TRIBUTARY_TRUSTED_PROXIES. An empty list means that no proxy is trusted.
func ParseProxies(list string) ([]netip.Prefix, error) {
	var trusted []netip.Prefix
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if addr, err := netip.ParseAddr(part); err == nil {
			addr = addr.WithZone("").Unmap()
			trusted = append(trusted, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a CIDR", part)
		}
		trusted = append(trusted, prefix.Masked())
	}
	return trusted, nil
}

// ClientAddr returns the client's address. If the peer of the connection is not a trusted
// proxy, it is the address of the peer. Otherwise it is the last entry of X-Forwarded-For
// that is not a trusted proxy. Entries further left are ignored, because the client may
// have written them. If ClientAddr finds an entry that is not an address, it returns the
// address of the proxy that added the entry. The result is the zero Addr only if the peer
// has no IP address.
func ClientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	addr := peerAddr(r)
	if !Contains(trusted, addr) {
		return addr
	}
	lines := r.Header.Values("X-Forwarded-For")
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		for rest != "" {
			cut := strings.LastIndexByte(rest, ',')
			hop := rest[cut+1:]
			rest = rest[:max(cut, 0)]
			next, ok := parseHop(strings.TrimSpace(hop))
			if !ok {
				return addr
			}
			if addr = next; !Contains(trusted, addr) {
				return addr
			}
		}
	}
	return addr
}

// LimitSubject returns the key under which rate limits per address count a client. For
// IPv4, it is the address. For IPv6, it is the /64 prefix, because one subscriber has
// all addresses of a /64.
func LimitSubject(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "no-address"
	case addr.Is4():
		return addr.String()
	default:
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
}

// AddressPrefix returns the part of an address that may be stored and logged as clear
// text: the /24 prefix of an IPv4 address, or the /48 prefix of an IPv6 address. For the
// zero Addr, it returns "".
func AddressPrefix(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4():
		return netip.PrefixFrom(addr, 24).Masked().String()
	default:
		return netip.PrefixFrom(addr, 48).Masked().String()
	}
}

// Secure reports whether the request may be served. It returns true if the request used
// TLS, if the nearest trusted proxy reports that it received the request over HTTPS, or
// if allowHTTP is true. Otherwise the response must be 403 HTTPS_REQUIRED.
func Secure(r *http.Request, trusted []netip.Prefix, allowHTTP bool) bool {
	if r.TLS != nil || allowHTTP {
		return true
	}
	if len(trusted) == 0 || !Contains(trusted, peerAddr(r)) {
		return false
	}
	// Each proxy appends its value, so the last value is from the nearest proxy.
	last := strings.Join(r.Header.Values("X-Forwarded-Proto"), ",")
	last = last[strings.LastIndexByte(last, ',')+1:]
	return strings.EqualFold(strings.TrimSpace(last), "https")
}

// RefusedProxies logs that requests are refused because their proxy is not trusted. The
// zero value is ready. Its method can run concurrently.
type RefusedProxies struct{ logged atomic.Bool }

// Log logs a warning at the first request that has the header X-Forwarded-Proto and does
// not come from a trusted proxy. The caller refuses the request, because Secure has
// returned false. The line contains only the network of the peer and not its complete address, because the peer may
// be a client that has set the header itself.
func (p *RefusedProxies) Log(log *slog.Logger, r *http.Request, trusted []netip.Prefix) {
	peer := peerAddr(r)
	if r.Header.Get("X-Forwarded-Proto") == "" || Contains(trusted, peer) || p.logged.Swap(true) {
		return
	}
	log.LogAttrs(r.Context(), slog.LevelWarn, "a request is refused with HTTPS_REQUIRED, because its X-Forwarded-Proto is not from a trusted proxy: "+
		"if the address belongs to your proxy, add it to the setting",
		slog.String("setting", "TRIBUTARY_TRUSTED_PROXIES"), slog.String("network", AddressPrefix(peer)))
}

func peerAddr(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().WithZone("").Unmap()
}

// parseHop parses an entry of X-Forwarded-For. Some proxies add the port to the address.
func parseHop(hop string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(hop)
	if err != nil {
		if withPort, portErr := netip.ParseAddrPort(hop); portErr == nil {
			addr, err = withPort.Addr(), nil
		} else if len(hop) > 2 && hop[0] == '[' && hop[len(hop)-1] == ']' {
			addr, err = netip.ParseAddr(hop[1 : len(hop)-1])
		}
	}
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.WithZone("").Unmap(), true
}

// Contains reports whether an address belongs to one of the trusted proxies.
func Contains(trusted []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(trusted, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}
