// Package webhook lets merchants register endpoints and sends them the events of
// their workspace, as Standard Webhooks has it.
//
//	cause ─┬─ one transaction ─▶ event row + a delivery row per endpoint
//	       └─ behind COMMIT ───▶ Sender ── serves the endpoint, alone ──▶ client ─▶ receiver
//	                               ▲                                        │
//	                               └── outcomes, written in blocks ◀────────┘
//
// It guarantees that a committed event reaches each endpoint that followed it and
// that answers 2xx within the schedule, at least once and always under the same
// webhook-id; that nothing is sent to an address that may not be called, looked at
// when the connection is made; and that an endpoint that hangs, fails or is flooded
// keeps no other one waiting. Of an answer nothing is kept but its status.
//
// It promises no order, and that a delivery comes only once: whoever dies between a
// receiver's answer and its row sends it again.
package webhook
