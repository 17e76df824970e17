package postgres

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/affiliate"
)

// pendingReport is a report on its way into the database.
type pendingReport struct {
	affiliate.Report
	reportState
}

// reportState is what becomes of a report in a transaction, which may start over. One
// with an error is out of its batch, and so is one that was answered under its key
// before (Recorded.Replay).
type reportState struct {
	recorded affiliate.ReportResult
	err      error

	keyClaimed bool // its key, by this transaction
	duplicate   bool // its external id, before
	outcome
	refunds refundChanges
	changes []affiliate.CommissionChange
}

func (r *pendingReport) dropped() bool { return r.err != nil || r.recorded.Replay != nil }

// remaining are those of a batch that are not out of it.
func remaining(batch []*pendingReport) []*pendingReport {
	return slices.DeleteFunc(slices.Clone(batch), (*pendingReport).dropped)
}

// recordBatch decides about conversions, stores them with the decisions, the
// commissions that they earn and all that follows, and tells the world: in one
// transaction, and in as many round trips for many as for one. No two of them may
// want the same (exclusiveKeys). A refusal is one report's own: the others go on
// without it. An error is about all, and nothing is stored then; committing says
// that COMMIT may have been sent, so that this is not known.
func (s *Store) recordBatch(ctx context.Context, pool *pgxpool.Pool, all []*pendingReport) (committing bool, err error) {
	// All batches take what others may want too in one order.
	slices.SortFunc(all, func(a, b *pendingReport) int {
		return cmp.Or(a.Conversion.Scope.Compare(b.Conversion.Scope), cmp.Compare(a.Conversion.ExternalTransactionID, b.Conversion.ExternalTransactionID))
	})
	err = s.inTx(ctx, pool, func(tx *Tx) error {
		committing = false
		for _, r := range all {
			r.reportState = reportState{outcome: outcome{signals: signals{conversion: r.Conversion, inputs: r.Inputs}}}
		}
		if err := claimKeys(ctx, tx, all); err != nil {
			return err
		}
		if err := decideBatch(ctx, tx, remaining(all)); err != nil {
			return err
		}
		if err := insertBatch(ctx, tx, remaining(all)); err != nil {
			return err
		}
		if err := s.writeOutcomes(ctx, tx, all); err != nil {
			return err
		}
		committing = true
		return nil
	})
	return committing, err
}

// decideBatch completes the inputs with what is found under locks that last
// until all is stored, and asks the reports' Decide.
func decideBatch(ctx context.Context, tx *Tx, batch []*pendingReport) error {
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
	if err := tx.SendBatch(ctx, facts).Close(); err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	for i, r := range batch {
		r.countEarlierInBatch(batch[:i])
		r.decide()
	}
	return nil
}

// countEarlierInBatch counts the conversions of one batch that are not stored yet among
// those of an hour, as if they had been recorded one after the other.
func (r *pendingReport) countEarlierInBatch(before []*pendingReport) {
	for _, other := range before {
		if other.dropped() || other.duplicate || !other.decision.Attributed {
			continue
		}
		of := *other.decision.Participant
		facts, ok := r.inputs.FraudFacts[of]
		if at := other.conversion.OccurredAt; ok && at.After(r.conversion.OccurredAt.Add(-time.Hour)) && !at.After(r.conversion.OccurredAt) {
			facts.ConversionsInHour++
			r.inputs.FraudFacts[of] = facts
		}
	}
}

// decide turns a panic into the report's own failure: of the conversions of a
// batch none depends on another.
func (r *pendingReport) decide() {
	defer func() {
		if p := recover(); p != nil {
			r.err = fmt.Errorf("decide about conversion %s: panic: %v\n%s", r.Conversion.ID, p, debug.Stack())
		}
	}()
	r.decision, r.commission, r.err = r.Decide(r.inputs)
}

// selectDuplicates tells which external ids are taken: one probe each. The order
// leaves one index to the planner, also while the table is too small for telling
// them apart: connections keep their plans.
const selectDuplicates = `
	select t.id
	from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as t (workspace_id, mode, external_transaction_id, id)
	cross join lateral (
		select from conversions c
		where c.workspace_id = t.workspace_id and c.mode = t.mode and c.external_transaction_id between t.external_transaction_id and t.external_transaction_id
		order by c.external_transaction_id
		limit 1) as c`

// queueDuplicates notes what is a duplicate already. Whatever becomes one from now on
// shows when it is inserted.
func queueDuplicates(batch *pgx.Batch, all []*pendingReport) {
	queueForReports(batch, selectDuplicates, all, func(r *pendingReport) { r.duplicate = true })
}

