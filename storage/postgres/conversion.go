package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// insertConversion inserts nothing when the external id is taken: the one place
// where a duplicate is decided, so parallel reports cannot both win.
const insertConversion = `
	insert into conversions (
		workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency,
		tax_cents, shipping_cents, fee_cents, discount_cents, occurred_at, created_at, source, status,
		refunded_amount_cents, attributed, reason_code, decision_id, program_id, participant_id,
		click_id, promo_code, customer_ref, customer_email_hash, customer_email_domain, subscription_id,
		product_ids, line_items, is_recurring, sub_id, metadata, customer_ip_hash, customer_ua_hash,
		fraud_score, fraud_signals, version)
	values ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
		$21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37)
	on conflict (workspace_id, mode, external_transaction_id) do nothing`

// insertDecision stores a decision only when its conversion names it as the one
// in force. So it can travel in one batch behind the statement that makes it so,
// and does nothing when that statement did nothing.
const insertDecision = `
	insert into attribution_decisions (
		workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
		program_id, participant_id, click_id, clicked_at, expires_at, trace, supersedes, decided_at)
	select c.workspace_id, c.decision_id, c.id, c.mode, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17
	from conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3 and c.decision_id = $4`

// RecordConversion stores a conversion with its decision and, when it earns one,
// its commission, and tells the world. With awaitUntil its click is awaited
// until then. CONVERSION_DUPLICATE: the external id is taken; nothing was stored.
func (s *Store) RecordConversion(
	ctx context.Context, c affiliate.Conversion, d affiliate.Decision, commission *affiliate.Commission, awaitUntil *time.Time,
) error {
	lineItems, err := optionalList(c.LineItems)
	if err != nil {
		return err
	}
	fraud, err := json.Marshal(d.Fraud)
	if err != nil {
		return err
	}
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(insertConversion,
			c.Scope.Workspace, c.ID, c.Scope.Mode, c.ExternalTransactionID, c.EventType, c.Sale.Paid.Cents, c.Sale.Paid.Currency,
			c.Sale.TaxCents, c.Sale.ShippingCents, c.Sale.FeeCents, c.DiscountCents, c.OccurredAt, c.CreatedAt, c.Source, c.Status,
			c.RefundedAmountCents, d.Attributed, d.Reason, d.ID, d.Program, d.Participant,
			c.Click, c.PromoCode, c.CustomerRef, c.CustomerEmailHash, c.CustomerEmailDomain, c.SubscriptionID,
			nonNil(c.ProductIDs), lineItems, c.IsRecurring, c.SubID, c.Metadata, c.CustomerIPHash, c.CustomerUAHash,
			fraudScore(d.Fraud), fraud, c.Version)
		if err := queueDecision(batch, c.Scope, d); err != nil {
			return err
		}
		if awaitUntil != nil {
			const await = `
				insert into awaited_clicks (workspace_id, click_id, conversion_id, mode, created_at, expires_at)
				select c.workspace_id, c.click_id, c.id, c.mode, c.created_at, $5
				from conversions c
				where c.workspace_id = $1 and c.mode = $2 and c.id = $3 and c.decision_id = $4`
			batch.Queue(await, c.Scope.Workspace, c.Scope.Mode, c.ID, d.ID, *awaitUntil)
		}
		inserted, err := sendGuarded(ctx, tx, batch)
		if err != nil {
			return fmt.Errorf("conversion: %w", err)
		}
		if !inserted {
			return affiliate.Refuse(affiliate.ReasonConversionDuplicate)
		}
		return s.announce(ctx, tx, c.Event(affiliate.EventConversionCreated, d, c.CreatedAt), commission)
	})
}

// Reattribute puts a new decision in force in place of the one it supersedes,
// with the commission that it earns, and ends the wait for the conversion's
// click. false: another decision is in force by now; nothing was stored.
func (s *Store) Reattribute(ctx context.Context, c affiliate.Conversion, d affiliate.Decision, commission *affiliate.Commission) (bool, error) {
	const supersede = `
		update conversions
		set decision_id = $5, attributed = $6, reason_code = $7, program_id = $8, participant_id = $9, version = version + 1
		where workspace_id = $1 and mode = $2 and id = $3 and decision_id = $4`
	done := false
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(supersede, c.Scope.Workspace, c.Scope.Mode, c.ID, d.Supersedes,
			d.ID, d.Attributed, d.Reason, d.Program, d.Participant)
		if err := queueDecision(batch, c.Scope, d); err != nil {
			return err
		}
		batch.Queue(forgetAwaited, c.Scope.Workspace, c.Scope.Mode, c.ID, c.Click)
		superseded, err := sendGuarded(ctx, tx, batch)
		if err != nil {
			return fmt.Errorf("reattribution: %w", err)
		}
		done = superseded
		if !superseded || !d.Attributed {
			// A better reason for not being attributed is no news to anybody.
			return nil
		}
		const version = `select version from conversions where workspace_id = $1 and mode = $2 and id = $3`
		if err := tx.QueryRow(ctx, version, c.Scope.Workspace, c.Scope.Mode, c.ID).Scan(&c.Version); err != nil {
			return err
		}
		return s.announce(ctx, tx, c.Event(affiliate.EventConversionReattributed, d, d.DecidedAt), commission)
	})
	return done, err
}

// announce writes the commission that a decision earned and all events of it,
// the conversion's first.
func (s *Store) announce(ctx context.Context, tx pgx.Tx, event affiliate.Event, commission *affiliate.Commission) error {
	events := []affiliate.Event{event}
	if commission != nil {
		if err := insertCommission(ctx, tx, *commission, affiliate.System); err != nil {
			return err
		}
		events = append(events, affiliate.CommissionEvent(affiliate.EventCommissionCreated, commission.CreatedAt, nil, *commission))
		if commission.Status == affiliate.CommissionApproved {
			events = append(events, affiliate.CommissionEvent(affiliate.EventCommissionApproved, commission.CreatedAt, nil, *commission))
		}
	}
	return s.publish(ctx, tx, events...)
}

func queueDecision(batch *pgx.Batch, scope affiliate.Scope, d affiliate.Decision) error {
	trace, err := json.Marshal(d.Trace)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	batch.Queue(insertDecision, scope.Workspace, scope.Mode, d.Conversion, d.ID,
		d.Attributed, d.Method, d.Reason, d.Explanation, d.EngineVersion,
		d.Program, d.Participant, d.Click, d.ClickedAt, d.ExpiresAt, trace, d.Supersedes, d.DecidedAt)
	return nil
}

// sendGuarded sends a batch in one round trip and reports whether its first
// statement, the guard of all the others, touched a row.
func sendGuarded(ctx context.Context, tx pgx.Tx, batch *pgx.Batch) (touched bool, err error) {
	results := tx.SendBatch(ctx, batch)
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag.RowsAffected() > 0, err
}

func fraudScore(signals []affiliate.FraudSignal) int {
	score := 0
	for _, signal := range signals {
		score += signal.Score
	}
	return min(score, 100)
}

func optionalList[T any](list []T) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	return json.Marshal(list)
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
