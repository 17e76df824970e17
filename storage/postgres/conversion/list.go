package conversion

import (
	"context"
	"fmt"
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
//
// There are exceptions. A filter by the status recorded, or by conversions that are not flagged,
// reads the list of all conversions and skips the few others. A filter by flagged conversions reads
// the suspicious ones and looks up their fraud events. The conversions of a customer are few, so
// they are sorted. If a partner has several participants, their lists are merged.

// conversionColumns select conversion.StoredConversion from conversions c.
var conversionColumns = postgres.Columns[conversion.Conversion]("c") + `, ` + postgres.Columns[conversion.CurrentDecision]("c") + `,
	c.buyer_erased_at is not null as buyer_erased`

// conversionItemColumns select conversionItemRow from conversions c and
// conversionOutcome.
var conversionItemColumns = postgres.Columns[conversion.Conversion]("c") + `, ` + postgres.Columns[conversion.CurrentDecision]("c") + `,
	p.name as program_name, t.partner_name, ` + commissions.CustomerLabel + `, c.fraud_score, c.fraud_signals, d.method, d.explanation, d.clicked_at, d.expires_at,
	coalesce(f.action, '') as fraud_action,
	case when m.id is not null then jsonb_build_object('ID', m.id, 'Status', m.status, 'AmountCents', m.amount_cents,
		'Currency', m.currency, 'HoldUntil', m.hold_until, 'NeedsReview', m.needs_review) end as commission`

// conversionOutcome joins the decision in force, the commission, the fraud event, the
// programme and the participant of a conversion. The fraud event has the id of the decision.
const conversionOutcome = `
	join attribution_decisions d on d.workspace_id = c.workspace_id and d.id = c.decision_id
	left join commissions m on m.workspace_id = c.workspace_id and m.decision_id = c.decision_id
	left join fraud_events f on f.workspace_id = c.workspace_id and f.id = c.decision_id
	left join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
	left join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id`

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
	// Postgres uses a partial index only if its condition is in the statement as a constant.
	if filter.Status != "" {
		where.Add("c.status = ?", filter.Status)
		if filter.Status != conversion.Recorded {
			where.Add("c.status <> 'recorded'")
		}
	}
	if filter.Flagged != nil {
		// With EXISTS, Postgres could read the fraud events of all workspaces.
		flagged := fmt.Sprintf(`c.fraud_score >= %d and coalesce((
			select f.action <> 'observed' from fraud_events f
			where f.workspace_id = c.workspace_id and f.id = c.decision_id), false)`, fraud.SuspiciousScore)
		if *filter.Flagged {
			where.Add(flagged)
		} else {
			where.Add("not (" + flagged + ")")
		}
	}
	if filter.Link != nil {
		where.Add("c.link_id = ?", *filter.Link)
	}
	if filter.PromoCode != "" {
		where.Add("c.promo_code = ?", filter.PromoCode)
	}
	if filter.CustomerRef != nil {
		where.Add("c.customer_ref = ?", *filter.CustomerRef)
	}
	return where
}

// conversionListSQL returns the statements for a page and for the total. With participants, it adds
// the condition that a conversion is attributed to one of them.
func conversionListSQL(where *postgres.Conditions, participants []affiliate.ParticipantID) (page, count string) {
	const newest = ` order by c.created_at desc, c.id desc`
	const from = ` from conversions c where `
	keys := `select c.id, c.created_at` + from + where.SQL()
	if len(participants) > 0 {
		ofEach := keys + ` and c.participant_id = p.id` + newest
		where.Add("c.participant_id = any(?)", participants)
		keys = `select c.id, c.created_at from unnest(` + where.Placeholder(0) + `::uuid[]) p (id) cross join lateral (` +
			ofEach + ` limit ` + where.Placeholder(1) + `::bigint + ` + where.Placeholder(2) + `::bigint) c`
	}
	page = `select ` + conversionItemColumns + ` from (
			` + keys + newest + ` limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `
		) k
		join conversions c on c.workspace_id = $1 and c.mode = $2 and c.id = k.id` + conversionOutcome + newest
	return page, postgres.CountUpTo(affiliate.MaxTotal, from+where.SQL())
}

// List returns one page of conversions, newest first, and the number of rows on all
// pages, up to MaxTotal. Errors: NOT_FOUND for the filter's programme, participant, link or
// partner.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter conversion.Filter, page affiliate.Page,
) ([]conversion.Item, int64, error) {
	if err := postgres.CheckFilter(ctx, db, scope, filter.Program, filter.Participant, nil); err != nil {
		return nil, 0, err
	}
	if filter.Link != nil {
		link := affiliate.Record{Kind: affiliate.LinkRecord, ID: affiliate.ID[affiliate.Record]{UUID: filter.Link.UUID}}
		if known, err := postgres.ExistInMode(ctx, db, scope, []affiliate.Record{link}); err != nil {
			return nil, 0, err
		} else if !known {
			return nil, 0, affiliate.Refuse(affiliate.ReasonNotFound)
		}
	}
	var participants []affiliate.ParticipantID
	if filter.Partner != nil {
		const ofPartner = `select id from participants where workspace_id = $1 and mode = $2 and partner_id = $3 and partner_consent is null`
		var err error
		if participants, err = postgres.Values[affiliate.ParticipantID](ctx, db, ofPartner, scope.Workspace, scope.Mode, *filter.Partner); err != nil {
			return nil, 0, err
		} else if len(participants) == 0 {
			return nil, 0, affiliate.Refuse(affiliate.ReasonNotFound)
		}
	}
	where := conversionConditions(scope, filter)
	pageSQL, countSQL := conversionListSQL(&where, participants)
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
	ProgramName   *string
	PartnerName   *string
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
		ProgramName: r.ProgramName, PartnerName: r.PartnerName, Commission: r.Commission, FraudScore: r.FraudScore,
	}
	item.Conversion.CustomerLabel = r.CustomerLabel
	item.Decision.Trace.Fraud, item.Decision.FraudAction = r.FraudSignals, r.FraudAction
	return item
}

// Search returns the conversions whose id, external transaction id or alias is the text.
func Search(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
	const search = `
		select c.id, c.external_transaction_id as title, t.partner_name as subtitle, c.program_id
		from (
			select @id::uuid as id
			union
			select c.id from conversions c where c.workspace_id = @workspace and c.mode = @mode and c.external_transaction_id = @text
			union
			select a.conversion_id from conversion_aliases a where a.workspace_id = @workspace and a.mode = @mode and a.id = @text
		) k
		join conversions c on c.workspace_id = @workspace and c.mode = @mode and c.id = k.id
		left join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
		order by c.created_at desc, c.id desc
		limit @limit`
	return postgres.Hits(ctx, db, scope, text, search)
}
