package buyer

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// nextSales returns conversions in the list of an erasure that are not erased. A conversion
// leads to further conversions of the buyer only until it is erased, so nextSales returns only
// conversions for which these were searched.
const nextSales = `
	select s.conversion_id from buyer_erasure_sales s
	where s.workspace_id = $1 and s.operation_id = $2 and s.mode in ('test', 'live') and s.followed and not s.erased
	order by s.conversion_id
	limit $3`

// lockSales locks conversions in the order of their ids. A transaction that inserts a row with
// one of their external ids, or a row that refers to one of them, waits for the lock.
const lockSales = `
	select c.id, c.mode, c.external_transaction_id, c.click_id, c.processor, c.buyer_erased_at is not null as erased
	from conversions c
	where c.workspace_id = $1 and c.mode in ('test', 'live') and c.id = any($2)
	order by c.id
	for update`

// lockCommissions locks the commissions of conversions. A transaction that writes an event
// about a commission has locked the commission, so the erasure misses no event.
const lockCommissions = `
	select from commissions m
	where m.workspace_id = $1 and m.mode in ('test', 'live') and m.conversion_id = any($2)
	order by m.id
	for no key update`

const (
	aliasesOfSales = `
		select a.conversion_id as conversion, a.id from conversion_aliases a
		where a.workspace_id = $1 and a.mode in ('test', 'live') and a.conversion_id = any($2)
		union all
		select g.conversion_id, g.id from processor_charges g
		where g.workspace_id = $1 and g.mode in ('test', 'live') and g.conversion_id = any($2)`
	refundsOfSales = `
		select r.conversion_id as conversion, r.id, r.external_refund_id as external_id from refunds r
		where r.workspace_id = $1 and r.mode in ('test', 'live') and r.conversion_id = any($2)
		union all
		select c.id, r.id, r.external_refund_id
		from conversions c
		join refunds r on r.workspace_id = c.workspace_id and r.mode = c.mode and r.external_transaction_id = c.external_transaction_id
		where c.workspace_id = $1 and c.mode in ('test', 'live') and c.id = any($2) and r.conversion_id is null`
	eventsOfSales = `
		select e.subject_id as conversion, e.id, e.day, e.body from events e
		where e.workspace_id = $1 and e.mode in ('test', 'live') and e.subject_id = any($2)`
)

// LockSales locks at most limit conversions in the list of an erasure that are followed and not
// erased, and returns them with everything that must be changed. The result ids has the ids of all
// these conversions. The result sales has only the conversions that no other erasure has erased.
func LockSales(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, limit int) (ids []affiliate.ConversionID, sales []privacy.BuyerSale, err error) {
	rows, _ := tx.Query(ctx, nextSales, e.Workspace, e.ID, limit)
	if ids, err = pgx.CollectRows(rows, pgx.RowTo[affiliate.ConversionID]); err != nil || len(ids) == 0 {
		return nil, nil, err
	}
	type lockedSale struct {
		ID                    affiliate.ConversionID
		Mode                  affiliate.Mode
		ExternalTransactionID string
		ClickID               *affiliate.ClickID
		Processor             *conversion.ProcessorIDs
		Erased                bool
	}
	locked, err := postgres.List[lockedSale](ctx, tx, lockSales, e.Workspace, ids)
	if err != nil {
		return nil, nil, err
	}
	var remaining []affiliate.ConversionID
	for _, sale := range locked {
		if sale.Erased {
			continue
		}
		remaining = append(remaining, sale.ID)
		sales = append(sales, privacy.BuyerSale{
			Conversion: sale.ID, Scope: affiliate.Scope{Workspace: e.Workspace, Mode: sale.Mode},
			ExternalTransactionID: sale.ExternalTransactionID, Click: sale.ClickID,
			ProcessorIDs: idsOfSale(sale.ExternalTransactionID, sale.Processor),
		})
		if sale.Processor != nil {
			sales[len(sales)-1].ProcessorCustomer = sale.Processor.Customer
		}
	}
	return ids, sales, completeSales(ctx, tx, e.Workspace, remaining, sales)
}

