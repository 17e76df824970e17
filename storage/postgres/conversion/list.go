package conversion

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// Lists of conversions, newest first. For each condition of a filter, except the time,
// there is an index that contains the column of the condition and has the order of the
// list. If a filter has several conditions, Postgres uses the index of one of them. It
// skips the rows before the page in the index, without reading the table. It then reads
// the rows of the page by their primary keys. The total is counted in the same index and
// stops at affiliate.MaxTotal.
//
// A page and its total are read by two statements. A conversion that is recorded
// between them is missing from the page but included in the total.
const (
	whereConversions = `
		from conversions c
		where c.workspace_id = @workspace and c.mode = @mode`
	conversionsFrom          = ` and c.created_at >= @from`
	conversionsBefore        = ` and c.created_at < @before`
	conversionsAttributed    = ` and c.attributed = @attributed`
	conversionsOfEvent       = ` and c.event_type = @event`
	conversionsByExternal    = ` and c.external_transaction_id = @external`
	conversionsOfProgram     = ` and c.program_id = @program`
	conversionsOfParticipant = ` and c.participant_id = @participant`
	newestConversions        = `
		order by c.created_at desc, c.id desc
		limit @limit offset @offset`
)

// conversionColumns are the fields of conversion.StoredConversion, selected from
// conversions c.
var conversionColumns = postgres.Columns[conversion.Conversion]("c") + `, ` + postgres.Columns[conversion.CurrentDecision]("c") + `,
	c.buyer_erased_at is not null as buyer_erased`

// conversionItemColumns are the fields of conversionItemRow. They are selected from
// conversions c joined with conversionOutcome.
var conversionItemColumns = postgres.Columns[conversion.Conversion]("c") + `, ` + postgres.Columns[conversion.CurrentDecision]("c") + `,
	` + commissions.CustomerLabel + `, c.fraud_score, c.fraud_signals, d.method, d.explanation, d.clicked_at, d.expires_at,
	m.id as commission_id, m.status as commission_status, m.amount_cents as commission_cents, m.currency as commission_currency,
	m.hold_until, m.needs_review, coalesce(f.action, '') as fraud_action`

// conversionOutcome joins the decision in force, the commission and the fraud event of
// a conversion. The fraud event has the id of the decision.
const conversionOutcome = `
	join attribution_decisions d on d.workspace_id = c.workspace_id and d.id = c.decision_id
	left join commissions m on m.workspace_id = c.workspace_id and m.decision_id = c.decision_id
	left join fraud_events f on f.workspace_id = c.workspace_id and f.id = c.decision_id`

const conversionPage = `
	join conversions c on c.workspace_id = @workspace and c.mode = @mode and c.id = k.id` + conversionOutcome + `
	order by c.created_at desc, c.id desc`

// conversionListSQL returns the statements for a page and for the total.
func conversionListSQL(filter conversion.Filter) (page, count string) {
	var where strings.Builder
	where.WriteString(whereConversions)
	for _, term := range []struct {
		given bool
		sql   string
	}{
		{filter.Created.From != nil, conversionsFrom},
		{filter.Created.Before != nil, conversionsBefore},
		{filter.Attributed != nil, conversionsAttributed},
		{filter.EventType != "", conversionsOfEvent},
		{filter.ExternalTransactionID != "", conversionsByExternal},
		{filter.Program != nil, conversionsOfProgram},
		{filter.Participant != nil, conversionsOfParticipant},
	} {
		if term.given {
			where.WriteString(term.sql)
		}
	}
	page = `select ` + conversionItemColumns + ` from (select c.id` + where.String() + newestConversions + `) k` + conversionPage
	return page, postgres.CountUpTo(affiliate.MaxTotal, where.String())
}

func conversionListArgs(scope affiliate.Scope, filter conversion.Filter, page affiliate.Page) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "from": filter.Created.From, "before": filter.Created.Before,
		"attributed": filter.Attributed, "event": filter.EventType, "external": filter.ExternalTransactionID,
		"program": filter.Program, "participant": filter.Participant,
		"limit": page.Size, "offset": page.Offset(),
	}
}

