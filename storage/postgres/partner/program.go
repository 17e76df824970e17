package partner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// A partner's call contains no workspace. The partner's own programmes, in which the
// partner takes part, are found by the account and the mode. Public programmes are found
// by the column is_public. The data of the partner's participation is then read only for
// the programmes of the page, whose workspaces are known.
//
// For the partner's own programmes, the cost of a page and of the total is the number
// of the partner's participations, which is small. A page of public programmes is read
// from the index programs_public, which has the order of the list, and the total is
// counted in this index alone. A search for public programmes reads all matches from
// the index programs_public_by_name, both for the page and for the total.
const (
	// ownParticipations reads the partner's participations. The CTE is materialized so
	// that Postgres reads them once, by the partner's id. Otherwise Postgres could
	// start from the programmes and read all their participants.
	ownParticipations = `
	with mine as materialized (
		select t.workspace_id, t.program_id, t.id, t.status, coalesce(t.partner_consent, '') as partner_consent, t.referral_code, t.group_id, t.override_rate_bps,
			t.override_flat_amount_cents, t.applied_at, t.approved_at, t.rejected_at, t.suspended_at, t.created_at
		from participants t
		where t.partner_id = @partner and t.mode = @mode
	)`

	fromOwn       = ` from mine t`
	fromOwnByName = fromOwn + `
		where exists (
			select from programs p
			where p.workspace_id = t.workspace_id and p.id = t.program_id and lower(p.name) like lower(@search))`
	fromOwnProgram = fromOwn + `
		where t.program_id = @program and exists (
			select from programs p
			where p.workspace_id = t.workspace_id and p.id = t.program_id and lower(p.name) like lower(@search)
				and (not @public or p.status = 'active' and p.is_public))`
	fromPublic = `
		from programs p
		where p.mode = @mode and p.status = 'active' and p.is_public`
	fromPublicByName = fromPublic + ` and lower(p.name) like lower(@search)`

	pageOfOwn    = `select t.workspace_id, t.program_id, t.created_at, t.id`
	pageOfPublic = `select p.workspace_id, p.id as program_id, p.created_at, p.id`
	newestFirst  = `
		order by created_at desc, id desc
		limit @limit offset @offset`

	onePartnerProgram = pageOfPublic + `
		from programs p
		where p.id = @program and p.mode = @mode and (p.status = 'active' and p.is_public
			or exists (select from mine t where t.workspace_id = p.workspace_id and t.program_id = p.id))`
)

