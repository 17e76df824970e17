package conversion

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
)

// conversionColumns are the fields of conversion.StoredConversion, selected from
// conversions c.
const conversionColumns = `
	c.workspace_id, c.id, c.mode, c.external_transaction_id, c.event_type, c.amount_cents, coalesce(c.currency, '') as currency,
	c.tax_cents, c.shipping_cents, c.fee_cents, c.discount_cents, c.occurred_at, c.created_at, c.source, c.status,
	c.refunded_amount_cents, c.click_id, c.promo_code, c.customer_ref, c.product_ids, c.line_items, c.is_recurring,
	c.version, c.decision_id, c.attributed, c.program_id, c.participant_id, c.link_id, c.recurring_index, c.processor,
	c.buyer_erased_at is not null as buyer_erased`

func scanConversion(row pgx.CollectableRow) (conversion.StoredConversion, error) {
	type conversionRow struct {
		WorkspaceID           affiliate.WorkspaceID
		ID                    affiliate.ConversionID
		Mode                  affiliate.Mode
		ExternalTransactionID string
		EventType             affiliate.EventType
		AmountCents           int64
		Currency              string
		TaxCents              int64
		ShippingCents         int64
		FeeCents              int64
		DiscountCents         int64
		OccurredAt            time.Time
		CreatedAt             time.Time
		Source                conversion.Source
		Status                conversion.Status
		RefundedAmountCents   int64
		ClickID               *affiliate.ClickID
		PromoCode             *string
		CustomerRef           *string
		ProductIDs            []string `db:"product_ids"`
		LineItems             []attribution.LineItem
		IsRecurring           bool
		Version               int
		DecisionID            affiliate.DecisionID
		Attributed            bool
		ProgramID             *affiliate.ProgramID
		ParticipantID         *affiliate.ParticipantID
		LinkID                *affiliate.LinkID
		RecurringIndex        *int
		Processor             *conversion.ProcessorIDs
		BuyerErased           bool
	}
	r, err := pgx.RowToStructByName[conversionRow](row)
	return conversion.StoredConversion{
		Conversion: conversion.Conversion{
			ID: r.ID, Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode},
			ExternalTransactionID: r.ExternalTransactionID, EventType: r.EventType,
			Sale: attribution.Sale{
				Paid:     affiliate.Money{Cents: r.AmountCents, Currency: r.Currency},
				TaxCents: r.TaxCents, ShippingCents: r.ShippingCents, FeeCents: r.FeeCents,
			},
			DiscountCents: r.DiscountCents, OccurredAt: r.OccurredAt, CreatedAt: r.CreatedAt,
			Source: r.Source, Status: r.Status, RefundedAmountCents: r.RefundedAmountCents,
			Click: r.ClickID, PromoCode: r.PromoCode, CustomerRef: r.CustomerRef,
			ProductIDs: r.ProductIDs, LineItems: r.LineItems, IsRecurring: r.IsRecurring, Version: r.Version, Processor: r.Processor,
		},
		Decision: r.DecisionID, Attributed: r.Attributed,
		Program: r.ProgramID, Participant: r.ParticipantID, Link: r.LinkID, RecurringIndex: r.RecurringIndex,
		BuyerErased: r.BuyerErased,
	}, err
}
