// Package partner has the SQL of the data that a partner sees, across all workspaces:
// profile, programmes, commissions and balances.
package partner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// A partner account belongs to no workspace and has no mode. The statements about
// accounts filter by the account's id.
var (
	selectProfile = `
		select ` + postgres.Columns[partner.Profile]("u") + `
		from users u
		where u.id = $1 and u.kind = 'partner' and u.erased_at is null`
	lockProfile   = selectProfile + ` for no key update`
	updateProfile = postgres.RowsOf[partner.Profile](`
		update users u set {changes}
		from (values {typed rows}) as t ({columns})
		where u.id = t.id and u.kind = 'partner'`)
)

// Profile returns a partner's account. Errors: NOT_FOUND.
func Profile(ctx context.Context, db *postgres.DB, id affiliate.UserID) (partner.Profile, error) {
	return readProfile(ctx, db, selectProfile, id)
}

// LockProfile returns a partner's account and locks it. Applications of the partner wait for
// the lock, because they copy the name into a new participant. Errors: NOT_FOUND.
func LockProfile(ctx context.Context, tx *postgres.Tx, id affiliate.UserID) (partner.Profile, error) {
	return readProfile(ctx, tx, lockProfile, id)
}

func readProfile(ctx context.Context, db postgres.Queryer, sql string, id affiliate.UserID) (partner.Profile, error) {
	const method = `select method, account_hint, updated_at, held_until from payout_methods where user_id = $1`
	p, err := postgres.OneRow[partner.Profile](db.Query(ctx, sql, id))
	if err != nil {
		return p, err
	}
	rows, err := db.Query(ctx, method, id)
	if err != nil {
		return p, err
	}
	p.Payout, err = pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[payout.Details])
	if errors.Is(err, pgx.ErrNoRows) {
		p.Payout, err = nil, nil
	}
	return p, err
}

// UpdateProfile stores a profile that the transaction has locked.
func UpdateProfile(ctx context.Context, tx *postgres.Tx, p partner.Profile) error {
	_, err := updateProfile.Exec(ctx, tx, p)
	return err
}

// Rename updates the copies of a partner's name in all workspaces and both modes. A participation that the partner
// has not accepted keeps the name that the merchant gave, because the merchant must not see the partner's name.
func Rename(ctx context.Context, tx *postgres.Tx, id affiliate.UserID, name string) error {
	const rename = `update participants set partner_name = $2 where partner_id = $1 and erased_at is null and partner_consent is null`
	return postgres.Exec(ctx, tx, rename, id, name)
}

// A partner has commissions in many workspaces. The statements therefore filter by the
// partner and the mode instead of a workspace. If the filter has a programme, they
// filter by the workspace and the id of the partner's participant in this programme.
//
// A page in the order of creation is read from an index that has this order:
// commissions_by_partner, commissions_by_partner_status if the filter has a status, or
// commissions_by_participant if it has a programme. The cost of the page is its offset
// and its size. In any other order, the statement reads all rows that match the filter.
// The total stops at affiliate.MaxTotal. It is counted in the index alone, unless the
// filter has both a status and a programme. For the last page, nothing is counted.

// partnerCommissionColumns are selected from commissions c, programs p, attribution_decisions d,
// conversions v and links l. A second statement, clickSubIDs, reads the sub ids of clicks.
var partnerCommissionColumns = postgres.Columns[commission.Commission]("c") + `,
	p.name as program_name, v.link_id as link, l.code as link_code, coalesce(v.sub_id, l.sub_id) as sub_id, coalesce(d.explanation, '') as explanation`

// Commissions returns one page of a partner's commissions in the mode, and the
// number of rows on all pages, up to affiliate.MaxTotal. The page can be ordered by
// creation, amount or status. Errors: NOT_FOUND if the partner does not take part in the
// filter's programme.
func Commissions(
	ctx context.Context, db *postgres.DB, partnerID affiliate.UserID, mode affiliate.Mode,
	filter partner.CommissionFilter, order commission.Order, page affiliate.Page,
) ([]partner.Commission, int64, error) {
	where, err := partnerCommissionConditions(ctx, db, partnerID, mode, filter)
	if err != nil {
		return nil, 0, err
	}
	pageSQL, countSQL := partnerCommissionsSQL(where, order)
	args := append([]any{postgres.PlanForArgs}, where.Args...)
	commissions, err := postgres.List[partner.Commission](ctx, db, pageSQL, append(args, page.Size, page.Offset())...)
	if err == nil {
		err = addClickSubIDs(ctx, db, partnerID, mode, commissions)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read partner's commissions: %w", err)
	}
	if n := int64(len(commissions)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return commissions, page.Offset() + n, nil
	}
	var total int64
	err = db.QueryRow(ctx, countSQL, args...).Scan(&total)
	return commissions, total, err
}

