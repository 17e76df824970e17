package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// MoveCommission makes one move of one commission on behalf of a person and
// returns the commission as the move left it. Of moves that race, each sees the
// outcome of the one before: a move that has become illegal is refused with its
// reason, NOT_FOUND when the commission is not in this scope and programme.
func (s *Store) MoveCommission(ctx context.Context, t affiliate.CommissionTransition) (affiliate.CommissionDetail, error) {
	var detail affiliate.CommissionDetail
	err := s.InTx(ctx, func(tx *Tx) error {
		change, err := lockMove(ctx, tx, t, waitForRows)
		if err != nil {
			return err
		}
		if err := s.tell(ctx, tx, []affiliate.CommissionChange{change}, change.Events()...); err != nil {
			return err
		}
		detail, err = commissionDetail(ctx, tx, t.Scope, t.Program, t.Commission)
		return err
	})
	return detail, err
}

// lockMove locks a commission and makes a move of it in memory: what is written
// (settle) is the caller's. NOT_FOUND: it is not there, or, with skipLockedRows,
// in somebody's hands.
func lockMove(ctx context.Context, tx *Tx, t affiliate.CommissionTransition, wait lockMode) (affiliate.CommissionChange, error) {
	found, err := lockCommissions(ctx, tx, t.Scope, []affiliate.CommissionID{t.Commission}, wait)
	if err != nil {
		return affiliate.CommissionChange{}, err
	}
	if len(found) == 0 || found[0].Program != t.Program {
		return affiliate.CommissionChange{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return found[0].move(t)
}

// lockMode says what becomes of rows that somebody else has locked.
type lockMode string

// Rows are waited for, or left alone.
const (
	waitForRows    lockMode = ""
	skipLockedRows lockMode = " skip locked"
)

// lockedCommission is a commission that stays as it is until the transaction
// ends, with what of its participant a move may ask for.
type lockedCommission struct {
	affiliate.Commission
	Standing affiliate.ParticipantStatus
	Erased   bool
}

const lockCommissionsSQL = `
	select ` + commissionColumns + `, t.status as standing, t.erased_at is not null as erased
	from commissions c
	join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
	where c.workspace_id = $1 and c.mode = $2 and c.id = any($3)
	order by c.id
	for update of c`

// lockCommissions locks commissions in the order of their ids: whoever locks
// several does it in one such call, so that none waits for another in a circle.
// What is not there, or left alone, is not in the answer.
func lockCommissions(
	ctx context.Context, tx *Tx, scope affiliate.Scope, ids []affiliate.CommissionID, wait lockMode,
) ([]lockedCommission, error) {
	rows, err := tx.Query(ctx, lockCommissionsSQL+string(wait), scope.Workspace, scope.Mode, ids)
	if err != nil {
		return nil, fmt.Errorf("lock commissions: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[lockedCommission])
	if err != nil {
		return nil, fmt.Errorf("lock commissions: %w", err)
	}
	for i := range found {
		found[i].Scope = scope
	}
	return found, nil
}

// move makes a move in memory.
func (c lockedCommission) move(t affiliate.CommissionTransition) (affiliate.CommissionChange, error) {
	t.Standing, t.Erased = c.Standing, c.Erased
	after, refusal := t.Apply(c.Commission)
	if refusal != nil {
		return affiliate.CommissionChange{}, refusal
	}
	before := c.Commission
	return affiliate.CommissionChange{Before: &before, After: after, Transition: t}, nil
}

// tell settles changes of locked commissions, publishes events, and notes in the
// audit log what a person did.
func (s *Store) tell(ctx context.Context, tx *Tx, changes []affiliate.CommissionChange, events ...affiliate.Event) error {
	if err := settle(ctx, tx, changes...); err != nil {
		return err
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	for _, change := range changes {
		t := change.Transition
		if t.Actor.User == nil && t.Actor.Key == nil || change.Before == nil {
			continue
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: t.Scope.Workspace, Mode: &t.Scope.Mode, Actor: t.Actor, At: t.At,
			Action: "commission." + string(t.Move), ResourceType: "commission", ResourceID: change.After.ID,
			Before: auditedOf(*change.Before), After: auditedOf(change.After),
		}); err != nil {
			return err
		}
	}
	return nil
}

// auditedCommission is what a person's move can change.
type auditedCommission struct {
	Status          affiliate.CommissionStatus `json:"status"`
	NeedsReview     bool                       `json:"needs_review"`
	ReviewReasons   []string                   `json:"review_reasons"`
	OverrideReason  *string                    `json:"override_reason,omitempty"`
	RejectionReason *string                    `json:"rejection_reason,omitempty"`
	RejectionCode   *string                    `json:"rejection_code,omitempty"`
}

func auditedOf(c affiliate.Commission) auditedCommission {
	a := auditedCommission{
		Status: c.Status, NeedsReview: c.NeedsReview, ReviewReasons: c.ReviewReasons, OverrideReason: c.OverrideReason,
	}
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
			err := s.InTx(ctx, func(tx *Tx) (err error) {
				made, err = s.autoApprove(ctx, tx, d, now)
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

// autoApprove approves a commission that is still due once it is locked; one
// that somebody works on is left for the next sweep.
func (s *Store) autoApprove(ctx context.Context, tx *Tx, d dueCommission, now time.Time) (made bool, err error) {
	change, err := lockMove(ctx, tx, affiliate.CommissionTransition{
		Scope:   affiliate.Scope{Workspace: d.Workspace, Mode: d.Mode},
		Program: d.Program, Commission: d.ID,
		Move: affiliate.MoveAutoApprove, Actor: affiliate.System, At: now,
	}, skipLockedRows)
	var refusal *affiliate.Error
	switch {
	case errors.As(err, &refusal):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, s.tell(ctx, tx, []affiliate.CommissionChange{change}, change.Events()...)
}

type dueCommission struct {
	Workspace     affiliate.WorkspaceID
	Mode          affiliate.Mode
	Program       affiliate.ProgramID
	ID            affiliate.CommissionID
	AutoApproveAt time.Time
}

// selectDue reads the next commissions that look due, of all workspaces: each is
// judged again once it is locked. It goes on after the last one seen, so that rows
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
