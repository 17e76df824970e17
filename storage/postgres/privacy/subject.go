package privacy

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// OwnsProgram reports whether a programme belongs to a workspace, in either mode.
func (tx *Tx) OwnsProgram(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID) (owns bool, err error) {
	const query = `select exists (select from programs where workspace_id = $1 and id = $2 and mode in ('test', 'live'))`
	err = tx.QueryRow(ctx, query, workspace, program).Scan(&owns)
	return owns, err
}

// participantColumns are the fields of participantRow, selected from participants t.
const participantColumns = `t.id, t.workspace_id, t.mode, t.program_id, t.partner_id, t.partner_name, t.partner_email, t.referral_code, t.erased_at`

type participantRow struct {
	ID           affiliate.ParticipantID
	WorkspaceID  affiliate.WorkspaceID
	Mode         affiliate.Mode
	ProgramID    affiliate.ProgramID
	PartnerID    affiliate.UserID
	PartnerName  string
	PartnerEmail string
	ReferralCode string
	ErasedAt     *time.Time
}

func (r participantRow) participant() affiliate.Participant {
	return affiliate.Participant{
		ID: r.ID, Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, Program: r.ProgramID, Partner: r.PartnerID,
		PartnerName: r.PartnerName, PartnerEmail: r.PartnerEmail, ReferralCode: r.ReferralCode, ErasedAt: r.ErasedAt,
	}
}

func (tx *Tx) participants(ctx context.Context, query string, args pgx.NamedArgs) ([]affiliate.Participant, error) {
	rows, err := tx.Query(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (affiliate.Participant, error) {
		r, err := pgx.RowToStructByName[participantRow](row)
		return r.participant(), err
	})
}

// LockParticipant locks a participant and returns the fields that an erasure needs. found is
// false if the programme has no such participant in the mode.
func (tx *Tx) LockParticipant(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (p affiliate.Participant, found bool, err error) {
	const lock = `
		select ` + participantColumns + `
		from participants t
		where t.workspace_id = @workspace and t.mode = @mode and t.program_id = @program and t.id = @id
		for no key update`
	all, err := tx.participants(ctx, lock, pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "id": id})
	if err != nil || len(all) == 0 {
		return p, false, err
	}
	return all[0], true, nil
}

// ParticipantByID locks a participant that the erasure log names. found is false if it does
// not exist.
func (tx *Tx) ParticipantByID(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ParticipantID) (p affiliate.Participant, found bool, err error) {
	const lock = `
		select ` + participantColumns + `
		from participants t
		where t.workspace_id = @workspace and t.mode in ('test', 'live') and t.id = @id
		for no key update`
	all, err := tx.participants(ctx, lock, pgx.NamedArgs{"workspace": workspace, "id": id})
	if err != nil || len(all) == 0 {
		return p, false, err
	}
	return all[0], true, nil
}

// LockParticipations locks the participations of a partner that were not erased before, in
// all workspaces and both modes, and returns them.
func (tx *Tx) LockParticipations(ctx context.Context, partner affiliate.UserID) ([]affiliate.Participant, error) {
	const lock = `
		select ` + participantColumns + `
		from participants t
		where t.partner_id = @partner and t.mode in ('test', 'live') and t.workspace_id is not null and t.erased_at is null
		order by t.workspace_id, t.id
		for no key update`
	return tx.participants(ctx, lock, pgx.NamedArgs{"partner": partner})
}

// LockAccount locks an account, even if it is erased. found is false if it does not exist.
func (tx *Tx) LockAccount(ctx context.Context, id affiliate.UserID) (a affiliate.ErasableAccount, found bool, err error) {
	const lock = `select id, kind, email, name, erased_at from users where id = $1 for no key update`
	rows, err := tx.Query(ctx, lock, id)
	if err != nil {
		return a, false, err
	}
	a, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[affiliate.ErasableAccount])
	if errors.Is(err, pgx.ErrNoRows) {
		return a, false, nil
	}
	return a, err == nil, err
}

