package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Lists of commissions. A page in the default order, narrowed or not, is read
// from an index in that order and costs its offset and its size; sorted by
// anything else it costs one pass over the rows that the filter leaves. The
// total is an index-only count of the same rows, exact, and left out where the
// page itself says it. A search finds its rows through indexes of its own
// (migration 0003) and costs as much as it has matches; its total stops at
// affiliate.MaxSearchTotal.
//
// A page and its total are two statements: a commission that is born in
// between is in one of them only.

// planned makes Postgres plan the statement for the values at hand. A generic
// plan knows neither how large the workspace is nor how common the prefix, and
// cannot use an index for a pattern that it does not see.
const planned = pgx.QueryExecModeCacheDescribe

// maxSearchPartners bounds the partners that a search follows up. A prefix that
// more of a workspace's partners share is no search yet.
const maxSearchPartners = 10_000

// commissionSorts are the sort keys of a list, over c and, for names, u.
var commissionSorts = map[affiliate.CommissionSort]string{
	affiliate.SortCreatedAt:      "c.created_at",
	affiliate.SortAmountCents:    "c.amount_cents",
	affiliate.SortStatus:         "c.status",
	affiliate.SortCommissionType: "c.commission_type",
	affiliate.SortNeedsReview:    "c.needs_review",
	affiliate.SortPartnerName:    "lower(u.name)",
}

// Commissions is one page of a list and how many rows all its pages have.
func (s *Store) Commissions(
	ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder, page affiliate.Page,
) ([]affiliate.CommissionItem, int64, error) {
	where, err := s.commissionConditions(ctx, scope, filter)
	if err != nil {
		return nil, 0, err
	}
	pageSQL, countSQL := commissionListSQL(where, filter, order)

	args := append([]any{planned}, where.args...)
	rows, _ := s.pool.Query(ctx, pageSQL, append(args, page.Size, page.Offset())...)
	items, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[affiliate.CommissionItem])
	if err != nil {
		return nil, 0, fmt.Errorf("commissions: %w", err)
	}
	for i := range items {
		items[i].Scope = scope
	}
	if n := int64(len(items)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// The list ends on this page.
		total := page.Offset() + n
		if filter.Search != "" {
			total = min(total, affiliate.MaxSearchTotal)
		}
		return items, total, nil
	}
	var total int64
	if err := s.pool.QueryRow(ctx, countSQL, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count commissions: %w", err)
	}
	return items, total, nil
}

// commissionListSQL are the statements for a page, whose last two arguments are
// its size and offset, and for the total. The names of programmes and partners
// are joined to the rows of the page only.
func commissionListSQL(where conditions, filter affiliate.CommissionFilter, order affiliate.CommissionOrder) (page, count string) {
	direction := " desc"
	if order.Ascending {
		direction = " asc"
	}
	from, key := "commissions c", commissionSorts[order.By]
	if order.By == affiliate.SortPartnerName {
		from += " join users u on u.id = c.partner_id"
	}
	// The tie-breaker is spelled out even where it repeats the key, and Postgres
	// drops the repetition.
	sortOf := func(key string) string { return key + direction + ", c.created_at desc, c.id desc" }

	page = `
		select ` + commissionColumns + `, p.name as program_name, u.name as partner_name, u.email as partner_email
		from (select c.* from ` + from + ` where ` + where.sql() + ` order by ` + sortOf(key) +
		` limit ` + where.placeholder(1) + ` offset ` + where.placeholder(2) + `) c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		join users u on u.id = c.partner_id
		order by ` + sortOf(key)
	count = `select count(*) from commissions c where ` + where.sql()
	if filter.Search != "" {
		count = fmt.Sprintf(`select count(*) from (select from commissions c where %s limit %d) c`, where.sql(), affiliate.MaxSearchTotal)
	}
	return page, count
}

// conditions are the terms of a WHERE clause with their arguments.
type conditions struct {
	terms []string
	args  []any
}

