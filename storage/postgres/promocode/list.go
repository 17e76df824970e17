package promocode

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Lists of promo codes. For each condition of a filter there is an index that contains
// the condition's column. If a filter has two conditions, Postgres uses the more
// selective index and skips the rows that do not match the other condition. The index of
// a participant's codes does not contain the mode and the programme. It is still enough
// for counting, because the participant determines both.
const (
	wherePromoCodes = `
		from promo_codes c
		where c.workspace_id = @workspace and c.mode = @mode and c.program_id = @program`
	wherePromoCodesOfParticipant = `
		from promo_codes c
		where c.workspace_id = @workspace and c.participant_id = @participant and exists (
			select from participants where workspace_id = @workspace and mode = @mode and program_id = @program and id = @participant)`
	promoCodesActive   = ` and c.active = @active`
	promoCodesStarting = ` and c.code like @pattern`
	newestPromoCodes   = `
		order by c.created_at desc, c.id desc`
)

// pageOf returns the statement for a page of promo codes with their names.
func pageOf(where string) string {
	return `select ` + columns + nameColumns + ` from (select c.*` + where + newestPromoCodes + ` limit @limit offset @offset) c` +
		joinNames + newestPromoCodes
}

// promoCodeListSQL returns the statements for a page and for the total. The count is
// not used if the filter is empty, because the number of all codes of a programme is
// stored (postgres.ListCount).
func promoCodeListSQL(filter promocode.Filter) (page, count string) {
	where := wherePromoCodes
	if filter.Participant != nil {
		where = wherePromoCodesOfParticipant
	}
	if filter.Active != nil {
		where += promoCodesActive
	}
	if filter.Search != "" {
		where += promoCodesStarting
	}
	return pageOf(where), postgres.CountUpTo(affiliate.MaxTotalOf(filter.Search), where)
}

func promoCodeListArgs(scope affiliate.Scope, program affiliate.ProgramID, filter promocode.Filter, page affiliate.Page) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "participant": filter.Participant,
		"active": filter.Active, "pattern": postgres.LikePrefix(filter.Search),
		"limit": page.Size, "offset": page.Offset(),
	}
}

// List returns one page of a programme's promo codes, newest first, and the number
// of codes on all pages. The number stops at affiliate.MaxSearchTotal if the filter has a
// search text, and at affiliate.MaxTotal if it has other conditions. It is exact if the
// filter is empty.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, filter promocode.Filter, page affiliate.Page,
) ([]promocode.PromoCode, int64, error) {
	list, count := promoCodeListSQL(filter)
	args := promoCodeListArgs(scope, program, filter, page)
	var (
		total int64
		err   error
	)
	if filter == (promocode.Filter{}) {
		total, err = postgres.ListCount(ctx, db, scope.Workspace, program, postgres.PromoCodeCount)
	} else {
		err = db.QueryRow(ctx, count, postgres.PlanForArgs, args).Scan(&total)
	}
	if err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, list, postgres.PlanForArgs, args)
	codes, err := postgres.AllRows(rows, err, row.code)
	return codes, total, err
}

// A partner belongs to no workspace. The partner's participants determine the
// workspaces and the mode, as for links.
const wherePartnerPromoCodes = `
	from participants t
	join promo_codes c on c.workspace_id = t.workspace_id and c.participant_id = t.id
	where t.partner_id = @partner and t.mode = @mode`

func partnerPromoCodesSQL(program *affiliate.ProgramID) (page, count string) {
	where := wherePartnerPromoCodes
	if program != nil {
		where += ` and t.program_id = @program`
	}
	return pageOf(where), postgres.CountUpTo(affiliate.MaxTotal, where)
}

// ListOfPartner returns one page of a partner's promo codes in a mode, newest
// first, and the number of codes on all pages, up to affiliate.MaxTotal. If program is
// nil, it lists the codes of all programmes.
func ListOfPartner(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page,
) ([]promocode.PromoCode, int64, error) {
	list, count := partnerPromoCodesSQL(program)
	args := pgx.NamedArgs{"partner": partner, "mode": mode, "program": program, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := db.QueryRow(ctx, count, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, list, args)
	codes, err := postgres.AllRows(rows, err, row.code)
	return codes, total, err
}

// Search returns the promo codes of all programmes whose id is the text or whose code starts with it.
func Search(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
	const search = `
		select c.id, c.code as title, t.partner_name as subtitle, c.program_id
		from (
			select @id::uuid as id
			union
			(select c.id from promo_codes c
			where c.workspace_id = @workspace and c.mode = @mode and c.code like lower(@pattern)
			order by c.code using ~<~
			limit @limit)
		) k
		join promo_codes c on c.workspace_id = @workspace and c.mode = @mode and c.id = k.id
		join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
		order by c.code using ~<~
		limit @limit`
	return postgres.Hits(ctx, db, scope, text, search)
}
