package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// A page of payouts is read from an index in the order of age: of the mode, of a
// status, a programme, a participant, or of the partner; of a batch it is one
// pass over the batch. What else narrows it is a filter over those rows. A total is
// counted as far as affiliate.MaxTotal.

// payoutItemRow is a payout with its names.
type payoutItemRow struct {
	payoutRow
	ProgramName string
	PartnerName string
}

func (r payoutItemRow) item(workspace affiliate.WorkspaceID) affiliate.PayoutItem {
	return affiliate.PayoutItem{Payout: r.payout(workspace), ProgramName: r.ProgramName, PartnerName: r.PartnerName}
}

// payoutNames joins the names of programmes and partners to p.
const payoutNames = `
	join programs g on g.workspace_id = p.workspace_id and g.id = p.program_id
	join participants t on t.workspace_id = p.workspace_id and t.id = p.participant_id`

func payoutConditions(where *conditions, filter affiliate.PayoutFilter) {
	if filter.Status != "" {
		where.add("p.status = ?", filter.Status)
	}
	if filter.Program != nil {
		where.add("p.program_id = ?", *filter.Program)
	}
	if filter.Participant != nil {
		where.add("p.participant_id = ?", *filter.Participant)
	}
	if filter.Batch != nil {
		where.add("p.batch_id = ?", *filter.Batch)
	}
	where.within("p.created_at", filter.Created)
}

// payoutListSQL are the statements for a page, whose last two arguments are its
// size and offset, and for the total.
func payoutListSQL(where conditions) (page, count string) {
	const newest = ` order by p.created_at desc, p.id desc`
	page = `
		select ` + payoutColumns + `, g.name as program_name, t.partner_name
		from (select p.* from payouts p where ` + where.sql() + newest +
		` limit ` + where.placeholder(1) + ` offset ` + where.placeholder(2) + `) p` + payoutNames + newest
	return page, CountUpTo(affiliate.MaxTotal, `from payouts p where `+where.sql())
}

