package link

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/storage/postgres"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

type linkRow struct {
	ID            affiliate.LinkID        `db:"id"`
	WorkspaceID   affiliate.WorkspaceID   `db:"workspace_id"`
	Mode          affiliate.Mode          `db:"mode"`
	ProgramID     affiliate.ProgramID     `db:"program_id"`
	ParticipantID affiliate.ParticipantID `db:"participant_id"`
	Code          string                  `db:"code"`
	ShortKey      string                  `db:"short_key"`
	Destination   *string                 `db:"destination_url"`
	SubID         string                  `db:"sub_id"`
	Source        string                  `db:"source"`
	Medium        string                  `db:"medium"`
	Campaign      string                  `db:"campaign"`
	Term          string                  `db:"term"`
	Content       string                  `db:"content"`
	IsDefault     bool                    `db:"is_default"`
	Clicks        int64                   `db:"clicks"`
	Conversions   int64                   `db:"conversions"`
	Version       int                     `db:"version"`
	CreatedAt     time.Time               `db:"created_at"`
	UpdatedAt     time.Time               `db:"updated_at"`
	Page          string                  `db:"page"`
	Param         string                  `db:"param"`
}

func (r linkRow) link() link.Link {
	return link.Link{
		ID:          r.ID,
		Scope:       affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode},
		Program:     r.ProgramID,
		Participant: r.ParticipantID,
		Code:        r.Code,
		ShortKey:    r.ShortKey,
		Destination: r.Destination,
		SubID:       r.SubID,
		UTM:         click.UTM{Source: r.Source, Medium: r.Medium, Campaign: r.Campaign, Term: r.Term, Content: r.Content},
		IsDefault:   r.IsDefault,
		Clicks:      r.Clicks,
		Conversions: r.Conversions,
		Version:     r.Version,
		CreatedAt:   r.CreatedAt,
		UpdatedAt:   r.UpdatedAt,
		Page:        r.Page,
		Param:       r.Param,
	}
}

// withTotals returns a statement that reads links with their clicks, conversions and
// programme data. It reads the links that the statement selectLinks selects. The numbers
// of clicks and conversions are the stored totals plus the deltas that are not yet added
// to the totals.
func withTotals(selectLinks string) string {
	return `
		select l.id, l.workspace_id, l.mode, l.program_id, l.participant_id, l.code, l.short_key, l.destination_url,
			coalesce(l.sub_id, '') as sub_id, coalesce(l.utm_source, '') as source, coalesce(l.utm_medium, '') as medium,
			coalesce(l.utm_campaign, '') as campaign, coalesce(l.utm_term, '') as term, coalesce(l.utm_content, '') as content,
			l.is_default, s.clicks + d.clicks as clicks, s.conversions + d.conversions as conversions, l.version,
			l.created_at, l.updated_at, coalesce(p.landing_url, p.website_url, '') as page, p.link_param as param
		from (` + selectLinks + `) l
		join programs p on p.workspace_id = l.workspace_id and p.mode = l.mode and p.id = l.program_id
		join link_totals s on s.workspace_id = l.workspace_id and s.link_id = l.id
		cross join lateral (
			select coalesce(sum(clicks), 0)::bigint as clicks, coalesce(sum(conversions), 0)::bigint as conversions
			from stats_deltas
			where workspace_id = l.workspace_id and mode = l.mode and link_id = l.id
		) d
		order by l.created_at desc, l.id desc`
}

func linkKeyArgs(scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "id": id}
}

// Get returns a link that is not deleted. Errors: NOT_FOUND.
func Get(ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID) (link.Link, error) {
	return readLink(ctx, db, scope, program, id)
}

func readLink(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID) (link.Link, error) {
	row, err := postgres.OneRow[linkRow](db.Query(ctx, withTotals(`select l.*`+whereLinks+` and l.id = @id`), linkKeyArgs(scope, program, id)))
	return row.link(), err
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
// empty. Errors: NOT_FOUND if the programme or the filter's participant does not exist.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, filter link.Filter, page affiliate.Page,
) ([]link.Link, int64, error) {
	if _, err := programs.Get(ctx, db, scope, program); err != nil {
		return nil, 0, err
	}
	if err := postgres.CheckFilter(ctx, db, scope, nil, filter.Participant, nil); err != nil {
		return nil, 0, err
	}
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
	links, err := postgres.AllRows(rows, err, linkRow.link)
	return links, total, err
}

// Lists of a partner's own links, without those of participations that the partner has not
// accepted. A partner belongs to no workspace. The partner's
// participants, found by partner and mode, determine the workspaces. There is no
// condition on the mode of the links. It is not needed, because links have the mode of
// their participant. The index of a participant's links does not contain the mode.
const (
	wherePartnerLinks = `
		from participants t
		join links l on l.workspace_id = t.workspace_id and l.participant_id = t.id
		where t.partner_id = @partner and t.mode = @mode and t.partner_consent is null and l.deleted_at is null`
	InProgram       = ` and t.program_id = @program`
	participationOf = `
		select workspace_id, id from participants
		where partner_id = $1 and mode = $2 and program_id = $3`
)

func partnerLinksSQL(program *affiliate.ProgramID) (page, count string) {
	where := wherePartnerLinks
	if program != nil {
		where += InProgram
	}
	return withTotals(`select l.*` + where + newestLinks), postgres.CountUpTo(affiliate.MaxTotal, where)
}

// ListOfPartner returns one page of a partner's links in a mode, newest first, and the
// number of links on all pages, up to affiliate.MaxTotal. If program is nil, it lists
// the links of all programmes. Errors: NOT_FOUND if the partner does not take part in the
// programme.
func ListOfPartner(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page,
) ([]link.Link, int64, error) {
	if err := postgres.CheckParticipation(ctx, db, partner, mode, program); err != nil {
		return nil, 0, err
	}
	list, count := partnerLinksSQL(program)
	args := pgx.NamedArgs{"partner": partner, "mode": mode, "program": program, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := db.QueryRow(ctx, count, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, list, args)
	links, err := postgres.AllRows(rows, err, linkRow.link)
	return links, total, err
}

// GetOfPartner returns one of a partner's links. Errors: NOT_FOUND.
func GetOfPartner(ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, id affiliate.LinkID) (link.Link, error) {
	args := pgx.NamedArgs{"partner": partner, "mode": mode, "id": id}
	row, err := postgres.OneRow[linkRow](db.Query(ctx, withTotals(`select l.*`+wherePartnerLinks+` and l.id = @id`), args))
	return row.link(), err
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
