// Package webhook serves webhook endpoints (Service) and sends them the events of their
// workspace (Sender). Requests follow the Standard Webhooks specification.
//
// The life of a delivery:
//
//	transaction of a change      inserts the event and one delivery per endpoint
//	        │ after COMMIT
//	        ▼
//	Sender.Wake ──▶ leases       claims the endpoint for 30 s and renews the lease
//	   ▲               │
//	   │ search        ▼ one goroutine per claimed endpoint
//	   │            servedEndpoint
//	   │               │ ▲
//	   │               │ └─ reader     reads due deliveries of up to 32 endpoints per query
//	   │               ▼
//	   │            webhook.Limit      at most 10 attempts in flight, 1 if the endpoint hangs
//	   │            slots              at most 1,000 attempts in this process, shared fairly
//	   │               ▼
//	   │            Client.Send ─────▶ receiver
//	   │               ▼
//	   │            recorder           stores outcomes, up to 512 in one transaction
//	   │               ▼
//	   └── next attempt is due, or delivered, dead_lettered, canceled
//
// At any time at most one process has the lease of an endpoint. Single deliveries
// therefore need no lease, and the limits of an endpoint are variables of one goroutine.
// If a process crashes, its leases expire. Every 10 s each process searches for endpoints
// with due deliveries and without a lease, and claims them.
//
// The package guarantees that a committed event reaches each endpoint at least once, if
// the endpoint subscribed to the event and responds with 2xx within the retry schedule.
// All attempts have the same webhook-id. Addresses are checked when a connection is made.
// An endpoint that hangs, fails or has many events does not delay other endpoints. Only
// the status of a response is stored.
//
// It does not promise an order of the events. It does not promise exactly one delivery. If
// a process crashes after a receiver's response and before the outcome is stored, the
// attempt is repeated.
package webhook
