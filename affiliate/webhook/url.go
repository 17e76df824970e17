package webhook

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/tributary-hq/tributary/affiliate"
)

// URL is the address of an endpoint.
type URL struct {
	// Text is the URL in the form that is stored and called. The host is in lower case
	// and punycode, a default port is omitted, the path has at least one slash, and all
	// characters are ASCII.
	Text string
	// Host has no port and no brackets.
	Host string
	Port uint16
	// Literal is the host if it is an IP address; otherwise the zero Addr.
	Literal netip.Addr
	// IsHTTP says that the scheme is http.
	IsHTTP bool
	// RestrictedPort says that the port is only allowed for addresses in the operator's
	// allow-list.
	RestrictedPort bool
}

// maxURLSize is the greatest length of a URL, both as entered and as stored.
const maxURLSize = 2048

// ParseURL parses the URL of an endpoint (docs/merchant/webhooks.md#register-an-endpoint). If
// the URL is not valid, it returns the problems that it has found. Percent-encoding is not
// changed. Package net/http understands URL.Text in the same way: its request goes to URL.Host
// and URL.Port, with the same path and query.
func ParseURL(raw string) (URL, []string) {
	var wrong []string
	check := func(ok bool, message string) {
		if !ok {
			wrong = append(wrong, message)
		}
	}
	check(!strings.ContainsFunc(raw, isAmbiguousRune), "must not contain spaces, control characters or backslashes")
	rest, _, fragment := strings.Cut(raw, "#")
	check(!fragment, "must not contain a fragment")
	scheme, rest, found := strings.Cut(rest, "://")
	scheme = strings.ToLower(scheme)
	standard, known := defaultPorts[scheme]
	check(found && known, "must begin with https://")
	if !found {
		return URL{}, append(wrong, sizeProblem(raw)...)
	}

	authority, target := rest, ""
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		authority, target = rest[:at], rest[at:]
	}
	at := strings.LastIndexByte(authority, '@')
	check(at < 0, "must not contain a user")
	hostText, portText, explicit := splitPort(authority[at+1:])
	host, literal, problems := parseHost(hostText)
	wrong = append(wrong, problems...)
	port := standard
	if explicit {
		var ok bool
		port, ok = parsePort(portText)
		check(ok, "must have a port from 1 to 65535")
	}
	path, query, hasQuery := strings.Cut(target, "?")
	_, err := url.PathUnescape(path)
	check(err == nil, "must not contain a bare % in its path")

	u := URL{
		Host: host, Port: port, Literal: literal,
		IsHTTP:         scheme == "http",
		RestrictedPort: port != standard && !portAllowed(port),
	}
	u.Text = scheme + "://" + host
	if literal.Is6() {
		u.Text = scheme + "://[" + host + "]"
	}
	if port != standard {
		u.Text += ":" + strconv.Itoa(int(port))
	}
	if path == "" {
		path = "/"
	}
	u.Text += encode(path)
	if hasQuery {
		u.Text += "?" + encode(query)
	}
	if wrong = append(wrong, sizeProblem(raw, u.Text)...); len(wrong) > 0 {
		return URL{}, wrong
	}
	return u, nil
}

var defaultPorts = map[string]uint16{"https": httpsPort, "http": 80}

func sizeProblem(texts ...string) []string {
	for _, text := range texts {
		if len(text) > maxURLSize {
			return []string{"must have at most " + strconv.Itoa(maxURLSize) + " characters"}
		}
	}
	return nil
}

// isAmbiguousRune reports whether some URL parsers drop the character, or different
// parsers treat it in different ways.
func isAmbiguousRune(r rune) bool {
	return r == '\\' || r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r)
}

// splitPort separates the port, which is the text after the last colon outside
// brackets.
func splitPort(authority string) (host, port string, found bool) {
	colon := strings.LastIndexByte(authority, ':')
	if colon <= strings.LastIndexByte(authority, ']') {
		return authority, "", false
	}
	return authority[:colon], authority[colon+1:], true
}

// parsePort parses a port without leading zeros.
func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0 && text[0] != '0'
}

// hostNames converts internationalized names to ASCII. It has the rules of idna.Lookup,
// except that the third and fourth characters of a label may be hyphens. Preview
// deployments have such names, for example qa--shop.example.
var hostNames = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false))