// List returns one page of a mode's conversions, newest first, and the number of
// rows on all pages, up to affiliate.MaxTotal. Errors: NOT_FOUND if the filter's
// programme or participant does not exist.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter conversion.Filter, page affiliate.Page,
) ([]conversion.Item, int64, error) {
	if err := postgres.CheckFilter(ctx, db, scope, filter.Program, filter.Participant, nil); err != nil {
		return nil, 0, err
	}
	list, count := conversionListSQL(filter)
	args := conversionListArgs(scope, filter, page)
	rows, err := db.Query(ctx, list, postgres.PlanForArgs, args)
	items, err := postgres.AllRows(rows, err, conversionItemRow.item)
	if err != nil {
		return nil, 0, fmt.Errorf("read conversions: %w", err)
	}
	if n := int64(len(items)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return items, page.Offset() + n, nil
	}
	var total int64
	if err := db.QueryRow(ctx, count, postgres.PlanForArgs, args).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count conversions: %w", err)
	}
	return items, total, nil
}

// Get returns one conversion with its refunds, read in one statement. Errors:
// NOT_FOUND.
func Get(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ConversionID) (conversion.Detail, error) {
	read := `
		select ` + conversionItemColumns + `,
			(select jsonb_agg(jsonb_build_object(
					'id', r.id, 'external_refund_id', r.external_refund_id, 'amount_cents', r.amount_cents,
					'reason', r.reason, 'created_at', r.created_at) order by r.created_at, r.id)
				from refunds r
				where r.workspace_id = c.workspace_id and r.mode = c.mode and r.conversion_id = c.id) as refunds
		from conversions c` + conversionOutcome + `
		where c.workspace_id = $1 and c.mode = $2 and c.id = $3`
	type detailRow struct {
		conversionItemRow
		Refunds []struct {
			ID               conversion.RefundID `json:"id"`
			ExternalRefundID string              `json:"external_refund_id"`
			AmountCents      int64               `json:"amount_cents"`
			Reason           *string             `json:"reason"`
			CreatedAt        time.Time           `json:"created_at"`
		}
	}
	rows, err := db.Query(ctx, read, scope.Workspace, scope.Mode, id)
	found, err := postgres.OneRow[detailRow](rows, err)
	if err != nil {
		return conversion.Detail{}, err
	}
	detail := conversion.Detail{Item: found.item()}
	for _, r := range found.Refunds {
		detail.Refunds = append(detail.Refunds, conversion.Refund{
			ID: r.ID, Scope: scope, ExternalRefundID: r.ExternalRefundID, ExternalTransactionID: found.ExternalTransactionID, Conversion: &id,
			AmountCents: &r.AmountCents, Reason: r.Reason, CreatedAt: r.CreatedAt,
		})
	}
	return detail, nil
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

	// The following fields are nil if the conversion has no commission.
	CommissionID       *affiliate.CommissionID
	CommissionStatus   *commission.Status
	CommissionCents    *int64
	CommissionCurrency *string
	HoldUntil          *time.Time // also nil if the commission has no hold period
	NeedsReview        *bool
}

func (r conversionItemRow) item() conversion.Item {
	item := conversion.Item{
		Conversion: r.Conversion,
		Decision: attribution.Decision{
			ID: r.Decision, Conversion: r.ID, Attributed: r.Attributed, Method: r.Method, Reason: r.Reason,
			Explanation: r.Explanation, Program: r.Program, Participant: r.Participant, Link: r.Link, RecurringIndex: r.RecurringIndex,
			ClickedAt: r.ClickedAt, ExpiresAt: r.ExpiresAt,
		},
		FraudScore: r.FraudScore,
	}
	item.Conversion.CustomerLabel = r.CustomerLabel
	item.Decision.Trace.Fraud, item.Decision.FraudAction = r.FraudSignals, r.FraudAction
	if r.CommissionID != nil {
		item.Commission = &commission.Commission{
			ID: *r.CommissionID, Scope: r.Scope, Conversion: r.ID, Decision: r.Decision, Status: *r.CommissionStatus,
			AmountCents: *r.CommissionCents, Currency: *r.CommissionCurrency, HoldUntil: r.HoldUntil, NeedsReview: *r.NeedsReview,
		}
	}
	return item
}
