package commission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Lists of commissions. The default order is by time of creation. In this order, a page
// is read from an index that has the same order, both with and without a filter. The
// counters in commission_counts show on which day the page begins. The statement that
// reads the page therefore skips only the rows of this day that are before the page. In
// any other order, it reads all rows that match the filter. The total is a sum of
// counters, unless the filter has a participant, a search text or a condition on the hold period.
//
// The commissions whose hold period is running, and the other pending ones, are found by the index
// commissions_by_hold or in the list of pending commissions. The cost of a page is at most the
// number of pending commissions. The total counts at most affiliate.MaxTotal + 1 rows.
//
// A search finds its rows through its own indexes. Its cost grows with
// the number of matches. It counts at most affiliate.MaxSearchTotal + 1 matches.
//
// A page and its total are read in one snapshot.

// maxSearchPartners is the maximum number of partners whose commissions a search finds by
// an index. With more, it compares the partner of each commission.
const maxSearchPartners = 10_000

// Sorts maps the sort keys of a list to SQL expressions. The expressions
// refer to commissions c and, for names, to participants t.
var Sorts = map[commission.Sort]string{
	commission.SortCreatedAt:      "c.created_at",
	commission.SortAmountCents:    "c.amount_cents",
	commission.SortStatus:         "c.status",
	commission.SortCommissionType: "c.commission_type",
	commission.SortNeedsReview:    "c.needs_review",
	commission.SortPartnerName:    "lower(t.partner_name)",
}

// commissionSortOf returns the ORDER BY list. It ends with the time of creation and the
// id, so no two rows are equal. Postgres ignores a column's second occurrence.
func commissionSortOf(order commission.Order) string {
	direction := " desc"
	if order.Ascending {
		direction = " asc"
	}
	return Sorts[order.By] + direction + ", c.created_at desc, c.id desc"
}

// List returns one page of a list and the number of rows on all its pages, up to
// affiliate.MaxTotalOf for a search or a condition on the hold period. Errors: NOT_FOUND for the filter's participant.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter commission.Filter, order commission.Order, page affiliate.Page,
) (items []commission.Item, total int64, err error) {
	if err := postgres.CheckFilter(ctx, db, scope, nil, filter.Participant, nil); err != nil {
		return nil, 0, err
	}
	err = db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if countsRows(filter) {
			items, total, err = searchCommissions(ctx, tx, scope, filter, order, page)
		} else {
			items, total, err = listCommissions(ctx, tx, scope, filter, order, page)
		}
		return err
	})
	return items, total, err
}

// countsRows reports whether the commissions that match a filter are counted row by row.
func countsRows(filter commission.Filter) bool {
	return filter.Search != "" || filter.HoldActive != nil
}

// listCommissions returns a page of a list without a search or a condition on the hold period.
func listCommissions(
	ctx context.Context, tx pgx.Tx, scope affiliate.Scope, filter commission.Filter, order commission.Order, page affiliate.Page,
) ([]commission.Item, int64, error) {
	filter, offset, total, err := startOfPage(ctx, tx, scope, filter, order, page)
	if err != nil {
		return nil, 0, fmt.Errorf("count commissions: %w", err)
	}
	if page.Offset() >= total {
		return nil, total, nil
	}
	where := countedConditions(scope, filter)
	where.Within("c.created_at", filter.Created)
	items, err := readCommissions(ctx, tx, where, order, page.Size, offset)
	return items, total, err
}

// startOfPage returns the number of rows that match the filter. It also returns the
// filter and the offset with which the page is read. If possible, this filter leaves out
// all days before the page begins, and the offset is counted within the first remaining
// day. Postgres therefore skips only rows of this day. This is possible for the order by
// creation, without a condition on the participant, and from the second page on. In any
// other case, the function returns the given filter and the offset of the page.
func startOfPage(
	ctx context.Context, tx pgx.Tx, scope affiliate.Scope, filter commission.Filter, order commission.Order, page affiliate.Page,
) (narrowed commission.Filter, offset, total int64, err error) {
	spans := spansFor(filter)
	canNarrow := order.By == commission.SortCreatedAt && page.Offset() > 0 && filter.Participant == nil
	if canNarrow && filter.Created == (affiliate.Period{}) {
		spans = []span{{byMonth, filter.Created}}
	}
	where := countedConditions(scope, filter)
	all, err := countSpans(ctx, tx, where, spans)
	if err != nil {
		return filter, 0, 0, err
	}
	offset, total = page.Offset(), totalOf(all)
	if !canNarrow || offset >= total {
		return filter, offset, total, nil
	}
	inOrder := func(all []spanCount) []spanCount {
		if !order.Ascending {
			slices.Reverse(all)
		}
		return all
	}
	part, offset := locate(inOrder(all), offset)
	if part.Grain == byMonth {
		days, err := countSpans(ctx, tx, where, []span{{byDay, part.Period}})
		if err != nil {
			return filter, 0, 0, err
		}
		part, offset = locate(inOrder(days), offset)
	}
	if order.Ascending {
		filter.Created.From = part.From
	} else {
		filter.Created.Before = part.Before
	}
	return filter, offset, total, nil
}

