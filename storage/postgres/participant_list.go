package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Lists of participants. A page in any order is read from an index in that
// order and costs its offset and its size, whatever the size of the programme;
// the total is kept (list_counts). Narrowed to a status or a group, the default
// order has an index too; any other order passes over the programme's rows in
// that order until the page is full, which is long for what is rare. A search
// finds its rows through indexes of its own and costs as much as it has matches.
// A search with more than affiliate.MaxSearchTotal matches is counted to that number,
// and its pages are read in their order, with the search as a condition.
//
// A page and its total are two statements: who comes in between is in one of
// them only.

// participantStatsRow is a participant with what it has brought.
type participantStatsRow struct {
	participantRow
	Clicks          int64 `db:"clicks"`
	Conversions     int64 `db:"conversions"`
	RevenueCents    int64 `db:"revenue_cents"`
	CommissionCents int64 `db:"commission_cents"`
	BalanceCents    int64 `db:"balance_cents"`
}

func (r participantStatsRow) participant() affiliate.Participant {
	p := r.participantRow.participant()
	p.Stats = affiliate.ParticipantStats{
		Clicks: r.Clicks, Conversions: r.Conversions, RevenueCents: r.RevenueCents,
		CommissionCents: r.CommissionCents, BalanceCents: r.BalanceCents,
	}
	return p
}

// withStats adds to the rows of t that a statement finds what each has brought:
// the sums and the deltas that are not folded into them yet, which one snapshot
// sees together, and the balance of its ledger.
func withStats(of string) string {
	return `
		select ` + participantColumns + `,
			coalesce(s.clicks, 0) + d.clicks as clicks,
			coalesce(s.conversions, 0) + d.conversions as conversions,
			coalesce(s.revenue_cents, 0) + d.revenue_cents as revenue_cents,
			coalesce(s.commission_cents, 0) + d.commission_cents as commission_cents,
			b.balance_cents
		from (` + of + `) t
		join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
		left join participant_totals s on s.workspace_id = t.workspace_id and s.participant_id = t.id
		cross join lateral (
			select coalesce(sum(clicks), 0)::bigint as clicks,
				coalesce(sum(conversions), 0)::bigint as conversions,
				coalesce(sum(revenue_cents) filter (where currency = p.currency), 0)::bigint as revenue_cents,
				coalesce(sum(commission_cents) filter (where currency = p.currency), 0)::bigint as commission_cents
			from stats_deltas
			where workspace_id = t.workspace_id and participant_id = t.id
		) d
		cross join lateral (
			select coalesce(sum(balance_cents), 0)::bigint as balance_cents
			from ledger_balances
			where workspace_id = t.workspace_id and participant_id = t.id and currency = p.currency
		) b`
}

// participantSorts are the orders of a list, over t and, for counts, s; each
// ends in what makes it total. Names are compared byte by byte, as their index
// is ordered for the sake of prefixes.
var participantSorts = map[affiliate.ParticipantSort]struct{ descending, ascending string }{
	affiliate.ParticipantsByAge: {
		"t.created_at desc, t.id desc",
		"t.created_at, t.id desc",
	},
	affiliate.ParticipantsByName: {
		"lower(t.partner_name) using ~>~, t.created_at desc, t.id desc",
		"lower(t.partner_name) using ~<~, t.created_at desc, t.id desc",
	},
	affiliate.ParticipantsByClicks: {
		"s.clicks desc, s.participant_id desc",
		"s.clicks, s.participant_id desc",
	},
	affiliate.ParticipantsByConversions: {
		"s.conversions desc, s.participant_id desc",
		"s.conversions, s.participant_id desc",
	},
	affiliate.ParticipantsByRevenue: {
		"s.revenue_cents desc, s.participant_id desc",
		"s.revenue_cents, s.participant_id desc",
	},
	affiliate.ParticipantsByCommission: {
		"s.commission_cents desc, s.participant_id desc",
		"s.commission_cents, s.participant_id desc",
	},
}

// ListParticipants reads one page of a programme's participants and counts all
// pages: with a search up to affiliate.MaxSearchTotal, of a group up to
// affiliate.MaxTotal. Errors: NOT_FOUND for the programme and the filter's group.
func (s *Store) ListParticipants(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID,
	filter affiliate.ParticipantFilter, order affiliate.ParticipantOrder, page affiliate.Page,
) ([]affiliate.Participant, int64, error) {
	if _, err := s.Program(ctx, scope, program); err != nil {
		return nil, 0, err
	}
	if err := s.checkGroup(ctx, scope, program, filter.Group); err != nil {
		return nil, 0, err
	}
	args := participantListArgs(scope, program, filter, page)
	search := ""
	if filter.Search != "" {
		found, err := s.searchParticipants(ctx, filter, args)
		if err != nil {
			return nil, 0, err
		}
		args["found"] = found
		search = participantsFound
		if len(found) > affiliate.MaxSearchTotal {
			search = participantsMatching(filter)
		}
	}
	rows, err := s.pool.Query(ctx, participantListSQL(filter, search, order), planned, args)
	participants, err := AllRows(rows, err, participantStatsRow.participant)
	if err != nil {
		return nil, 0, fmt.Errorf("participants: %w", err)
	}
	total, err := s.countParticipants(ctx, scope, program, filter, args)
	return participants, total, err
}

