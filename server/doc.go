// Package server contains the parts of the gRPC core that all services share:
// authentication, authorisation, rate limits, validation, and the conversion of Go
// errors into gRPC statuses. The services themselves are in subpackages. The packages
// in cmd create the services and the server.
//
// Each method has a policy, which states the credentials, the roles and the rate limit of
// its callers. The package guarantees that no method with a policy runs before the call
// has passed the checks of the policy. A server does not start if one of its methods has
// no policy. Only gRPC reflection and the streaming health check run without a policy.
// They are available on the private port only. Calls over the network and calls in the
// same process run the same chain of interceptors:
//
//	panic guard → request id → access log → error mapping → recovery → deadline
//	  → authentication → rate limit → authorisation → validation → handler
//
// Authentication identifies the caller and rejects no call. A call with a bad credential
// is rejected later, in the authorisation step, after the rate limit has counted the
// call. The rate limit therefore also applies to a client that guesses credentials.
//
// The package contains no business rules. It accepts a client address and a request id
// in a call's metadata if the call comes from the in-process channel or from a
// configured proxy, and ignores them in all other calls.
package server
