// Package httpedge decides, for every HTTP surface of the service alike, who is
// calling and how: the client's address behind trusted proxies, whether the
// request travelled over HTTPS, the id it is logged under; and it writes the
// one error body of SPEC.md section 7 and sets the limits of a public server.
//
// It guarantees that nothing a client sends can choose the address it is
// counted under or pretend to be encrypted: forwarding headers count only when
// the peer of the TCP connection is a configured proxy, and then only the part
// that proxy wrote.
//
// It does not authenticate, route or count: the gateway and the collector do.
package httpedge
