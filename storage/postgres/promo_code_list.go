package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/promocode"
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
		order by c.created_at desc, c.id desc
		limit @limit offset @offset`
)

// promoCodeListSQL returns the statements for a page and for the total. The count is
// not used if the filter is empty, because the number of all codes of a programme is
// stored (listCount).
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
	return `select ` + promoCodeColumns + where + newestPromoCodes, CountUpTo(affiliate.MaxTotalOf(filter.Search), where)
}

func promoCodeListArgs(scope affiliate.Scope, program affiliate.ProgramID, filter promocode.Filter, page affiliate.Page) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "participant": filter.Participant,
		"active": filter.Active, "pattern": likePrefix(filter.Search),
		"limit": page.Size, "offset": page.Offset(),
	}
}

// PromoCodes returns one page of a programme's promo codes, newest first, and the number
// of codes on all pages. The number stops at affiliate.MaxSearchTotal if the filter has a
// search text, and at affiliate.MaxTotal if it has other conditions. Errors: NOT_FOUND if
// the programme or the filter's participant does not exist.
func (s *Store) PromoCodes(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter promocode.Filter, page affiliate.Page,
) ([]promocode.PromoCode, int64, error) {
	if _, err := s.Program(ctx, scope, program); err != nil {
		return nil, 0, err
	}
	if err := s.checkFilter(ctx, scope, nil, filter.Participant, nil); err != nil {
		return nil, 0, err
	}
	list, count := promoCodeListSQL(filter)
	args := promoCodeListArgs(scope, program, filter, page)
	var (
		total int64
		err   error
	)
	if filter == (promocode.Filter{}) {
		total, err = listCount(ctx, s.pool, scope.Workspace, program, promoCodeCount)
	} else {
		err = s.pool.QueryRow(ctx, count, planForArgs, args).Scan(&total)
	}
	if err != nil {
		return nil, 0, err
	}
	rows, err := s.pool.Query(ctx, list, planForArgs, args)
	codes, err := AllRows(rows, err, promoCodeRow.promoCode)
	return codes, total, err
}

// A partner belongs to no workspace. The partner's participants determine the
// workspaces and the mode, as for links (link_list.go).
const wherePartnerPromoCodes = `
	from participants t
	join promo_codes c on c.workspace_id = t.workspace_id and c.participant_id = t.id
	where t.partner_id = @partner and t.mode = @mode`

func partnerPromoCodesSQL(program *affiliate.ProgramID) (page, count string) {
	where := wherePartnerPromoCodes
	if program != nil {
		where += inProgram
	}
	return `select ` + promoCodeColumns + where + newestPromoCodes, CountUpTo(affiliate.MaxTotal, where)
}

// PartnerPromoCodes returns one page of a partner's promo codes in a mode, newest
// first, and the number of codes on all pages, up to affiliate.MaxTotal. If program is
// nil, it lists the codes of all programmes.
func (s *Store) PartnerPromoCodes(
	ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page,
) ([]promocode.PromoCode, int64, error) {
	if err := s.checkParticipation(ctx, partner, mode, program); err != nil {
		return nil, 0, err
	}
	list, count := partnerPromoCodesSQL(program)
	args := pgx.NamedArgs{"partner": partner, "mode": mode, "program": program, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := s.pool.QueryRow(ctx, count, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := s.pool.Query(ctx, list, args)
	codes, err := AllRows(rows, err, promoCodeRow.promoCode)
	return codes, total, err
}