// checkGroup refuses a group that the programme does not have: NOT_FOUND.
func (s *Store) checkGroup(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, group *affiliate.GroupID) error {
	if group == nil {
		return nil
	}
	const known = `select exists (select from groups g where g.workspace_id = $1 and g.program_id = $2 and g.id = $3)`
	var found bool
	if err := s.pool.QueryRow(ctx, known, scope.Workspace, program, *group).Scan(&found); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if !found {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}

func participantListArgs(scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.ParticipantFilter, page affiliate.Page) pgx.NamedArgs {
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "status": filter.Status, "group": filter.Group,
		"limit": page.Size, "offset": page.Offset(),
	}
	if filter.Search != "" {
		args["pattern"] = likePrefix(filter.Search)
		args["first"], args["last"], _ = idRange(filter.Search)
	}
	return args
}

// whereParticipants are the conditions of a filter, but for its search.
func whereParticipants(filter affiliate.ParticipantFilter) string {
	where := ` where t.workspace_id = @workspace and t.mode = @mode and t.program_id = @program`
	if filter.Status != "" {
		where += ` and t.status = @status`
	}
	if filter.Group != nil {
		where += ` and t.group_id = @group`
	}
	return where
}

// participantListSQL is the statement for a page: one per way of listing, so
// that each is planned with the index that has its order. search is empty,
// participantsFound or participantsMatching.
func participantListSQL(filter affiliate.ParticipantFilter, search string, order affiliate.ParticipantOrder) string {
	sorts, ok := participantSorts[order.By]
	if !ok {
		sorts = participantSorts[affiliate.ParticipantsByAge]
	}
	sort := sorts.descending
	if order.Ascending {
		sort = sorts.ascending
	}
	from, where := ` from participants t`, whereParticipants(filter)
	if strings.HasPrefix(sort, "s.") {
		from = ` from participant_totals s join participants t on t.workspace_id = s.workspace_id and t.id = s.participant_id`
		where += ` and s.workspace_id = @workspace and s.program_id = @program`
	}
	rows := `select t.*` + from + where + search + ` order by ` + sort + ` limit @limit offset @offset`
	return withStats(rows) + ` order by ` + sort
}

// participantsFound is the condition of a search whose matches are an argument.
const participantsFound = ` and t.id = any(@found)`

// participantsMatching is the condition of a search with more matches than that.
func participantsMatching(filter affiliate.ParticipantFilter) string {
	matches := []string{
		`lower(t.partner_name) like lower(@pattern)`,
		`exists (
			select from referral_codes r
			where r.workspace_id = @workspace and r.mode = @mode and r.program_id = @program
				and r.participant_id = t.id and r.code like lower(@pattern))`,
	}
	if !filter.HideEmails {
		matches = append(matches, `lower(t.partner_email) like lower(@pattern)`)
	}
	if _, _, ok := idRange(filter.Search); ok {
		matches = append(matches, `t.id between @first and @last`)
	}
	return ` and (` + strings.Join(matches, ` or `) + `)`
}

// searchParticipants are the participants that a search finds, among those that
// the rest of the filter leaves, in no order. If there are more than
// affiliate.MaxSearchTotal, they are more than that, but not all.
func (s *Store) searchParticipants(ctx context.Context, filter affiliate.ParticipantFilter, args pgx.NamedArgs) ([]affiliate.ParticipantID, error) {
	rows, err := s.pool.Query(ctx, participantSearchSQL(filter), planned, args)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ParticipantID])
	if err != nil {
		return nil, fmt.Errorf("search participants: %w", err)
	}
	return found, nil
}

// participantSearchSQL looks up each kind of prefix in its index.
func participantSearchSQL(filter affiliate.ParticipantFilter) string {
	where := whereParticipants(filter)
	limit := fmt.Sprintf(` limit %d)`, affiliate.MaxSearchTotal+1)
	kinds := []string{
		`(select t.id from participants t` + where + ` and lower(t.partner_name) like lower(@pattern)` + limit,
		// A participant may have several codes that match.
		`(select t.id from participants t` + where + ` and t.id in (
			select r.participant_id from referral_codes r
			where r.workspace_id = @workspace and r.mode = @mode and r.program_id = @program and r.code like lower(@pattern))` + limit,
	}
	if !filter.HideEmails {
		kinds = append(kinds, `(select t.id from participants t`+where+` and lower(t.partner_email) like lower(@pattern)`+limit)
	}
	if _, _, ok := idRange(filter.Search); ok {
		kinds = append(kinds, `(select t.id from participants t`+where+` and t.id between @first and @last`+limit)
	}
	return strings.Join(kinds, ` union `)
}

// A group fixes programme and mode, so that its index alone can count it.
const participantsInGroup = `
	from participants t
	where t.workspace_id = @workspace and t.group_id = @group
		and exists (select from groups where workspace_id = @workspace and program_id = @program and id = @group)`

var (
	countInGroup          = CountUpTo(affiliate.MaxTotal, participantsInGroup)
	countInGroupAndStatus = CountUpTo(affiliate.MaxTotal, participantsInGroup+` and t.status = @status`)
)

// countParticipants counts the rows of all pages, those of a group up to
// affiliate.MaxTotal.
func (s *Store) countParticipants(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.ParticipantFilter, args pgx.NamedArgs,
) (total int64, err error) {
	switch {
	case filter.Search != "":
		found, _ := args["found"].([]affiliate.ParticipantID)
		return int64(len(found)), nil
	case filter.Group != nil:
		count := countInGroup
		if filter.Status != "" {
			count = countInGroupAndStatus
		}
		err = s.pool.QueryRow(ctx, count, planned, args).Scan(&total)
		return total, err
	case filter.Status != "":
		return listCount(ctx, s.pool, scope.Workspace, program, participantCount+string(filter.Status))
	}
	return listCount(ctx, s.pool, scope.Workspace, program,
		participantCount+string(affiliate.ParticipantPending), participantCount+string(affiliate.ParticipantApproved),
		participantCount+string(affiliate.ParticipantRejected), participantCount+string(affiliate.ParticipantSuspended))
}
