package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// moveAttempts bounds how often a move is tried that matched no row although
// nothing forbids it: a rival made it legal in between.
const moveAttempts = 3

// MoveCommission makes one move of one commission on behalf of a person and
// returns the commission as the move left it. Of moves that race, each sees the
// outcome of the one before: a move that has become illegal is refused with its
// reason, NOT_FOUND when the commission is not in this scope and programme.
func (s *Store) MoveCommission(ctx context.Context, t affiliate.CommissionTransition) (affiliate.CommissionDetail, error) {
	for range moveAttempts {
		var detail affiliate.CommissionDetail
		var made bool
		err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			if made, err = s.transition(ctx, tx, t); err != nil || !made {
				return err
			}
			detail, err = commissionDetail(ctx, tx, t.Scope, t.Program, t.Commission)
			return err
		})
		if err != nil || made {
			return detail, err
		}
		if detail, err = s.Commission(ctx, t.Scope, t.Program, t.Commission); err != nil {
			return affiliate.CommissionDetail{}, err
		}
		if refusal := detail.Refusal(t.Move, t.At); refusal != nil {
			return affiliate.CommissionDetail{}, refusal
		}
	}
	return affiliate.CommissionDetail{}, fmt.Errorf("commission %s: %s is legal and matched no row", t.Commission, t.Move)
}

// The statement of a move is made of four parts that are the same for all of
// them and two, what it sets and what it demands, that are its own. before is
// the row as it is once its lock is held, so that the guards judge the state
// that the UPDATE changes, whatever a rival did meanwhile. Arguments: scope,
// programme and id, the statuses from which and to which, now, actor, reason,
// code, and what the history notes.
const (
	moveHead = `
		with before as (
			select c.* from commissions c
			where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3 and c.id = $4
			for update`
	moveSet = `
		), moved as (
			update commissions c
			set status = $6, version = c.version + 1, updated_at = $7, `
	moveWhere = `
			from before b
			where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3 and c.id = $4
				and b.status = any($5)`
	moveTail = `
			returning c.*, b.status as status_before, b.needs_review as needs_review_before, b.review_reasons as review_reasons_before
		), noted as (
			insert into commission_history (workspace_id, commission_id, seq, at, actor, from_status, to_status, amount_cents, reason)
			select workspace_id, id, version, $7, $8, status_before, status, amount_cents, $11 from moved
		)
		select ` + commissionColumns + `, c.status_before, c.needs_review_before, c.review_reasons_before from moved c`

	setApproved = `approved_at = $7, approved_by = $8, needs_review = false, review_reasons = '{}'`
	setRejected = `rejected_at = $7, rejection_reason = $9, rejection_code = $10`

	holdOver = ` and (b.hold_until is null or b.hold_until <= $7)`
	// What affiliate.Commission.DueForApproval says.
	isDue = holdOver + `
				and b.auto_approve_at <= $7 and not b.needs_review and b.dispute_status <> 'open'
				and exists (
					select from participants p
					where p.workspace_id = $1 and p.mode = $2 and p.id = b.participant_id
						and p.status = 'approved' and p.erased_at is null)`
)

// moveStatements are the guarded UPDATEs. Each uses all arguments, whose types
// Postgres would not know otherwise.
var moveStatements = map[affiliate.CommissionMove]string{
	affiliate.MoveApprove: moveHead + moveSet + setApproved + moveWhere + holdOver + usesReasons + moveTail,
	// A row that somebody works on is left for the next sweep.
	affiliate.MoveAutoApprove: moveHead + ` skip locked` + moveSet + setApproved + moveWhere + isDue + usesReasons + moveTail,
	affiliate.MoveReject:      moveHead + moveSet + setRejected + moveWhere + moveTail,
}

// usesReasons mentions reason and code where a move sets neither.
const usesReasons = ` and ($9::text is null or true) and $10::text is null`

// transition makes a move and tells of it: its event with the job that takes it
// on and, when a person did it, its line in the audit log. It reports false, and
// has done nothing, when the guards let no row through.
func (s *Store) transition(ctx context.Context, tx pgx.Tx, t affiliate.CommissionTransition) (made bool, err error) {
	moved, err := moveCommission(ctx, tx, t, t.Reason)
	if err != nil || moved == nil {
		return false, err
	}
	if err := s.publish(ctx, tx, moved.event(t)); err != nil {
		return false, err
	}
	if t.Actor.User == nil && t.Actor.Key == nil {
		return true, nil
	}
	return true, record(ctx, tx, audit{
		Workspace: t.Scope.Workspace, Mode: &t.Scope.Mode, Actor: t.Actor, At: t.At,
		Action: "commission." + string(t.Move), ResourceType: "commission", ResourceID: t.Commission,
		Before: auditedOf(moved.before), After: auditedOf(moved.after),
	})
}

// movedCommission is a commission around a move.
type movedCommission struct{ before, after affiliate.Commission }

func (m movedCommission) event(t affiliate.CommissionTransition) affiliate.Event {
	return affiliate.CommissionEvent(t.Move.Event(), t.At, &m.before, m.after)
}

