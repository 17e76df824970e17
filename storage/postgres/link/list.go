package link

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// row is a link with its totals, with the name, the page and the parameter name of its
// programme, and with the name of its partner.
type row struct {
	link.Link
	Clicks      int64
	Conversions int64
	Page        string
	Param       string
	ProgramName string
	PartnerName string
}

func (r row) link() link.Link {
	r.Link.Clicks, r.Link.Conversions, r.Link.Page, r.Link.Param = r.Clicks, r.Conversions, r.Page, r.Param
	r.Link.ProgramName, r.Link.PartnerName = r.ProgramName, r.PartnerName
	return r.Link
}

var columns = postgres.Columns[link.Link]("l")

// withTotals returns a statement that reads links with their clicks, conversions, programme
// data and partner names. It reads the links that the statement selectLinks selects. The numbers
// of clicks and conversions are the stored totals plus the deltas that are not yet added
// to the totals.
func withTotals(selectLinks string) string {
	return `
		select ` + columns + `, s.clicks + d.clicks as clicks, s.conversions + d.conversions as conversions,
			coalesce(p.landing_url, p.website_url, '') as page, p.link_param as param, p.name as program_name, t.partner_name
		from (` + selectLinks + `) l
		join programs p on p.workspace_id = l.workspace_id and p.mode = l.mode and p.id = l.program_id
		join participants t on t.workspace_id = l.workspace_id and t.id = l.participant_id
		join link_totals s on s.workspace_id = l.workspace_id and s.link_id = l.id
		cross join lateral (
			select coalesce(sum(clicks), 0)::bigint as clicks, coalesce(sum(conversions), 0)::bigint as conversions
			from stats_deltas
			where workspace_id = l.workspace_id and mode = l.mode and link_id = l.id
		) d
		order by l.created_at desc, l.id desc`
}

// Get returns a link that is not deleted. Errors: NOT_FOUND.
func Get(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID) (link.Link, error) {
	args := pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "id": id}
	found, err := postgres.OneRow[row](db.Query(ctx, withTotals(`select l.*`+whereLinks+` and l.id = @id`), args))
	return found.link(), err
}

// Lists of links. One index has the order of the list of a programme, and another index
// has the order of the list of a participant. The cost of a page of these lists is its
// offset and its size, not the number of links. A prefix search has its own index. Its
// cost is at most the number of matches.
const (
	whereLinks = `
		from links l
		where l.workspace_id = @workspace and l.mode = @mode and l.program_id = @program and l.deleted_at is null`
	linksOfParticipant = ` and l.participant_id = @participant`
	linksWithCode      = ` and l.code like @pattern`
	newestLinks        = `
		order by l.created_at desc, l.id desc
		limit @limit offset @offset`
)

// linkListSQL returns the statements for a page and for the total. The count is not
// used if the filter is empty, because the number of all links of a programme is stored
// (postgres.ListCount).
func linkListSQL(filter link.Filter) (page, count string) {
	where := whereLinks
	if filter.Participant != nil {
		where += linksOfParticipant
	}
	if filter.Search != "" {
		where += linksWithCode
	}
	return withTotals(`select l.*` + where + newestLinks), postgres.CountUpTo(affiliate.MaxTotalOf(filter.Search), where)
}

func linkListArgs(scope affiliate.Scope, program affiliate.ProgramID, filter link.Filter, page affiliate.Page) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "participant": filter.Participant,
		"pattern": postgres.LikePrefix(filter.Search), "limit": page.Size, "offset": page.Offset(),
	}
}

// List returns one page of a programme's links, newest first, and the number of links on
// all pages. The number stops at affiliate.MaxSearchTotal if the filter has a search
// text, and at affiliate.MaxTotal if it has a participant. It is exact if the filter is
// empty.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, filter link.Filter, page affiliate.Page,
) ([]link.Link, int64, error) {
	list, count := linkListSQL(filter)
	args := linkListArgs(scope, program, filter, page)
	var (
		total int64
		err   error
	)
	if filter == (link.Filter{}) {
		total, err = postgres.ListCount(ctx, db, scope.Workspace, program, postgres.LinkCount)
	} else {
		err = db.QueryRow(ctx, count, postgres.PlanForArgs, args).Scan(&total)
	}
	if err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, list, postgres.PlanForArgs, args)
	links, err := postgres.AllRows(rows, err, row.link)
	return links, total, err
}

