package payout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
)

// Payouts change only while their batch is locked. A transaction locks the batch, its
// payouts, their participants and their commissions, in this order.

const batchColumns = `
	b.id, b.status, b.program_ids as programs, b.cutoff, b.created_by, b.first_confirmed_by, b.first_confirmed_user,
	b.first_confirmed_at, b.confirmed_by, b.created_at, b.confirmed_at, b.completed_at, b.version`

// batchRow is a row with batchColumns.
type batchRow struct {
	payout.Batch
	FirstConfirmedBy   *affiliate.ActorID
	FirstConfirmedUser *affiliate.UserID
	FirstConfirmedAt   *time.Time
}

func (r batchRow) batch(scope affiliate.Scope) payout.Batch {
	b := r.Batch
	b.Scope = scope
	b.Cutoff, b.CreatedAt = b.Cutoff.UTC(), b.CreatedAt.UTC()
	b.ConfirmedAt, b.CompletedAt = postgres.UTC(b.ConfirmedAt), postgres.UTC(b.CompletedAt)
	if r.FirstConfirmedBy != nil {
		b.First = &payout.FirstConfirmation{By: *r.FirstConfirmedBy, User: *r.FirstConfirmedUser, At: r.FirstConfirmedAt.UTC()}
	}
	return b
}

// InsertBatch stores a new batch with its payouts, adds the commissions to the
// payouts, and writes the events and the audit record. The caller must have locked the
// participants and commissions with LockDue. The returned batch has its counts
// and totals.
func InsertBatch(ctx context.Context, tx *postgres.Tx, draft payout.DraftBatch, by affiliate.Actor) (payout.Batch, error) {
	const insert = `
		insert into payout_batches (workspace_id, id, mode, status, program_ids, cutoff, created_by, created_at, version)
		values (@workspace, @id, @mode, @status, @programs, @cutoff, @created_by, @created_at, @version)`
	batch := draft.Batch
	programs := append([]affiliate.ProgramID{}, batch.Programs...) // an empty slice, because the column is not null
	_, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": batch.Scope.Workspace, "id": batch.ID, "mode": batch.Scope.Mode, "status": batch.Status, "programs": programs,
		"cutoff": batch.Cutoff, "created_by": batch.CreatedBy, "created_at": batch.CreatedAt, "version": batch.Version,
	})
	if err != nil {
		return batch, fmt.Errorf("insert payout batch: %w", err)
	}
	if err := insertPayouts(ctx, tx, batch, draft.Payouts); err != nil {
		return batch, err
	}
	if err := assignCommissions(ctx, tx, batch.Scope, draft.Commissions, batch.CreatedAt); err != nil {
		return batch, err
	}
	if batch, err = completeBatch(ctx, tx, batch); err != nil {
		return batch, err
	}
	if err := tx.Publish(ctx, draft.Events()...); err != nil {
		return batch, err
	}
	return batch, auditBatch(ctx, tx, batch, "create", batch.CreatedAt, by, nil, map[string]any{
		"program_ids": programs, "cutoff": affiliate.FormatTime(batch.Cutoff), "payout_count": len(draft.Payouts),
	})
}

// lockBatch locks a batch. While a batch is locked, no other transaction changes its
// payouts. Errors: NOT_FOUND.
func lockBatch(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id payout.BatchID) (payout.Batch, error) {
	const lock = `
		select ` + batchColumns + `
		from payout_batches b
		where b.workspace_id = $1 and b.mode = $2 and b.id = $3
		for no key update`
	rows, _ := tx.Query(ctx, lock, scope.Workspace, scope.Mode, id)
	return collectBatch(rows, scope)
}

