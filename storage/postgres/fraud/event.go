// Package fraud has the SQL of fraud events and of the fraud policies of programmes.
package fraud

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
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
func QueueEvent(batch *pgx.Batch, c conversion.Conversion, d attribution.Decision, commission *commission.Commission) {
	if d.FraudAction == "" {
		return
	}
	var commissionID *affiliate.CommissionID
	if commission != nil {
		commissionID = &commission.ID
	}
	batch.Queue(insertFraudEvent, pgx.NamedArgs{
		"workspace": c.Workspace, "mode": c.Mode, "conversion": c.ID, "decision": d.ID,
		"program": d.Program, "participant": d.Participant, "commission": commissionID,
		"score": fraud.Score(d.Trace.Fraud), "signals": d.Trace.Fraud, "action": d.FraudAction, "decided_at": d.DecidedAt,
	})
}

// Events returns the webhook events about the fraud signals of a decision.
func Events(c conversion.Conversion, d attribution.Decision) []affiliate.Event {
	if d.FraudAction == "" {
		return nil
	}
	return []affiliate.Event{c.FraudDetectedEvent(d)}
}

// fraudEventColumns select fraud.Event from fraud_events f and fraudEventJoins. A list applies
// its limit before these joins.
var fraudEventColumns = `
	f.id, f.workspace_id, f.mode, f.program_id, p.name as program_name, f.participant_id, t.partner_name, f.conversion_id, c.external_transaction_id,
	f.commission_id, f.score, f.signals, f.action, f.status, f.note, f.resolved_by,
	` + postgres.ActorName("f.resolved_by::text", "f.workspace_id") + ` as resolved_by_name, f.resolved_at, f.created_at`

const fraudEventJoins = `
	join programs p on p.workspace_id = f.workspace_id and p.mode = f.mode and p.id = f.program_id
	join participants t on t.workspace_id = f.workspace_id and t.mode = f.mode and t.id = f.participant_id
	join conversions c on c.workspace_id = f.workspace_id and c.mode = f.mode and c.id = f.conversion_id`

// whereFraudEvents returns the FROM and WHERE clauses for a filter. Each combination of
// conditions is a separate statement, so that Postgres can choose the index that fits it. No
// index contains the participant. For a filter by participant, Postgres reads all events from
// the newest to the oldest and skips the events of other participants.
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

// ListEvents returns one page of fraud events, newest first, and their number up to
// MaxTotal.
func ListEvents(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter fraud.EventFilter, page affiliate.Page,
) ([]fraud.Event, int64, error) {
	pageSQL, countSQL := fraudEventListSQL(filter)
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "status": filter.Status, "program": filter.Program,
		"participant": filter.Participant, "from": filter.Created.From, "before": filter.Created.Before, "limit": page.Size, "offset": page.Offset(),
	}
	events, err := postgres.List[fraud.Event](ctx, db, pageSQL, postgres.PlanForArgs, args)
	if err != nil {
		return nil, 0, err
	}
	var total int64
	err = db.QueryRow(ctx, countSQL, postgres.PlanForArgs, args).Scan(&total)
	return events, total, err
}

var selectFraudEvent = `
	select ` + fraudEventColumns + `
	from fraud_events f` + fraudEventJoins + `
	where f.workspace_id = $1 and f.mode = $2 and f.id = $3`

// GetEvent returns a fraud event. Errors: NOT_FOUND.
func GetEvent(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, id fraud.EventID) (fraud.Event, error) {
	return postgres.OneRow[fraud.Event](db.Query(ctx, selectFraudEvent, scope.Workspace, scope.Mode, id))
}

// LockEvent locks a fraud event and reads it. Errors: NOT_FOUND.
func LockEvent(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id fraud.EventID) (fraud.Event, error) {
	return postgres.OneRow[fraud.Event](tx.Query(ctx, selectFraudEvent+` for no key update of f`, scope.Workspace, scope.Mode, id))
}

// UpdateResolution stores the resolution of an event that the transaction has locked.
func UpdateResolution(ctx context.Context, tx *postgres.Tx, e fraud.Event) error {
	const update = `
		update fraud_events
		set status = $4, note = $5, resolved_by = $6, resolved_at = $7
		where workspace_id = $1 and mode = $2 and id = $3`
	return postgres.Exec(ctx, tx, update, e.Workspace, e.Mode, e.ID, e.Status, e.Note, e.ResolvedBy, e.ResolvedAt)
}

// Policy returns a programme's fraud policy. If the policy was never changed, UpdatedAt is the
// creation time of the programme. Errors: NOT_FOUND.
func Policy(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID) (fraud.ProgramFraudPolicy, error) {
	const query = `
		select p.id as program_id, p.fraud_policy, p.fraud_settings, coalesce(p.fraud_updated_at, p.created_at) as updated_at
		from programs p
		where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
	return postgres.OneRow[fraud.ProgramFraudPolicy](db.Query(ctx, query, scope.Workspace, scope.Mode, program))
}

// UpdatePolicy stores the fraud policy of a programme that the transaction has locked.
func UpdatePolicy(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, p fraud.ProgramFraudPolicy) error {
	const update = `
		update programs
		set fraud_policy = $4, fraud_settings = $5, fraud_updated_at = $6, version = version + 1, updated_at = $6
		where workspace_id = $1 and mode = $2 and id = $3`
	return postgres.Exec(ctx, tx, update, scope.Workspace, scope.Mode, p.Program, p.Policy, p.Settings, p.UpdatedAt)
}