func (s *Store) payoutPage(ctx context.Context, workspace affiliate.WorkspaceID, where conditions, page affiliate.Page) ([]affiliate.PayoutItem, int64, error) {
	pageSQL, countSQL := payoutListSQL(where)
	args := append([]any{planned}, where.args...)
	rows, err := s.pool.Query(ctx, pageSQL, append(args, page.Size, page.Offset())...)
	if err != nil {
		return nil, 0, fmt.Errorf("payouts: %w", err)
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (affiliate.PayoutItem, error) {
		r, err := pgx.RowToStructByNameLax[payoutItemRow](row)
		return r.item(workspace), err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("payouts: %w", err)
	}
	if n := int64(len(items)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// The list ends on this page.
		return items, page.Offset() + n, nil
	}
	var total int64
	if err := s.pool.QueryRow(ctx, countSQL, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count payouts: %w", err)
	}
	return items, total, nil
}

// Payouts reads one page, newest first, and counts all pages up to
// affiliate.MaxTotal payouts.
func (s *Store) Payouts(ctx context.Context, scope affiliate.Scope, filter affiliate.PayoutFilter, page affiliate.Page) ([]affiliate.PayoutItem, int64, error) {
	if err := s.checkFilter(ctx, scope, filter.Program, filter.Participant, filter.Batch); err != nil {
		return nil, 0, err
	}
	var where conditions
	where.add("p.workspace_id = ?", scope.Workspace)
	where.add("p.mode = ?", scope.Mode)
	payoutConditions(&where, filter)
	return s.payoutPage(ctx, scope.Workspace, where, page)
}

// PartnerPayouts reads one page of a partner's own payouts in the mode, newest
// first, and counts all pages up to affiliate.MaxTotal payouts. What was never
// confirmed is the merchant's own business.
func (s *Store) PartnerPayouts(
	ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.PayoutFilter, page affiliate.Page,
) ([]affiliate.PayoutItem, int64, error) {
	if err := s.checkParticipation(ctx, partner, mode, filter.Program); err != nil {
		return nil, 0, err
	}
	var where conditions
	where.add("p.partner_id = ?", partner)
	where.add("p.mode = ?", mode)
	where.add("p.initiated_at is not null")
	payoutConditions(&where, filter)
	return s.payoutPage(ctx, affiliate.WorkspaceID{}, where, page)
}

// readPayout reads one payout. Errors: NOT_FOUND.
func readPayout(ctx context.Context, db Queryer, scope affiliate.Scope, id affiliate.PayoutID) (affiliate.PayoutItem, error) {
	const read = `
		select ` + payoutColumns + `, g.name as program_name, t.partner_name
		from payouts p` + payoutNames + `
		where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
	rows, err := db.Query(ctx, read, scope.Workspace, scope.Mode, id)
	if err != nil {
		return affiliate.PayoutItem{}, fmt.Errorf("payout: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[payoutItemRow])
	switch {
	case err != nil:
		return affiliate.PayoutItem{}, fmt.Errorf("payout: %w", err)
	case len(found) == 0:
		return affiliate.PayoutItem{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return found[0].item(scope.Workspace), nil
}

// Payout reads one payout with what it consists of. Errors: NOT_FOUND.
func (s *Store) Payout(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutID) (affiliate.PayoutDetail, error) {
	const commissions = `
		select c.id as commission, h.amount_cents, c.external_transaction_id, c.approved_at
		from payout_commissions h
		join commissions c on c.workspace_id = h.workspace_id and c.id = h.commission_id
		where h.workspace_id = $1 and c.mode = $2 and h.payout_id = $3
		order by c.approved_at, c.id
		limit $4`
	const hint = `select m.account_hint from payout_methods m where m.user_id = $1 and m.method = $2`
	item, err := readPayout(ctx, s.pool, scope, id)
	if err != nil {
		return affiliate.PayoutDetail{}, err
	}
	detail := affiliate.PayoutDetail{PayoutItem: item}
	rows, _ := s.pool.Query(ctx, commissions, scope.Workspace, scope.Mode, id, affiliate.MaxPayoutCommissions)
	if detail.Commissions, err = pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.PayoutCommission]); err != nil {
		return detail, fmt.Errorf("commissions of a payout: %w", err)
	}
	rows, _ = s.pool.Query(ctx, hint, item.Partner, item.Method)
	hints, err := pgx.CollectRows(rows, pgx.RowTo[*string])
	if err != nil {
		return detail, fmt.Errorf("payout method: %w", err)
	}
	if len(hints) > 0 {
		detail.AccountHint = hints[0]
	}
	return detail, nil
}

// PayoutBatch reads one batch. Errors: NOT_FOUND.
func (s *Store) PayoutBatch(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID) (affiliate.PayoutBatch, error) {
	const read = `
		select ` + batchColumns + `
		from payout_batches b
		where b.workspace_id = $1 and b.mode = $2 and b.id = $3`
	rows, _ := s.pool.Query(ctx, read, scope.Workspace, scope.Mode, id)
	batch, err := collectBatch(rows, scope)
	if err != nil {
		return batch, err
	}
	batch.Counts, batch.Totals, err = countPayouts(ctx, s.pool, batch)
	return batch, err
}

const (
	whereBatches = `
		from payout_batches b
		where b.workspace_id = $1 and b.mode = $2 and ($3::text = '' or b.status = $3)`
	selectBatches = `
		select ` + batchColumns + whereBatches + `
		order by b.created_at desc, b.id desc
		limit $4 offset $5`
)

var countBatches = CountUpTo(affiliate.MaxTotal, whereBatches)

// PayoutBatches reads one page, newest first, and counts all pages up to
// affiliate.MaxTotal batches; an empty status is any.
func (s *Store) PayoutBatches(
	ctx context.Context, scope affiliate.Scope, status affiliate.PayoutBatchStatus, page affiliate.Page,
) ([]affiliate.PayoutBatch, int64, error) {
	rows, _ := s.pool.Query(ctx, selectBatches, planned, scope.Workspace, scope.Mode, status, page.Size, page.Offset())
	batches, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (affiliate.PayoutBatch, error) {
		b, err := pgx.RowToStructByNameLax[affiliate.PayoutBatch](row)
		return inUTC(b, scope), err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("payout batches: %w", err)
	}
	var total int64
	if err := s.pool.QueryRow(ctx, countBatches, planned, scope.Workspace, scope.Mode, status).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count payout batches: %w", err)
	}
	return batches, total, countEach(ctx, s.pool, scope, batches)
}
