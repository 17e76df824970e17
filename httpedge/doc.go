// Package httpedge contains the parts that all HTTP servers of the service share. It
// determines the client's address behind trusted proxies, whether a request used HTTPS,
// and the request id. It parses the origins of CORS, checks the media type of a body,
// writes the error body of docs/errors.md, and sets the time and size limits of a
// public server.
//
// It guarantees that a client cannot forge its address, and cannot pretend to use HTTPS.
// Forwarding headers are read only if the peer of the TCP connection is a trusted proxy.
// Only the parts of these headers that trusted proxies wrote are used.
//
// It does not authenticate clients, route requests or count them for rate limits. The
// gateway, the collector and the landing service do that.
package httpedge