func collectBatch(rows pgx.Rows, scope affiliate.Scope) (payout.Batch, error) {
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[batchRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return payout.Batch{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return payout.Batch{}, fmt.Errorf("payout batch: %w", err)
	}
	return row.batch(scope), nil
}

// selectPayoutStatuses returns the statuses that a batch's payouts have. It searches
// the index once per status and counts nothing, so its cost does not depend on the
// number of payouts. The lateral join with a limit keeps the planner from joining all
// payouts.
const selectPayoutStatuses = `
	select s.status
	from unnest($4::text[]) as s (status)
	cross join lateral (
		select from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = s.status
		limit 1
	) p`

var payoutStatuses = []payout.Status{
	payout.Draft, payout.Pending, payout.Processing, payout.Paid, payout.Failed, payout.Canceled,
}

// updateBatchStatus stores the confirmations of a locked batch and sets its status
// according to its payouts. The returned batch has no counts, totals and names.
func updateBatchStatus(ctx context.Context, tx *postgres.Tx, batch payout.Batch, at time.Time) (payout.Batch, error) {
	const update = `
		update payout_batches set status = @status, confirmed_by = @confirmed_by, confirmed_at = @confirmed_at,
			first_confirmed_by = @first_by, first_confirmed_user = @first_user, first_confirmed_at = @first_at,
			completed_at = @completed_at, version = @version
		where workspace_id = @workspace and mode = @mode and id = @id`
	rows, _ := tx.Query(ctx, selectPayoutStatuses, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, payoutStatuses)
	found, err := pgx.CollectRows(rows, pgx.RowTo[payout.Status])
	if err != nil {
		return batch, fmt.Errorf("read payout statuses: %w", err)
	}
	present := payout.Counts{}
	for _, status := range found {
		present[status] = 1 // at least one
	}
	batch = batch.Follow(present, at)
	batch.Counts, batch.Totals = nil, nil
	batch.Version++
	args := pgx.NamedArgs{
		"workspace": batch.Scope.Workspace, "mode": batch.Scope.Mode, "id": batch.ID, "status": batch.Status,
		"confirmed_by": batch.ConfirmedBy, "confirmed_at": batch.ConfirmedAt, "first_by": nil, "first_user": nil, "first_at": nil,
		"completed_at": batch.CompletedAt, "version": batch.Version,
	}
	if first := batch.First; first != nil {
		args["first_by"], args["first_user"], args["first_at"] = first.By, first.User, first.At
	}
	if _, err = tx.Exec(ctx, update, args); err != nil {
		return batch, fmt.Errorf("update payout batch: %w", err)
	}
	return batch, nil
}

// completeBatch returns a batch with its counts, totals and names.
func completeBatch(ctx context.Context, db postgres.Queryer, batch payout.Batch) (payout.Batch, error) {
	batches := []payout.Batch{batch}
	err := completeBatches(ctx, db, batch.Scope, batches)
	return batches[0], err
}

// completeBatches sets the counts, totals and names of batches.
func completeBatches(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, batches []payout.Batch) error {
	if err := setPayoutCounts(ctx, db, scope, batches); err != nil {
		return err
	}
	return setBatchNames(ctx, db, scope, batches)
}

// setBatchNames sets the names of the users and service tokens that created and confirmed
// the batches.
func setBatchNames(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, batches []payout.Batch) error {
	const read = `
		select t.id, coalesce(u.name, 'service:' || s.name) as name
		from unnest($2::uuid[]) as t (id)
		left join users u on u.id = t.id
		left join service_tokens s on s.workspace_id = $1 and s.id = t.id
		where u.id is not null or s.id is not null`
	names := map[affiliate.ActorID]string{}
	var ids []affiliate.ActorID
	for i := range batches {
		b := &batches[i]
		b.Names = names
		ids = append(ids, b.CreatedBy)
		if b.First != nil {
			ids = append(ids, b.First.By)
		}
		if b.ConfirmedBy != nil {
			ids = append(ids, *b.ConfirmedBy)
		}
	}
	rows, _ := db.Query(ctx, read, scope.Workspace, ids)
	var id affiliate.ActorID
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	}); err != nil {
		return fmt.Errorf("read the names in payout batches: %w", err)
	}
	return nil
}