// searchCommissions returns a page of a list with a search or a condition on the hold period.
func searchCommissions(
	ctx context.Context, tx pgx.Tx, scope affiliate.Scope, filter commission.Filter, order commission.Order, page affiliate.Page,
) ([]commission.Item, int64, error) {
	where, err := commissionConditions(ctx, tx, scope, filter)
	if err != nil {
		return nil, 0, err
	}
	items, err := readCommissions(ctx, tx, where, order, page.Size, page.Offset())
	if err != nil {
		return nil, 0, err
	}
	if n := int64(len(items)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return items, page.Offset() + n, nil
	}
	total, err := countFound(ctx, tx, where, affiliate.MaxTotalOf(filter.Search))
	return items, total, err
}

// countFound counts commissions row by row. It stops at limit + 1. This number means that there are
// more than limit commissions.
func countFound(ctx context.Context, tx pgx.Tx, where postgres.Conditions, limit int64) (int64, error) {
	args := append([]any{postgres.PlanForArgs}, where.Args...)
	return postgres.Value[int64](ctx, tx, TotalSQL(where, limit), args...)
}

// TotalSQL returns the statement that counts commissions with CountUpTo.
func TotalSQL(where postgres.Conditions, limit int64) string {
	return postgres.CountUpTo(limit, `from commissions c where `+where.SQL())
}

func readCommissions(
	ctx context.Context, tx pgx.Tx, where postgres.Conditions, order commission.Order, size int, offset int64,
) ([]commission.Item, error) {
	args := append([]any{postgres.PlanForArgs}, where.Args...)
	return postgres.List[commission.Item](ctx, tx, commissionPageSQL(where, order), append(args, size, offset)...)
}