// withParticipation returns a statement that reads the programmes of a page and the
// partner's participation in each programme. The stats are the stored totals plus the
// deltas that are not yet added to the totals. A balance is the sum of several
// rows in ledger_balances.
func withParticipation(page string) string {
	return ownParticipations + `
	select ` + programs.Columns + `, w.name as merchant_name,
		t.id as participant_id, t.status as participation_status, coalesce(t.partner_consent, '') as partner_consent,
			t.applied_at, t.approved_at, t.rejected_at, t.suspended_at,
		t.override_rate_bps, t.override_flat_amount_cents,
		g.rate_bps as group_rate_bps, g.flat_amount_cents as group_flat_amount_cents,
		coalesce(l.code, t.referral_code, '') as link_code, l.id as link_id, coalesce(l.short_key, '') as short_key,
		l.destination_url, coalesce(l.sub_id, '') as sub_id, coalesce(l.utm_source, '') as utm_source,
		coalesce(l.utm_medium, '') as utm_medium, coalesce(l.utm_campaign, '') as utm_campaign,
		coalesce(l.utm_term, '') as utm_term, coalesce(l.utm_content, '') as utm_content,
		coalesce(s.clicks, 0) + coalesce(d.clicks, 0) as clicks,
		coalesce(s.conversions, 0) + coalesce(d.conversions, 0) as conversions,
		coalesce(s.revenue_cents, 0) + coalesce(d.revenue_cents, 0) as revenue_cents,
		coalesce(s.commission_cents, 0) + coalesce(d.commission_cents, 0) as commission_cents,
		coalesce(b.balance_cents, 0) as balance_cents
	from (` + page + `) page
	join programs p on p.workspace_id = page.workspace_id and p.id = page.program_id
	join workspaces w on w.id = p.workspace_id
	left join mine t on t.workspace_id = p.workspace_id and t.program_id = p.id
	left join groups g on g.workspace_id = t.workspace_id and g.id = t.group_id
	left join links l on l.workspace_id = t.workspace_id and l.participant_id = t.id and l.is_default
	left join participant_totals s on s.workspace_id = t.workspace_id and s.participant_id = t.id
	left join lateral (
		select sum(d.clicks)::bigint as clicks, sum(d.conversions)::bigint as conversions,
			(sum(d.revenue_cents) filter (where d.currency = p.currency))::bigint as revenue_cents,
			(sum(d.commission_cents) filter (where d.currency = p.currency))::bigint as commission_cents
		from stats_deltas d
		where d.workspace_id = t.workspace_id and d.participant_id = t.id
	) d on true
	left join lateral (
		select sum(l.balance_cents)::bigint as balance_cents
		from ledger_balances l
		where l.workspace_id = t.workspace_id and l.participant_id = t.id and l.currency = p.currency
	) b on true
	order by page.created_at desc, page.id desc`
}

type partnerProgramRow struct {
	program.Program
	MerchantName        string                     `db:"merchant_name"`
	ParticipantID       *affiliate.ParticipantID   `db:"participant_id"`
	ParticipationStatus *participant.Status        `db:"participation_status"`
	PartnerConsent      participant.PartnerConsent `db:"partner_consent"`
	AppliedAt           *time.Time                 `db:"applied_at"`
	ApprovedAt          *time.Time                 `db:"approved_at"`
	RejectedAt          *time.Time                 `db:"rejected_at"`
	SuspendedAt         *time.Time                 `db:"suspended_at"`
	OverrideRateBps     *int64                     `db:"override_rate_bps"`
	OverrideFlatCents   *int64                     `db:"override_flat_amount_cents"`
	GroupRateBps        *int64                     `db:"group_rate_bps"`
	GroupFlatCents      *int64                     `db:"group_flat_amount_cents"`
	LinkCode            string                     `db:"link_code"`
	LinkID              *affiliate.LinkID          `db:"link_id"`
	ShortKey            string                     `db:"short_key"`
	DestinationURL      *string                    `db:"destination_url"`
	SubID               string                     `db:"sub_id"`
	UTMSource           string                     `db:"utm_source"`
	UTMMedium           string                     `db:"utm_medium"`
	UTMCampaign         string                     `db:"utm_campaign"`
	UTMTerm             string                     `db:"utm_term"`
	UTMContent          string                     `db:"utm_content"`
	Clicks              int64                      `db:"clicks"`
	Conversions         int64                      `db:"conversions"`
	RevenueCents        int64                      `db:"revenue_cents"`
	CommissionCents     int64                      `db:"commission_cents"`
	BalanceCents        int64                      `db:"balance_cents"`
}