// sumBatches counts the payouts of batches by status and currency.
const sumBatches = `
	select p.batch_id as batch, p.status, p.currency, count(*) as n, sum(p.amount_cents)::bigint as amount_cents
	from payouts p
	where p.workspace_id = $1 and p.mode = $2 and p.batch_id = any($3)
	group by p.batch_id, p.status, p.currency
	order by p.batch_id, p.currency`

// setPayoutCounts sets the counts and totals of batches. Canceled payouts are counted,
// but they are not part of the totals.
func setPayoutCounts(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, batches []payout.Batch) error {
	type sum struct {
		Batch       payout.BatchID
		Status      payout.Status
		Currency    string
		N           int64
		AmountCents int64
	}
	ids := make([]payout.BatchID, len(batches))
	indexOf := map[payout.BatchID]int{}
	for i := range batches {
		ids[i], indexOf[batches[i].ID] = batches[i].ID, i
		batches[i].Counts, batches[i].Totals = payout.Counts{}, nil
	}
	rows, _ := db.Query(ctx, sumBatches, scope.Workspace, scope.Mode, ids)
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByName[sum])
	if err != nil {
		return fmt.Errorf("count payouts: %w", err)
	}
	for _, sum := range sums {
		b := &batches[indexOf[sum.Batch]]
		b.Counts[sum.Status] += sum.N
		if sum.Status == payout.Canceled {
			continue
		}
		if n := len(b.Totals); n == 0 || b.Totals[n-1].Currency != sum.Currency {
			b.Totals = append(b.Totals, payout.Total{Currency: sum.Currency})
		}
		total := &b.Totals[len(b.Totals)-1]
		total.Count += sum.N
		total.AmountCents += sum.AmountCents
	}
	return nil
}

// ConfirmBatch confirms a draft batch, or stores the first of two confirmations
// (payout.Batch.Confirm). The confirmation first removes commissions that are no
// longer payable from their payouts, and computes amounts and adjustments again. If the
// new amount of a payout cannot be paid, it cancels the payout. It copies the accounts of
// the partners to the payouts. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
func ConfirmBatch(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, confirmation payout.Confirmation,
) (payout.Batch, error) {
	at, by := confirmation.At, confirmation.By
	var batch payout.Batch
	err := db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		limit, err := confirmationLimit(ctx, tx, scope, at)
		if err != nil {
			return err
		}
		if batch, err = lockBatch(ctx, tx, scope, id); err != nil {
			return err
		}
		if batch, err = completeBatch(ctx, tx, batch); err != nil {
			return err
		}
		oldStatus := batch.Status
		confirmed, complete, refusal := batch.Confirm(confirmation, limit)
		if refusal != nil {
			return refusal
		}
		if complete {
			batch, err = confirmPayouts(ctx, tx, confirmed, at, by)
		} else if batch, err = updateBatchStatus(ctx, tx, confirmed, at); err == nil {
			err = tx.Notify(ctx, confirmed.AwaitingNotification(at))
		}
		if err != nil {
			return err
		}
		if batch, err = completeBatch(ctx, tx, batch); err != nil {
			return err
		}
		return auditBatch(ctx, tx, batch, "confirm", at, by, map[string]any{"status": oldStatus}, map[string]any{
			"status": batch.Status, "payouts": batch.Counts,
		})
	})
	return batch, err
}

// sumConfirmed sums the payouts of the batches that were confirmed after a time. Canceled
// payouts do not count.
const sumConfirmed = `
	select p.currency, count(*) as count, sum(p.amount_cents)::bigint as amount_cents
	from payout_batches b
	join payouts p on p.workspace_id = b.workspace_id and p.batch_id = b.id
	where b.workspace_id = $1 and b.mode = $2 and b.confirmed_at > $3 and p.mode = $2 and p.status <> 'canceled'
	group by p.currency`