// idsOfSale returns the ids by which a processor knows the sale and that the conversion itself
// contains.
func idsOfSale(external string, ids *conversion.ProcessorIDs) []string {
	var all []string
	if conversion.IsProcessorID(external) {
		all = append(all, external)
	}
	if ids == nil {
		return all
	}
	for _, id := range []string{ids.Session, ids.PaymentIntent, ids.Charge, ids.Invoice} {
		if id != "" {
			all = append(all, id)
		}
	}
	return all
}

// completeSales adds the aliases, charges, refunds and events of locked conversions.
func completeSales(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, ids []affiliate.ConversionID, sales []privacy.BuyerSale) error {
	if len(ids) == 0 {
		return nil
	}
	byID := map[affiliate.ConversionID]*privacy.BuyerSale{}
	for i := range sales {
		byID[sales[i].Conversion] = &sales[i]
	}
	type alias struct {
		Conversion affiliate.ConversionID
		ID         string
	}
	type refund struct {
		Conversion affiliate.ConversionID
		privacy.SaleRefund
	}
	type event struct {
		Conversion affiliate.ConversionID
		privacy.SaleEvent
	}
	if _, err := tx.Exec(ctx, lockCommissions, workspace, ids); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	queueRows(batch, func(a alias) { byID[a.Conversion].ProcessorIDs = append(byID[a.Conversion].ProcessorIDs, a.ID) }, aliasesOfSales, workspace, ids)
	queueRows(batch, func(r refund) { byID[r.Conversion].Refunds = append(byID[r.Conversion].Refunds, r.SaleRefund) }, refundsOfSales, workspace, ids)
	queueRows(batch, func(e event) { byID[e.Conversion].Events = append(byID[e.Conversion].Events, e.SaleEvent) }, eventsOfSales, workspace, ids)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	for i := range sales {
		if len(sales[i].ProcessorIDs) == 0 {
			continue
		}
		charges, err := conversions.ChargeIDs(ctx, tx, sales[i].Scope, sales[i].ProcessorIDs)
		if err != nil {
			return err
		}
		sales[i].ProcessorIDs = append(sales[i].ProcessorIDs, charges...)
	}
	return nil
}

// queueRows queues a query. It calls the function each with every row of the result.
func queueRows[T any](batch *pgx.Batch, each func(T), sql string, args ...any) {
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
		for _, row := range all {
			each(row)
		}
		return err
	})
}

// TakenPseudonyms returns the given texts that are already external ids of conversions.
func TakenPseudonyms(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, candidates []string) ([]string, error) {
	const read = `
		select c.external_transaction_id from conversions c
		where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = any($3)`
	return postgres.Values[string](ctx, tx, read, scope.Workspace, scope.Mode, candidates)
}

// redactedSignals is an expression that replaces the evidence in a list of fraud signals.
const redactedSignals = `(
	select coalesce(jsonb_agg(t.signal || jsonb_build_object('evidence', @pseudonym::text) order by t.n), '[]')
	from jsonb_array_elements(fraud.list) with ordinality as t (signal, n)
)`

