package payout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The column payout_id of a commission is the payout that contains the commission. A commission
// is added to a payout and released from it without a new version or history record. The table
// payout_commissions keeps the list of each payout; a release does not change the list. Before a
// transaction changes the column, it locks the commissions, so that nothing else changes them. It
// locks them in the order of their ids, so that two transactions cannot deadlock.
// follow.go describes how payouts change with their commissions.

const candidateColumns = `
	c.id, c.participant_id, c.currency, c.payout_id, c.amount_cents,
	coalesce(c.approved_at, c.created_at) as approved_at, c.status = 'approved' and ` + payableCondition + ` as payable`

const (
	// lockUnassigned locks participants' payable commissions in no payout.
	lockUnassigned = `
		select ` + candidateColumns + `
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = any(@participants)
			and c.status = 'approved' and c.payout_id is null and ` + payableCondition + `
		order by c.id
		for update of c`
	// lockAssigned locks the commissions in the given payouts, in any status.
	lockAssigned = `
		select ` + candidateColumns + `
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		where c.workspace_id = @workspace and c.mode = @mode and c.payout_id = any(@payouts)
		order by c.id
		for update of c`
	// lockReleased locks payable commissions that have left one of the payouts.
	lockReleased = `
		select ` + candidateColumns + `
		from payout_commissions l
		join commissions c on c.workspace_id = l.workspace_id and c.id = l.commission_id
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		where l.workspace_id = @workspace and c.mode = @mode and l.payout_id = any(@payouts)
			and c.status = 'approved' and c.payout_id is null and ` + payableCondition + `
		order by c.id
		for update of c`
)

// LockUnassigned locks those payable commissions of the participants that are in no payout.
func LockUnassigned(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participants []affiliate.ParticipantID, cutoff time.Time,
) ([]payout.Candidate, error) {
	return lockCandidates(ctx, tx, lockUnassigned, candidateArgs(scope, participants, nil, cutoff))
}

// LockAssigned locks the commissions in the given payouts, in any status.
func LockAssigned(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, payouts []affiliate.PayoutID, cutoff time.Time,
) ([]payout.Candidate, error) {
	return lockCandidates(ctx, tx, lockAssigned, candidateArgs(scope, nil, payouts, cutoff))
}

// LockReleased locks payable commissions that have left a payout and are in none now.
func LockReleased(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.PayoutID, cutoff time.Time) ([]payout.Candidate, error) {
	return lockCandidates(ctx, tx, lockReleased, candidateArgs(scope, nil, []affiliate.PayoutID{id}, cutoff))
}

func candidateArgs(scope affiliate.Scope, participants []affiliate.ParticipantID, payouts []affiliate.PayoutID, cutoff time.Time) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "participants": participants, "payouts": payouts, "cutoff": cutoff}
}

func lockCandidates(ctx context.Context, tx *postgres.Tx, lock string, args pgx.NamedArgs) ([]payout.Candidate, error) {
	return postgres.List[payout.Candidate](ctx, tx, lock, postgres.PlanForArgs, args)
}

// rowsPerStatement is the maximum number of rows that one statement changes, normally in 0.2 s.
// So a statement ends before its timeout, even if the database is busy.
const rowsPerStatement = 2_000

// inChunks calls process for consecutive parts of commissions, with one array per column.
func inChunks(
	commissions []payout.Candidate, process func(ids []affiliate.CommissionID, payouts []*affiliate.PayoutID, amounts []int64) error,
) error {
	for chunk := range slices.Chunk(commissions, rowsPerStatement) {
		payouts, amounts := make([]*affiliate.PayoutID, len(chunk)), make([]int64, len(chunk))
		for i, c := range chunk {
			payouts[i], amounts[i] = c.Payout, c.AmountCents
		}
		if err := process(idsOf(chunk), payouts, amounts); err != nil {
			return err
		}
	}
	return nil
}

func idsOf(commissions []payout.Candidate) []affiliate.CommissionID {
	ids := make([]affiliate.CommissionID, len(commissions))
	for i, c := range commissions {
		ids[i] = c.ID
	}
	return ids
}

