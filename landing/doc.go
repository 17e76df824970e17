// Package landing is the service of the forms of a public landing page: the waitlist with
// its counter, and the contact form.
//
// proto/landing/v1 defines the routes. A request passes through these steps:
//
//  1. set common headers, require HTTPS, respond to OPTIONS, find the route (handler.go)
//  2. count the POST for the rate limit, read the body (handler.go)
//  3. decode the body (decode.go)
//  4. call the service: check the form and store it (forms.go, service.go)
//  5. encode the response (codec.go) or the error (errors.go)
//
// Steps 3 to 5 run in grpc-gateway, which calls the service in the same process.
//
// Guarantees: the response to a sign-up does not say whether the address was on the
// waitlist before. A contact message is stored before its response, and a job repeats the
// mail to the operator until the mail server accepts it. Text of a form never becomes a
// header or markup of this mail. Rows are deleted when they are 12 months old.
//
// The rate limit is shared by all processes through Redis. Without Redis, each process
// counts on its own, and everything else works as before.
//
// Not guaranteed: that a mail is sent only once. If the process stops after the mail server
// has accepted a mail, the job sends the mail again, with the same Message-ID.
package landing
