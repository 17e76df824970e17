package postgres

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// maxRecordBatch bounds the conversions of one transaction.
	maxRecordBatch = 64
	// recordConcurrency is the number of these transactions that a process runs at the
	// same time. More transactions would each have fewer conversions and would not save
	// CPU time.
	recordConcurrency = 1
	recordTimeout     = 30 * time.Second
)

// RecordConversion decides about a conversion. It stores the conversion with the
// decision, the commission that it earns, the events and everything else that follows.
// The caller provides the inputs of the decision except those that are read under locks
// here: the promo code, the customer, refunds that arrived early, and the facts that
// fraud rules and currencies need.
//
// Conversions that are reported at the same time share a transaction. Each has its own
// result, and a report that fails is removed from its batch; the others commit. If the
// response to COMMIT is lost, nothing is repeated, and all callers receive an error:
// the outcome of their reports is unknown. The outcome is also unknown if ctx ends
// before the result is known.
//
// Errors: the errors of the report's Decide function; CONVERSION_DUPLICATE if the
// external id is already recorded; IDEMPOTENCY_KEY_REUSED. In these cases nothing is
// stored.
func (s *Store) RecordConversion(ctx context.Context, report affiliate.Report) (affiliate.ReportResult, error) {
	r := &pendingReport{Report: report}
	if err := s.recorder.do(ctx, r); err != nil {
		return affiliate.ReportResult{}, err
	}
	return r.recorded, r.err
}

// exclusiveKeys returns the keys that only one report of a batch may have. Conversions
// of the same customer, buyer or promo code are therefore decided one after the other.
func exclusiveKeys(r *pendingReport) []exclusiveKey {
	c := r.Conversion
	keys := []exclusiveKey{{c.Scope, "conversion", c.ExternalTransactionID}}
	if c.CustomerRef != nil {
		keys = append(keys, exclusiveKey{c.Scope, "customer", *c.CustomerRef})
	}
	if c.CustomerEmailHash != nil {
		keys = append(keys, exclusiveKey{c.Scope, "buyer", string(c.CustomerEmailHash)})
	}
	if c.PromoCode != nil {
		keys = append(keys, exclusiveKey{c.Scope, "promo code", *c.PromoCode})
	}
	if r.Key != nil {
		keys = append(keys, exclusiveKey{c.Scope, r.Key.Method, r.Key.Key})
	}
	return keys
}
