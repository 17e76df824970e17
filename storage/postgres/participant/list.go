package participant

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Lists of participants. For each order of a list there is an index that has this order,
// and a page is read from this index. The cost of a page is its offset and its size, not
// the size of the programme. The total is stored in list_counts, unless the filter has a
// group, an external id, a tag or a search text.
//
// The default order also has an index for a filter by status or group. For other orders
// with such a filter, Postgres reads the programme's rows in order and skips those that
// do not match, until the page is full. That is slow if few rows match.
//
// A filter by tag reads the programme's participants that have tags, newest first, and checks the tags of each. It
// reads an index that contains only participants with tags. Its cost is the number of these participants.
//
// A search reads an index of each searched column. Its cost is the number of matches. If
// there are more than affiliate.MaxSearchTotal matches, the total stops after that
// number. A page is then read from the index in the order of the list, and Postgres
// checks for each row whether it matches the search. In a list of several programmes, this is only
// done for programmes with so many matches. Otherwise it would read the whole of a programme with few.
//
// A list of several programmes merges their lists: it reads the first rows of each programme, up to
// the end of the page, from the same indexes, and sorts them. The cost of a page is its offset and
// its size, multiplied by the number of programmes.
//
// A page and its total are read by two statements. A participant that joins between
// them is missing from the page but included in the total.

