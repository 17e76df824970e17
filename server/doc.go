// Package server contains the parts of the gRPC core that all services share:
// authentication, authorisation, rate limits, validation, and the conversion of Go
// errors into gRPC statuses. The services themselves are in the packages below this
// one. cmd connects them.
//
// It guarantees that no method runs before the caller has passed the method's policy.
// A server does not start if one of its methods has no policy. Calls over the network
// and calls in the same process run the same chain of interceptors:
//
//	panic guard → request id → access log → error mapping → recovery → deadline
//	  → authentication → rate limit → authorisation → validation → handler
//
// Authentication only identifies the caller. The authorisation step rejects a bad
// credential after the rate limit has counted the call. A client that guesses
// credentials is therefore limited too.
//
// The package contains no business rules. It accepts a client address and a request id
// in the metadata only from the in-process channel and from configured proxies.
package server
