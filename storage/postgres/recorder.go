package postgres

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// maxRecordBatch bounds the conversions of one transaction.
	maxRecordBatch = 64
	// recordConcurrency is how many such transactions are at work at the same time in a
	// process. More of them are smaller ones, and use no less of the processor.
	recordConcurrency     = 1
	recordTimeout = 30 * time.Second
)

// RecordConversion decides about a conversion, stores it with the decision, the
// commission that it earns and all that follows, and tells the world. The inputs
// come with everything but what is found here, under locks that last until all is
// stored: the promo code, the customer, refunds that came early, and the facts
// that fraud rules and currencies need.
//
// Conversions that are reported at the same time share a transaction; each has its
// own outcome. One that is poison harms none of the others. When COMMIT was sent,
// and its answer lost, nothing is repeated: all are told that it is unknown what
// became of them. Errors: what the report's Decide refuses; CONVERSION_DUPLICATE,
// when the external id is taken; IDEMPOTENCY_KEY_REUSED. Nothing is stored then.
// Whoever does not wait for the end cannot know either.
func (s *Store) RecordConversion(ctx context.Context, report affiliate.Report) (affiliate.ReportResult, error) {
	r := &pendingReport{Report: report}
	if err := s.recorder.do(ctx, r); err != nil {
		return affiliate.ReportResult{}, err
	}
	return r.recorded, r.err
}

// exclusiveKeys is what a report wants for itself alone. Conversions of one customer,
// buyer or promo code are decided one after the other.
func exclusiveKeys(r *pendingReport) []exclusiveKey {
	c := r.Conversion
	wants := []exclusiveKey{{c.Scope, "conversion", c.ExternalTransactionID}}
	if c.CustomerRef != nil {
		wants = append(wants, exclusiveKey{c.Scope, "customer", *c.CustomerRef})
	}
	if c.CustomerEmailHash != nil {
		wants = append(wants, exclusiveKey{c.Scope, "buyer", string(c.CustomerEmailHash)})
	}
	if c.PromoCode != nil {
		wants = append(wants, exclusiveKey{c.Scope, "promo code", *c.PromoCode})
	}
	if r.Key != nil {
		wants = append(wants, exclusiveKey{c.Scope, r.Key.Method, r.Key.Key})
	}
	return wants
}
