// Package buyer erases the personal data of buyers.
//
//	request ─▶ register the operation and its job, or join an active one ─▶ 202
//	                                                  │
//	   job ─▶ claim the lease ◀───────────────────────┘
//	            │
//	            ├─ find the conversions of the buyer, in both modes
//	            ├─ erase them in small transactions: conversion, commissions, refunds,
//	            │  decisions, fraud events, clicks, events with their queued webhooks
//	            ├─ delete exports of the workspace
//	            ├─ delete the bindings of the customer
//	            ├─ delete stored responses about the conversions
//	            ├─ empty events of payment processors that are not applied yet
//	            ├─ search again; continue if conversions were stored since the first search
//	            └─ store the status, the event and the notification
//
// The package guarantees:
//
//   - The identity of the buyer is stored only as a keyed hash. The job does not know the
//     value. Sales that only the value can find are therefore found by the request.
//   - One worker at a time works on an operation. The worker renews its lease in every transaction.
//     If the process ends, another worker continues after the last transaction. If the erasure
//     fails, the next erasure of the same buyer takes over its lists of sales and customers.
//   - Amounts, commissions and the ledger do not change. Reports, refunds and events of the
//     payment processor about an erased sale still find the sale, by digests.
//   - An erasure that is applied again after a restore of the database needs only the digest
//     in the erasure log (Service.Replay).
//
// The package does not erase data that arrives after the end of the operation. A buyer who
// buys again, or whose subscription goes on, is a new customer.
package buyer
