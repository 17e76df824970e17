package privacy

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// LockAccount locks an account, even if it is erased. found is false if it does not exist.
func LockAccount(ctx context.Context, tx *postgres.Tx, id affiliate.UserID) (a privacy.ErasableAccount, found bool, err error) {
	const lock = `select id, kind, email, name, erased_at, unclaimed from users where id = $1 for no key update`
	return postgres.Optional[privacy.ErasableAccount](ctx, tx, lock, id)
}

// LockWorkspaceForErasure locks a workspace, even if it is erased. found is false if it does
// not exist.
func LockWorkspaceForErasure(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (w privacy.ErasableWorkspace, found bool, err error) {
	const lock = `select name, billing_active, erased_at from workspaces where id = $1 for no key update`
	return postgres.Optional[privacy.ErasableWorkspace](ctx, tx, lock, id)
}

// LockMembers locks the accounts of the members of the workspace and returns them. Before
// that, it deletes the invitations to the workspace, because nobody may join it any more.
func LockMembers(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) ([]privacy.ErasableAccount, error) {
	// The deletion waits for requests that are accepting an invitation. The statement that
	// follows sees their members.
	const endInvites = `delete from member_invites where workspace_id = $1`
	const lock = `
		select u.id, u.kind, u.email, u.name, u.erased_at, u.unclaimed
		from members m join users u on u.id = m.user_id
		where m.workspace_id = $1
		order by u.id
		for no key update of u`
	if _, err := tx.Exec(ctx, endInvites, workspace); err != nil {
		return nil, err
	}
	return postgres.List[privacy.ErasableAccount](ctx, tx, lock, workspace)
}

// openPayout is the condition for payouts that block an erasure, because their money may
// be on the way.
const openPayout = `p.status in ('pending', 'processing')`

// HasOpenPayout reports whether a payout to one of the participants is pending or processing.
// The caller must have locked the participants, because the confirmation of a batch locks them too.
func HasOpenPayout(ctx context.Context, tx *postgres.Tx, participants []participant.Participant) (bool, error) {
	const query = `
		select exists (
			select from unnest($1::uuid[], $2::uuid[]) as t (workspace_id, id)
			join payouts p on p.workspace_id = t.workspace_id and p.participant_id = t.id
			where p.mode in ('test', 'live') and ` + openPayout + `)`
	workspaces, ids := make([]affiliate.WorkspaceID, len(participants)), make([]affiliate.ParticipantID, len(participants))
	for i, p := range participants {
		workspaces[i], ids[i] = p.Workspace, p.ID
	}
	return postgres.Value[bool](ctx, tx, query, workspaces, ids)
}

// WorkspaceHasOpenPayout reports whether a payout of a workspace is pending or processing.
func WorkspaceHasOpenPayout(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (bool, error) {
	const query = `select exists (select from payouts p where p.workspace_id = $1 and p.mode in ('test', 'live') and ` + openPayout + `)`
	return postgres.Value[bool](ctx, tx, query, workspace)
}

// Receipt returns the amounts of a participant that were not paid.
func Receipt(ctx context.Context, tx *postgres.Tx, p participant.Participant) (privacy.ErasureReceipt, error) {
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
	var receipt privacy.ErasureReceipt
	var err error
	if receipt.PendingCents, err = sums(ctx, tx, pending, p.Workspace, p.Mode, p.ID); err != nil {
		return receipt, err
	}
	receipt.BalanceCents, err = sums(ctx, tx, balances, p.Workspace, p.ID)
	return receipt, err
}

// sums reads amounts by currency.
func sums(ctx context.Context, tx *postgres.Tx, query string, args ...any) (map[string]int64, error) {
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
func SetBilling(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, active bool) (found bool, err error) {
	const update = `update workspaces set billing_active = $2 where id = $1`
	tag, err := db.Exec(ctx, update, workspace, active)
	return tag.RowsAffected() == 1, err
}

// ids converts rows of one column of ids.
func ids(rows pgx.Rows, err error) ([]uuid.UUID, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
