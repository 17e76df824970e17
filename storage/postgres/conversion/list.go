package conversion

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// Lists of conversions, newest first. For each condition of a filter, except the time, there is
// an index that contains the column of the condition and has the order of the list. If a filter
// has several conditions, Postgres uses the index of one of them. It skips the rows before the
// page in the index, and reads the rows of the page by their primary keys. The total is counted
// in the same index up to affiliate.MaxTotal.

// conversionColumns select conversion.StoredConversion from conversions c.
var conversionColumns = postgres.Columns[conversion.Conversion]("c") + `, ` + postgres.Columns[conversion.CurrentDecision]("c") + `,
	c.buyer_erased_at is not null as buyer_erased`

// conversionItemColumns select conversionItemRow from conversions c and
// conversionOutcome.
var conversionItemColumns = postgres.Columns[conversion.Conversion]("c") + `, ` + postgres.Columns[conversion.CurrentDecision]("c") + `,
	` + commissions.CustomerLabel + `, c.fraud_score, c.fraud_signals, d.method, d.explanation, d.clicked_at, d.expires_at,
	coalesce(f.action, '') as fraud_action,
	case when m.id is not null then jsonb_build_object('ID', m.id, 'Status', m.status, 'AmountCents', m.amount_cents,
		'Currency', m.currency, 'HoldUntil', m.hold_until, 'NeedsReview', m.needs_review) end as commission`

// conversionOutcome joins the decision in force, the commission and the fraud event of
// a conversion. The fraud event has the id of the decision.
const conversionOutcome = `
	join attribution_decisions d on d.workspace_id = c.workspace_id and d.id = c.decision_id
	left join commissions m on m.workspace_id = c.workspace_id and m.decision_id = c.decision_id
	left join fraud_events f on f.workspace_id = c.workspace_id and f.id = c.decision_id`

func conversionConditions(scope affiliate.Scope, filter conversion.Filter) postgres.Conditions {
	var where postgres.Conditions
	where.Add("c.workspace_id = ?", scope.Workspace)
	where.Add("c.mode = ?", scope.Mode)
	where.Within("c.created_at", filter.Created)
	if filter.Attributed != nil {
		where.Add("c.attributed = ?", *filter.Attributed)
	}
	if filter.EventType != "" {
		where.Add("c.event_type = ?", filter.EventType)
	}
	if filter.ExternalTransactionID != "" {
		where.Add("c.external_transaction_id = ?", filter.ExternalTransactionID)
	}
	if filter.Program != nil {
		where.Add("c.program_id = ?", *filter.Program)
	}
	if filter.Participant != nil {
		where.Add("c.participant_id = ?", *filter.Participant)
	}
	return where
}

// conversionListSQL returns the statements for a page and for the total.
func conversionListSQL(where postgres.Conditions) (page, count string) {
	const newest = ` order by c.created_at desc, c.id desc`
	from := ` from conversions c where ` + where.SQL()
	page = `select ` + conversionItemColumns + ` from (
			select c.id` + from + newest + ` limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `
		) k
		join conversions c on c.workspace_id = $1 and c.mode = $2 and c.id = k.id` + conversionOutcome + newest
	return page, postgres.CountUpTo(affiliate.MaxTotal, from)
}

// List returns one page of conversions, newest first, and the number of rows on all
// pages, up to MaxTotal. Errors: NOT_FOUND for the filter's programme or participant.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter conversion.Filter, page affiliate.Page,
) ([]conversion.Item, int64, error) {
	if err := postgres.CheckFilter(ctx, db, scope, filter.Program, filter.Participant, nil); err != nil {
		return nil, 0, err
	}
	where := conversionConditions(scope, filter)
	pageSQL, countSQL := conversionListSQL(where)
	rows, total, err := postgres.Page[conversionItemRow](ctx, db, where, page, pageSQL, countSQL)
	items := make([]conversion.Item, len(rows))
	for i, row := range rows {
		items[i] = row.item()
	}
	return items, total, err
}

// Get returns one conversion with its refunds, read in one statement. Errors: NOT_FOUND.
func Get(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ConversionID) (conversion.Detail, error) {
	read := `
		select ` + conversionItemColumns + `,
			(select jsonb_agg(jsonb_build_object('ID', r.id, 'ExternalRefundID', r.external_refund_id, 'AmountCents', r.amount_cents,
					'Reason', r.reason, 'CreatedAt', r.created_at) order by r.created_at, r.id)
				from refunds r
				where r.workspace_id = c.workspace_id and r.mode = c.mode and r.conversion_id = c.id) as refunds
		from conversions c` + conversionOutcome + `
		where c.workspace_id = $1 and c.mode = $2 and c.id = $3`
	type detailRow struct {
		conversionItemRow
		Refunds []conversion.Refund
	}
	found, err := postgres.OneRow[detailRow](db.Query(ctx, read, scope.Workspace, scope.Mode, id))
	return conversion.Detail{Item: found.item(), Refunds: found.Refunds}, err
}

type conversionItemRow struct {
	conversion.Conversion
	conversion.CurrentDecision
	CustomerLabel *string
	FraudScore    int
	FraudSignals  []fraud.Signal
	FraudAction   fraud.Action
	Method        *attribution.Method
	Explanation   string
	ClickedAt     *time.Time
	ExpiresAt     *time.Time
	Commission    *commission.Commission
}

func (r conversionItemRow) item() conversion.Item {
	item := conversion.Item{
		Conversion: r.Conversion,
		Decision: attribution.Decision{
			ID: r.Decision, Conversion: r.ID, Attributed: r.Attributed, Method: r.Method, Reason: r.Reason,
			Explanation: r.Explanation, Program: r.Program, Participant: r.Participant, Link: r.Link, RecurringIndex: r.RecurringIndex,
			ClickedAt: r.ClickedAt, ExpiresAt: r.ExpiresAt,
		},
		Commission: r.Commission, FraudScore: r.FraudScore,
	}
	item.Conversion.CustomerLabel = r.CustomerLabel
	item.Decision.Trace.Fraud, item.Decision.FraudAction = r.FraudSignals, r.FraudAction
	return item
}
