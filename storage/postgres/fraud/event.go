// Package fraud has the SQL of fraud events and of the fraud policies of programmes.
package fraud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// insertFraudEvent stores the fraud event of a decision that is already stored. It inserts
// nothing if this decision is no longer the current decision of the conversion.
const insertFraudEvent = `
	insert into fraud_events (
		workspace_id, id, mode, program_id, participant_id, conversion_id, commission_id, score, signals, action, status, created_at)
	select c.workspace_id, c.decision_id, c.mode, @program, @participant, c.id, @commission, @score, @signals, @action, 'open', @decided_at
	from conversions c
	where c.workspace_id = @workspace and c.mode = @mode and c.id = @conversion and c.decision_id = @decision`

// QueueEvent queues the insert of a fraud event with the fraud signals of a
// decision. It does nothing if the decision has no fraud signals.
func QueueEvent(batch *pgx.Batch, c conversion.Conversion, d attribution.Decision, commission *commission.Commission) error {
	if d.FraudAction == "" {
		return nil
	}
	signals, err := json.Marshal(d.Fraud)
	if err != nil {
		return fmt.Errorf("encode fraud signals: %w", err)
	}
	var commissionID *affiliate.CommissionID
	if commission != nil {
		commissionID = &commission.ID
	}
	batch.Queue(insertFraudEvent, pgx.NamedArgs{
		"workspace": c.Scope.Workspace, "mode": c.Scope.Mode, "conversion": c.ID, "decision": d.ID,
		"program": d.Program, "participant": d.Participant, "commission": commissionID,
		"score": fraud.Score(d.Fraud), "signals": signals, "action": d.FraudAction, "decided_at": d.DecidedAt,
	})
	return nil
}

// Events returns the webhook events about the fraud signals of a decision.
func Events(c conversion.Conversion, d attribution.Decision) []affiliate.Event {
	if d.FraudAction == "" {
		return nil
	}
	return []affiliate.Event{c.FraudDetectedEvent(d)}
}

// fraudEventColumns are the fields of fraud.Event, selected from fraud_events
// f and the tables in fraudEventJoins. A list joins these tables after its limit, so only
// to the rows of one page.
const fraudEventColumns = `
	f.id, f.program_id, p.name as program_name, f.participant_id, t.partner_name, f.conversion_id, c.external_transaction_id,
	f.commission_id, f.score, f.signals, f.action, f.status, f.note, f.resolved_by, f.resolved_at, f.created_at`

const fraudEventJoins = `
	join programs p on p.workspace_id = f.workspace_id and p.mode = f.mode and p.id = f.program_id
	join participants t on t.workspace_id = f.workspace_id and t.mode = f.mode and t.id = f.participant_id
	join conversions c on c.workspace_id = f.workspace_id and c.mode = f.mode and c.id = f.conversion_id`

type fraudEventRow struct {
	ID                    fraud.EventID
	ProgramID             affiliate.ProgramID
	ProgramName           string
	ParticipantID         affiliate.ParticipantID
	PartnerName           string
	ConversionID          affiliate.ConversionID
	ExternalTransactionID string
	CommissionID          *affiliate.CommissionID
	Score                 int
	Signals               []fraud.Signal
	Action                fraud.Action
	Status                fraud.EventStatus
	Note                  *string
	ResolvedBy            *affiliate.UserID
	ResolvedAt            *time.Time
	CreatedAt             time.Time
}

func (r fraudEventRow) event(scope affiliate.Scope) fraud.Event {
	return fraud.Event{
		ID: r.ID, Scope: scope, Program: r.ProgramID, ProgramName: r.ProgramName, Participant: r.ParticipantID, PartnerName: r.PartnerName,
		Conversion: r.ConversionID, ExternalTransactionID: r.ExternalTransactionID, Commission: r.CommissionID,
		Score: r.Score, Signals: r.Signals, Action: r.Action, Status: r.Status, Note: r.Note,
		ResolvedBy: r.ResolvedBy, ResolvedAt: r.ResolvedAt, CreatedAt: r.CreatedAt,
	}
}

// whereFraudEvents returns the FROM and WHERE clauses for a filter. Each combination of
// conditions is a separate statement, so that Postgres can choose the index that fits
// it. No index contains the participant. For a filter by participant, Postgres reads
// all events from the newest to the oldest and skips those of other participants.
func whereFraudEvents(filter fraud.EventFilter) string {
	where := ` from fraud_events f where f.workspace_id = @workspace and f.mode = @mode`
	if filter.Status != "" {
		where += ` and f.status = @status`
	}
	if filter.Program != nil {
		where += ` and f.program_id = @program`
	}
	if filter.Participant != nil {
		where += ` and f.participant_id = @participant`
	}
	if filter.Created.From != nil {
		where += ` and f.created_at >= @from`
	}
	if filter.Created.Before != nil {
		where += ` and f.created_at < @before`
	}
	return where
}

