package conversion

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// decisionNames select the current names in attribution.DecisionRecord for the trace of d.
const decisionNames = `
	(
		select p.name from programs p
		where p.workspace_id = d.workspace_id and p.mode = d.mode and p.id = (d.trace #>> '{program,id}')::uuid
	) as program_name,
	(
		select jsonb_object_agg(c.id #>> '{}', (
			select t.partner_name from participants t
			where t.workspace_id = d.workspace_id and t.mode = d.mode and t.id = (c.id #>> '{}')::uuid
		))
		from jsonb_path_query(d.trace, '$.candidates[*].participant_id ? (@ != null)') c (id)
	) as partner_names`

// decisionColumns select attribution.DecisionRecord from attribution_decisions d.
var decisionColumns = decisionNames + `, ` + postgres.Columns[attribution.Decision]("d") + `, nullif(d.trace -> 'rule', 'null') as rule,
	(
		select s.id from attribution_decisions s
		where s.workspace_id = d.workspace_id and s.mode = d.mode and s.supersedes = d.id limit 1
	) as superseded_by,
	(
		select v.customer_ref from conversions v
		where v.workspace_id = d.workspace_id and v.mode = d.mode and v.id = d.conversion_id
	) as customer_ref`

var selectDecision = `
	select ` + decisionColumns + `
	from conversions c
	join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3`

// GetDecision returns the decision in force about a conversion. Errors: NOT_FOUND.
func GetDecision(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ConversionID) (attribution.DecisionRecord, error) {
	return postgres.OneRow[attribution.DecisionRecord](db.Query(ctx, selectDecision, scope.Workspace, scope.Mode, id))
}

var selectDecisionOfExternal = `
	select ` + decisionColumns + `
	from conversions c
	join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
	where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = $3`

// GetDecisionByExternalID returns the decision in force about the conversion with the given
// external id, which is the merchant's own id. Errors: NOT_FOUND.
func GetDecisionByExternalID(ctx context.Context, db *postgres.DB, scope affiliate.Scope, external string) (attribution.DecisionRecord, error) {
	return postgres.OneRow[attribution.DecisionRecord](db.Query(ctx, selectDecisionOfExternal, scope.Workspace, scope.Mode, external))
}

// NameDecision adds the current names to the record of a simulated decision.
func NameDecision(ctx context.Context, db *postgres.DB, scope affiliate.Scope, record *attribution.DecisionRecord) error {
	const query = `select ` + decisionNames + ` from (select $1::uuid as workspace_id, $2::text as mode, $3::jsonb as trace) d`
	type row struct {
		ProgramName  *string
		PartnerNames map[string]*string
	}
	names, err := postgres.OneRow[row](db.Query(ctx, query, scope.Workspace, scope.Mode, record.Trace))
	record.ProgramName, record.PartnerNames = names.ProgramName, names.PartnerNames
	return err
}

// ListDecisions returns one page of decisions, newest first, including superseded ones, and
// the number of rows on all pages, up to affiliate.MaxTotal.
func ListDecisions(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter attribution.DecisionFilter, page affiliate.Page,
) ([]attribution.DecisionRecord, int64, error) {
	if err := postgres.CheckFilter(ctx, db, scope, filter.Program, nil, nil); err != nil {
		return nil, 0, err
	}
	where := decisionConditions(scope, filter)
	pageSQL, countSQL := decisionListSQL(where)
	return postgres.Page[attribution.DecisionRecord](ctx, db, where, page, pageSQL, countSQL)
}

