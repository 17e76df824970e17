// Package server is the gRPC core's frame: who a caller is, what it may call,
// how often, and how refusals travel. The services themselves live in the
// packages below and are joined by cmd.
//
// It guarantees that no method runs before its declared policy has been met: a
// server with a method that has no policy does not start. Over the network and
// in process the same chain runs:
//
//	panic guard → request id → access log → error mapping → recovery → deadline
//	  → authentication → rate limit → authorisation → validation → handler
//
// Authentication settles who is calling but refuses only after the limit has
// counted, so that garbage cannot be tried freely.
//
// It does not know any rule of the business, and does not trust what a client
// says about itself: the client's address and request id are believed from the
// in-process channel and from configured proxies only.
package server
