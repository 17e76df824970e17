// Package tributary is a client of the Tributary core over gRPC. The example of the
// package reports a conversion. README.md in this folder says how to use the client in
// another module.
//
// A Client has one generated client for each service. It adds the credential and the mode
// to each call, and a deadline to each call except exports. If the service is unavailable
// or the rate limit is reached, the client sends a call again, provided that this has no
// second effect; see Options.Attempts.
//
// Errors are gRPC statuses. Code returns the stable error code of an error.
package tributary