// decisionConditions returns the conditions for the rows of attribution_decisions d
// that match the filter. The column program_id is set only if the conversion is
// attributed. The programme filter therefore uses the trace, which also names the
// programme of an unattributed conversion if a signal led to a programme.
func decisionConditions(scope affiliate.Scope, filter attribution.DecisionFilter) postgres.Conditions {
	var where postgres.Conditions
	where.Add("d.workspace_id = ?", scope.Workspace)
	where.Add("d.mode = ?", scope.Mode)
	if filter.Attributed != nil {
		// The term has no parameter, because Postgres uses the partial index of
		// unattributed decisions only if the condition is a constant.
		if *filter.Attributed {
			where.Add("d.attributed")
		} else {
			where.Add("not d.attributed")
		}
	}
	if filter.Reason != "" {
		where.Add("d.reason_code = ?", filter.Reason)
	}
	if filter.Program != nil {
		where.Add("d.trace #>> '{program,id}' = ?", filter.Program.String())
	}
	if filter.Conversion != nil {
		where.Add("d.conversion_id = ?", *filter.Conversion)
	}
	where.Within("d.decided_at", filter.Decided)
	return where
}

// decisionListSQL returns the statements for a page and for the total. The statement for a page
// takes the arguments of the conditions, and then the size and the offset of the page. The
// statement for the total takes only the arguments of the conditions.
func decisionListSQL(where postgres.Conditions) (page, count string) {
	const newest = ` order by d.decided_at desc, d.id desc`
	page = `select ` + decisionColumns + ` from (
			select d.* from attribution_decisions d where ` + where.SQL() + newest + `
			limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `
		) d` + newest
	return page, postgres.CountUpTo(affiliate.MaxTotal, `from attribution_decisions d where `+where.SQL())
}

// selectClick reads a click without the columns that identify the visitor. It opens one
// partition, because of the condition on clicked_at, the time inside the id.
const selectClick = `
	select x.id, x.workspace_id, x.mode, x.program_id, x.participant_id, x.link_id, x.referral_code,
		x.clicked_at, x.received_at, x.expires_at, x.created_at,
		coalesce(x.landing_url, '') as landing_url, coalesce(x.referrer_domain, '') as referrer_domain,
		coalesce(x.utm_source, '') as utm_source, coalesce(x.utm_medium, '') as utm_medium,
		coalesce(x.utm_campaign, '') as utm_campaign, coalesce(x.utm_term, '') as utm_term,
		coalesce(x.utm_content, '') as utm_content, coalesce(x.sub_id, '') as sub_id,
		coalesce(x.language, '') as language, x.consent, x.is_bot, coalesce(x.bot_reason, '') as bot_reason,
		coalesce(x.country, '') as country, coalesce(x.region, '') as region, coalesce(x.device, '') as device,
		coalesce(x.browser, '') as browser, coalesce(x.os, '') as os, coalesce(x.paid_platform, '') as paid_platform, x.is_unique,
		(
			select min(c.created_at)
			from conversions c
			join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
			where c.workspace_id = x.workspace_id and c.mode = x.mode and c.click_id = x.id and d.click_id = x.id and d.attributed
		) as converted_at,
		(select p.name from programs p where p.workspace_id = x.workspace_id and p.id = x.program_id) as program_name,
		(select t.partner_name from participants t where t.workspace_id = x.workspace_id and t.id = x.participant_id) as partner_name
	from clicks x
	where x.workspace_id = $1 and x.mode = $2 and x.id = $3 and x.clicked_at = $4`

const conversionsOfClick = `
	select id, external_transaction_id, attributed, reason_code, decision_id, created_at
	from conversions
	where workspace_id = $1 and mode = $2 and click_id = $3
	order by created_at, id
	limit $4`

// GetClick returns a stored click of the given mode and up to MaxClickConversions of the
// conversions that named it. Errors: NOT_FOUND.
func GetClick(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ClickID) (attribution.ClickDetail, error) {
	clickedAt, ok := id.Time()
	if !ok {
		// The service only issues ids of version 7, which contain a time.
		return attribution.ClickDetail{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	var click attribution.ClickDetail
	batch := &pgx.Batch{}
	batch.Queue(selectClick, scope.Workspace, scope.Mode, id, clickedAt).Query(func(rows pgx.Rows) (err error) {
		click, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[attribution.ClickDetail])
		return err
	})
	var conversions []attribution.ClickConversion
	postgres.QueueList(batch, &conversions, conversionsOfClick, scope.Workspace, scope.Mode, id, attribution.MaxClickConversions)
	err := db.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	click.Conversions = conversions
	return click, err
}
