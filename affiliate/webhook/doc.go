// Package webhook contains the parts of webhooks that need no network: which URLs and addresses
// may be called, how a body is signed, what the outcome of an attempt means, and when the next
// attempt is due.
//
// It follows Standard Webhooks (https://www.standardwebhooks.com) and
// docs/merchant/webhooks.md. No function reads the clock, and only NewSecret uses random
// numbers of its own. These are the states of a delivery:
//
//	           2xx                        ┌──────────▶ delivered
//	pending ────┬─────────────────────────┤
//	   ▲        │ failure                 │ 2xx
//	   │        ▼     next attempt is due │
//	recover  failed ◀──────────────────▶ attempt ────▶ dead_lettered
//	   │        │                               after the tenth attempt,
//	   │        ▼ endpoint disabled or deleted  410 or a blocked address
//	   └───── canceled
//
// A user can request an additional attempt in any state. If the delivery has already
// ended, only a successful attempt changes its state.
package webhook