// moveCommission is the one way in which a commission changes its status: a
// guarded UPDATE with its line of history, which notes a reason of its own, and
// with what it takes from the counts. Its event is the caller's. nil: the guards
// let no row through, and nothing was done.
func moveCommission(ctx context.Context, tx pgx.Tx, t affiliate.CommissionTransition, note *string) (*movedCommission, error) {
	type row struct {
		affiliate.Commission
		StatusBefore        affiliate.CommissionStatus
		NeedsReviewBefore   bool
		ReviewReasonsBefore []string
	}
	rows, _ := tx.Query(ctx, moveStatements[t.Move], t.Scope.Workspace, t.Scope.Mode, t.Program, t.Commission,
		t.Move.From(), t.Move.To(), t.At, t.Actor.String(), t.Reason, t.Code, note)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[row])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s commission: %w", t.Move, err)
	}
	m := movedCommission{before: found.Commission, after: found.Commission}
	m.before.Scope, m.after.Scope = t.Scope, t.Scope
	m.before.Status, m.before.NeedsReview, m.before.ReviewReasons = found.StatusBefore, found.NeedsReviewBefore, found.ReviewReasonsBefore
	if m.after.Status != affiliate.CommissionRejected {
		return &m, nil
	}
	// Hours that were reported already stay as they are: it counts in this one.
	return &m, addDeltas(ctx, tx, affiliate.StatsDelta{
		Scope: t.Scope, Program: m.after.Program, Participant: m.after.Participant, At: t.At,
		Currency: m.after.Currency, CommissionCents: -m.after.AmountCents,
	})
}

// auditedCommission is what a person's move can change.
type auditedCommission struct {
	Status          affiliate.CommissionStatus `json:"status"`
	NeedsReview     bool                       `json:"needs_review"`
	ReviewReasons   []string                   `json:"review_reasons"`
	RejectionReason *string                    `json:"rejection_reason,omitempty"`
	RejectionCode   *string                    `json:"rejection_code,omitempty"`
}

func auditedOf(c affiliate.Commission) auditedCommission {
	a := auditedCommission{Status: c.Status, NeedsReview: c.NeedsReview, ReviewReasons: c.ReviewReasons}
	if c.Status == affiliate.CommissionRejected {
		a.RejectionReason, a.RejectionCode = c.RejectionReason, c.RejectionCode
	}
	return a
}

// ApproveDueCommissions approves up to limit commissions that are due at now,
// each in a transaction of its own, so that sweeps of several processes pass
// each other and one failing commission stops no other: it is tried again by
// the next sweep, and never counts against the limit. The error is about the
// sweep as a whole; what was approved before it stays approved.
func (s *Store) ApproveDueCommissions(ctx context.Context, now time.Time, limit int) (affiliate.CommissionSweep, error) {
	var sweep affiliate.CommissionSweep
	var last dueCommission
	for sweep.Approved < limit {
		due, err := s.dueCommissions(ctx, now, last, limit-sweep.Approved)
		if err != nil {
			return sweep, err
		}
		for _, d := range due {
			made := false
			err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				made, err = s.transition(ctx, tx, affiliate.CommissionTransition{
					Scope:   affiliate.Scope{Workspace: d.Workspace, Mode: d.Mode},
					Program: d.Program, Commission: d.ID,
					Move: affiliate.MoveAutoApprove, Actor: affiliate.System, At: now,
				})
				return err
			})
			switch {
			case ctx.Err() != nil:
				return sweep, ctx.Err()
			case err != nil:
				sweep.Failed++
				if sweep.FirstFailure == nil {
					sweep.FirstFailure = fmt.Errorf("commission %s: %w", d.ID, err)
				}
			case made:
				sweep.Approved++
			default:
				sweep.Left++
			}
		}
		if len(due) == 0 {
			return sweep, nil
		}
		last = due[len(due)-1]
	}
	return sweep, nil
}

type dueCommission struct {
	Workspace     affiliate.WorkspaceID
	Mode          affiliate.Mode
	Program       affiliate.ProgramID
	ID            affiliate.CommissionID
	AutoApproveAt time.Time
}

// selectDue reads the next commissions that look due, of all workspaces: the
// UPDATE of each judges again. It goes on after the last one seen, so that rows
// that stay due for whatever reason do not hide those behind them.
const selectDue = `
	select c.workspace_id as workspace, c.mode, c.program_id as program, c.id, c.auto_approve_at
	from commissions c
	where c.status = 'pending' and not c.needs_review
		and c.auto_approve_at <= $1 and (c.auto_approve_at, c.id) > ($2, $3)
		and (c.hold_until is null or c.hold_until <= $1) and c.dispute_status <> 'open'
		and exists (
			select from participants p
			where p.workspace_id = c.workspace_id and p.mode = c.mode and p.id = c.participant_id
				and p.status = 'approved' and p.erased_at is null)
	order by c.auto_approve_at, c.id
	limit $4`

func (s *Store) dueCommissions(ctx context.Context, now time.Time, after dueCommission, limit int) ([]dueCommission, error) {
	rows, _ := s.pool.Query(ctx, selectDue, planned, now, after.AutoApproveAt, after.ID, limit)
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[dueCommission])
	if err != nil {
		return nil, fmt.Errorf("due commissions: %w", err)
	}
	return due, nil
}
