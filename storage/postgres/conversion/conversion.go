// Package conversion has the SQL of conversions and of the inputs of their decisions. It records
// reports in batches, reads and locks the signals, and stores decisions, refunds, reversals and
// late attributions. A statement that changes a conversion runs after the locks of its signals.
package conversion

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// Report is a reported conversion that a transaction records. The transaction calls
// LockReports, InsertReports and FinishReports with a batch of reports. After LockReports, the
// caller decides about each report that is Open. After InsertReports, it sets the Response of
// each Open report that has a Key.
type Report struct {
	Conversion conversion.Conversion
	Inputs     attribution.Inputs
	// AwaitUntil is the time until which the conversion waits for its click, if the click has
	// not arrived yet; nil means that it does not wait.
	AwaitUntil *time.Time
	Key        *affiliate.IdempotencyKey // nil if the caller sent none
	// Aliases has the processor's ids of the sale. If another conversion has one of them, the
	// report is a duplicate.
	Aliases []string
	Trace   []byte // the recorded span of the call (affiliate.Event.Trace)

	// Response is stored under Key.
	Response []byte

	ReportState
}

// Recorded is a recorded conversion. Refunds that arrived before it are applied.
type Recorded struct {
	Conversion conversion.Conversion
	Decision   attribution.Decision
	Commission *commission.Commission // nil if nothing is earned
}

// ReportState is the state of a report within one attempt of the transaction. Each attempt
// starts with a new state. A report is dropped from its batch if it has an error, or if a
// response is already stored under its idempotency key.
type ReportState struct {
	Err      error    // why the report was refused or has failed
	Replay   []byte   // the response that is stored under the key of a repeated report
	Recorded Recorded // the result of InsertReports
	// Duplicate says that LockReports has found a conversion with the external id.
	// InsertReports detects a conversion that another transaction records later.
	Duplicate bool

	keyClaimed bool // this transaction inserted the idempotency key
	aliased    int  // number of aliases that this transaction inserted
	outcome
	refunds conversion.Refunds
	changes []commission.Change
}

// Open reports whether the report can still be recorded. It is false if the report was refused
// or has failed, or if a response is already stored under its key.
func (r *Report) Open() bool { return r.Err == nil && r.Replay == nil }

// Found returns Inputs with everything that LockReports has found.
func (r *Report) Found() attribution.Inputs { return r.inputs }

// Decide sets the decision about the report and the commission that it earns, which may be nil.
func (r *Report) Decide(d attribution.Decision, earned *commission.Commission) {
	r.decision, r.commission = d, earned
}

// open returns the reports of a batch that are Open.
func open(batch []*Report) []*Report {
	return slices.DeleteFunc(slices.Clone(batch), func(r *Report) bool { return !r.Open() })
}

// LockReports begins to record a batch of reports, which is sorted by scope and external id. It claims
// their keys and aliases, locks their signals and reads everything else that decisions need. The number of
// round trips does not depend on the number of reports, but each key that was claimed before needs one more. No
// two reports of a batch may be about the same conversion, customer, buyer, promo code or key.
func LockReports(ctx context.Context, tx *postgres.Tx, all []*Report) error {
	for _, r := range all {
		r.ReportState = ReportState{outcome: outcome{signals: signals{conversion: r.Conversion, inputs: r.Inputs}}}
	}
	if err := claimKeys(ctx, tx, all); err != nil {
		return err
	}
	if err := claimAliases(ctx, tx, open(all)); err != nil {
		return err
	}
	return readInputs(ctx, tx, open(all))
}

// readInputs completes the inputs of each report, and locks what it reads.
func readInputs(ctx context.Context, tx *postgres.Tx, batch []*Report) error {
	all := make([]*signals, len(batch))
	for i, r := range batch {
		all[i] = &r.signals
	}
	if err := lockSignals(ctx, tx, all...); err != nil {
		return err
	}
	facts := &pgx.Batch{}
	queueDuplicates(facts, batch)
	queueFacts(facts, all...)
	return postgres.Send(ctx, tx, facts)
}

// selectDuplicates returns the conversion ids of the given reports whose external id is already
// recorded. It searches the index once per report. With the order by clause, the planner can
// use only one index. Without it, several indexes look equally good while the table is small,
// and connections keep their plans.
const selectDuplicates = `
	select t.id
	from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as t (workspace_id, mode, external_transaction_id, id)
	cross join lateral (
		select from conversions c
		where c.workspace_id = t.workspace_id and c.mode = t.mode and c.external_transaction_id between t.external_transaction_id and t.external_transaction_id
		order by c.external_transaction_id
		limit 1) as c`

// queueDuplicates queues a statement that marks reports that are already recorded. The insert of
// the reports detects a conversion that is recorded after this statement.
func queueDuplicates(batch *pgx.Batch, all []*Report) {
	queueForReports(batch, selectDuplicates, all, func(r *Report) { r.Duplicate = true })
}

// queueForReports queues a statement that selects some of the reports by their external
// ids. It calls onSelected for each selected report.
func queueForReports(batch *pgx.Batch, statement string, all []*Report, onSelected func(*Report)) {
	var workspaces []affiliate.WorkspaceID
	var modes []affiliate.Mode
	var externalIDs []string
	var ids []affiliate.ConversionID
	for _, r := range all {
		c := r.Conversion
		workspaces, modes = append(workspaces, c.Workspace), append(modes, c.Mode)
		externalIDs, ids = append(externalIDs, c.ExternalTransactionID), append(ids, c.ID)
	}
	batch.Queue(statement, workspaces, modes, externalIDs, ids).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ConversionID])
		for _, r := range all {
			if slices.Contains(found, r.Conversion.ID) {
				onSelected(r)
			}
		}
		return err
	})
}