// Lists of a partner's own links, without those of participations that the partner has not
// accepted (partner_consent is not null). A partner belongs to no workspace. The query finds the
// participations of the partner in the mode, and takes the workspaces from them. There is no
// condition on the mode of the links. It is not needed, because links have the mode of
// their participant. The index of a participant's links does not contain the mode.
const (
	wherePartnerLinks = `
		from participants t
		join links l on l.workspace_id = t.workspace_id and l.participant_id = t.id
		where t.partner_id = @partner and t.mode = @mode and t.partner_consent is null and l.deleted_at is null`
	inProgram       = ` and t.program_id = @program`
	participationOf = `
		select workspace_id, id from participants
		where partner_id = $1 and mode = $2 and program_id = $3`
)

func partnerLinksSQL(program *affiliate.ProgramID) (page, count string) {
	where := wherePartnerLinks
	if program != nil {
		where += inProgram
	}
	return withTotals(`select l.*` + where + newestLinks), postgres.CountUpTo(affiliate.MaxTotal, where)
}

// ListOfPartner returns one page of a partner's links in a mode, newest first, and the
// number of links on all pages, up to affiliate.MaxTotal. If program is nil, it lists
// the links of all programmes.
func ListOfPartner(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page,
) ([]link.Link, int64, error) {
	list, count := partnerLinksSQL(program)
	args := pgx.NamedArgs{"partner": partner, "mode": mode, "program": program, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := db.QueryRow(ctx, count, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, list, args)
	links, err := postgres.AllRows(rows, err, row.link)
	return links, total, err
}

// GetOfPartner returns one of a partner's links. Errors: NOT_FOUND.
func GetOfPartner(ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, id affiliate.LinkID) (link.Link, error) {
	args := pgx.NamedArgs{"partner": partner, "mode": mode, "id": id}
	found, err := postgres.OneRow[row](db.Query(ctx, withTotals(`select l.*`+wherePartnerLinks+` and l.id = @id`), args))
	return found.link(), err
}

// PartnerParticipation returns the id and the scope of the participant that a partner
// has in a programme. Errors: NOT_FOUND.
func PartnerParticipation(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, program affiliate.ProgramID,
) (affiliate.Scope, affiliate.ParticipantID, error) {
	type participation struct {
		WorkspaceID affiliate.WorkspaceID
		ID          affiliate.ParticipantID
	}
	found, err := postgres.OneRow[participation](db.Query(ctx, participationOf, partner, mode, program))
	return affiliate.Scope{Workspace: found.WorkspaceID, Mode: mode}, found.ID, err
}

// Search returns the links of all programmes whose id or short key is the text, or whose code starts
// with it. It reads the first codes of each programme from the index of codes.
func Search(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
	const search = `
		select id, code as title, destination_url as subtitle, program_id
		from (
			select l.id, l.code, l.destination_url, l.program_id from links l
			where l.workspace_id = @workspace and l.mode = @mode and l.deleted_at is null and l.id = @id
			union
			select l.id, l.code, l.destination_url, l.program_id from links l
			where l.workspace_id = @workspace and l.mode = @mode and l.deleted_at is null and l.short_key = @text
			union
			select c.* from programs p cross join lateral (
				select l.id, l.code, l.destination_url, l.program_id from links l
				where l.workspace_id = @workspace and l.program_id = p.id and l.deleted_at is null and l.code like lower(@pattern)
				order by l.code using ~<~
				limit @limit) c
			where p.workspace_id = @workspace and p.mode = @mode
		) found
		order by code using ~<~, id
		limit @limit`
	return postgres.Hits(ctx, db, scope, text, search)
}
