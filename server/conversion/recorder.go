package conversion

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

const (
	// maxRecordBatch is the maximum number of conversions in one transaction.
	maxRecordBatch = 64
	// recordConcurrency is the maximum number of these transactions that run at the same time.
	// With more transactions, each would have fewer conversions but need the same CPU time.
	recordConcurrency = 1
	recordTimeout     = 30 * time.Second
)

// report is a report and its function decide, which makes the decision from the inputs that
// were found. A failed transaction is repeated, and then calls decide again.
type report struct {
	conversions.Report
	decide func(found attribution.Inputs) (attribution.Decision, *commission.Commission, error)
}

// recorder records the reports that arrive at the same time in one transaction.
type recorder struct {
	db      *postgres.DB
	reports postgres.Grouper[*report]
}

func newRecorder(db *postgres.DB) *recorder {
	c := &recorder{db: db}
	c.reports = postgres.Grouper[*report]{
		DB: db, MaxCalls: maxRecordBatch, MaxGroups: recordConcurrency, Timeout: recordTimeout, Exclusive: exclusiveKeys, Work: c.recordBatch,
	}
	return c
}

// record decides about a report and stores the conversion with all its effects. The caller
// provides most inputs of the decision. The promo code, the customer, early refunds, facts
// for the fraud rules and exchange rates are read in the transaction.
//
// Reports that arrive at the same time share a transaction, but each has its own result. If a
// report fails, it is removed from its batch, and the others commit. If the response to COMMIT
// is lost, nothing is repeated, and all callers receive an error: the outcome of their reports
// is unknown. The outcome is also unknown if ctx ends before the result is known.
//
// Errors: the errors of decide; CONVERSION_DUPLICATE if the external id is already recorded;
// IDEMPOTENCY_KEY_REUSED. In these cases nothing is stored.
func (c *recorder) record(ctx context.Context, r *report) error {
	r.Trace = spans.Reference(ctx)
	if err := c.reports.Do(ctx, r); err != nil {
		return err
	}
	return r.Err
}

// exclusiveKeys returns the keys of a report. No other report of the same batch may
// have one of these keys. Conversions of the same customer, buyer or promo code are
// therefore decided one after another. If a sale is reported under two of its ids, the
// second report is a duplicate only after the first has been recorded.
func exclusiveKeys(r *report) []postgres.ExclusiveKey {
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

// recordBatch records reports in one transaction on a connection of pool. No two reports
// have the same exclusive key. If a report is refused, the others are recorded. A returned
// error applies to the whole batch: if committing is false, nothing is stored, and if it is
// true, the outcome is unknown.
func (c *recorder) recordBatch(ctx context.Context, pool *pgxpool.Pool, all []*report) (committing bool, err error) {
	// All batches lock shared rows in the same order.
	slices.SortFunc(all, func(a, b *report) int {
		return cmp.Or(a.Conversion.Compare(b.Conversion.Scope), cmp.Compare(a.Conversion.ExternalTransactionID, b.Conversion.ExternalTransactionID))
	})
	batch := make([]*conversions.Report, len(all))
	for i, r := range all {
		batch[i] = &r.Report
	}
	err = c.db.InTxOn(ctx, pool, func(tx *postgres.Tx) error {
		committing = false
		if err := conversions.LockReports(ctx, tx, batch); err != nil {
			return err
		}
		decideBatch(all)
		if err := conversions.InsertReports(ctx, tx, batch); err != nil {
			return err
		}
		for _, r := range batch {
			if !r.Open() || r.Key == nil {
				continue
			}
			recorded := r.Recorded
			response, err := conversion.OutcomeOf(recorded.Conversion, recorded.Decision, recorded.Commission).Encode()
			if err != nil {
				return err
			}
			r.Response = response
		}
		if err := conversions.FinishReports(ctx, tx, batch); err != nil {
			return err
		}
		committing = true
		return nil
	})
	return committing, err
}

// decideBatch decides about the open reports of a batch, one after the other. The fraud rules
// use the number of the participant's conversions in the last hour. The conversions of the
// batch are not stored yet, so the database cannot count them.
func decideBatch(all []*report) {
	type attributed struct {
		participant affiliate.ParticipantID
		at          time.Time
	}
	var earlier []attributed
	for _, r := range all {
		if !r.Open() {
			continue
		}
		found, at := r.Found(), r.Conversion.OccurredAt
		for _, other := range earlier {
			if facts, ok := found.FraudFacts[other.participant]; ok && other.at.After(at.Add(-time.Hour)) && !other.at.After(at) {
				facts.ConversionsInHour++
				found.FraudFacts[other.participant] = facts
			}
		}
		if d := r.decideOnce(found); r.Open() && !r.Duplicate && d.Attributed {
			earlier = append(earlier, attributed{*d.Participant, at})
		}
	}
}

// decideOnce calls decide and sets its result. A panic becomes the error of this report
// alone, because the reports of a batch do not depend on each other.
func (r *report) decideOnce(found attribution.Inputs) (d attribution.Decision) {
	defer func() {
		if p := recover(); p != nil {
			r.Err = fmt.Errorf("decide about conversion %s: panic: %v\n%s", r.Conversion.ID, p, debug.Stack())
		}
	}()
	d, earned, err := r.decide(found)
	r.Decide(d, earned)
	r.Err = err
	return d
}

// keyFrom returns the Idempotency-Key of a request, or nil if the request has no key.
func (s *Service) keyFrom(ctx context.Context, method string, req proto.Message, now time.Time) (*affiliate.IdempotencyKey, error) {
	key, ok, present := server.IdempotencyKeyFrom(ctx)
	switch {
	case !present:
		return nil, nil
	case !ok:
		return nil, server.ErrIdempotencyKeyMalformed
	}
	fingerprints := affiliate.HashKeys(s.hasher.keys).Digests(func(key []byte) []byte { return server.Fingerprint(key, req) })
	return &affiliate.IdempotencyKey{Method: method, Key: key, Fingerprint: fingerprints.First(), Earlier: fingerprints[1:], At: now}, nil
}

// replayedResponse returns the response to a repeated request. Its parameters are the
// results of the call that has read the encoded outcome of the first request.
func replayedResponse(stored []byte, err error) (response *affiliatev1.ReportConversionResponse, replayed bool, _ error) {
	if err != nil {
		return nil, false, err
	}
	outcome, err := conversion.DecodeReportOutcome(stored)
	if err != nil {
		return nil, false, fmt.Errorf("outcome stored under an idempotency key: %w", err)
	}
	return responseOf(outcome), true, nil
}
