package conversion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// insertConversions inserts the conversions whose external id does not exist yet and
// returns their ids. Earlier checks find most duplicates, but only this statement finds
// all. If several transactions insert the same external id at the same time, exactly one
// of them succeeds.
var insertConversions = postgres.RowsOf[newConversionRow](`
	insert into conversions ({columns})
	values {rows}
	on conflict (workspace_id, mode, external_transaction_id) do nothing
	returning id`)

type newConversionRow struct {
	conversion.Conversion
	conversion.CurrentDecision
	FraudScore   int
	FraudSignals []fraud.Signal
}

// rowOfConversion returns the row to insert for a conversion and the decision about it.
func rowOfConversion(c conversion.Conversion, d attribution.Decision) newConversionRow {
	return newConversionRow{c, conversion.DecisionInForce(d), fraud.Score(d.Trace.Fraud), signalsOf(d)}
}

// signalsOf returns the fraud signals of a decision. The result is not nil, because it is stored
// as JSON.
func signalsOf(d attribution.Decision) []fraud.Signal {
	return append([]fraud.Signal{}, d.Trace.Fraud...)
}

var insertDecisions = postgres.RowsOf[newDecision](`insert into attribution_decisions ({columns}) values {rows}`)

type newDecision struct {
	affiliate.Scope
	attribution.Decision
}

// queueDecisions adds the decisions of outcomes to a batch.
func queueDecisions(batch *pgx.Batch, all ...outcome) {
	rows := make([]newDecision, len(all))
	for i, o := range all {
		rows[i] = newDecision{o.conversion.Scope, o.decision}
	}
	insertDecisions.Queue(batch, rows...)
}

// claimKeys claims the idempotency keys of the reports of a batch. It skips reports
// without a key. It sets the stored response or the error of each report whose key was
// claimed before.
func claimKeys(ctx context.Context, tx *postgres.Tx, all []*Report) error {
	keyed := slices.DeleteFunc(slices.Clone(all), func(r *Report) bool { return r.Key == nil })
	if len(keyed) == 0 {
		return nil
	}
	slices.SortFunc(keyed, func(a, b *Report) int {
		return cmp.Or(a.Conversion.Compare(b.Conversion.Scope), cmp.Compare(a.Key.Method, b.Key.Method), cmp.Compare(a.Key.Key, b.Key.Key))
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
		r.replay = stored.Response
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
