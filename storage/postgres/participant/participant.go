// Package participant has the SQL of participants and of their invitations.
//
// The package reads, locks and stores rows. Its callers decide which values it stores.
package participant

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

var (
	insertParticipant = postgres.RowsOf[participant.Participant](`
		insert into participants ({columns}) values {rows}
		on conflict (workspace_id, program_id, partner_id) do nothing`)
	updateParticipant = postgres.RowsOf[participant.Participant](`
		update participants p
		set {changes}
		from (values {typed rows}) as t ({columns})
		where p.workspace_id = t.workspace_id and p.mode = t.mode and p.id = t.id`)
)

// Insert stores a new participant and its totals. If another transaction has inserted the same partner
// and has not ended yet, Insert waits for it. Errors: APPLICATION_DUPLICATE if the partner already has a
// participation in the programme, EXTERNAL_ID_TAKEN.
func Insert(ctx context.Context, tx *postgres.Tx, p participant.Participant) error {
	const totals = `insert into participant_totals (workspace_id, participant_id, program_id) values ($1, $2, $3)`
	inserted, err := insertParticipant.Exec(ctx, tx, p)
	if err != nil {
		return err
	}
	if inserted == 0 {
		return affiliate.Refuse(affiliate.ReasonApplicationDuplicate)
	}
	return postgres.Exec(ctx, tx, totals, p.Workspace, p.ID, p.Program)
}

// Update stores a participant that the transaction has locked. Errors: EXTERNAL_ID_TAKEN.
func Update(ctx context.Context, tx *postgres.Tx, p participant.Participant) error {
	_, err := updateParticipant.Exec(ctx, tx, p)
	return err
}

