package conversion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/postgres"
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

// Recorder records conversions. Its methods are safe for concurrent use.
type Recorder struct {
	reports postgres.Grouper[*pendingReport]
}

// NewRecorder returns a Recorder that uses db.
func NewRecorder(db *postgres.DB) *Recorder {
	return &Recorder{postgres.Grouper[*pendingReport]{
		DB: db, MaxCalls: maxRecordBatch, MaxGroups: recordConcurrency, Timeout: recordTimeout, Exclusive: exclusiveKeys,
		Work: func(ctx context.Context, pool *pgxpool.Pool, all []*pendingReport) (bool, error) {
			return recordBatch(ctx, db, pool, all)
		},
	}}
}

// Record decides about a conversion. It stores the conversion with the
// decision, the commission that it earns, the events and everything else that follows.
// The caller provides most inputs of the decision. Record itself reads those
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
func (c *Recorder) Record(ctx context.Context, report conversion.Report) (conversion.ReportResult, error) {
	r := &pendingReport{Report: report, trace: spans.Reference(ctx)}
	if err := c.reports.Do(ctx, r); err != nil {
		return conversion.ReportResult{}, err
	}
	return r.result, r.err
}

// exclusiveKeys returns the keys of a report. No other report of the same batch may
// have one of these keys. Conversions of the same customer, buyer or promo code are
// therefore decided one after another. A sale that is reported under two of its ids is a
// duplicate only after the first report has been recorded.
func exclusiveKeys(r *pendingReport) []postgres.ExclusiveKey {
	c := r.Conversion
	keys := []postgres.ExclusiveKey{{Scope: c.Scope, Kind: "conversion", Name: c.ExternalTransactionID}}
	for _, alias := range r.Aliases {
		keys = append(keys, postgres.ExclusiveKey{Scope: c.Scope, Kind: "alias", Name: alias})
	}
	if c.CustomerRef != nil {
		keys = append(keys, postgres.ExclusiveKey{Scope: c.Scope, Kind: "customer", Name: *c.CustomerRef})
	}
	if c.CustomerEmailHash != nil {
		keys = append(keys, postgres.ExclusiveKey{Scope: c.Scope, Kind: "buyer", Name: string(c.CustomerEmailHash)})
	}
	if c.PromoCode != nil {
		keys = append(keys, postgres.ExclusiveKey{Scope: c.Scope, Kind: "promo code", Name: *c.PromoCode})
	}
	if r.Key != nil {
		keys = append(keys, postgres.ExclusiveKey{Scope: c.Scope, Kind: r.Key.Method, Name: r.Key.Key})
	}
	return keys
}

// claimKeys claims the idempotency keys of the reports of a batch. It skips reports
// without a key. It sets the stored response or the error of each report whose key was
// claimed before.
func claimKeys(ctx context.Context, tx *postgres.Tx, all []*pendingReport) error {
	keyed := slices.DeleteFunc(slices.Clone(all), func(r *pendingReport) bool { return r.Key == nil })
	if len(keyed) == 0 {
		return nil
	}
	slices.SortFunc(keyed, func(a, b *pendingReport) int {
		return cmp.Or(a.Conversion.Scope.Compare(b.Conversion.Scope), cmp.Compare(a.Key.Method, b.Key.Method), cmp.Compare(a.Key.Key, b.Key.Key))
	})
	batch := &pgx.Batch{}
	for _, r := range keyed {
		postgres.QueueClaim(batch, r.Conversion.Scope, *r.Key, &r.keyClaimed)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("claim idempotency keys: %w", err)
	}
	for _, r := range keyed {
		if r.keyClaimed {
			continue
		}
		stored, err := postgres.ReadStored(ctx, tx, r.Conversion.Scope, *r.Key)
		r.result.Replay = stored.Response
		var refusal *affiliate.Error
		switch {
		case errors.As(err, &refusal):
			r.err = err
		case err != nil:
			return err
		}
	}
	return nil
}