// commissionPageSQL returns the statement for a page. Its arguments are the arguments of the
// given conditions, then the size and the offset of the page. The statement reads the names of
// programmes, partners and reviewers only for the rows of the page. Only the order by partner
// needs the partner's name of every row. The names and addresses of partners are the
// participants' copies, which an erasure replaces by the pseudonym.
func commissionPageSQL(where postgres.Conditions, order commission.Order) string {
	from, sort := "commissions c", commissionSortOf(order)
	if order.By == commission.SortPartnerName {
		from += " join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id"
	}
	return `
		select ` + columns + `, p.name as program_name, t.partner_name, t.partner_email, ` + CustomerLabel + `,
			` + reviewerName("c.approved_by") + ` as approved_by_name
		from (select c.* from ` + from + ` where ` + where.SQL() + ` order by ` + sort +
		` limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `) c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
		order by ` + sort
}

// countedConditions returns the conditions of a filter, without dates, hold period and search text,
// that apply to commissions c and commission_counts c.
func countedConditions(scope affiliate.Scope, filter commission.Filter) postgres.Conditions {
	var where postgres.Conditions
	where.Add("c.workspace_id = ?", scope.Workspace)
	where.Add("c.mode = ?", scope.Mode)
	if filter.Program != nil {
		where.Add("c.program_id = ?", *filter.Program)
	}
	if filter.Participant != nil {
		// commission_counts has no participant. spansFor does not use it for a filter with a participant.
		where.Add("c.participant_id = ?", *filter.Participant)
	}
	if filter.Status != "" {
		where.Add("c.status = ?", filter.Status)
	}
	if filter.NeedsReview != nil {
		// The term has no placeholder, because Postgres uses the partial index of rows
		// that need review only if the condition is a constant.
		if *filter.NeedsReview {
			where.Add("c.needs_review")
		} else {
			where.Add("not c.needs_review")
		}
	}
	return where
}

// commissionConditions returns the conditions for commissions c that match the filter.
func commissionConditions(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, filter commission.Filter) (postgres.Conditions, error) {
	where := countedConditions(scope, filter)
	where.Within("c.created_at", filter.Created)
	if filter.HoldActive != nil {
		// Postgres uses the partial index of pending rows only if this condition is a constant.
		where.Add("c.status = 'pending'")
		if *filter.HoldActive {
			where.Add("c.hold_until > ?", filter.At)
		} else {
			where.Add("(c.hold_until is null or c.hold_until <= ?)", filter.At)
		}
	}
	if filter.Search == "" {
		return where, nil
	}

	pattern := postgres.LikePrefix(filter.Search)
	matches := []string{
		"lower(c.external_transaction_id) like lower(?)",
		"lower(c.promo_code) like lower(?)",
	}
	args := []any{pattern, pattern}
	if first, last, ok := postgres.IDRange(filter.Search); ok {
		matches = append(matches, "c.id between ? and ?")
		args = append(args, first, last)
	}
	participants, err := searchPartners(ctx, db, scope, pattern, filter.HideEmails)
	if err != nil {
		return postgres.Conditions{}, err
	}
	switch {
	case len(participants) > maxSearchPartners:
		partner := "lower(t.partner_name) like lower(?)"
		args = append(args, pattern)
		if !filter.HideEmails {
			partner += " or lower(t.partner_email) like lower(?)"
			args = append(args, pattern)
		}
		matches = append(matches, "exists (select from participants t where t.workspace_id = c.workspace_id and t.id = c.participant_id and ("+partner+"))")
	case len(participants) > 0:
		matches = append(matches, "c.participant_id = any(?)")
		args = append(args, participants)
	}
	where.Add("("+strings.Join(matches, " or ")+")", args...)
	return where, nil
}

// searchPartners returns at most maxSearchPartners + 1 participants whose name or email
// address matches the pattern. It searches an index of participants once for each programme.
// It is a separate query, because Postgres can combine a list of ids with the other indexes
// of a search, but cannot combine a subquery with them.
func searchPartners(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, pattern string, hideEmails bool) ([]affiliate.ParticipantID, error) {
	const byName = `
		select t.id from programs p
		join participants t on t.workspace_id = p.workspace_id and t.program_id = p.id
		where p.workspace_id = $1 and p.mode = $2 and lower(t.partner_name) like lower($3)`
	const byEmail = `
		select t.id from programs p
		join participants t on t.workspace_id = p.workspace_id and t.program_id = p.id
		where p.workspace_id = $1 and p.mode = $2 and lower(t.partner_email) like lower($3)`
	find := byName
	if !hideEmails {
		find += " union " + byEmail
	}
	find += fmt.Sprintf(" limit %d", maxSearchPartners+1)
	return postgres.Values[affiliate.ParticipantID](ctx, db, find, postgres.PlanForArgs, scope.Workspace, scope.Mode, pattern)
}

// SelectPendingOf reads a participant's next pending commissions, oldest first. If @flagged is
// true, it reads the commissions with the review reason @review_reason, otherwise the
// commissions without this reason. It uses an index of pending commissions by partner, because
// most commissions of a participant are not pending. An earlier chunk of the same suspension or
// reinstatement may already have changed a commission, and a person may have changed it back
// since then. The statement skips a commission whose history has an entry of the move (with the
// code @code, since @since).
const SelectPendingOf = `
	select c.created_at, c.id
	from commissions c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant and c.status = 'pending'
		and c.partner_id = @partner and (@review_reason = any (c.review_reasons)) = @flagged
		and (c.created_at, c.id) > (@after, @after_id)
		and (
			select h.seq from commission_history h
			where h.workspace_id = c.workspace_id and h.commission_id = c.id and h.at >= @since and h.code = @code
			order by h.seq desc
			limit 1) is null
	order by c.created_at, c.id
	limit @limit`

// Search returns the commissions whose id is the text or whose external transaction id starts with it.
func Search(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
	const search = `
		select c.id, c.external_transaction_id as title, t.partner_name as subtitle, c.program_id
		from (
			select @id::uuid as id
			union
			(select c.id from commissions c
			where c.workspace_id = @workspace and c.mode = @mode and lower(c.external_transaction_id) like lower(@pattern)
			order by lower(c.external_transaction_id) using ~<~
			limit @limit)
		) k
		join commissions c on c.workspace_id = @workspace and c.mode = @mode and c.id = k.id
		join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
		order by lower(c.external_transaction_id) using ~<~, c.created_at desc, c.id desc
		limit @limit`
	return postgres.Hits(ctx, db, scope, text, search)
}
