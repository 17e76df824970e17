package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
		fraud_score, fraud_signals, version, link_id, recurring_index)
	values ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
		$21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39)
	on conflict (workspace_id, mode, external_transaction_id) do nothing`

// insertDecision stores a decision only when its conversion names it as the one
// in force. So it can travel in one batch behind the statement that makes it so,
// and does nothing when that statement did nothing.
const insertDecision = `
	insert into attribution_decisions (
		workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
		program_id, participant_id, click_id, clicked_at, expires_at, trace, supersedes, decided_at, decided_by)
	select c.workspace_id, c.decision_id, c.id, c.mode, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18
	from conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3 and c.decision_id = $4`

// supersede puts a decision in the place of the one that is in force, and does
// nothing when that is another one by now.
const supersede = `
	update conversions
	set decision_id = $5, attributed = $6, reason_code = $7, program_id = $8, participant_id = $9, link_id = $10,
		recurring_index = $11, fraud_score = $12, fraud_signals = $13, version = version + 1
	where workspace_id = $1 and mode = $2 and id = $3 and decision_id = $4
	returning version`

// errSuperseded takes back all that came with a decision that came too late.
var errSuperseded = errors.New("another decision is in force")

// RecordConversion decides about a conversion, stores it with the decision, the
// commission that it earns and all that follows, and tells the world. The inputs
// come with everything but what is found here, under locks that last until all is
// stored: the promo code, the customer, refunds that came early, and the facts
// that fraud rules and currencies need. Errors: what the report's Decide refuses;
// CONVERSION_DUPLICATE, when the external id is taken; IDEMPOTENCY_KEY_REUSED.
// Nothing is stored then.
func (s *Store) RecordConversion(ctx context.Context, r affiliate.Report) (affiliate.Recorded, error) {
	recorded, err := s.recordConversion(ctx, r, false)
	if errors.Is(err, errRefundsWait) {
		// Few sales are refunded before they are reported: the others need not ask
		// before they are stored.
		return s.recordConversion(ctx, r, true)
	}
	return recorded, err
}

// recordConversion is RecordConversion with the refunds that came early, or
// errRefundsWait when there are any and they were not asked for.
func (s *Store) recordConversion(ctx context.Context, r affiliate.Report, withRefunds bool) (recorded affiliate.Recorded, err error) {
	c := r.Conversion
	lineItems, err := optionalList(c.LineItems)
	if err != nil {
		return recorded, err
	}
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		recorded = affiliate.Recorded{}
		replay, err := claimKey(ctx, tx, c.Scope, r.Key)
		if err != nil || replay != nil {
			recorded.Replay = replay
			return err
		}
		found, err := lockSignals(ctx, tx, c, r.Inputs)
		if err != nil {
			return err
		}
		if found, err = learnFacts(ctx, tx, c, found); err != nil {
			return err
		}
		var early []affiliate.Refund
		if withRefunds {
			if early, err = lockParked(ctx, tx, c.Scope, c.ExternalTransactionID); err != nil {
				return err
			}
		}
		d, commission, err := r.Decide(found)
		if err != nil {
			return err
		}
		refunds := refunding{sale: c, decision: d, at: c.CreatedAt}
		for _, refund := range early {
			refunds.applyParked(refund)
		}
		changes, err := beginning(commission, refunds.sale, affiliate.System, nil, c.CreatedAt)
		if err != nil {
			return err
		}
		fraud, err := json.Marshal(d.Fraud)
		if err != nil {
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(insertConversion,
			c.Scope.Workspace, c.ID, c.Scope.Mode, c.ExternalTransactionID, c.EventType, c.Sale.Paid.Cents, c.Sale.Paid.Currency,
			c.Sale.TaxCents, c.Sale.ShippingCents, c.Sale.FeeCents, c.DiscountCents, c.OccurredAt, c.CreatedAt, c.Source, c.Status,
			c.RefundedAmountCents, d.Attributed, d.Reason, d.ID, d.Program, d.Participant,
			c.Click, c.PromoCode, c.CustomerRef, c.CustomerEmailHash, c.CustomerEmailDomain, c.SubscriptionID,
			nonNil(c.ProductIDs), lineItems, c.IsRecurring, c.SubID, c.Metadata, c.CustomerIPHash, c.CustomerUAHash,
			affiliate.FraudScore(d.Fraud), fraud, c.Version, d.Link, d.RecurringIndex).
			Exec(func(tag pgconn.CommandTag) error { return unlessNone(tag, nil, affiliate.ReasonConversionDuplicate) })
		if !withRefunds {
			queueRefundsWait(batch, c)
		}
		if err := queueDecision(batch, c.Scope, d); err != nil {
			return err
		}
		if r.AwaitUntil != nil {
			const await = `
				insert into awaited_clicks (workspace_id, click_id, conversion_id, mode, created_at, expires_at)
				select c.workspace_id, c.click_id, c.id, c.mode, c.created_at, $5
				from conversions c
				where c.workspace_id = $1 and c.mode = $2 and c.id = $3 and c.decision_id = $4`
			batch.Queue(await, c.Scope.Workspace, c.Scope.Mode, c.ID, d.ID, *r.AwaitUntil)
		}
		if err := queueOutcome(batch, c, found, d, commission); err != nil {
			return err
		}
		refunds.queue(batch)
		queueSettlement(batch, changes...)
		recorded = affiliate.Recorded{Conversion: refunds.sale, Decision: d, Commission: outcomeOf(changes)}
		if r.Key != nil {
			answer, err := r.Answer(recorded)
			if err != nil {
				return err
			}
			queueAnswer(batch, c.Scope, r.Key, answer)
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("conversion: %w", err)
		}
		events := append([]affiliate.Event{c.Event(affiliate.EventConversionCreated, d, c.CreatedAt)}, refunds.events...)
		if err := s.publish(ctx, tx, outcomeEvents(events, c, d, changes)...); err != nil {
			return err
		}
		return s.syncUsedUp(ctx, tx, c.Scope, found, d)
	})
	return recorded, err
}

// Reattribute decides anew about a conversion whose click has arrived, puts the
// decision in force in place of the one it was read with, with all that follows,
// and ends the wait. false: another decision is in force by now; nothing was
// stored.
func (s *Store) Reattribute(ctx context.Context, c affiliate.AwaitedConversion, in affiliate.AttributionInputs, decide affiliate.Decide) (bool, error) {
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := lockSignals(ctx, tx, c.Conversion, in)
		if err != nil {
			return err
		}
		// Refunds may have come since it was read.
		stored, err := lockStored(ctx, tx, c.Scope, c.ID)
		if err != nil {
			return err
		}
		if stored.Decision != c.Decision {
			return errSuperseded
		}
		if found, err = learnFacts(ctx, tx, c.Conversion, found); err != nil {
			return err
		}
		d, commission, err := decide(found)
		if err != nil {
			return err
		}
		d.Supersedes = &c.Decision
		after := stored.Conversion
		changes, err := beginning(commission, after, affiliate.System, nil, d.DecidedAt)
		if err != nil {
			return err
		}
		batch := &pgx.Batch{}
		if err := queueSupersede(batch, &after, d); err != nil {
			return err
		}
		batch.Queue(forgetAwaited, c.Scope.Workspace, c.Scope.Mode, c.ID, c.Click)
		if err := queueOutcome(batch, after, found, d, commission); err != nil {
			return err
		}
		queueSettlement(batch, changes...)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("reattribution: %w", err)
		}
		if !d.Attributed {
			// A better reason for not being attributed is no news to anybody.
			return nil
		}
		events := []affiliate.Event{after.Event(affiliate.EventConversionReattributed, d, d.DecidedAt)}
		if err := s.publish(ctx, tx, outcomeEvents(events, after, d, changes)...); err != nil {
			return err
		}
		return s.syncUsedUp(ctx, tx, c.Scope, found, d)
	})
	if errors.Is(err, errSuperseded) {
		return false, nil
	}
	return err == nil, err
}

// queueSupersede guards the rest of its batch: errSuperseded. It gives the
// conversion its new version.
func queueSupersede(batch *pgx.Batch, c *affiliate.Conversion, d affiliate.Decision) error {
	signals, err := json.Marshal(d.Fraud)
	if err != nil {
		return fmt.Errorf("fraud signals: %w", err)
	}
	batch.Queue(supersede, c.Scope.Workspace, c.Scope.Mode, c.ID, d.Supersedes,
		d.ID, d.Attributed, d.Reason, d.Program, d.Participant, d.Link, d.RecurringIndex, affiliate.FraudScore(d.Fraud), signals).
		QueryRow(func(row pgx.Row) error {
			err := row.Scan(&c.Version)
			if errors.Is(err, pgx.ErrNoRows) {
				return errSuperseded
			}
			return err
		})
	return queueDecision(batch, c.Scope, d)
}

// lockStored reads a conversion that stays as it is until the transaction ends.
func lockStored(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, id affiliate.ConversionID) (storedConversion, error) {
	rows, err := tx.Query(ctx, lockConversion, scope.Workspace, scope.Mode, id)
	if err != nil {
		return storedConversion{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanConversion)
}

// beginning is how a commission begins; none without one. What is refunded of its
// sale by now lowers it at once.
func beginning(
	commission *affiliate.Commission, sale affiliate.Conversion, by affiliate.Actor, note *string, at time.Time,
) ([]affiliate.CommissionChange, error) {
	if commission == nil {
		return nil, nil
	}
	created := affiliate.Created(*commission, by, note)
	if !sale.Refunded() {
		return []affiliate.CommissionChange{created}, nil
	}
	lowered, err := lockedCommission{Commission: *commission}.follow(sale, at)
	return append([]affiliate.CommissionChange{created}, lowered...), err
}

// outcomeOf is a commission as its changes leave it; nil without any.
func outcomeOf(changes []affiliate.CommissionChange) *affiliate.Commission {
	if len(changes) == 0 {
		return nil
	}
	return &changes[len(changes)-1].After
}

// queueOutcome adds what a decision by signals causes beside the conversion
// itself: the commission, the redemption, the binding, and the counts. What
// follows from the commission (queueSettlement) is the caller's.
func queueOutcome(batch *pgx.Batch, c affiliate.Conversion, in affiliate.AttributionInputs, d affiliate.Decision, commission *affiliate.Commission) error {
	if commission != nil {
		queueCommission(batch, *commission)
	}
	if err := queueFraudEvent(batch, c, d, commission); err != nil {
		return err
	}
	if d.Redeems != nil {
		queueRedemption(batch, c.Scope, *d.Redeems)
	}
	if !d.Attributed {
		return nil
	}
	if c.CustomerRef != nil {
		if in.Customer.Binding == nil {
			earner := winnerOf(in, d)
			binding := affiliate.Binding{
				BoundAt: c.OccurredAt, SignalAt: c.OccurredAt, WindowEndsAt: affiliate.WindowEnd(c.OccurredAt, earner.WindowDays), Earner: earner,
			}
			if *d.Method == affiliate.ByClick {
				binding.SignalAt = in.FoundClick.ReceivedAt
			}
			queueBinding(batch, c, binding)
		}
		if d.RecurringIndex != nil {
			batch.Queue(countPayment, c.Scope.Workspace, c.Scope.Mode, c.CustomerRef, d.Program, c.OccurredAt)
		}
	}
	queueDeltas(batch, broughtBy(c, d, commission)...)
	return nil
}

// winnerOf is whom a decision attributes to.
func winnerOf(in affiliate.AttributionInputs, d affiliate.Decision) affiliate.Earner {
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

// broughtBy is what an attributed conversion adds to the counts of its
// participant and link, of its revenue what was not refunded. What it earns is a
// delta of its own only where that is in another currency.
func broughtBy(c affiliate.Conversion, d affiliate.Decision, commission *affiliate.Commission) []affiliate.StatsDelta {
	brought := affiliate.StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, Link: d.Link, At: d.DecidedAt, Conversions: 1,
	}
	if c.EventType == affiliate.Signup {
		brought.Signups = 1
	}
	if c.EventType.Priced() {
		brought.Currency, brought.RevenueCents = c.Sale.Paid.Currency, c.Refundable()
	}
	switch {
	case commission == nil:
		return []affiliate.StatsDelta{brought}
	case brought.Currency == "" || brought.Currency == commission.Currency:
		brought.Currency, brought.CommissionCents = commission.Currency, commission.AmountCents
		return []affiliate.StatsDelta{brought}
	}
	earned := affiliate.StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, At: d.DecidedAt,
		Currency: commission.Currency, CommissionCents: commission.AmountCents,
	}
	return []affiliate.StatsDelta{brought, earned}
}

// outcomeEvents are the events of a conversion and those of what it causes.
func outcomeEvents(events []affiliate.Event, c affiliate.Conversion, d affiliate.Decision, changes []affiliate.CommissionChange) []affiliate.Event {
	for _, change := range changes {
		events = append(events, change.Events()...)
	}
	return append(events, fraudEvents(c, d)...)
}

// syncUsedUp tells the edge of a code that has just been used up, which must
// not be offered any longer.
func (s *Store) syncUsedUp(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, in affiliate.AttributionInputs, d affiliate.Decision) error {
	if !usedUp(in, d) {
		return nil
	}
	return s.enqueue(ctx, tx, affiliate.SyncDirectory{Workspace: scope.Workspace, Participant: &in.FoundPromoCode.Earner.Participant})
}

func queueDecision(batch *pgx.Batch, scope affiliate.Scope, d affiliate.Decision) error {
	trace, err := json.Marshal(d.Trace)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	batch.Queue(insertDecision, scope.Workspace, scope.Mode, d.Conversion, d.ID,
		d.Attributed, d.Method, d.Reason, d.Explanation, d.EngineVersion,
		d.Program, d.Participant, d.Click, d.ClickedAt, d.ExpiresAt, trace, d.Supersedes, d.DecidedAt, d.DecidedBy)
	return nil
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