// add appends a term; each ? in it stands for the next of args.
func (c *conditions) add(term string, args ...any) {
	for _, arg := range args {
		term = strings.Replace(term, "?", c.placeholder(1), 1)
		c.args = append(c.args, arg)
	}
	c.terms = append(c.terms, term)
}

// placeholder is the name of the nth argument after those that are there.
func (c *conditions) placeholder(n int) string { return fmt.Sprintf("$%d", len(c.args)+n) }

func (c *conditions) sql() string { return strings.Join(c.terms, " and ") }

// commissionConditions say which rows of c the filter leaves.
func (s *Store) commissionConditions(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter) (conditions, error) {
	var where conditions
	where.add("c.workspace_id = ?", scope.Workspace)
	where.add("c.mode = ?", scope.Mode)
	if filter.Program != nil {
		where.add("c.program_id = ?", *filter.Program)
	}
	if filter.Status != "" {
		where.add("c.status = ?", filter.Status)
	}
	if filter.NeedsReview != nil {
		// Without a parameter, so that the partial index of flagged rows fits.
		if *filter.NeedsReview {
			where.add("c.needs_review")
		} else {
			where.add("not c.needs_review")
		}
	}
	if filter.Created.From != nil {
		where.add("c.created_at >= ?", *filter.Created.From)
	}
	if filter.Created.Before != nil {
		where.add("c.created_at < ?", *filter.Created.Before)
	}
	if filter.Search == "" {
		return where, nil
	}

	pattern := likePrefix(filter.Search)
	matches := []string{
		"lower(c.external_transaction_id) like lower(?)",
		"lower(c.promo_code) like lower(?)",
	}
	args := []any{pattern, pattern}
	if first, last, ok := idRange(filter.Search); ok {
		matches = append(matches, "c.id between ? and ?")
		args = append(args, first, last)
	}
	participants, err := s.searchPartners(ctx, scope, pattern, filter.HideEmails)
	if err != nil {
		return conditions{}, err
	}
	if len(participants) > 0 {
		matches = append(matches, "c.participant_id = any(?)")
		args = append(args, participants)
	}
	where.add("("+strings.Join(matches, " or ")+")", args...)
	return where, nil
}

// searchPartners are the participants whose partner's name, or address, starts
// as the pattern says. They are looked up beforehand because only a list of
// values can be combined with the other indexes of a search.
func (s *Store) searchPartners(ctx context.Context, scope affiliate.Scope, pattern string, hideEmails bool) ([]affiliate.ParticipantID, error) {
	const byName = `
		select p.id from users u
		join participants p on p.workspace_id = $1 and p.mode = $2 and p.partner_id = u.id
		where u.kind = 'partner' and lower(u.name) like lower($3)`
	const byEmail = `
		select p.id from users u
		join participants p on p.workspace_id = $1 and p.mode = $2 and p.partner_id = u.id
		where u.kind = 'partner' and lower(u.email) like lower($3)`
	find := byName
	if !hideEmails {
		find += " union " + byEmail
	}
	find += fmt.Sprintf(" limit %d", maxSearchPartners)
	rows, _ := s.pool.Query(ctx, find, planned, scope.Workspace, scope.Mode, pattern)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ParticipantID])
	if err != nil {
		return nil, fmt.Errorf("search partners: %w", err)
	}
	return ids, nil
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// likePrefix is the LIKE pattern for texts that start with prefix.
func likePrefix(prefix string) string { return likeEscapes.Replace(prefix) + "%" }

// idRange is the first and the last id that start with prefix; ok is false when
// none can.
func idRange(prefix string) (first, last uuid.UUID, ok bool) {
	const zeros, fs = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if len(prefix) > len(zeros) {
		return first, last, false
	}
	var errFirst, errLast error
	first, errFirst = uuid.Parse(prefix + zeros[len(prefix):])
	last, errLast = uuid.Parse(prefix + fs[len(prefix):])
	return first, last, errFirst == nil && errLast == nil
}