func (r partnerProgramRow) partnerProgram() partner.Program {
	p := partner.Program{Program: r.Program, MerchantName: r.MerchantName}
	if r.ParticipantID == nil {
		return p
	}
	p.Participation = &partner.Participation{
		Participant: *r.ParticipantID,
		Status:      *r.ParticipationStatus,
		Consent:     r.PartnerConsent,
		Link: link.Link{
			Scope: p.Scope, Program: p.ID, Participant: *r.ParticipantID, Code: r.LinkCode, ShortKey: r.ShortKey,
			Destination: r.DestinationURL, SubID: r.SubID, IsDefault: true, Param: p.LinkParam,
			UTM: click.UTM{
				Source: r.UTMSource, Medium: r.UTMMedium, Campaign: r.UTMCampaign, Term: r.UTMTerm, Content: r.UTMContent,
			},
		},
		Rate: partnerRate(r.OverrideRateBps, r.OverrideFlatCents),
		Stats: participant.Stats{
			Clicks: r.Clicks, Conversions: r.Conversions, RevenueCents: r.RevenueCents,
			CommissionCents: r.CommissionCents, BalanceCents: r.BalanceCents,
		},
		AppliedAt:   *r.AppliedAt,
		ApprovedAt:  r.ApprovedAt,
		RejectedAt:  r.RejectedAt,
		SuspendedAt: r.SuspendedAt,
	}
	participation := p.Participation
	if r.LinkID != nil {
		participation.Link.ID = *r.LinkID
	}
	switch {
	case p.LandingURL != nil:
		participation.Link.Page = *p.LandingURL
	case p.WebsiteURL != nil:
		participation.Link.Page = *p.WebsiteURL
	}
	if participation.Rate == nil {
		participation.Rate = partnerRate(r.GroupRateBps, r.GroupFlatCents)
	}
	return p
}

// partnerRate returns nil if both values are nil.
func partnerRate(bps, flatCents *int64) *program.Rate {
	if bps == nil && flatCents == nil {
		return nil
	}
	return &program.Rate{Bps: bps, FlatCents: flatCents}
}

// partnerProgramsSQL returns the statements for a page and for the total. The total
// stops at affiliate.MaxTotal, or at affiliate.MaxSearchTotal if the filter has a
// search text.
func partnerProgramsSQL(filter partner.ProgramFilter) (page, count string) {
	columns, from := pageOfOwn, fromOwn
	switch {
	case filter.Program != nil:
		from = fromOwnProgram
	case filter.Public && filter.Search != "":
		columns, from = pageOfPublic, fromPublicByName
	case filter.Public:
		columns, from = pageOfPublic, fromPublic
	case filter.Search != "":
		from = fromOwnByName
	}
	return withParticipation(columns + from + newestFirst), ownParticipations + ` ` + postgres.CountUpTo(affiliate.MaxTotalOf(filter.Search), from)
}

// Programs returns one page of programmes, newest first, and the number of
// programmes on all pages. The number stops at affiliate.MaxTotal, or at
// affiliate.MaxSearchTotal if the filter has a search text. The partner's own
// programmes are ordered by the time at which the partner joined.
func Programs(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, filter partner.ProgramFilter, page affiliate.Page,
) ([]partner.Program, int64, error) {
	pageSQL, countSQL := partnerProgramsSQL(filter)
	args := pgx.NamedArgs{
		"partner": partner, "mode": mode, "search": postgres.LikePrefix(filter.Search), "limit": page.Size, "offset": page.Offset(),
		"program": filter.Program, "public": filter.Public,
	}
	var total int64
	if err := db.QueryRow(ctx, countSQL, postgres.PlanForArgs, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, pageSQL, postgres.PlanForArgs, args)
	programs, err := postgres.AllRows(rows, err, partnerProgramRow.partnerProgram)
	if err != nil {
		return nil, 0, err
	}
	return programs, total, nil
}

// Program returns a programme if the partner takes part in it, or if it is public and
// active. Errors: NOT_FOUND.
func Program(
	ctx context.Context, db *postgres.DB, partnerID affiliate.UserID, mode affiliate.Mode, id affiliate.ProgramID,
) (partner.Program, error) {
	row, err := postgres.OneRow[partnerProgramRow](db.Query(ctx, withParticipation(onePartnerProgram), pgx.NamedArgs{
		"partner": partnerID, "mode": mode, "program": id,
	}))
	var refused *affiliate.Error
	if err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("read partner's programme: %w", err)
	}
	if err != nil {
		return partner.Program{}, err
	}
	return row.partnerProgram(), nil
}
