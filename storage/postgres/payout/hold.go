package payout

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The column payout_id of a commission is the payout that contains the commission. A
// commission is added to a payout and released from it without a new version or history
// record. The table payout_commissions keeps the list of each payout; a release does not
// change the list. Before a transaction changes the column, it locks the commissions, so
// that nothing else changes them. It locks them in the order of their ids, so that two
// transactions cannot block each other.
// follow.go describes how payouts change with their commissions.

const candidateColumns = `
	c.id, c.participant_id, c.currency, c.payout_id, c.amount_cents,
	coalesce(c.approved_at, c.created_at) as approved_at, c.status = 'approved' and ` + payableCondition + ` as payable`

const (
	// lockUnassigned locks the payable commissions of participants that are not in a
	// payout yet.
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
	// lockReleased locks those payable commissions that were released from one of the
	// given payouts and are in no payout now.
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

// LockUnassigned locks the payable commissions of participants that are in no payout yet.
func LockUnassigned(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participants []affiliate.ParticipantID, cutoff time.Time,
) ([]payout.Candidate, error) {
	return lockCandidates(ctx, tx, lockUnassigned, unassignedArgs(scope, participants, cutoff))
}

// LockAssigned locks the commissions in the given payouts, in any status.
func LockAssigned(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, payouts []affiliate.PayoutID, cutoff time.Time,
) ([]payout.Candidate, error) {
	return lockCandidates(ctx, tx, lockAssigned, contentArgs(scope, payouts, cutoff))
}

// LockReleased locks those payable commissions that were released from a payout and are in
// no payout now.
func LockReleased(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.PayoutID, cutoff time.Time,
) ([]payout.Candidate, error) {
	return lockCandidates(ctx, tx, lockReleased, contentArgs(scope, []affiliate.PayoutID{id}, cutoff))
}

func unassignedArgs(scope affiliate.Scope, participants []affiliate.ParticipantID, cutoff time.Time) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "participants": participants, "cutoff": cutoff}
}

func contentArgs(scope affiliate.Scope, payouts []affiliate.PayoutID, cutoff time.Time) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "payouts": payouts, "cutoff": cutoff}
}

func lockCandidates(ctx context.Context, tx *postgres.Tx, lock string, args pgx.NamedArgs) ([]payout.Candidate, error) {
	rows, _ := tx.Query(ctx, lock, postgres.PlanForArgs, args)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[payout.Candidate])
	if err != nil {
		return nil, fmt.Errorf("lock commissions of payouts: %w", err)
	}
	return found, nil
}

// rowsPerStatement is the maximum number of rows that one statement changes. A statement
// with this number of rows normally takes about 0.2 s. It does not reach the timeout even
// if the database is busy.
const rowsPerStatement = 2_000

// inChunks divides the range from 0 to n into consecutive parts and calls process for
// each part.
func inChunks(n int, process func(from, to int) error) error {
	for from := 0; from < n; from += rowsPerStatement {
		if err := process(from, min(from+rowsPerStatement, n)); err != nil {
			return err
		}
	}
	return nil
}