func parseHost(text string) (host string, literal netip.Addr, wrong []string) {
	if text == "" {
		return "", netip.Addr{}, []string{"must have a host"}
	}
	if text, _, found := strings.Cut(text, "%"); found {
		// The text before the % is parsed as well, so that all problems are returned.
		wrong = []string{"must not contain a % in its host"}
		if text == "" || text[0] != '[' {
			return "", netip.Addr{}, wrong
		}
		host, literal, more := parseHost(text + "]")
		return host, literal, append(wrong, more...)
	}
	if text[0] == '[' {
		address, err := netip.ParseAddr(strings.TrimSuffix(text[1:], "]"))
		if err != nil || !address.Is6() || text[len(text)-1] != ']' {
			return "", netip.Addr{}, []string{"must have an IPv6 address between its brackets"}
		}
		return address.String(), address, nil
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
		return text, address, nil
	}
	if len(text) > maxURLSize {
		// The conversion to punycode takes time that is quadratic in the length of a
		// name.
		return "", netip.Addr{}, []string{"must have a host that is a name or an address"}
	}
	name, err := hostNames.ToASCII(text)
	name, dotted := strings.CutSuffix(name, ".")
	if dotted {
		wrong = append(wrong, "must not have a dot at the end of its host")
	}
	host, ok := affiliate.ParseDomain(name)
	switch {
	case endsInNumber(name):
		wrong = append(wrong, "must have an IPv4 address of four decimal numbers")
	case err != nil || !ok:
		wrong = append(wrong, "must have a host that is a name or an address")
	}
	return host, netip.Addr{}, wrong
}

// endsInNumber reports whether the last label of a name is a number. Some resolvers
// treat such a name as an IPv4 address in another notation: octal, hexadecimal, or with
// fewer than four parts.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.HasPrefix(last, "0x") || last != "" && strings.Trim(last, "0123456789") == ""
}

// encode percent-encodes the characters that are not allowed in a path or a query.
// Existing percent-encoding is not changed, because receivers may treat %2F and a slash
// differently.
func encode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			strings.IndexByte("-._~!$&'()*+,;=:@/?[]%", c) >= 0:
			b.WriteByte(c)
		default:
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// Addresses says which IP addresses may be called.
type Addresses struct {
	// Allowed is the operator's allow-list. Its addresses may be called on any port,
	// even if they would otherwise be denied. It is empty by default. Prefixes of IPv4
	// addresses must be written in IPv4 form; a prefix in IPv4-mapped IPv6 form matches
	// nothing.
	Allowed []netip.Prefix
	// Own are the addresses of this machine.
	Own []netip.Addr
}

// MayCall reports whether an address may be called on a port. Private and reserved addresses
// must not be called, because they can lead into the operator's network. An IPv4 address in
// IPv6 form is treated as the IPv4 address. An address with a zone must not be called.
func (a Addresses) MayCall(to netip.AddrPort) bool {
	address := to.Addr().Unmap()
	switch {
	case !address.IsValid(), to.Addr().Zone() != "":
		return false
	case containsAddress(a.Allowed, address):
		return true
	case slices.ContainsFunc(a.Own, func(own netip.Addr) bool { return own.Unmap().WithZone("") == address }):
		return false
	default:
		return !containsAddress(deniedPrefixes, address) && portAllowed(to.Port())
	}
}

func containsAddress(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// deniedPrefixes holds addresses that are not public, and IPv6 addresses that contain an
// IPv4 address. They follow IANA's registries of special-purpose addresses.
var deniedPrefixes = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network; on Linux, 0.0.0.0 is the loopback address
	netip.MustParsePrefix("10.0.0.0/8"),       // private
	netip.MustParsePrefix("100.64.0.0/10"),    // carrier-grade NAT; metadata service of Alibaba Cloud
	netip.MustParsePrefix("127.0.0.0/8"),      // loopback
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's host agent: a public number that Azure uses for an internal service
	netip.MustParsePrefix("169.254.0.0/16"),   // link-local; metadata service of most clouds
	netip.MustParsePrefix("172.16.0.0/12"),    // private
	netip.MustParsePrefix("192.0.0.0/24"),     // IETF protocols; metadata service of Oracle Cloud
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),   // private
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("224.0.0.0/4"),      // multicast
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved; broadcast

	// Public IPv6 addresses are in 2000::/3. The next three prefixes contain all other
	// addresses.
	netip.MustParsePrefix("::/3"),          // ::, ::1, IPv4 in IPv6 (::/96, 64:ff9b::/96, 64:ff9b:1::/48), the discard prefix 100::/64
	netip.MustParsePrefix("4000::/2"),      // segment routing 5f00::/16; the rest is not assigned
	netip.MustParsePrefix("8000::/1"),      // private fc00::/7 (metadata service of AWS), link-local fe80::/10, site-local fec0::/10, multicast ff00::/8; the rest is not assigned
	netip.MustParsePrefix("2001::/23"),     // IETF protocols: Teredo 2001::/32, benchmarks, cryptographic hash identifiers
	netip.MustParsePrefix("2001:db8::/32"), // documentation
	netip.MustParsePrefix("2002::/16"),     // 6to4; contains an IPv4 address
	netip.MustParsePrefix("3fff::/20"),     // documentation
}

