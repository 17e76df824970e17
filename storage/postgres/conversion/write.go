package conversion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

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
	FraudSignals []byte
}

// rowOfConversion returns the row to insert for a conversion and the decision about it.
func rowOfConversion(c conversion.Conversion, d attribution.Decision) (newConversionRow, error) {
	signals, err := json.Marshal(d.Fraud)
	if err != nil {
		return newConversionRow{}, fmt.Errorf("encode fraud signals: %w", err)
	}
	return newConversionRow{
		Conversion: c,
		CurrentDecision: conversion.CurrentDecision{
			Decision: d.ID, Attributed: d.Attributed, Reason: d.Reason,
			Program: d.Program, Participant: d.Participant, Link: d.Link, RecurringIndex: d.RecurringIndex,
		},
		FraudScore: fraud.Score(d.Fraud), FraudSignals: signals,
	}, nil
}

var insertDecisions = postgres.RowsOf[newDecisionRow](`insert into attribution_decisions ({columns}) values {rows}`)

type newDecisionRow struct {
	WorkspaceID   affiliate.WorkspaceID    `db:"workspace_id"`
	ID            affiliate.DecisionID     `db:"id"`
	ConversionID  affiliate.ConversionID   `db:"conversion_id"`
	Mode          affiliate.Mode           `db:"mode"`
	Attributed    bool                     `db:"attributed"`
	Method        *attribution.Method      `db:"method"`
	ReasonCode    attribution.Reason       `db:"reason_code"`
	Explanation   string                   `db:"explanation"`
	EngineVersion string                   `db:"engine_version"`
	ProgramID     *affiliate.ProgramID     `db:"program_id"`
	ParticipantID *affiliate.ParticipantID `db:"participant_id"`
	ClickID       *affiliate.ClickID       `db:"click_id"`
	ClickedAt     *time.Time               `db:"clicked_at"`
	ExpiresAt     *time.Time               `db:"expires_at"`
	Trace         []byte                   `db:"trace"`
	Supersedes    *affiliate.DecisionID    `db:"supersedes"`
	DecidedAt     time.Time                `db:"decided_at"`
	DecidedBy     *affiliate.ActorID       `db:"decided_by"`
}

// queueDecisions adds the decisions of outcomes to a batch.
func queueDecisions(batch *pgx.Batch, all ...outcome) error {
	rows := make([]newDecisionRow, len(all))
	for i, o := range all {
		d, scope := o.decision, o.conversion.Scope
		trace, err := json.Marshal(d.Trace)
		if err != nil {
			return fmt.Errorf("encode trace: %w", err)
		}
		rows[i] = newDecisionRow{
			WorkspaceID:   scope.Workspace,
			ID:            d.ID,
			ConversionID:  d.Conversion,
			Mode:          scope.Mode,
			Attributed:    d.Attributed,
			Method:        d.Method,
			ReasonCode:    d.Reason,
			Explanation:   d.Explanation,
			EngineVersion: d.EngineVersion,
			ProgramID:     d.Program,
			ParticipantID: d.Participant,
			ClickID:       d.Click,
			ClickedAt:     d.ClickedAt,
			ExpiresAt:     d.ExpiresAt,
			Trace:         trace,
			Supersedes:    d.Supersedes,
			DecidedAt:     d.DecidedAt,
			DecidedBy:     d.DecidedBy,
		}
	}
	insertDecisions.Queue(batch, rows...)
	return nil
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