// The statements below erase one conversion and the rows that belong to it.
const (
	eraseSale = `
		update conversions c set
			external_transaction_id = @pseudonym, customer_ref = null, customer_email_hash = null, customer_email_domain = null,
			customer_ip_hash = null, customer_ua_hash = null, subscription_id = null, product_ids = '{}', line_items = null,
			metadata = null, sub_id = null, processor = null, buyer_erased_at = @at,
			fraud_signals = ` + redactedSignals + `
		from (select fraud_signals as list from conversions where workspace_id = @workspace and mode = @mode and id = @conversion) as fraud
		where c.workspace_id = @workspace and c.mode = @mode and c.id = @conversion`
	eraseCommissions = `
		update commissions set external_transaction_id = @pseudonym, customer_ref = null
		where workspace_id = @workspace and mode = @mode and conversion_id = @conversion`
	eraseFraudEvents = `
		update fraud_events f set signals = ` + redactedSignals + `
		from (
			select id as event, signals as list from fraud_events
			where workspace_id = @workspace and mode = @mode and conversion_id = @conversion
		) as fraud
		where f.workspace_id = @workspace and f.mode = @mode and f.id = fraud.event`
	eraseRefunds = `
		update refunds r set external_refund_id = t.external, external_transaction_id = @pseudonym, reason = null
		from unnest(@refunds::uuid[], @externals::text[]) as t (id, external)
		where r.workspace_id = @workspace and r.mode = @mode and r.id = t.id`
	eraseEvents = `
		update events e set body = t.body
		from unnest(@events::uuid[], @days::date[], @bodies::bytea[]) as t (id, day, body)
		where e.workspace_id = @workspace and e.mode = @mode and e.id = t.id and e.day = t.day`
	// A click that is not stored can still arrive. It is erased by the job that attributes
	// late clicks, so the conversion waits for it.
	awaitClick = `
		insert into awaited_clicks (workspace_id, click_id, conversion_id, mode, created_at, expires_at)
		select @workspace, @click, @conversion, @mode, @at, @at::timestamptz + interval '24 hours'
		where not exists (
			select from clicks k where k.workspace_id = @workspace and k.mode = @mode and k.id = @click and k.clicked_at = @clicked_at
		)
		on conflict (workspace_id, click_id, conversion_id) do update set expires_at = excluded.expires_at`
	deleteAwaited = `
		delete from awaited_clicks
		where workspace_id = @workspace and mode = @mode and click_id = @click and conversion_id = @conversion
			and exists (
				select from clicks k where k.workspace_id = @workspace and k.mode = @mode and k.id = @click and k.clicked_at = @clicked_at
			)`
	eraseDecisions = `select erase_decision_evidence(@workspace, @mode, array[@conversion::uuid], @pseudonym)`
	markErased     = `
		update buyer_erasure_sales set erased = true
		where workspace_id = $1 and operation_id = $2 and mode in ('test', 'live') and conversion_id = any($3)`
)

// EraseSales stores erased conversions and erases their clicks. The transaction must have called LockSales.
func EraseSales(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, ids []affiliate.ConversionID, sales []privacy.ErasedSale, at time.Time) error {
	batch, clickIDs := &pgx.Batch{}, map[affiliate.Scope][]affiliate.ClickID{}
	for _, sale := range sales {
		for _, value := range sale.Values {
			conversions.QueueErasedValue(batch, sale.Scope, value, sale.Conversion)
		}
		conversions.QueueErasedProcessorIDs(batch, sale.Scope, sale.ProcessorIDs)
		args := pgx.NamedArgs{
			"workspace": sale.Scope.Workspace, "mode": sale.Scope.Mode, "conversion": sale.Conversion, "pseudonym": sale.Pseudonym, "at": at,
			"click": sale.Click,
		}
		var refunds []conversion.RefundID
		var externals []string
		for _, refund := range sale.Refunds {
			refunds, externals = append(refunds, refund.ID), append(externals, refund.ExternalID)
		}
		args["refunds"], args["externals"] = refunds, externals
		var events []affiliate.EventID
		var days []time.Time
		var bodies [][]byte
		for _, event := range sale.Events {
			events, days, bodies = append(events, event.ID), append(days, event.Day), append(bodies, event.Body)
		}
		args["events"], args["days"], args["bodies"] = events, days, bodies
		for _, statement := range []string{eraseSale, eraseCommissions, eraseFraudEvents, eraseRefunds, eraseEvents, eraseDecisions} {
			batch.Queue(statement, args)
		}
		if sale.Click != nil {
			args["clicked_at"], _ = sale.Click.Time()
			batch.Queue(deleteAwaited, args)
			batch.Queue(awaitClick, args)
			clickIDs[sale.Scope] = append(clickIDs[sale.Scope], *sale.Click)
		}
	}
	batch.Queue(markErased, e.Workspace, e.ID, ids)
	batch.Queue(postgres.LogConversions, pgx.NamedArgs{"workspace": e.Workspace, "ids": ids})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	// The clicks come last: a click can be stored between two of the statements.
	for scope, ids := range clickIDs {
		if err := clicks.EraseOfBuyers(ctx, tx, scope, ids...); err != nil {
			return err
		}
	}
	return nil
}