// queueForReports runs a statement that picks some of the reports by their external ids.
func queueForReports(batch *pgx.Batch, statement string, all []*pendingReport, picked func(*pendingReport)) {
	var workspaces []affiliate.WorkspaceID
	var modes []affiliate.Mode
	var external []string
	var ids []affiliate.ConversionID
	for _, r := range all {
		c := r.Conversion
		workspaces, modes = append(workspaces, c.Scope.Workspace), append(modes, c.Scope.Mode)
		external, ids = append(external, c.ExternalTransactionID), append(ids, c.ID)
	}
	batch.Queue(statement, workspaces, modes, external, ids).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ConversionID])
		for _, r := range all {
			if slices.Contains(found, r.Conversion.ID) {
				picked(r)
			}
		}
		return err
	})
}

// insertBatch inserts what is no duplicate, and applies refunds that came
// earlier.
func insertBatch(ctx context.Context, tx *Tx, batch []*pendingReport) error {
	rows := make([]newConversionRow, 0, len(batch))
	for _, r := range batch {
		row, err := insertedConversion(r.Conversion, r.decision)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	inserted, refunded := map[affiliate.ConversionID]bool{}, map[affiliate.ConversionID]bool{}
	statements := &pgx.Batch{}
	for _, q := range insertConversions.queue(statements, rows...) {
		q.Query(func(rows pgx.Rows) error {
			ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ConversionID])
			for _, id := range ids {
				inserted[id] = true
			}
			return err
		})
	}
	queueForReports(statements, selectParkedFor, batch, func(r *pendingReport) { refunded[r.Conversion.ID] = true })
	if err := tx.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("conversions: %w", err)
	}
	for _, r := range batch {
		c := r.Conversion
		r.refunds = refundChanges{sale: c, decision: r.decision, at: c.CreatedAt}
		switch {
		case !inserted[c.ID]:
			r.err = affiliate.Refuse(affiliate.ReasonConversionDuplicate)
			continue
		case refunded[c.ID]:
			early, err := lockParked(ctx, tx, c.Scope, c.ExternalTransactionID)
			if err != nil {
				return err
			}
			for _, refund := range early {
				r.refunds.applyParked(refund)
			}
		}
		var err error
		if r.changes, err = affiliate.BeginCommission(r.commission, r.refunds.sale, affiliate.System, nil, c.CreatedAt); err != nil {
			return err
		}
		r.recorded = affiliate.ReportResult{Conversion: r.refunds.sale, Decision: r.decision, Commission: commissionAfter(r.changes)}
	}
	return nil
}

// queueUndo takes back what a transaction has done so far for a report that is out
// of it.
func (r *pendingReport) queueUndo(batch *pgx.Batch) {
	if r.keyClaimed {
		queueRelease(batch, r.Conversion.Scope, *r.Key)
	}
	if r.newCustomer {
		batch.Queue(forgetCustomer, r.Conversion.Scope.Workspace, r.Conversion.Scope.Mode, r.Conversion.CustomerRef)
	}
}

const awaitClick = `
	insert into awaited_clicks (workspace_id, click_id, conversion_id, mode, created_at, expires_at)
	values ($1, $2, $3, $4, $5, $6)`

// writeOutcomes writes what follows from a batch. The outcomes of the reports that are
// recorded are stored under their keys; the keys of the others are released.
func (s *Store) writeOutcomes(ctx context.Context, tx *Tx, all []*pendingReport) error {
	batch := &pgx.Batch{}
	var outcomes []outcome
	var changes []affiliate.CommissionChange
	var events []affiliate.Event
	var jobs []affiliate.Job
	for _, r := range all {
		c := r.Conversion
		if r.dropped() {
			r.queueUndo(batch)
			continue
		}
		outcomes, changes = append(outcomes, r.outcome), append(changes, r.changes...)
		told := append([]affiliate.Event{c.Event(affiliate.EventConversionCreated, r.decision, c.CreatedAt)}, r.refunds.events...)
		events = append(events, outcomeEvents(told, c, r.decision, r.changes)...)
		jobs = append(jobs, redemptionJobs(c.Scope, r.inputs, r.decision)...)
		if r.AwaitUntil != nil {
			batch.Queue(awaitClick, c.Scope.Workspace, c.Click, c.ID, c.Scope.Mode, c.CreatedAt, *r.AwaitUntil)
		}
	}
	if err := queueDecisions(batch, outcomes...); err != nil {
		return err
	}
	if err := queueOutcomes(batch, outcomes...); err != nil {
		return err
	}
	if err := tx.queueEvents(batch, events...); err != nil {
		return err
	}
	for _, r := range remaining(all) {
		r.refunds.queue(batch)
		if r.Key == nil {
			continue
		}
		stored, err := r.recorded.Outcome().Encode()
		if err != nil {
			return err
		}
		queueResponse(batch, r.Conversion.Scope, r.Key, stored)
	}
	queueSettlement(batch, changes...)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("conversions: %w", err)
	}
	return tx.Enqueue(ctx, jobs...)
}