// AssignCommissions adds each commission to the payout in its field Payout and stores its amount
// in the list. The commissions must be locked and in no payout.
func AssignCommissions(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, commissions []payout.Candidate, at time.Time) error {
	const assign = `
		update commissions c set payout_id = t.payout_id, updated_at = $3
		from unnest($4::uuid[], $5::uuid[]) as t (id, payout_id)
		where c.workspace_id = $1 and c.mode = $2 and c.id = t.id and c.status = 'approved' and c.payout_id is null`
	err := inChunks(commissions, func(ids []affiliate.CommissionID, payouts []*affiliate.PayoutID, _ []int64) error {
		tag, err := tx.Exec(ctx, assign, scope.Workspace, scope.Mode, at, ids, payouts)
		if err == nil && tag.RowsAffected() != int64(len(ids)) {
			err = fmt.Errorf("only %d of %d locked commissions are approved and in no payout", tag.RowsAffected(), len(ids))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("assign commissions: %w", err)
	}
	return RecordContents(ctx, tx, scope, commissions)
}

// RecordContents stores the commissions and their amounts in the lists (payout_commissions).
func RecordContents(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, commissions []payout.Candidate) error {
	const upsert = `
		insert into payout_commissions as h (workspace_id, payout_id, commission_id, amount_cents)
		select $1, payout_id, commission_id, amount_cents
		from unnest($2::uuid[], $3::uuid[], $4::bigint[]) as t (payout_id, commission_id, amount_cents)
		on conflict (workspace_id, payout_id, commission_id) do update set amount_cents = excluded.amount_cents
			where h.amount_cents <> excluded.amount_cents`
	return inChunks(commissions, func(ids []affiliate.CommissionID, payouts []*affiliate.PayoutID, amounts []int64) error {
		return postgres.Exec(ctx, tx, upsert, scope.Workspace, payouts, ids, amounts)
	})
}

// ReleaseCommissions clears payout_id of those locked commissions that can be added to another
// payout later: approved ones, and refunded ones, because the refund may fail. The lists do not
// change.
func ReleaseCommissions(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, commissions []payout.Candidate, at time.Time) error {
	const clearPayout = `
		update commissions c set payout_id = null, updated_at = $3
		where c.workspace_id = $1 and c.mode = $2 and c.id = any($4) and c.status in ('approved', 'refunded')`
	return inChunks(commissions, func(ids []affiliate.CommissionID, _ []*affiliate.PayoutID, _ []int64) error {
		return postgres.Exec(ctx, tx, clearPayout, scope.Workspace, scope.Mode, at, ids)
	})
}

// ReleaseAll locks the commissions of the given payouts and releases them (ReleaseCommissions).
func ReleaseAll(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, payouts []affiliate.PayoutID, at time.Time) error {
	assigned, err := LockAssigned(ctx, tx, scope, payouts, at)
	if err != nil {
		return err
	}
	return ReleaseCommissions(ctx, tx, scope, assigned, at)
}

// LockContents locks the commissions that are in a payout and returns their ids in ascending order.
func LockContents(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.PayoutID) ([]affiliate.CommissionID, error) {
	const lock = `select c.id from commissions c where c.workspace_id = $1 and c.mode = $2 and c.payout_id = $3 order by c.id for update`
	return postgres.Values[affiliate.CommissionID](ctx, tx, lock, scope.Workspace, scope.Mode, id)
}

// PruneContents deletes all commissions but the kept ones from the lists of the given payouts.
func PruneContents(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, payouts []affiliate.PayoutID, kept []payout.Candidate) error {
	const remove = `
		delete from payout_commissions h
		where h.workspace_id = $1 and h.payout_id = any($2) and h.commission_id <> all($3)`
	return postgres.Exec(ctx, tx, remove, scope.Workspace, payouts, idsOf(kept))
}

// listedCommissions returns the commissions in the list of each payout, ordered by id, at most
// payout.MaxEventCommissions for each.
func listedCommissions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, payouts []affiliate.PayoutID,
) (map[affiliate.PayoutID][]affiliate.CommissionID, error) {
	const read = `
		select t.id as payout, array_agg(h.commission_id order by h.commission_id) as commissions
		from unnest($2::uuid[]) as t (id)
		cross join lateral (
			select h.commission_id from payout_commissions h
			where h.workspace_id = $1 and h.payout_id = t.id
			order by h.commission_id
			limit $3
		) h
		group by t.id`
	type contents struct {
		Payout      affiliate.PayoutID
		Commissions []affiliate.CommissionID
	}
	all, err := postgres.List[contents](ctx, tx, read, scope.Workspace, payouts, payout.MaxEventCommissions)
	listed := make(map[affiliate.PayoutID][]affiliate.CommissionID, len(all))
	for _, c := range all {
		listed[c.Payout] = c.Commissions
	}
	return listed, err
}
