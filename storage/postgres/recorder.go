package postgres

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/spans"
)

const (
	// maxRecordBatch is the maximum number of conversions in one transaction.
	maxRecordBatch = 64
	// recordConcurrency is the number of these transactions that a process runs at the
	// same time. With more of them, each transaction would have fewer conversions, and
	// the CPU time would stay the same.
	recordConcurrency = 1
	recordTimeout     = 30 * time.Second
)

// RecordConversion decides about a conversion. It stores the conversion with the
// decision, the commission that it earns, the events and everything else that follows.
// The caller provides most inputs of the decision. RecordConversion itself reads those
// that need locks: the promo code, the customer, refunds that arrived before the
// conversion, the facts for the fraud rules, and the exchange rates.
//
// Conversions that are reported at the same time share a transaction, but each has its
// own result. If a report fails, it is removed from its batch, and the others commit.
// If the response to COMMIT is lost, nothing is repeated, and all callers receive an
// error: the outcome of their reports is unknown. The outcome is also unknown if ctx
// ends before the result is known.
//
// Errors: the errors of the report's Decide function; CONVERSION_DUPLICATE if the
// external id is already recorded; IDEMPOTENCY_KEY_REUSED. In these cases nothing is
// stored.
func (s *Store) RecordConversion(ctx context.Context, report conversion.Report) (conversion.ReportResult, error) {
	r := &pendingReport{Report: report, trace: spans.Reference(ctx)}
	if err := s.recorder.do(ctx, r); err != nil {
		return conversion.ReportResult{}, err
	}
	return r.result, r.err
}

// exclusiveKeys returns the keys of a report. No other report of the same batch may
// have one of these keys. Conversions of the same customer, buyer or promo code are
// therefore decided one after another. A sale that is reported under two of its ids is a
// duplicate only after the first report has been recorded.
func exclusiveKeys(r *pendingReport) []exclusiveKey {
	c := r.Conversion
	keys := []exclusiveKey{{c.Scope, "conversion", c.ExternalTransactionID}}
	for _, alias := range r.Aliases {
		keys = append(keys, exclusiveKey{c.Scope, "alias", alias})
	}
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