// LockWorkspaceForErasure locks a workspace, even if it is erased. found is false if it does
// not exist.
func (tx *Tx) LockWorkspaceForErasure(ctx context.Context, id affiliate.WorkspaceID) (w affiliate.ErasableWorkspace, found bool, err error) {
	const lock = `select name, billing_active, erased_at from workspaces where id = $1 for no key update`
	rows, err := tx.Query(ctx, lock, id)
	if err != nil {
		return w, false, err
	}
	w, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[affiliate.ErasableWorkspace])
	if errors.Is(err, pgx.ErrNoRows) {
		return w, false, nil
	}
	return w, err == nil, err
}

// LockMembers locks the accounts of a workspace's members and returns them.
func (tx *Tx) LockMembers(ctx context.Context, workspace affiliate.WorkspaceID) ([]affiliate.ErasableAccount, error) {
	const lock = `
		select u.id, u.kind, u.email, u.name, u.erased_at
		from members m join users u on u.id = m.user_id
		where m.workspace_id = $1
		order by u.id
		for no key update of u`
	rows, err := tx.Query(ctx, lock, workspace)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.ErasableAccount])
}

// openPayout is the condition for payouts that block an erasure (DECISIONS.md section 11).
const openPayout = `p.status in ('pending', 'processing')`

// HasOpenPayout reports whether a payout to one of the participants is pending or processing.
// The caller must have locked the participants: a batch locks them before it confirms.
func (tx *Tx) HasOpenPayout(ctx context.Context, participants []affiliate.Participant) (open bool, err error) {
	const query = `
		select exists (
			select from unnest($1::uuid[], $2::uuid[]) as t (workspace_id, id)
			join payouts p on p.workspace_id = t.workspace_id and p.participant_id = t.id
			where p.mode in ('test', 'live') and ` + openPayout + `)`
	workspaces, ids := make([]affiliate.WorkspaceID, len(participants)), make([]affiliate.ParticipantID, len(participants))
	for i, p := range participants {
		workspaces[i], ids[i] = p.Scope.Workspace, p.ID
	}
	err = tx.QueryRow(ctx, query, workspaces, ids).Scan(&open)
	return open, err
}

// WorkspaceHasOpenPayout reports whether a payout of a workspace is pending or processing.
func (tx *Tx) WorkspaceHasOpenPayout(ctx context.Context, workspace affiliate.WorkspaceID) (open bool, err error) {
	const query = `select exists (select from payouts p where p.workspace_id = $1 and p.mode in ('test', 'live') and ` + openPayout + `)`
	err = tx.QueryRow(ctx, query, workspace).Scan(&open)
	return open, err
}

// Receipt returns the amounts of a participant that were not paid.
func (tx *Tx) Receipt(ctx context.Context, p affiliate.Participant) (affiliate.ErasureReceipt, error) {
	const (
		pending = `
			select currency, sum(amount_cents)::bigint from commissions
			where workspace_id = $1 and mode = $2 and participant_id = $3 and status = 'pending'
			group by currency`
		balances = `
			select currency, sum(balance_cents)::bigint from ledger_balances
			where workspace_id = $1 and participant_id = $2
			group by currency`
	)
	var receipt affiliate.ErasureReceipt
	var err error
	if receipt.PendingCents, err = tx.sums(ctx, pending, p.Scope.Workspace, p.Scope.Mode, p.ID); err != nil {
		return receipt, err
	}
	receipt.BalanceCents, err = tx.sums(ctx, balances, p.Scope.Workspace, p.ID)
	return receipt, err
}

// sums reads amounts by currency.
func (tx *Tx) sums(ctx context.Context, query string, args ...any) (map[string]int64, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	sums := map[string]int64{}
	var currency string
	var cents int64
	_, err = pgx.ForEachRow(rows, []any{&currency, &cents}, func() error {
		sums[currency] = cents
		return nil
	})
	return sums, err
}

// SetBilling stores whether the subscription of a workspace is active. found is false if the
// workspace does not exist.
func (s *Store) SetBilling(ctx context.Context, workspace affiliate.WorkspaceID, active bool) (found bool, err error) {
	const update = `update workspaces set billing_active = $2 where id = $1`
	tag, err := s.db.Pool().Exec(ctx, update, workspace, active)
	return tag.RowsAffected() == 1, err
}

// ids converts rows of one column of ids.
func ids(rows pgx.Rows, err error) ([]uuid.UUID, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
