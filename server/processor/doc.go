// Package processor connects merchants' accounts at payment processors. Sales, refunds and
// disputes then arrive as events of the processor, without the merchant's server.
//
//	processor ─▶ POST /webhooks/{processor}/{connection} ─▶ check the signature
//	                                                            │
//	                          store the event (encrypted) and a job ─▶ 200
//	                                                            │
//	   job ─▶ read the current state of the event's object ◀────┘
//	            │
//	            ├─ sale ─▶ record the earlier sales of the customer, then this one
//	            │          (package conversion), then its refunds and disputes
//	            └─ charge ─▶ store what was refunded and disputed, apply it to the
//	                         conversion; park the event if the sale is not recorded yet
//
// The package guarantees:
//
//   - An event is stored before the processor gets a response with status 200. Its job runs
//     until the event is applied, ignored, or has failed for three days. A failed event
//     keeps its content. The first failed event of a day causes a notification. A resync,
//     or the processor's own repetition of the event, begins the work again.
//   - An event is only the sign that an object has changed. The job applies the current state of the
//     object, and a state that began to be read earlier never replaces a later one. The result does
//     not depend on the order and the number of events. There are two exceptions. Rules of a
//     programme that depend on the sales of other customers (tiers, fraud rules about speed) use the
//     order in which sales are recorded. And the time of a checkout is the time of its creation,
//     because no event contains the time of its completion. The payments of a customer can therefore
//     be numbered in another order if the customer pays an older checkout after a newer one.
//   - A sale that the merchant's server has reported under one of the processor's ids is
//     not recorded again.
//   - Keys and signing secrets are stored encrypted and never returned. Logs and errors
//     contain no text from the processor.
//
// The package contains no code for a particular processor. Each processor implements the interface Processor.
package processor