func fraudEventListSQL(filter fraud.EventFilter) (page, count string) {
	where := whereFraudEvents(filter)
	page = `select ` + fraudEventColumns + `
		from (select f.*` + where + ` order by f.created_at desc, f.id desc limit @limit offset @offset) as f` + fraudEventJoins + `
		order by f.created_at desc, f.id desc`
	return page, postgres.CountUpTo(affiliate.MaxTotal, where)
}

// ListEvents returns one page of fraud events, newest first, and the number of rows on
// all pages, up to affiliate.MaxTotal.
func ListEvents(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter fraud.EventFilter, page affiliate.Page,
) ([]fraud.Event, int64, error) {
	if err := postgres.CheckFilter(ctx, db, scope, filter.Program, filter.Participant, nil); err != nil {
		return nil, 0, err
	}
	pageSQL, countSQL := fraudEventListSQL(filter)
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "status": filter.Status, "program": filter.Program,
		"participant": filter.Participant, "from": filter.Created.From, "before": filter.Created.Before, "limit": page.Size, "offset": page.Offset(),
	}
	rows, err := db.Query(ctx, pageSQL, postgres.PlanForArgs, args)
	events, err := postgres.AllRows(rows, err, func(r fraudEventRow) fraud.Event { return r.event(scope) })
	if err != nil {
		return nil, 0, fmt.Errorf("read fraud events: %w", err)
	}
	var total int64
	err = db.QueryRow(ctx, countSQL, postgres.PlanForArgs, args).Scan(&total)
	return events, total, err
}

const (
	lockFraudEvent = `
		select f.status, f.commission_id
		from fraud_events f
		where f.workspace_id = $1 and f.mode = $2 and f.id = $3
		for no key update`
	resolveFraudEvent = `
		update fraud_events
		set status = $4, note = $5, resolved_by = $6, resolved_at = $7
		where workspace_id = $1 and mode = $2 and id = $3 and status = 'open'`
	selectFraudEvent = `
		select ` + fraudEventColumns + `
		from fraud_events f` + fraudEventJoins + `
		where f.workspace_id = $1 and f.mode = $2 and f.id = $3`
)

// ResolveEvent resolves an open fraud event. If the event is confirmed, its
// commission is rejected, provided that the commission can still be rejected. If the
// event is dismissed, the fraud reason is removed from the commission's review reasons.
// Errors: NOT_FOUND, FRAUD_EVENT_RESOLVED.
func ResolveEvent(ctx context.Context, db *postgres.DB, r fraud.Resolution) (fraud.Event, error) {
	var after fraud.Event
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		type lockedRow struct {
			Status       fraud.EventStatus
			CommissionID *affiliate.CommissionID
		}
		locked, err := postgres.OneRow[lockedRow](tx.Query(ctx, lockFraudEvent, r.Scope.Workspace, r.Scope.Mode, r.Event))
		if err != nil {
			return err
		}
		if err := locked.Status.CheckOpen(); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, resolveFraudEvent, r.Scope.Workspace, r.Scope.Mode, r.Event, r.Outcome, r.Note, r.By.ID(), r.At); err != nil {
			return err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: r.Scope.Workspace, Mode: &r.Scope.Mode, Actor: r.By, At: r.At,
			Action: "fraud_event.resolve", ResourceType: "fraud_event", ResourceID: r.Event,
			Before: map[string]any{"status": locked.Status}, After: map[string]any{"status": r.Outcome},
		}); err != nil {
			return err
		}
		if locked.CommissionID != nil {
			if err := followResolution(ctx, tx, *locked.CommissionID, r); err != nil {
				return err
			}
		}
		row, err := postgres.OneRow[fraudEventRow](tx.Query(ctx, selectFraudEvent, r.Scope.Workspace, r.Scope.Mode, r.Event))
		after = row.event(r.Scope)
		return err
	})
	return after, err
}

// followResolution changes the commission according to the resolution. If the
// commission can no longer be changed in this way, it stays as it is.
func followResolution(ctx context.Context, tx *postgres.Tx, id affiliate.CommissionID, r fraud.Resolution) error {
	locked, err := payouts.LockCommissions(ctx, tx, r.Scope, []affiliate.CommissionID{id})
	if err != nil || len(locked) == 0 {
		return err
	}
	c := locked[0]
	t := commission.Transition{
		Scope: r.Scope, Program: c.Program, Commission: id, Actor: r.By, At: r.At, Note: r.Note, Move: commission.MoveReject,
	}
	if r.Outcome == fraud.EventConfirmed {
		code := attribution.RejectedForFraud
		t.Code = &code
	} else {
		if !slices.Contains(c.ReviewReasons, attribution.ReviewFraud) {
			return nil
		}
		t.Move, t.ReviewReasons = commission.MoveClearReview, []string{attribution.ReviewFraud}
	}
	change, err := c.Move(t)
	var refusal *affiliate.Error
	switch {
	case errors.As(err, &refusal):
		return nil // the status of the commission does not allow the move, for example because it is paid
	case err != nil:
		return err
	}
	return payouts.ApplyCommissionChanges(ctx, tx, change)
}
