package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// supersede puts a decision in the place of the one that is in force, and does
// nothing when that is another one by now.
const supersede = `
	update conversions
	set decision_id = @decision, attributed = @attributed, reason_code = @reason, program_id = @program, participant_id = @participant,
		link_id = @link, recurring_index = @recurring_index, fraud_score = @fraud_score, fraud_signals = @fraud_signals, version = version + 1
	where workspace_id = @workspace and mode = @mode and id = @conversion and decision_id = @supersedes
	returning version`

// errSuperseded takes back all that came with a decision that came too late.
var errSuperseded = errors.New("another decision is in force")

// Reattribute decides anew about a conversion whose click has arrived, puts the
// decision in force in place of the one it was read with, with all that follows,
// and ends the wait. false: another decision is in force by now; nothing was
// stored.
func (s *Store) Reattribute(ctx context.Context, c affiliate.AwaitedConversion, in affiliate.AttributionInputs, decide affiliate.Decide) (bool, error) {
	err := s.InTx(ctx, func(tx *Tx) error {
		sees := signals{of: c.Conversion, found: in}
		if err := lockSignals(ctx, tx, &sees); err != nil {
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
		if err := learnFacts(ctx, tx, &sees); err != nil {
			return err
		}
		d, commission, err := decide(sees.found)
		if err != nil {
			return err
		}
		d.Supersedes = &c.Decision
		after := stored.Conversion
		changes, err := affiliate.BeginCommission(commission, after, affiliate.System, nil, d.DecidedAt)
		if err != nil {
			return err
		}
		batch := &pgx.Batch{}
		if err := queueSupersede(batch, &after, d); err != nil {
			return err
		}
		batch.Queue(forgetAwaited, c.Scope.Workspace, c.Scope.Mode, c.ID, c.Click)
		sees.of = after
		if err := queueOutcomes(batch, outcome{sees, d, commission}); err != nil {
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
		if err := tx.Publish(ctx, outcomeEvents(events, after, d, changes)...); err != nil {
			return err
		}
		return tx.Enqueue(ctx, usedUp(c.Scope, sees.found, d)...)
	})
	if errors.Is(err, errSuperseded) {
		return false, nil
	}
	return err == nil, err
}

// queueSupersede guards the rest of its batch: errSuperseded. It gives the
// conversion its new version.
func queueSupersede(batch *pgx.Batch, c *affiliate.Conversion, d affiliate.Decision) error {
	suspicions, err := json.Marshal(d.Fraud)
	if err != nil {
		return fmt.Errorf("fraud signals: %w", err)
	}
	batch.Queue(supersede, pgx.NamedArgs{
		"workspace": c.Scope.Workspace, "mode": c.Scope.Mode, "conversion": c.ID, "supersedes": d.Supersedes,
		"decision": d.ID, "attributed": d.Attributed, "reason": d.Reason, "program": d.Program, "participant": d.Participant,
		"link": d.Link, "recurring_index": d.RecurringIndex,
		"fraud_score": affiliate.FraudScore(d.Fraud), "fraud_signals": suspicions,
	}).
		QueryRow(func(row pgx.Row) error {
			err := row.Scan(&c.Version)
			if errors.Is(err, pgx.ErrNoRows) {
				return errSuperseded
			}
			return err
		})
	return queueDecisions(batch, outcome{signals: signals{of: *c}, decision: d})
}

// lockStored reads a conversion that stays as it is until the transaction ends.
func lockStored(ctx context.Context, tx *Tx, scope affiliate.Scope, id affiliate.ConversionID) (storedConversion, error) {
	rows, err := tx.Query(ctx, lockConversion, scope.Workspace, scope.Mode, id)
	if err != nil {
		return storedConversion{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanConversion)
}
