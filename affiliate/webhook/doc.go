// Package webhook is what can be said of outbound webhooks without a network:
// which URLs and addresses may be called, how a body is signed, what an attempt's
// outcome means and when the next one is due.
//
// It follows Standard Webhooks (https://www.standardwebhooks.com) and DECISIONS.md
// section 9, the numbers of RELIABILITY.md sections 3 and 4. Everything in it is a
// pure function but for NewSecret.
//
//	           2xx                        ┌──────────▶ delivered
//	pending ────┬─────────────────────────┤
//	   ▲        │ else                    │ 2xx
//	   │        ▼        next is due      │
//	recover  failed ◀──────────────────▶ attempt ────▶ dead_lettered: the tenth, 410, a
//	   │        │                                      blocked address
//	   │        ▼ endpoint disabled or deleted
//	   └───── canceled
//
// A retry that a person asks for is one more attempt in any state; of a delivery
// that has ended only its success changes the state.
package webhook