// confirmationLimit returns the limit of a workspace for confirmations by one member; nil if
// it has none. If it has one, the confirmations of the scope run one after another, so that
// none of them misses another one. The caller must not have locked rows before.
func confirmationLimit(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, at time.Time) (*payout.ConfirmationLimit, error) {
	const (
		above = `select w.second_person_above_cents from workspaces w where w.id = $1`
		lock  = `select pg_advisory_xact_lock(hashtextextended('payout_confirmations:' || $1::uuid || ':' || $2::text, 0))`
	)
	var cents *int64
	if err := tx.QueryRow(ctx, above, scope.Workspace).Scan(&cents); err != nil {
		return nil, fmt.Errorf("read the payout approval of the workspace: %w", err)
	}
	if cents == nil {
		return nil, nil
	}
	if _, err := tx.Exec(ctx, lock, scope.Workspace, scope.Mode); err != nil {
		return nil, fmt.Errorf("lock the confirmations of the workspace: %w", err)
	}
	rows, _ := tx.Query(ctx, sumConfirmed, scope.Workspace, scope.Mode, at.Add(-payout.ConfirmationWindow))
	confirmed, err := pgx.CollectRows(rows, pgx.RowToStructByName[payout.Total])
	if err != nil {
		return nil, fmt.Errorf("sum the confirmed batches: %w", err)
	}
	return &payout.ConfirmationLimit{Cents: *cents, Confirmed: confirmed}, nil
}

// confirmPayouts confirms the draft payouts of a locked batch.
func confirmPayouts(ctx context.Context, tx *postgres.Tx, batch payout.Batch, at time.Time, by affiliate.Actor) (payout.Batch, error) {
	// The lock makes sure that the methods do not change between the check and the copy.
	const lockMethods = `
		select m.user_id from payout_methods m where m.user_id = any($1) order by m.user_id for share`
	drafts, err := lockPayouts(ctx, tx, batch, payout.Draft)
	if err != nil {
		return batch, err
	}
	partners := column(drafts, func(p payout.Payout) affiliate.UserID { return p.Partner })
	if _, err := tx.Exec(ctx, lockMethods, partners); err != nil {
		return batch, fmt.Errorf("lock payout methods: %w", err)
	}
	changes, err := recheckPayouts(ctx, tx, batch, drafts, payout.MoveConfirm, at, by)
	if err != nil {
		return batch, err
	}
	if batch, err = movePayouts(ctx, tx, batch, at, changes...); err != nil {
		return batch, err
	}
	return batch, copyAccounts(ctx, tx, batch)
}

// copyAccounts copies the accounts of the partners to the pending payouts of a batch that
// have no account yet.
func copyAccounts(ctx context.Context, tx *postgres.Tx, batch payout.Batch) error {
	const update = `
		update payouts p set account = m.account, account_hint = m.account_hint
		from payout_methods m
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = 'pending' and p.account is null
			and m.user_id = p.partner_id and m.method = p.method and m.account is not null`
	if _, err := tx.Exec(ctx, update, batch.Scope.Workspace, batch.Scope.Mode, batch.ID); err != nil {
		return fmt.Errorf("copy accounts to payouts: %w", err)
	}
	return nil
}