const (
	httpsPort = 443
	// firstUserPort is the lowest port that is not reserved for system services.
	firstUserPort = 1024
)

// portAllowed reports whether a port may be called at an address that is not in the
// allow-list.
func portAllowed(port uint16) bool {
	if port < firstUserPort {
		return port == httpsPort
	}
	return !slices.ContainsFunc(deniedPorts, func(r portRange) bool { return r.first <= port && port <= r.last })
}

type portRange struct{ first, last uint16 }

// deniedPorts holds ports from 1024 on that are used by services which trust every
// client, or which could mistake an HTTP request for their own protocol. Webhook
// receivers do not use these ports. Ports that are also common for web servers (8080,
// 8443, 9000, …) are allowed.
var deniedPorts = []portRange{
	{1080, 1080},   // SOCKS proxy
	{1433, 1434},   // SQL Server
	{1521, 1521},   // Oracle
	{1719, 1720},   // H.323
	{1723, 1723},   // PPTP
	{1883, 1883},   // MQTT
	{2049, 2049},   // NFS
	{2181, 2181},   // ZooKeeper
	{2375, 2377},   // Docker, Swarm; gives root access to the machine
	{2379, 2380},   // etcd
	{3128, 3128},   // Squid proxy
	{3260, 3260},   // iSCSI
	{3306, 3306},   // MySQL
	{3389, 3389},   // remote desktop
	{4045, 4045},   // NFS locks
	{4190, 4190},   // mail filters (Sieve)
	{4222, 4222},   // NATS
	{4369, 4369},   // Erlang's port mapper (RabbitMQ, CouchDB)
	{4646, 4648},   // Nomad
	{5060, 5061},   // SIP
	{5432, 5433},   // Postgres
	{5671, 5672},   // AMQP
	{5900, 5910},   // VNC
	{5984, 5986},   // CouchDB, Windows remote management
	{6000, 6063},   // X11
	{6379, 6380},   // Redis
	{6432, 6432},   // PgBouncer
	{6443, 6443},   // Kubernetes API
	{6660, 6669},   // IRC
	{6697, 6697},   // IRC over TLS
	{6984, 6984},   // CouchDB over TLS
	{7000, 7001},   // Cassandra (between nodes)
	{7199, 7199},   // Cassandra's JMX
	{8086, 8086},   // InfluxDB
	{8200, 8201},   // Vault
	{8300, 8302},   // Consul (between nodes)
	{8500, 8503},   // Consul
	{8883, 8883},   // MQTT over TLS
	{9042, 9042},   // Cassandra
	{9092, 9098},   // Kafka
	{9142, 9142},   // Cassandra over TLS
	{9160, 9160},   // Cassandra's Thrift
	{9200, 9200},   // Elasticsearch
	{9300, 9300},   // Elasticsearch (between nodes)
	{9418, 9418},   // git
	{10248, 10259}, // Kubernetes: kubelet, proxy, controllers, scheduler
	{11211, 11211}, // Memcached
	{15672, 15672}, // RabbitMQ's management
	{16379, 16379}, // Redis Cluster (between nodes)
	{25672, 25672}, // RabbitMQ (between nodes)
	{26379, 26379}, // Redis Sentinel
	{27017, 27020}, // MongoDB
	{28015, 28015}, // RethinkDB
	{33060, 33060}, // MySQL's X protocol
	{50000, 50000}, // Db2
	{61613, 61616}, // ActiveMQ
}
