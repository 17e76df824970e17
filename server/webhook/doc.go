// Package webhook lets merchants register endpoints (Service) and sends them the
// events of their workspace (Sender), following Standard Webhooks.
//
// The life of a delivery:
//
//	transaction of the cause     inserts the event and a delivery per endpoint
//	        │ after COMMIT
//	        ▼
//	Sender.Wake ──▶ leases       claims the endpoint for 30 s and renews the lease
//	   ▲               │
//	   │ search        ▼ one goroutine per claimed endpoint
//	   │            servedEndpoint
//	   │               │ ▲
//	   │               │ └─ reader     reads due deliveries, those of 32 endpoints at a time
//	   │               ▼
//	   │            webhook.Limit      at most 10 attempts in flight, 1 if the endpoint hangs
//	   │            places             at most 1,000 in this process, shared fairly
//	   │               ▼
//	   │            Client.Send ─────▶ receiver
//	   │               ▼
//	   │            recorder           stores outcomes, up to 512 in one transaction
//	   │               ▼
//	   └── next attempt is due, or delivered, dead_lettered, canceled
//
// At any time at most one process has the lease of an endpoint, so a delivery needs
// no claim of its own, and limits of an endpoint are variables of one goroutine. A
// process that dies keeps its endpoints until their leases end. Then the search of
// another process, every 10 s, finds those with due deliveries.
//
// The package guarantees: a committed event reaches each endpoint that subscribed to
// it and that responds 2xx within the schedule, at least once, always under the same
// webhook-id. Addresses are checked when the connection is made. An endpoint that
// hangs, fails or is flooded does not delay other endpoints. Of a response only the
// status is kept.
//
// It does not promise an order, nor exactly one delivery: if a process dies between a
// receiver's response and the stored outcome, the attempt is repeated.
package webhook
