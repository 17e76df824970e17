package analytics

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// currentConversions reads the conversions as they are stored now. It searches the index of each
// table once for each conversion. The values of the deciding click follow in a second statement.
const currentConversions = `
	select c.id,
		case when c.attributed then c.program_id end as program_id,
		case when c.attributed then c.participant_id end as participant_id,
		case when c.attributed then c.link_id end as link_id,
		c.occurred_at, c.event_type, c.customer_ref,
		case when c.attributed and d.method = 'click' then c.click_id end as click_id,
		coalesce(c.sub_id, '') as sub_id,
		coalesce(case when c.attributed and d.method = 'promo_code' then c.promo_code end, '') as promo_code,
		coalesce(c.currency, '') as currency, c.amount_cents, c.refunded_amount_cents as refunded_cents,
		coalesce(m.status, '') as commission_status, coalesce(m.amount_cents, 0) as commission_cents, coalesce(m.currency, '') as commission_currency,
		c.attributed and c.customer_ref is null as without_customer,
		t.erased_at is not null as participant_erased, w.erased_at is not null or c.buyer_erased_at is not null as all_erased
	from unnest($3::uuid[]) as n (id)
	cross join lateral (select * from conversions where workspace_id = $1 and mode = $2 and id = n.id limit 1) as c
	cross join lateral (select method from attribution_decisions where workspace_id = $1 and mode = $2 and id = c.decision_id limit 1) as d
	cross join (select erased_at from workspaces where id = $1) as w
	left join lateral (select * from commissions where workspace_id = $1 and mode = $2 and decision_id = c.decision_id limit 1) as m on true
	left join lateral (select erased_at from participants where workspace_id = $1 and mode = $2 and id = c.participant_id limit 1) as t on true`

type currentRow struct {
	ID            affiliate.ConversionID
	ProgramID     *affiliate.ProgramID
	ParticipantID *affiliate.ParticipantID
	LinkID        *affiliate.LinkID
	OccurredAt    time.Time
	EventType     affiliate.EventType
	CustomerRef   *string
	ClickID       *affiliate.ClickID
	SubID         string
	PromoCode     string

	WithoutCustomer              bool
	ParticipantErased, AllErased bool
	conversionAmounts
}

// conversionAmounts are the columns that currentConversions and analytics_conversions share.
type conversionAmounts struct {
	Currency           string
	AmountCents        int64
	RefundedCents      int64
	CommissionStatus   commission.Status
	CommissionCents    int64
	CommissionCurrency string
}

func (a conversionAmounts) set(c *analytics.Conversion) {
	c.Currency, c.AmountCents, c.RefundedCents = a.Currency, a.AmountCents, a.RefundedCents
	c.Commission, c.CommissionCents, c.CommissionCurrency = a.CommissionStatus, a.CommissionCents, a.CommissionCurrency
}

// CurrentConversions returns the conversions as they are stored now. Conversions that were
// deleted are missing. FirstOfCustomer is not set.
func CurrentConversions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ConversionID,
) (map[affiliate.ConversionID]analytics.Conversion, error) {
	rows, _ := tx.Query(ctx, currentConversions, scope.Workspace, scope.Mode, ids)
	current, err := pgx.CollectRows(rows, pgx.RowToStructByName[currentRow])
	if err != nil {
		return nil, fmt.Errorf("read conversions for the analytics: %w", err)
	}
	var clickIDs []affiliate.ClickID
	for _, r := range current {
		if r.ClickID != nil {
			clickIDs = append(clickIDs, *r.ClickID)
		}
	}
	clicks, err := clickValues(ctx, tx, scope, clickIDs)
	if err != nil {
		return nil, err
	}
	found := make(map[affiliate.ConversionID]analytics.Conversion, len(current))
	for _, r := range current {
		c := analytics.Conversion{ID: r.ID, OccurredAt: r.OccurredAt, EventType: r.EventType, ParticipantErased: r.ParticipantErased, AllErased: r.AllErased}
		c.WithoutCustomer = r.WithoutCustomer && !r.AllErased
		r.set(&c)
		if r.ProgramID != nil && r.ParticipantID != nil {
			c.Owner.Program, c.Owner.Participant = *r.ProgramID, *r.ParticipantID
			if r.LinkID != nil {
				c.Owner.Link = *r.LinkID
			}
			if r.CustomerRef != nil {
				c.Customer = *r.CustomerRef
			}
		}
		var values *analytics.Values
		if r.ClickID != nil {
			click, ok := clicks[*r.ClickID]
			if c.Click, c.ClickDeleted = *r.ClickID, !ok; ok {
				values = &click
			}
		}
		c.SetValues(values, r.SubID, r.PromoCode)
		found[c.ID] = c
	}
	return found, nil
}

