// Package stripe implements processor.Processor with the API of Stripe.
//
// An event of Stripe only says which object changed. Read returns the current state of that
// object. It uses the object in the event only if the state is final and the event has the
// API version of this package; otherwise it reads the object from Stripe. The facts that it
// returns therefore do not depend on the order and the number of the events.
//
// The package guarantees:
//   - An error contains no key, no secret and no text of Stripe's messages.
//   - Amounts are converted from Stripe's minor units to those of ISO 4217.
//   - A result of a list is used only if it belongs to the requested object.
//   - Repeated calls of CreatePromotionCode with the same idempotency key create one coupon
//     and one promotion code.
//
// The package has these limits:
//   - It does not store anything and does not remember which events it has read.
//   - It does not wait after a rate limit. The caller repeats the call later.
//   - It reads at most 1,000 sessions and 1,000 invoices of a customer, the newest.
//   - Read returns no fees. AddCharges reads the fee of one sale.
package stripe