// withStats returns a statement that reads participants t with their stats and balance.
// The statement selectParticipants selects the participants. The stats are the stored
// totals plus the deltas that are not yet added to the totals, read in one snapshot.
func withStats(selectParticipants string) string {
	return `
		select ` + columns + `,
			coalesce(s.clicks, 0) + d.clicks as clicks,
			coalesce(s.conversions, 0) + d.conversions as conversions,
			coalesce(s.revenue_cents, 0) + d.revenue_cents as revenue_cents,
			coalesce(s.commission_cents, 0) + d.commission_cents as commission_cents,
			b.balance_cents, p.name as program_name, p.currency
		from (` + selectParticipants + `) t
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

// participantSorts maps the orders of a list to ORDER BY lists over participants t and
// totals s. Each list ends with an id, so that no two rows are equal. Names are
// compared byte by byte, because the index of names must also support prefix searches.
var participantSorts = map[participant.Sort]struct{ descending, ascending string }{
	participant.ParticipantsByAge: {
		"t.created_at desc, t.id desc",
		"t.created_at, t.id desc",
	},
	participant.ParticipantsByName: {
		"lower(t.partner_name) using ~>~, t.created_at desc, t.id desc",
		"lower(t.partner_name) using ~<~, t.created_at desc, t.id desc",
	},
	participant.ParticipantsByClicks: {
		"s.clicks desc, s.participant_id desc",
		"s.clicks, s.participant_id desc",
	},
	participant.ParticipantsByConversions: {
		"s.conversions desc, s.participant_id desc",
		"s.conversions, s.participant_id desc",
	},
	participant.ParticipantsByRevenue: {
		"s.revenue_cents desc, s.participant_id desc",
		"s.revenue_cents, s.participant_id desc",
	},
	participant.ParticipantsByCommission: {
		"s.commission_cents desc, s.participant_id desc",
		"s.commission_cents, s.participant_id desc",
	},
}

// List returns one page of a programme's participants and the number of
// participants on all pages. The number stops at affiliate.MaxSearchTotal if the filter
// has a search text, and at affiliate.MaxTotal if it has a group or a tag. Otherwise it is
// exact. Errors: NOT_FOUND if the filter's group does not exist.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID,
	filter participant.Filter, order participant.Order, page affiliate.Page,
) ([]participant.Detail, int64, error) {
	if err := checkGroup(ctx, db, scope, program, filter.Group); err != nil {
		return nil, 0, err
	}
	return list(ctx, db, scope, []affiliate.ProgramID{program}, filter, order, page)
}

func list(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, programs []affiliate.ProgramID,
	filter participant.Filter, order participant.Order, page affiliate.Page,
) ([]participant.Detail, int64, error) {
	args := participantListArgs(scope, programs, filter, page)
	search, err := searchCondition(ctx, db, programs, filter, args)
	if err == nil && search != "" && search != participantsFound && len(programs) > 1 {
		err = searchEach(ctx, db, programs, filter, args)
	}
	if err != nil {
		return nil, 0, err
	}
	participants, err := postgres.List[participant.Detail](ctx, db, participantListSQL(programs, filter, search, order), postgres.PlanForArgs, args)
	if err != nil {
		return nil, 0, err
	}
	total, err := countParticipants(ctx, db, scope, programs, filter, args)
	return participants, total, err
}

// searchCondition returns the condition for the search text of a filter, or an empty text if it has
// none. It reads the matches and adds them to args.
func searchCondition(
	ctx context.Context, db postgres.Queryer, programs []affiliate.ProgramID, filter participant.Filter, args pgx.NamedArgs,
) (string, error) {
	if filter.Search == "" {
		return "", nil
	}
	found, err := searchParticipants(ctx, db, programs, filter, args)
	if err != nil {
		return "", err
	}
	args["found"], args["matches"] = found, len(found)
	if len(found) > affiliate.MaxSearchTotal {
		return participantsMatching(filter), nil
	}
	return participantsFound, nil
}

// searchEach reads the matches of each programme. It adds the programmes with more than
// affiliate.MaxSearchTotal matches to args, and replaces the found participants by those of the
// other programmes.
func searchEach(ctx context.Context, db postgres.Queryer, programs []affiliate.ProgramID, filter participant.Filter, args pgx.NamedArgs) error {
	var found []affiliate.ParticipantID
	var large []affiliate.ProgramID
	for _, program := range programs {
		args["program"] = program
		matches, err := searchParticipants(ctx, db, []affiliate.ProgramID{program}, filter, args)
		if err != nil {
			return err
		}
		if len(matches) > affiliate.MaxSearchTotal {
			large = append(large, program)
		} else {
			found = append(found, matches...)
		}
	}
	args["found"], args["large"] = found, large
	return nil
}

// checkGroup checks that the group belongs to the programme. If group is nil, there is
// nothing to check. Errors: NOT_FOUND.
func checkGroup(ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, group *affiliate.GroupID) error {
	if group == nil {
		return nil
	}
	const known = `select exists (select from groups g where g.workspace_id = $1 and g.program_id = $2 and g.id = $3)`
	var found bool
	if err := db.QueryRow(ctx, known, scope.Workspace, program, *group).Scan(&found); err != nil {
		return err
	}
	if !found {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}

// Conditions on the programme of a participant.
const (
	oneProgram  = `= @program`
	anyProgram  = `= any(@programs)`
	eachProgram = `= g.id` // in a list that is merged from the lists of the programmes g
)

func ofProgram(programs []affiliate.ProgramID) string {
	if len(programs) == 1 {
		return oneProgram
	}
	return anyProgram
}

func participantListArgs(scope affiliate.Scope, programs []affiliate.ProgramID, filter participant.Filter, page affiliate.Page) pgx.NamedArgs {
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "programs": programs, "status": filter.Status, "group": filter.Group,
		"external_id": filter.ExternalID, "tag": filter.Tag, "limit": page.Size, "offset": page.Offset(),
	}
	if len(programs) == 1 {
		args["program"] = programs[0]
	}
	if filter.Search != "" {
		args["pattern"] = postgres.LikePrefix(filter.Search)
		args["first"], args["last"], _ = postgres.IDRange(filter.Search)
	}
	return args
}

// whereParticipants returns the WHERE clause for a filter, without its search text.
func whereParticipants(ofProgram string, filter participant.Filter) string {
	where := ` where t.workspace_id = @workspace and t.mode = @mode and t.program_id ` + ofProgram
	if filter.Status != "" {
		where += ` and t.status = @status`
	}
	if filter.Group != nil {
		where += ` and t.group_id = @group`
	}
	if filter.ExternalID != "" {
		where += ` and t.external_id = @external_id`
	}
	if filter.Tag != "" {
		// Postgres uses the index participants_tagged because of the first condition.
		where += ` and t.tags <> '{}' and @tag = any(t.tags)`
	}
	return where
}

// participantListSQL returns the statement for a page. Each combination of filter and
// order is a separate statement, so that Postgres can choose the index that fits it.
// search is empty, participantsFound or the result of participantsMatching.
func participantListSQL(programs []affiliate.ProgramID, filter participant.Filter, search string, order participant.Order) string {
	sort, of := sortOf(order), ofProgram(programs)
	from, row := participantRows(of, filter, sort)
	if of == oneProgram || search == participantsFound {
		from += search
	} else {
		merged := mergedRows("@programs", filter, search, sort)
		if search != "" { // searchEach has distributed the programmes
			each := `select ` + row + `.*`
			merged = ` from (` + each + mergedRows("@large", filter, search, sort) + ` union all ` + each + from + participantsFound + `) ` + row
		}
		from = merged
		if row == "s" {
			from += joinParticipants
		}
	}
	rows := `select t.*` + from + ` order by ` + sort + ` limit @limit offset @offset`
	return withStats(rows) + ` order by ` + sort
}

const joinParticipants = ` join participants t on t.workspace_id = s.workspace_id and t.id = s.participant_id`

// participantRows returns the FROM and WHERE clauses of participants t in the given order, and the
// name of the table that has its columns: t, or s for the totals.
func participantRows(ofProgram string, filter participant.Filter, sort string) (from, row string) {
	where := whereParticipants(ofProgram, filter)
	if strings.HasPrefix(sort, "s.") {
		return ` from participant_totals s` + joinParticipants + where + ` and s.workspace_id = @workspace and s.program_id ` + ofProgram, "s"
	}
	return ` from participants t` + where, "t"
}

// mergedRows returns the FROM clause of the first rows of each programme, up to the end of the page.
func mergedRows(programs string, filter participant.Filter, search, sort string) string {
	from, row := participantRows(eachProgram, filter, sort)
	// The inner list has the columns by which the outer one is sorted.
	return ` from unnest(` + programs + `::uuid[]) g (id) cross join lateral (
		select ` + row + `.*` + from + search + ` order by ` + sort + ` limit @limit::bigint + @offset::bigint) ` + row
}

// sortOf returns the ORDER BY list of an order.
func sortOf(order participant.Order) string {
	sorts, ok := participantSorts[order.By]
	if !ok {
		sorts = participantSorts[participant.ParticipantsByAge]
	}
	if order.Ascending {
		return sorts.ascending
	}
	return sorts.descending
}

// participantsFound is the condition for a search if its matches have been read and are
// passed as an argument.
const participantsFound = ` and t.id = any(@found)`

// participantsMatching returns the condition for a search if there are more than
// affiliate.MaxSearchTotal matches. Postgres checks the condition for each row.
func participantsMatching(filter participant.Filter) string {
	matches := []string{
		`lower(t.partner_name) like lower(@pattern)`,
		// With EXISTS, Postgres could read the codes of all workspaces.
		`coalesce((
			select true from referral_codes r
			where r.workspace_id = @workspace and r.mode = @mode and r.program_id = t.program_id
				and r.participant_id = t.id and r.code like lower(@pattern)
			limit 1), false)`,
	}
	if !filter.HideEmails {
		matches = append(matches, `lower(t.partner_email) like lower(@pattern)`)
	}
	if _, _, ok := postgres.IDRange(filter.Search); ok {
		matches = append(matches, `t.id between @first and @last`)
	}
	return ` and (` + strings.Join(matches, ` or `) + `)`
}

// searchParticipants returns the ids of the participants that match all conditions of
// the filter, in no particular order. If more than affiliate.MaxSearchTotal
// participants match, it returns more than that number of ids, but not necessarily all.
func searchParticipants(
	ctx context.Context, db postgres.Queryer, programs []affiliate.ProgramID, filter participant.Filter, args pgx.NamedArgs,
) ([]affiliate.ParticipantID, error) {
	return postgres.Values[affiliate.ParticipantID](ctx, db, participantSearchSQL(ofProgram(programs), filter), postgres.PlanForArgs, args)
}

// participantSearchSQL returns a statement that looks up the search text as a prefix in
// the indexes of all searched columns.
func participantSearchSQL(ofProgram string, filter participant.Filter) string {
	where := whereParticipants(ofProgram, filter)
	limit := fmt.Sprintf(` limit %d)`, affiliate.MaxSearchTotal+1)
	searches := []string{
		`(select t.id from participants t` + where + ` and lower(t.partner_name) like lower(@pattern)` + limit,
		// The condition with IN selects a participant only once, even if several of its
		// codes match.
		`(select t.id from participants t` + where + ` and t.id in (
			select r.participant_id from referral_codes r
			where r.workspace_id = @workspace and r.mode = @mode and r.program_id ` + ofProgram + ` and r.code like lower(@pattern))` + limit,
	}
	if !filter.HideEmails {
		searches = append(searches, `(select t.id from participants t`+where+` and lower(t.partner_email) like lower(@pattern)`+limit)
	}
	if _, _, ok := postgres.IDRange(filter.Search); ok {
		searches = append(searches, `(select t.id from participants t`+where+` and t.id between @first and @last`+limit)
	}
	return strings.Join(searches, ` union `)
}

// The group determines the programme and the mode, so the index participants_by_group is
// enough to count its participants.
const participantsInGroup = `
	from participants t
	where t.workspace_id = @workspace and t.group_id = @group
		and exists (select from groups where workspace_id = @workspace and program_id = @program and id = @group)`

var (
	countInGroup          = postgres.CountUpTo(affiliate.MaxTotal, participantsInGroup)
	countInGroupAndStatus = postgres.CountUpTo(affiliate.MaxTotal, participantsInGroup+` and t.status = @status`)
)

// countParticipantsSQL returns a statement that counts the rows of a filter. It is for a
// filter with an external id, which at most one participant has, or with a tag.
func countParticipantsSQL(ofProgram string, filter participant.Filter) string {
	return postgres.CountUpTo(affiliate.MaxTotal, `from participants t`+whereParticipants(ofProgram, filter))
}

// countParticipants returns the number of participants on all pages. The number stops at
// affiliate.MaxSearchTotal or affiliate.MaxTotal for some filters, as the comment of List says.
func countParticipants(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, programs []affiliate.ProgramID, filter participant.Filter, args pgx.NamedArgs,
) (total int64, err error) {
	switch {
	case filter.Search != "":
		matches, _ := args["matches"].(int)
		return int64(matches), nil
	case filter.ExternalID != "", filter.Tag != "":
		err = db.QueryRow(ctx, countParticipantsSQL(ofProgram(programs), filter), postgres.PlanForArgs, args).Scan(&total)
		return total, err
	case filter.Group != nil:
		count := countInGroup
		if filter.Status != "" {
			count = countInGroupAndStatus
		}
		err = db.QueryRow(ctx, count, postgres.PlanForArgs, args).Scan(&total)
		return total, err
	case filter.Status != "":
		return postgres.ListCounts(ctx, db, scope.Workspace, programs, postgres.ParticipantCount+string(filter.Status))
	}
	return postgres.ListCounts(ctx, db, scope.Workspace, programs,
		postgres.ParticipantCount+string(participant.Pending), postgres.ParticipantCount+string(participant.Approved),
		postgres.ParticipantCount+string(participant.Rejected), postgres.ParticipantCount+string(participant.Suspended))
}