// selectClickValues reads clicks by their keys. clicked_at is the time inside the id. $5 and
// $6 are the first and the last of these times, so that Postgres opens few partitions.
const selectClickValues = `
	select ` + postgres.CountedClickColumns + `
	from unnest($3::uuid[], $4::timestamptz[]) as n (click_id, clicked)
	cross join lateral (
		select c.* from clicks c
		where c.workspace_id = $1 and c.mode = $2 and c.id = n.click_id and c.clicked_at = n.clicked and c.clicked_at between $5 and $6
		limit 1) as x`

// clickValues returns the values of the clicks that still exist.
func clickValues(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ClickID) (map[affiliate.ClickID]analytics.Values, error) {
	values := make(map[affiliate.ClickID]analytics.Values, len(ids))
	batch := &pgx.Batch{}
	conversions.EachClickSpan(ids, func(ids []affiliate.ClickID, times []time.Time, first, last time.Time) {
		batch.Queue(selectClickValues, scope.Workspace, scope.Mode, ids, times, first, last).Query(func(rows pgx.Rows) error {
			clicks, err := pgx.CollectRows(rows, postgres.CountedClick)
			for i := range clicks {
				values[clicks[i].ID] = analytics.ClickValues(&clicks[i])
			}
			return err
		})
	})
	return values, send(ctx, tx, "read clicks for the analytics", batch)
}

const countedConversions = `
	select ` + countedRowColumns + `
	from analytics_conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.conversion_id = any($3)`

// countedRowColumns are the columns of analytics_conversions c of a countedRow.
const countedRowColumns = `c.conversion_id, ` + countedColumns + `, c.dimension_values, c.click_id, c.without_customer`

// countedColumns are the columns of analytics_conversions c of countedFields.
const countedColumns = `c.program_id, c.participant_id, c.link_id, c.occurred_at, c.event_type, c.customer_ref,
	c.currency, c.amount_cents, c.refunded_cents, c.commission_status, c.commission_cents, c.commission_currency`

type countedRow struct {
	ConversionID    affiliate.ConversionID
	DimensionValues []string
	ClickID         *affiliate.ClickID
	WithoutCustomer bool
	countedFields
}

type countedFields struct {
	ProgramID     affiliate.ProgramID
	ParticipantID affiliate.ParticipantID
	LinkID        affiliate.LinkID
	OccurredAt    time.Time
	EventType     affiliate.EventType
	CustomerRef   *string
	conversionAmounts
}

func (r countedRow) conversion() analytics.Conversion {
	c := r.countedFields.conversion()
	c.ID, c.WithoutCustomer = r.ConversionID, r.WithoutCustomer
	copy(c.Values[:], r.DimensionValues)
	if r.ClickID != nil {
		c.Click = *r.ClickID
	}
	return c
}

func (r countedFields) conversion() analytics.Conversion {
	c := analytics.Conversion{
		Owner:      analytics.Owner{Program: r.ProgramID, Participant: r.ParticipantID, Link: r.LinkID},
		OccurredAt: r.OccurredAt, EventType: r.EventType,
	}
	if r.CustomerRef != nil {
		c.Customer = *r.CustomerRef
	}
	r.set(&c)
	return c
}

// CountedConversions returns conversions as they are part of the sums. Conversions that are
// not part of the sums are missing. FirstOfCustomer is not set.
func CountedConversions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ConversionID,
) (map[affiliate.ConversionID]analytics.Conversion, error) {
	rows, err := tx.Query(ctx, countedConversions, scope.Workspace, scope.Mode, ids)
	counted, err := postgres.AllRows(rows, err, countedRow.conversion)
	if err != nil {
		return nil, fmt.Errorf("read counted conversions: %w", err)
	}
	found := make(map[affiliate.ConversionID]analytics.Conversion, len(counted))
	for _, c := range counted {
		found[c.ID] = c
	}
	return found, nil
}

