// Package tributary is a client of the Tributary core over gRPC.
//
//	client, err := tributary.New("core.internal:9090", tributary.Options{
//		Credential: tributary.Key(os.Getenv("TRIBUTARY_SECRET_KEY")),
//	})
//	response, err := client.Conversions.ReportConversion(ctx, &affiliatev1.ReportConversionRequest{…})
//
// A Client has one generated client for each service. It adds the credential and the mode
// to each call, and a deadline to each call except exports. If the service is unavailable
// or the rate limit is reached, the client sends a call again, provided that this has no
// second effect; see Options.Attempts.
//
// Errors are gRPC statuses. Code returns the stable error code of an error.
package tributary