// commissionAfter is a commission as its changes leave it; nil without any.
func commissionAfter(changes []affiliate.CommissionChange) *affiliate.Commission {
	if len(changes) == 0 {
		return nil
	}
	return &changes[len(changes)-1].After
}

// outcome is what was decided about a conversion by its signals, and the
// commission that it earns, as it begins.
type outcome struct {
	signals
	decision   affiliate.Decision
	commission *affiliate.Commission // nil: nothing is earned
}

// queueOutcomes adds what decisions by signals cause beside the conversions
// themselves: commissions, suspicions, redemptions, bindings, and counts. What
// follows from the commissions (queueSettlement) is the caller's.
func queueOutcomes(batch *pgx.Batch, all ...outcome) error {
	var commissions []affiliate.Commission
	var deltas []affiliate.StatsDelta
	for _, o := range all {
		if o.commission != nil {
			commissions = append(commissions, *o.commission)
		}
		if o.decision.Attributed {
			deltas = append(deltas, o.decision.StatsDeltas(o.conversion, o.commission)...)
		}
	}
	queueCommissions(batch, commissions...)
	queueDeltas(batch, deltas...)
	for _, o := range all {
		c, d := o.conversion, o.decision
		if err := queueFraudEvent(batch, c, d, o.commission); err != nil {
			return err
		}
		if d.Redeems != nil {
			queueRedemption(batch, c.Scope, *d.Redeems)
		}
		if d.Attributed && c.CustomerRef != nil {
			queueBindingAndPayment(batch, o)
		}
	}
	return nil
}

// queueBindingAndPayment binds the customer of an attributed conversion, unless somebody has
// brought them before, and counts a payment.
func queueBindingAndPayment(batch *pgx.Batch, o outcome) {
	c, d := o.conversion, o.decision
	if o.inputs.Customer.Binding == nil {
		earner := attributedEarner(o.inputs, d)
		binding := affiliate.Binding{
			BoundAt: c.OccurredAt, SignalAt: c.OccurredAt, WindowEndsAt: affiliate.WindowEnd(c.OccurredAt, earner.WindowDays), Earner: earner,
		}
		if *d.Method == affiliate.ByClick {
			binding.SignalAt = o.inputs.FoundClick.ReceivedAt
		}
		queueBinding(batch, c, binding)
	}
	if d.RecurringIndex != nil {
		batch.Queue(countPayment, c.Scope.Workspace, c.Scope.Mode, c.CustomerRef, d.Program, c.OccurredAt)
	}
}

// attributedEarner is whom a decision attributes to.
func attributedEarner(in affiliate.AttributionInputs, d affiliate.Decision) affiliate.Earner {
	switch *d.Method {
	case affiliate.ByClick:
		return in.FoundClick.Earner
	case affiliate.ByPromoCode:
		return in.FoundPromoCode.Earner
	case affiliate.ByCustomer:
		return in.Customer.Binding.Earner
	case affiliate.ByHand:
		return *in.Assigned
	}
	panic("postgres: nobody is found by " + string(*d.Method))
}

// outcomeEvents are the events of a conversion and those of what it causes.
func outcomeEvents(events []affiliate.Event, c affiliate.Conversion, d affiliate.Decision, changes []affiliate.CommissionChange) []affiliate.Event {
	for _, change := range changes {
		events = append(events, change.Events()...)
	}
	return append(events, fraudEvents(c, d)...)
}

// redemptionJobs tells the edge of a code whose last redemption a decision takes: it must
// not be offered any longer.
func redemptionJobs(scope affiliate.Scope, in affiliate.AttributionInputs, d affiliate.Decision) []affiliate.Job {
	code := in.FoundPromoCode
	if d.Redeems == nil || code.MaxRedemptions == nil || code.Redemptions+1 < *code.MaxRedemptions {
		return nil
	}
	return []affiliate.Job{affiliate.SyncDirectory{Workspace: scope.Workspace, Participant: &code.Earner.Participant}}
}
