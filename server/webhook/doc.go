// Package webhook serves the API for webhook endpoints (Service) and sends events to the
// endpoints (Sender). The requests to endpoints follow the Standard Webhooks
// specification.
//
// A delivery is the sending of one event to one endpoint. It consists of one or more
// attempts. An attempt is one request to the endpoint. The steps from a change to the
// outcome of an attempt are:
//
//  1. The transaction of a change inserts the event and one delivery for each endpoint
//     that subscribes to the event. After the commit, Sender.Wake is called.
//  2. The type leases claims the endpoint for this process. The claim is a lease of 30 s,
//     which is renewed while the endpoint has work.
//  3. A goroutine for the endpoint (servedEndpoint) requests the due deliveries from the
//     reader. The reader reads the deliveries of up to 32 endpoints in one query.
//  4. The goroutine starts attempts. An endpoint has at most 10 attempts in flight, or 1
//     if it does not respond (webhook.Limit). A process has at most 1,000 attempts in
//     flight, which the endpoints share fairly (slots).
//  5. Client.Send sends the request to the receiver.
//  6. The recorder stores the outcome, with up to 512 outcomes in one transaction. The
//     delivery is then delivered, dead_lettered or canceled, or its next attempt becomes
//     due later.
//
// At any time, at most one process has the lease of an endpoint and sends the endpoint's
// deliveries. In this process, one goroutine manages the endpoint and its limits. Single
// deliveries therefore need no lease. If a process crashes, its leases expire. Each
// process searches every 10 s for endpoints that have due deliveries but no lease, and
// claims these endpoints.
//
// The package guarantees at-least-once delivery: each endpoint that subscribes to a
// committed event receives the event, if the endpoint can be reached and responds with a
// 2xx status to one of the attempts in the retry schedule.
// All attempts of a delivery have the same webhook-id. The receiver's address is checked
// when a connection is made. An endpoint that hangs, fails or has many events does not
// delay other endpoints. The status of a response is stored, but its headers and its body
// are not stored.
//
// The package does not guarantee an order of the events. It also does not guarantee that
// an event is sent only once. If a process crashes after a receiver has responded but
// before the outcome is stored, the attempt is repeated.
package webhook