// recheckPayouts returns the changes that move payouts to the next status; the caller
// stores them with movePayouts. recheckPayouts locks the participants and commissions of
// the payouts and then computes the amount of each payout again. It releases commissions
// that are no longer payable, and cancels payouts whose new amount cannot be paid.
func recheckPayouts(
	ctx context.Context, tx *postgres.Tx, batch payout.Batch, payouts []payout.Payout, move payout.Move, at time.Time, by affiliate.Actor,
) ([]payout.Change, error) {
	participants, ids := make([]affiliate.ParticipantID, len(payouts)), make([]affiliate.PayoutID, len(payouts))
	for i, p := range payouts {
		participants[i], ids[i] = p.Participant, p.ID
	}
	if err := lockParticipants(ctx, tx, batch.Scope, participants); err != nil {
		return nil, err
	}
	held, err := lockForPayout(ctx, tx, lockAssigned, payoutCommissionArgs(batch.Scope, ids, batch.Cutoff))
	if err != nil {
		return nil, err
	}
	due, err := dueAmounts(ctx, tx, payout.Selection{Scope: batch.Scope, Cutoff: batch.Cutoff, At: at}, participants)
	if err != nil {
		return nil, err
	}
	stillPayable := map[affiliate.PayoutID][]payout.Candidate{}
	for _, c := range held {
		if c.Payable {
			stillPayable[*c.Payout] = append(stillPayable[*c.Payout], c)
		}
	}
	var changes []payout.Change
	var stillOpen []affiliate.PayoutID
	canceled := map[affiliate.PayoutID]bool{}
	for _, p := range payouts {
		d := due[ledgers.Key{Participant: p.Participant, Currency: p.Currency}].WithCommissions(stillPayable[p.ID])
		// The amount due does not contain the adjustments of open payouts. This payout is
		// open too, so its own adjustment is added again.
		d.AdjustmentCents += p.AdjustmentCents
		d = d.WithAccountOf(p).LimitAmount(p)
		t := payout.Transition{Move: move, Actor: by, At: at}
		if d.Exclusion() != "" {
			t.Move, canceled[p.ID] = payout.MoveCancel, true
		} else {
			stillOpen = append(stillOpen, p.ID)
		}
		change, refusal := t.Apply(p)
		if refusal != nil {
			return nil, refusal
		}
		if !canceled[p.ID] {
			change.After = change.After.WithAmounts(d)
		}
		changes = append(changes, change)
	}
	var kept, released []payout.Candidate
	for _, c := range held {
		if c.Payable && !canceled[*c.Payout] {
			kept = append(kept, c)
		} else {
			released = append(released, c)
		}
	}
	if err := releaseCommissions(ctx, tx, batch.Scope, released, at); err != nil {
		return nil, err
	}
	// A canceled payout keeps its amount and its list of commissions.
	if err := pruneContents(ctx, tx, batch.Scope, stillOpen, kept); err != nil {
		return nil, err
	}
	return changes, recordContents(ctx, tx, batch.Scope, kept)
}

// CancelBatch cancels a batch with its draft and pending payouts. It refuses a
// batch that has a processing or paid payout. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
func CancelBatch(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, at time.Time, by affiliate.Actor,
) (payout.Batch, error) {
	var batch payout.Batch
	err := db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		if batch, err = lockBatch(ctx, tx, scope, id); err != nil {
			return err
		}
		oldStatus := batch.Status
		if oldStatus != payout.BatchDraft && oldStatus != payout.BatchAwaitingApproval && oldStatus != payout.BatchConfirmed {
			return batch.Refuse()
		}
		unsent, err := lockPayouts(ctx, tx, batch, payout.Draft, payout.Pending)
		if err != nil {
			return err
		}
		changes, payouts := make([]payout.Change, len(unsent)), make([]affiliate.PayoutID, len(unsent))
		for i, p := range unsent {
			change, refusal := payout.Transition{Move: payout.MoveCancel, Actor: by, At: at}.Apply(p)
			if refusal != nil {
				return refusal
			}
			changes[i], payouts[i] = change, p.ID
		}
		if err := releaseAll(ctx, tx, scope, payouts, at); err != nil {
			return err
		}
		if batch, err = movePayouts(ctx, tx, batch, at, changes...); err != nil {
			return err
		}
		if batch, err = completeBatch(ctx, tx, batch); err != nil {
			return err
		}
		return auditBatch(ctx, tx, batch, "cancel", at, by, map[string]any{"status": oldStatus}, map[string]any{"status": batch.Status})
	})
	return batch, err
}