// InsertReports inserts the conversions of the Open reports that are not duplicates, and
// applies their parked refunds, with one more round trip for each conversion that has any.
func InsertReports(ctx context.Context, tx *postgres.Tx, all []*Report) error {
	batch := open(all)
	rows := make([]newConversionRow, len(batch))
	for i, r := range batch {
		rows[i] = rowOfConversion(r.Conversion, r.decision)
	}
	inserted, refunded := map[affiliate.ConversionID]bool{}, map[affiliate.ConversionID]bool{}
	statements := &pgx.Batch{}
	for _, q := range insertConversions.Queue(statements, rows...) {
		q.Query(func(rows pgx.Rows) error {
			ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ConversionID])
			for _, id := range ids {
				inserted[id] = true
			}
			return err
		})
	}
	queueErasedSales(tx, statements, batch)
	queueForReports(statements, selectParkedFor, batch, func(r *Report) { refunded[r.Conversion.ID] = true })
	if err := postgres.Send(ctx, tx, statements); err != nil {
		return err
	}
	for _, r := range batch {
		c := r.Conversion
		r.refunds = conversion.Refunds{Conversion: c, Decision: r.decision, At: c.CreatedAt}
		switch {
		case !inserted[c.ID]:
			r.Err = affiliate.Refuse(affiliate.ReasonConversionDuplicate)
			continue
		case refunded[c.ID]:
			var early []conversion.Refund
			refunds := &pgx.Batch{}
			queueParked(refunds, c.Scope, c.ExternalTransactionID, conversion.RefundID{}, &early)
			if err := postgres.Send(ctx, tx, refunds); err != nil {
				return err
			}
			r.refunds.ApplyParked(early...)
		}
		var err error
		if r.changes, err = conversion.BeginCommission(r.commission, r.refunds.Conversion, affiliate.System, nil, c.CreatedAt); err != nil {
			return err
		}
		r.Recorded = Recorded{Conversion: r.refunds.Conversion, Decision: r.decision, Commission: commissionAfter(r.changes)}
	}
	return nil
}

// queueUndo queues the deletion of the rows of a dropped report.
func (r *Report) queueUndo(batch *pgx.Batch) {
	if r.keyClaimed {
		postgres.QueueRelease(batch, r.Conversion.Scope, *r.Key)
	}
	if r.aliased > 0 {
		batch.Queue(releaseAliases, r.Conversion.Workspace, r.Conversion.Mode, r.Conversion.ID)
	}
	if r.newCustomer {
		batch.Queue(deleteCustomer, r.Conversion.Workspace, r.Conversion.Mode, r.Conversion.CustomerRef)
	}
}

const awaitClick = `
	insert into awaited_clicks (workspace_id, click_id, conversion_id, mode, created_at, expires_at)
	values ($1, $2, $3, $4, $5, $6)`

// FinishReports stores everything that follows from the recorded conversions, with their
// responses, and deletes the keys, aliases and new customers of the dropped reports.
func FinishReports(ctx context.Context, tx *postgres.Tx, all []*Report) error {
	batch := &pgx.Batch{}
	var outcomes []outcome
	var changes []commission.Change
	var events []affiliate.Event
	var jobs []affiliate.Job
	for _, r := range all {
		c := r.Conversion
		if !r.Open() {
			r.queueUndo(batch)
			continue
		}
		outcomes, changes = append(outcomes, r.outcome), append(changes, r.changes...)
		recorded := append([]affiliate.Event{c.Event(affiliate.EventConversionCreated, r.decision, c.CreatedAt)}, r.refunds.Events...)
		for _, event := range outcomeEvents(recorded, c, r.decision, r.changes) {
			event.Trace = r.Trace
			events = append(events, event)
		}
		jobs = append(jobs, redemptionJobs(c.Scope, r.inputs, r.decision)...)
		if c.Source == conversion.SourceAPI && len(r.Aliases) > 0 {
			jobs = append(jobs, processor.ReverseConversion{Workspace: c.Workspace, Mode: c.Mode, Conversion: c.ID})
		}
		if c.CustomerLabel != nil {
			batch.Queue(labelCustomer, c.Workspace, c.Mode, []string{*c.CustomerRef}, true, c.CustomerLabel)
		}
		if r.AwaitUntil != nil {
			batch.Queue(awaitClick, c.Workspace, c.Click, c.ID, c.Mode, c.CreatedAt, *r.AwaitUntil)
		}
	}
	recorded := map[affiliate.Scope][]affiliate.ConversionID{}
	for _, o := range outcomes {
		recorded[o.conversion.Scope] = append(recorded[o.conversion.Scope], o.conversion.ID)
	}
	for scope, ids := range recorded {
		postgres.QueueConversionLog(batch, scope, ids...)
	}
	queueDecisions(batch, outcomes...)
	queueOutcomes(batch, outcomes...)
	if err := postgres.QueueEvents(tx, batch, events...); err != nil {
		return err
	}
	for _, r := range open(all) {
		if len(r.refunds.Applied) > 0 {
			queueReversal(batch, r.refunds.Conversion, r.refunds.Applied, r.refunds.Deltas)
		}
		postgres.QueueResponse(batch, r.Conversion.Scope, r.Key, r.Response)
	}
	commissions.QueueChanges(batch, changes...)
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return err
	}
	return tx.Enqueue(ctx, jobs...)
}