// AssignCommissions adds locked commissions that are in no payout to their payouts and
// records their amounts.
func AssignCommissions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, commissions []payout.Candidate, at time.Time,
) error {
	const assign = `
		update commissions c set payout_id = t.payout_id, updated_at = $3
		from unnest($4::uuid[], $5::uuid[]) as t (id, payout_id)
		where c.workspace_id = $1 and c.mode = $2 and c.id = t.id and c.status = 'approved' and c.payout_id is null`
	ids := make([]affiliate.CommissionID, len(commissions))
	payouts := make([]affiliate.PayoutID, len(commissions))
	for i, c := range commissions {
		ids[i], payouts[i] = c.ID, *c.Payout
	}
	err := inChunks(len(commissions), func(from, to int) error {
		tag, err := tx.Exec(ctx, assign, scope.Workspace, scope.Mode, at, ids[from:to], payouts[from:to])
		if err == nil && tag.RowsAffected() != int64(to-from) {
			err = fmt.Errorf("only %d of %d locked commissions are approved and in no payout", tag.RowsAffected(), to-from)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("assign commissions: %w", err)
	}
	return RecordContents(ctx, tx, scope, commissions)
}

// RecordContents records which commissions payouts contain, and with which amounts.
func RecordContents(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, commissions []payout.Candidate) error {
	const upsert = `
		insert into payout_commissions as h (workspace_id, payout_id, commission_id, amount_cents)
		select $1, payout_id, commission_id, amount_cents
		from unnest($2::uuid[], $3::uuid[], $4::bigint[]) as t (payout_id, commission_id, amount_cents)
		on conflict (workspace_id, payout_id, commission_id) do update set amount_cents = excluded.amount_cents
			where h.amount_cents <> excluded.amount_cents`
	payouts := make([]affiliate.PayoutID, len(commissions))
	ids := make([]affiliate.CommissionID, len(commissions))
	amounts := make([]int64, len(commissions))
	for i, c := range commissions {
		payouts[i], ids[i], amounts[i] = *c.Payout, c.ID, c.AmountCents
	}
	return inChunks(len(commissions), func(from, to int) error {
		if _, err := tx.Exec(ctx, upsert, scope.Workspace, payouts[from:to], ids[from:to], amounts[from:to]); err != nil {
			return fmt.Errorf("record the contents of payouts: %w", err)
		}
		return nil
	})
}

// ReleaseCommissions clears payout_id of those locked commissions that can be added to
// another payout: the approved ones, and the refunded ones, which are approved again if
// the refund fails. Any other commission keeps its payout_id. The lists in
// payout_commissions do not change.
func ReleaseCommissions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, commissions []payout.Candidate, at time.Time,
) error {
	const clearPayout = `
		update commissions c set payout_id = null, updated_at = $3
		where c.workspace_id = $1 and c.mode = $2 and c.id = any($4) and c.status in ('approved', 'refunded')`
	ids := make([]affiliate.CommissionID, len(commissions))
	for i, c := range commissions {
		ids[i] = c.ID
	}
	return inChunks(len(ids), func(from, to int) error {
		if _, err := tx.Exec(ctx, clearPayout, scope.Workspace, scope.Mode, at, ids[from:to]); err != nil {
			return fmt.Errorf("release commissions: %w", err)
		}
		return nil
	})
}

// ReleaseAll locks and releases all commissions of the given payouts.
func ReleaseAll(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, payouts []affiliate.PayoutID, at time.Time) error {
	held, err := LockAssigned(ctx, tx, scope, payouts, at)
	if err != nil {
		return err
	}
	return ReleaseCommissions(ctx, tx, scope, held, at)
}

// LockContents locks the commissions in a payout and returns their ids in ascending order.
func LockContents(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.PayoutID) ([]affiliate.CommissionID, error) {
	const lock = `select c.id from commissions c where c.workspace_id = $1 and c.mode = $2 and c.payout_id = $3 order by c.id for update`
	rows, _ := tx.Query(ctx, lock, scope.Workspace, scope.Mode, id)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
	if err != nil {
		return nil, fmt.Errorf("lock the commissions of a payout: %w", err)
	}
	return ids, nil
}

// PruneContents deletes the commissions of the given payouts from payout_commissions,
// except the commissions in kept.
func PruneContents(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, payouts []affiliate.PayoutID, kept []payout.Candidate,
) error {
	const remove = `
		delete from payout_commissions h
		where h.workspace_id = $1 and h.payout_id = any($2) and h.commission_id <> all($3)`
	ids := make([]affiliate.CommissionID, len(kept))
	for i, c := range kept {
		ids[i] = c.ID
	}
	if _, err := tx.Exec(ctx, remove, scope.Workspace, payouts, ids); err != nil {
		return fmt.Errorf("prune the contents of payouts: %w", err)
	}
	return nil
}

// listedCommissions returns the commissions that each payout contains, ordered by id. It
// returns at most payout.MaxEventCommissions commissions per payout, because events
// contain no more than this number.
func listedCommissions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, payouts []affiliate.PayoutID,
) (map[affiliate.PayoutID][]affiliate.CommissionID, error) {
	const read = `
		select t.id as payout, h.commission_id as commission
		from unnest($2::uuid[]) as t (id)
		cross join lateral (
			select h.commission_id from payout_commissions h
			where h.workspace_id = $1 and h.payout_id = t.id
			order by h.commission_id
			limit $3
		) h
		order by t.id, h.commission_id`
	listed := map[affiliate.PayoutID][]affiliate.CommissionID{}
	rows, _ := tx.Query(ctx, read, scope.Workspace, payouts, payout.MaxEventCommissions)
	var payout affiliate.PayoutID
	var commission affiliate.CommissionID
	_, err := pgx.ForEachRow(rows, []any{&payout, &commission}, func() error {
		listed[payout] = append(listed[payout], commission)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the contents of payouts: %w", err)
	}
	return listed, nil
}