// Commission returns one commission of a partner. It is read by its primary key in each of the
// partner's workspaces. Errors: NOT_FOUND.
func Commission(
	ctx context.Context, db *postgres.DB, partnerID affiliate.UserID, mode affiliate.Mode, id affiliate.CommissionID,
) (c partner.Commission, err error) {
	sql, args := partnerCommissionSQL(partnerID, mode, id)
	found, err := postgres.List[partner.Commission](ctx, db, sql, append([]any{postgres.PlanForArgs}, args...)...)
	if err == nil {
		err = addClickSubIDs(ctx, db, partnerID, mode, found)
	}
	switch {
	case err != nil:
		return c, fmt.Errorf("read partner's commission: %w", err)
	case len(found) == 0:
		return c, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return found[0], nil
}

func partnerCommissionSQL(partner affiliate.UserID, mode affiliate.Mode, id affiliate.CommissionID) (sql string, args []any) {
	var where postgres.Conditions
	where.Add("c.workspace_id = any (array(select t.workspace_id from participants t where t.partner_id = ?))", partner)
	where.Add("c.id = ?", id)
	where.Add("c.partner_id = ?", partner)
	where.Add("c.mode = ?", mode)
	sql, _ = partnerCommissionsSQL(where, commission.Order{By: commission.SortCreatedAt})
	return sql, append(where.Args, 1, 0)
}

// exportBatch is the number of commissions whose click sub ids are read together.
const exportBatch = 500

// ExportCommissions returns the commissions that Commissions returns on all its pages, read in
// one snapshot. As with postgres.Export, a loop over the result uses a connection and an export
// slot. A partner has as many slots as a workspace. Errors: NOT_FOUND if the partner does not
// take part in the filter's programme; SERVICE_UNAVAILABLE if too many exports are running.
func ExportCommissions(
	ctx context.Context, db *postgres.DB, partnerID affiliate.UserID, mode affiliate.Mode, filter partner.CommissionFilter, order commission.Order,
) (iter.Seq2[partner.Commission, error], error) {
	where, err := partnerCommissionConditions(ctx, db, partnerID, mode, filter)
	if err != nil {
		return nil, err
	}
	all, _ := partnerCommissionsSQL(where, order)
	args := append(append([]any{postgres.PlanForArgs}, where.Args...), nil, 0) // no limit
	rows := postgres.Export(ctx, db, affiliate.WorkspaceID(partnerID), pgx.RowToStructByName[partner.Commission], all, args...)
	return func(yield func(partner.Commission, error) bool) {
		batch := make([]partner.Commission, 0, exportBatch)
		flush := func() bool {
			if err := addClickSubIDs(ctx, db, partnerID, mode, batch); err != nil {
				yield(partner.Commission{}, err)
				return false
			}
			for _, c := range batch {
				if !yield(c, nil) {
					return false
				}
			}
			batch = batch[:0]
			return true
		}
		for c, err := range rows {
			if err != nil {
				yield(c, err)
				return
			}
			if batch = append(batch, c); len(batch) == exportBatch && !flush() {
				return
			}
		}
		flush()
	}, nil
}

// clickSubIDs reads the sub ids of clicks by the primary key. The workspace of a click is the workspace of
// the participant. The column clicked_at has the time inside the id. $6 and $7 are the first and the last of
// these times, so that Postgres skips the other partitions.
const clickSubIDs = `
	select k.id, k.sub_id
	from unnest($3::uuid[], $4::uuid[], $5::timestamptz[]) as n (participant_id, id, clicked_at)
	join participants t on t.partner_id = $1 and t.mode = $2 and t.id = n.participant_id
	cross join lateral (
		select c.id, c.sub_id from clicks c
		where c.workspace_id = t.workspace_id and c.mode = $2 and c.id = n.id and c.clicked_at = n.clicked_at and c.clicked_at between $6 and $7
		limit 1
	) as k
	where k.sub_id is not null`

// addClickSubIDs sets the sub ids of the commissions whose clicks have one.
func addClickSubIDs(ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, commissions []partner.Commission) error {
	var participants []affiliate.ParticipantID
	var clicks []affiliate.ClickID
	var times []time.Time
	for _, c := range commissions {
		if c.Click == nil {
			continue
		}
		if at, ok := c.Click.Time(); ok {
			participants, clicks, times = append(participants, c.Participant), append(clicks, *c.Click), append(times, at)
		}
	}
	if len(clicks) == 0 {
		return nil
	}
	type clickRow struct {
		ID    affiliate.ClickID
		SubID string
	}
	first, last := slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
	found, err := postgres.List[clickRow](ctx, db, clickSubIDs, postgres.PlanForArgs, partner, mode, participants, clicks, times, first, last)
	if err != nil {
		return err
	}
	subIDs := map[affiliate.ClickID]*string{}
	for _, row := range found {
		subIDs[row.ID] = &row.SubID
	}
	for i, c := range commissions {
		if c.Click != nil && subIDs[*c.Click] != nil {
			commissions[i].SubID = subIDs[*c.Click]
		}
	}
	return nil
}

// partnerCommissionConditions returns the conditions for the rows of commissions c that
// match the filter. Errors: NOT_FOUND if the partner does not take part in the filter's
// programme.
func partnerCommissionConditions(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, filter partner.CommissionFilter,
) (where postgres.Conditions, err error) {
	if filter.Program == nil {
		where.Add("c.partner_id = ?", partner)
		where.Add("c.mode = ?", mode)
	} else {
		const participation = `
			select workspace_id, id from participants where partner_id = $1 and mode = $2 and program_id = $3`
		var workspace affiliate.WorkspaceID
		var participant affiliate.ParticipantID
		err := db.QueryRow(ctx, participation, partner, mode, *filter.Program).Scan(&workspace, &participant)
		if errors.Is(err, pgx.ErrNoRows) {
			return where, affiliate.Refuse(affiliate.ReasonNotFound)
		}
		if err != nil {
			return where, fmt.Errorf("participation: %w", err)
		}
		where.Add("c.workspace_id = ?", workspace)
		where.Add("c.mode = ?", mode)
		where.Add("c.participant_id = ?", participant)
	}
	if filter.Status != "" {
		where.Add("c.status = ?", filter.Status)
	}
	if filter.Created.From != nil {
		where.Add("c.created_at >= ?", *filter.Created.From)
	}
	if filter.Created.Before != nil {
		where.Add("c.created_at < ?", *filter.Created.Before)
	}
	return where, nil
}

// partnerCommissionsSQL returns the statements for a page and for the total. The statement for a page takes the
// arguments of the given conditions, and then the size and the offset of the page. The statement for the total
// takes only the arguments of the conditions. Every commission has a conversion, but only a left join shows
// Postgres that no row is lost.
func partnerCommissionsSQL(where postgres.Conditions, order commission.Order) (page, count string) {
	direction := " desc"
	if order.Ascending {
		direction = " asc"
	}
	sorted := commissions.Sorts[order.By] + direction + ", c.created_at desc, c.id desc"
	page = `
		select ` + partnerCommissionColumns + `
		from (select c.* from commissions c where ` + where.SQL() + ` order by ` + sorted +
		` limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `) c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		left join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
		left join conversions v on v.workspace_id = c.workspace_id and v.mode = c.mode and v.id = c.conversion_id
		left join links l on l.workspace_id = c.workspace_id and l.id = v.link_id
		order by ` + sorted
	return page, commissions.TotalSQL(where, affiliate.MaxTotal)
}

// partnerBalances sums the partner's amounts in the mode. The paid commissions are summed with
// an index-only scan of commissions_by_partner_status. The hold period is in no index, so the
// rows of the pending commissions are read. The cost grows with the number of commissions,
// mainly of the pending ones, and with the number of payouts.
var (
	partnerBalances = balancesSQL(`
		from participants t
		join ledger_balances b on b.workspace_id = t.workspace_id and b.participant_id = t.id
		where t.partner_id = $2 and t.mode = $3`, `m.partner_id = $2 and m.mode = $3`)
	// participantBalances sums the amounts of one participant, which determines the mode.
	participantBalances = balancesSQL(`
		from ledger_balances b
		where b.workspace_id = $2 and b.participant_id = $4`, `m.workspace_id = $2 and m.mode = $3 and m.participant_id = $4`)
)

// balancesSQL returns the statement for ledger.PartnerBalance. ledger selects the balances b, and
// owner the commissions or payouts m. $1 is the current time.
func balancesSQL(ledger, owner string) string {
	return `
	select currency, sum(balance_cents)::bigint as balance_cents, sum(pending_cents)::bigint as pending_cents, sum(hold_cents)::bigint as hold_cents,
		sum(paid_cents)::bigint as paid_cents, sum(in_payout_cents)::bigint as in_payout_cents, sum(reserved_cents)::bigint as reserved_cents
	from (
		select b.currency, b.balance_cents, 0 as pending_cents, 0 as hold_cents, 0 as paid_cents, 0 as in_payout_cents, 0 as reserved_cents` + ledger + `
		union all
		select m.currency, 0, m.amount_cents, case when m.hold_until > $1 then m.amount_cents else 0 end, 0, 0, 0
		from commissions m where ` + owner + ` and m.status = 'pending'
		union all
		select m.currency, 0, 0, 0, m.amount_cents, 0, 0
		from commissions m where ` + owner + ` and m.status = 'paid'
		union all
		select m.currency, 0, 0, 0, 0, m.amount_cents, case m.status when 'pending' then m.amount_cents else 0 end
		from payouts m where ` + owner + ` and m.status in ('pending', 'processing')
	) sums
	group by currency
	order by currency`
}

// Balances returns the sums of a partner for each currency in the mode, at the given time.
func Balances(ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, at time.Time) ([]ledger.PartnerBalance, error) {
	return postgres.List[ledger.PartnerBalance](ctx, db, partnerBalances, at, partner, mode)
}

// ParticipantBalances returns the sums of Balances for one participant.
func ParticipantBalances(ctx context.Context, db *postgres.DB, p participant.Ref, at time.Time) ([]ledger.PartnerBalance, error) {
	return postgres.List[ledger.PartnerBalance](ctx, db, participantBalances, at, p.Scope.Workspace, p.Scope.Mode, p.Participant)
}