// Get returns one participant with its stats. Errors: NOT_FOUND.
func Get(
	ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (participant.Detail, error) {
	const selectParticipant = `
		select t.* from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4`
	return postgres.OneRow[participant.Detail](db.Query(ctx, withStats(selectParticipant), scope.Workspace, scope.Mode, program, id))
}

var (
	columns = postgres.Columns[participant.Participant]("t")
	// selectOne selects a participant of a programme. The caller adds the lock.
	selectOne = `
		select ` + columns + `
		from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4`
	lockParticipant  = selectOne + ` for no key update`
	shareParticipant = selectOne + ` for share`
	lockByID         = `
		select ` + columns + `
		from participants t
		where t.workspace_id = $1 and t.mode in ('test', 'live') and t.id = $2
		for no key update`
	lockOfPartner = `
		select ` + columns + `
		from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.partner_id = $4
		for no key update`
	lockAllOfPartner = `
		select ` + columns + `
		from participants t
		where t.partner_id = $1 and t.mode in ('test', 'live') and t.workspace_id is not null and t.erased_at is null
		order by t.workspace_id, t.id
		for no key update`
)

// Lock locks a participant, so that changes of the participant, its links and its promo codes
// run one after another. FOR UPDATE would wait for transactions that store clicks and
// conversions, because these take key share locks on the row. Errors: NOT_FOUND.
func Lock(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (participant.Participant, error) {
	return postgres.OneRow[participant.Participant](tx.Query(ctx, lockParticipant, scope.Workspace, scope.Mode, program, id))
}

// Share does the same as Lock with a lock that several transactions can have at the same
// time. No other transaction can change the participant until this transaction ends.
func Share(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (participant.Participant, error) {
	return postgres.OneRow[participant.Participant](tx.Query(ctx, shareParticipant, scope.Workspace, scope.Mode, program, id))
}

// LockByID does the same as Lock for a participant of any programme of
// the workspace, in either mode.
func LockByID(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id affiliate.ParticipantID) (participant.Participant, error) {
	return postgres.OneRow[participant.Participant](tx.Query(ctx, lockByID, workspace, id))
}

// LockOfPartner returns the participant of a partner in a programme and locks it.
// Errors: NOT_FOUND.
func LockOfPartner(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, partner affiliate.UserID,
) (participant.Participant, error) {
	return postgres.OneRow[participant.Participant](tx.Query(ctx, lockOfPartner, scope.Workspace, scope.Mode, program, partner))
}

// LockAllOfPartner locks the participations of a partner that were not erased before, in
// all workspaces and both modes, and returns them.
func LockAllOfPartner(ctx context.Context, tx *postgres.Tx, partner affiliate.UserID) ([]participant.Participant, error) {
	return postgres.List[participant.Participant](ctx, tx, lockAllOfPartner, partner)
}

// HasAddress reports whether a participant of the programme has the given e-mail address.
// The given address must be in lower case.
func HasAddress(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, email string) (bool, error) {
	const query = `
		select exists (
			select from participants t
			where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and lower(t.partner_email) = $4
		)`
	return postgres.Value[bool](ctx, tx, query, scope.Workspace, scope.Mode, program, email)
}

// HasCode reports whether a participant has a referral code, or an erased participant had it.
func HasCode(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, code string) (bool, error) {
	const query = `
		select exists (select from referral_codes where workspace_id = $1 and mode = $2 and code = $3)
			or exists (select from erased_values where workspace_id = $1 and mode = $2 and kind = $4 and digest = any($5))`
	kind := privacy.ErasedReferralCode
	return postgres.Value[bool](ctx, tx, query, scope.Workspace, scope.Mode, code, kind, tx.ErasureKeys().Digests(scope, kind, code))
}

// LockGroup checks that a group belongs to the programme, and prevents its deletion until the
// transaction ends. It does nothing if group is nil. Errors: NOT_FOUND. The statement needs no
// condition on the mode, because the programme has only one mode.
func LockGroup(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, programID affiliate.ProgramID, group *affiliate.GroupID) error {
	const lock = `
		select from groups where workspace_id = $1 and program_id = $2 and id = $3
		for key share`
	if group == nil {
		return nil
	}
	tag, err := tx.Exec(ctx, lock, scope.Workspace, programID, *group)
	return postgres.RefuseIfNone(tag, err, affiliate.ReasonNotFound)
}

// LockProgramToApply returns the active programme of an application. A partner's call contains
// no workspace, so the programme is found by its id and mode. A private programme is found
// only if it has invited the partner's e-mail address. The programme's row stays locked, so
// that no participant joins after the programme was paused. Errors: NOT_FOUND.
func LockProgramToApply(
	ctx context.Context, tx *postgres.Tx, id affiliate.ProgramID, mode affiliate.Mode, email string, at time.Time,
) (program.Program, error) {
	open := `
		select ` + programs.Columns + `
		from programs p
		where p.id = $1 and p.mode = $2 and p.status = 'active' and (p.is_public or exists (
			select from participant_invites i
			where i.workspace_id = p.workspace_id and i.mode = p.mode and i.program_id = p.id and i.email = $3
				and i.ended_at is null and i.expires_at > $4
		))
		for share`
	return postgres.OneRow[program.Program](tx.Query(ctx, open, id, mode, email, at))
}

// LockForReview locks the participant of a job, so that no commission is flagged after the
// suspension has ended, and two runs of the same job do not process the same commissions. found
// is false if the participant has another status now or was suspended again.
func LockForReview(ctx context.Context, tx *postgres.Tx, job commission.ReviewPending) (partner affiliate.UserID, found bool, err error) {
	const lock = `
		select partner_id from participants
		where workspace_id = $1 and mode = $2 and program_id = $3 and id = $4 and status = $5
			and (status <> 'suspended' or suspended_at = $6)
		for no key update`
	err = tx.QueryRow(ctx, lock, job.Workspace, job.Mode, job.Program, job.Participant, job.Move.To(), job.Since).Scan(&partner)
	if errors.Is(err, pgx.ErrNoRows) {
		return partner, false, nil
	}
	return partner, err == nil, err
}

// PendingCommission is a commission that SelectPendingOf reads.
type PendingCommission struct {
	CreatedAt time.Time
	ID        affiliate.CommissionID
}

// PendingCommissions returns at most limit commissions for a job, oldest first, without a lock.
func PendingCommissions(
	ctx context.Context, tx *postgres.Tx, job commission.ReviewPending, partner affiliate.UserID, code string, limit int,
) ([]PendingCommission, error) {
	return postgres.List[PendingCommission](ctx, tx, commissions.SelectPendingOf, pgx.NamedArgs{
		"workspace": job.Workspace, "mode": job.Mode, "participant": job.Participant, "partner": partner,
		"review_reason": participant.ReviewParticipantSuspended, "flagged": !job.AddsFlag(),
		"after": job.After, "after_id": job.AfterID, "since": job.Since, "code": code, "limit": limit,
	})
}