const storeConversions = `
	insert into analytics_conversions (workspace_id, mode, conversion_id, program_id, participant_id, link_id, occurred_at, event_type,
		dimension_values, customer_ref, click_id, currency, amount_cents, refunded_cents, commission_status, commission_cents, commission_currency,
		without_customer)
	select @workspace, @mode, id, program, participant, link, occurred_at, event_type, dimension_values::text[], nullif(customer, ''),
		nullif(click, '00000000-0000-0000-0000-000000000000'), currency, amount, refunded, commission, commission_cents, commission_currency,
		without_customer
	from unnest(@ids::uuid[], @programs::uuid[], @participants::uuid[], @links::uuid[], @times::timestamptz[], @event_types::text[],
		@values::text[], @customers::text[], @clicks::uuid[], @currencies::text[], @amounts::bigint[], @refunds::bigint[],
		@commissions::text[], @commission_amounts::bigint[], @commission_currencies::text[], @without_customer::boolean[])
		as k (id, program, participant, link, occurred_at, event_type, dimension_values, customer, click,
			currency, amount, refunded, commission, commission_cents, commission_currency, without_customer)
	on conflict (workspace_id, mode, conversion_id) do update
	set program_id = excluded.program_id, participant_id = excluded.participant_id, link_id = excluded.link_id,
		occurred_at = excluded.occurred_at, event_type = excluded.event_type, dimension_values = excluded.dimension_values,
		customer_ref = excluded.customer_ref, click_id = excluded.click_id, currency = excluded.currency,
		amount_cents = excluded.amount_cents, refunded_cents = excluded.refunded_cents, commission_status = excluded.commission_status,
		commission_cents = excluded.commission_cents, commission_currency = excluded.commission_currency,
		without_customer = excluded.without_customer`

const deleteCounted = `delete from analytics_conversions where workspace_id = $1 and mode = $2 and conversion_id = any($3)`

// StoreCounted stores conversions as they are part of the sums, and deletes others.
func StoreCounted(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, stored []analytics.Conversion, deleted []affiliate.ConversionID) error {
	batch := &pgx.Batch{}
	if len(stored) > 0 {
		batch.Queue(storeConversions, conversionArgs(scope, stored))
	}
	if len(deleted) > 0 {
		batch.Queue(deleteCounted, scope.Workspace, scope.Mode, deleted)
	}
	return send(ctx, tx, "store counted conversions", batch)
}

// conversionArgs returns the arguments of storeConversions.
func conversionArgs(scope affiliate.Scope, stored []analytics.Conversion) pgx.NamedArgs {
	var ids, programs, participants, links, clicks []uuid.UUID
	var times []time.Time
	var eventTypes, values, customers, currencies, commissions, commissionCurrencies []string
	var amounts, refunds, commissionAmounts []int64
	var withoutCustomer []bool
	for i := range stored {
		c := &stored[i]
		ids, clicks, times = append(ids, c.ID.UUID), append(clicks, c.Click.UUID), append(times, c.OccurredAt)
		programs, participants, links = append(programs, c.Owner.Program.UUID), append(participants, c.Owner.Participant.UUID), append(links, c.Owner.Link.UUID)
		eventTypes, values, customers = append(eventTypes, string(c.EventType)), append(values, arrayLiteral(c.Values[:])), append(customers, c.Customer)
		currencies, amounts, refunds = append(currencies, c.Currency), append(amounts, c.AmountCents), append(refunds, c.RefundedCents)
		commissions, commissionAmounts = append(commissions, string(c.Commission)), append(commissionAmounts, c.CommissionCents)
		commissionCurrencies, withoutCustomer = append(commissionCurrencies, c.CommissionCurrency), append(withoutCustomer, c.WithoutCustomer)
	}
	return pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "ids": ids, "clicks": clicks, "times": times,
		"programs": programs, "participants": participants, "links": links, "event_types": eventTypes, "values": values, "customers": customers,
		"currencies": currencies, "amounts": amounts, "refunds": refunds,
		"commissions": commissions, "commission_amounts": commissionAmounts, "commission_currencies": commissionCurrencies,
		"without_customer": withoutCustomer,
	}
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayLiteral returns the text form of an array in Postgres. unnest cannot return arrays.
func arrayLiteral(values []string) string {
	var b strings.Builder
	for i, value := range values {
		b.WriteString(string(`{,`[min(i, 1)]) + `"`)
		_, _ = arrayEscapes.WriteString(&b, value)
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}
