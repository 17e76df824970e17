package partner

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// MaxRelatedSales is the number of conversions that RelatedSales returns at most.
const MaxRelatedSales = 100

// maxDayDecisions is the number of decisions about a programme that a search for a day reads at
// most. It bounds the cost, because the traces are large.
const maxDayDecisions = 5000

// The statements select partner.RelatedSale. relatedColumns and relatedCondition need the
// participant t of the partner, a conversion c and its decision in force d. A conversion without
// a relation to the participant is not selected, as if it did not exist.
const (
	relatedColumns = `
	select t.program_id, g.name as program_name, c.event_type, c.occurred_at, d.attributed and d.participant_id is not distinct from t.id as credited,
		d.method, d.explanation, own.candidates, m.id as commission_id, m.status as commission_status`
	relatedCondition = `
	join programs g on g.workspace_id = t.workspace_id and g.mode = t.mode and g.id = t.program_id
	cross join lateral (
		select coalesce(jsonb_agg(e.candidate order by e.position), '[]') as candidates
		from jsonb_array_elements(case jsonb_typeof(d.trace -> 'candidates') when 'array' then d.trace -> 'candidates' else '[]' end)
			with ordinality as e (candidate, position)
		where e.candidate ->> 'participant_id' = t.id::text
	) own
	left join lateral (
		select m.id, m.status from commissions m
		where m.workspace_id = c.workspace_id and m.mode = c.mode and m.conversion_id = c.id and m.participant_id = t.id
		order by m.decision_id = c.decision_id desc, m.created_at desc
		limit 1
	) m on true
	where t.partner_id = $1 and t.mode = $2 and ($3::uuid is null or t.program_id = $3)
		and (d.participant_id = t.id or m.id is not null or own.candidates <> '[]')
	order by c.created_at desc, c.id desc
	limit $4`
	relatedByExternalID = relatedColumns + `
	from participants t
	join conversions c on c.workspace_id = t.workspace_id and c.mode = t.mode and c.external_transaction_id = $5
	join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id` + relatedCondition
	relatedByDay = relatedColumns + `
	from participants t
	cross join lateral (
		select x.* from attribution_decisions x
		where x.workspace_id = t.workspace_id and x.mode = t.mode and x.trace #>> '{program,id}' = t.program_id::text
			and x.decided_at >= $5 and x.decided_at < $6
		order by x.decided_at desc, x.id desc
		limit $7
	) d
	join conversions c on c.workspace_id = d.workspace_id and c.mode = d.mode and c.id = d.conversion_id and c.decision_id = d.id` + relatedCondition
)

// RelatedSales returns the conversions of a lookup that concern the partner, newest first, at
// most MaxRelatedSales. A lookup of a day finds the conversions whose decision in force was made
// on this day and whose first signal leads to the programme. It reads the newest
// maxDayDecisions decisions of the day. Errors: NOT_FOUND if the partner does not take
// part in the programme.
func RelatedSales(
	ctx context.Context, db *postgres.DB, user affiliate.UserID, mode affiliate.Mode, lookup partner.SaleLookup,
) ([]partner.RelatedSale, error) {
	if err := postgres.CheckParticipation(ctx, db, user, mode, lookup.Program); err != nil {
		return nil, err
	}
	sql, args := relatedSalesSQL(user, mode, lookup)
	return postgres.List[partner.RelatedSale](ctx, db, sql, append([]any{postgres.PlanForArgs}, args...)...)
}

func relatedSalesSQL(user affiliate.UserID, mode affiliate.Mode, lookup partner.SaleLookup) (sql string, args []any) {
	args = []any{user, mode, lookup.Program, MaxRelatedSales}
	if lookup.ExternalID != "" {
		return relatedByExternalID, append(args, lookup.ExternalID)
	}
	return relatedByDay, append(args, *lookup.Day.From, *lookup.Day.Before, maxDayDecisions)
}
