package conversion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

// RecordSale records a sale that a payment processor has reported. If it is already
// recorded, its conversion only gets the processor's ids.
//
// If mayWait is true and the checkout session of a first payment is not known yet, RecordSale
// records nothing and sets Waits in the result. The caller repeats the call later. The checkout
// may name the partner, or the merchant may report it.
func (s *Service) RecordSale(ctx context.Context, scope affiliate.Scope, sale processor.Sale, mayWait bool) (processor.RecordedSale, error) {
	if mayWait && sale.First && sale.IDs.Session == "" {
		return processor.RecordedSale{Waits: true}, nil
	}
	c, inputs, err := s.conversionOfSale(ctx, scope, sale)
	if err != nil {
		return processor.RecordedSale{}, err
	}
	r := &report{
		Report: conversions.Report{Conversion: c, Inputs: inputs, AwaitUntil: s.awaitUntil(c, inputs), Aliases: sale.Aliases},
		decide: func(found attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
			d, commission := decide(c, found, c.CreatedAt)
			return d, commission, nil
		},
	}
	err = s.recorder.record(ctx, r)
	s.metrics.observe(r, err)
	switch {
	case errors.Is(err, affiliate.Refuse(affiliate.ReasonConversionDuplicate)):
		recorded, err := s.AddProcessorIDs(ctx, scope, sale)
		if err == nil && recorded.Conversion == nil {
			err = fmt.Errorf("sale %s is a duplicate, but its conversion does not exist any more", sale.ID)
		}
		return recorded, err
	case err != nil:
		return processor.RecordedSale{}, fmt.Errorf("record sale %s: %w", sale.ID, err)
	}
	return processor.RecordedSale{Conversion: &c.ID, New: true}, nil
}

// AddProcessorIDs adds the processor's ids to the conversion of a sale, if there is one.
func (s *Service) AddProcessorIDs(ctx context.Context, scope affiliate.Scope, sale processor.Sale) (processor.RecordedSale, error) {
	var recorded processor.RecordedSale
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		var err error
		recorded, err = conversions.FindSale(ctx, tx, scope, sale.Aliases)
		if err != nil || recorded.Conversion == nil {
			return err
		}
		return conversions.AddAliases(ctx, tx, scope, *recorded.Conversion, sale.IDs, sale.Aliases)
	})
	return recorded, err
}

// errNotBound rolls back the transaction of a sale that binds no customer.
var errNotBound = errors.New("the sale binds no customer")

// BindCustomer binds the customer of a sale to the participant whom the sale is credited to. It does
// nothing if the sale has no customer, the customer is bound, or no signal credits a participant.
func (s *Service) BindCustomer(ctx context.Context, scope affiliate.Scope, sale processor.Sale) error {
	if sale.IDs.Customer == "" {
		return nil
	}
	c, inputs, err := s.conversionOfSale(ctx, scope, sale)
	if err != nil || c.Click == nil && c.PromoCode == nil {
		return err
	}
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		found, err := conversions.LockSignals(ctx, tx, c, inputs)
		if err != nil {
			return err
		}
		d, _ := decide(c, found, c.CreatedAt)
		if !d.Attributed || found.Customer.Binding != nil {
			return errNotBound
		}
		return conversions.BindCustomer(ctx, tx, c, found, d)
	})
	if errors.Is(err, errNotBound) {
		return nil
	}
	return err
}

// conversionOfSale converts a sale to a conversion, and looks up its click.
func (s *Service) conversionOfSale(ctx context.Context, scope affiliate.Scope, sale processor.Sale) (conversion.Conversion, attribution.Inputs, error) {
	now := s.now()
	ids := sale.IDs
	c := conversion.Conversion{
		ID: affiliate.NewID[affiliate.ConversionID](now), Scope: scope, ExternalTransactionID: sale.ID, EventType: sale.EventType,
		Sale: sale.Sale, DiscountCents: sale.DiscountCents, OccurredAt: sale.OccurredAt.Truncate(time.Millisecond), CreatedAt: now,
		Source: conversion.Source(ids.Name), Status: conversion.Recorded,
		SubscriptionID: server.OptionalString(ids.Subscription), IsRecurring: sale.IsRecurring, Version: 1, Processor: &ids,
	}
	var err error
	if c.CustomerRef, err = s.customerRef(ctx, scope, ids.Customer); err != nil {
		return c, attribution.Inputs{}, err
	}
	earlierEmails := s.hasher.setEmail(&c, sale.CustomerEmail)
	c.Buyer = s.hasher.buyer(c)
	c.Buyer.EarlierEmailHashes = earlierEmails
	c.Buyer.EmailDigests = fraud.FormerEmailDigests(affiliate.HashKeys(s.hasher.keys), sale.CustomerEmail)
	click, found, err := s.clickOfSale(ctx, scope, sale)
	if err != nil {
		return c, attribution.Inputs{}, err
	}
	c.Click = click
	if c.PromoCode, err = s.promoCodeOfSale(ctx, scope, sale); err != nil {
		return c, attribution.Inputs{}, err
	}
	inputs := inputsOf(c)
	inputs.FoundClick, inputs.FeeMissing = found, !sale.FeeKnown
	return c, inputs, nil
}

// clickOfSale returns the click that a sale names. The metadata aff_click_id has priority. Otherwise
// the merchant's reference is used if it is a click id that is not from the future (plausibleID).
func (s *Service) clickOfSale(ctx context.Context, scope affiliate.Scope, sale processor.Sale) (*affiliate.ClickID, *attribution.FoundClick, error) {
	if id, ok := affiliate.ParseID[affiliate.ClickID](sale.Click); ok {
		found, err := s.lookup.find(ctx, scope.Workspace, id)
		return &id, found, err
	}
	id, ok := affiliate.ParseID[affiliate.ClickID](sale.Reference)
	if !ok || !s.lookup.plausibleID(id) {
		return nil, nil, nil
	}
	found, err := s.lookup.find(ctx, scope.Workspace, id)
	return &id, found, err
}

// promoCodeOfSale returns the promo code of a sale. It is the promo code from which the first known
// promotion code of Stripe was created, otherwise the first text of a promotion code that can be a promo code.
func (s *Service) promoCodeOfSale(ctx context.Context, scope affiliate.Scope, sale processor.Sale) (*string, error) {
	if len(sale.PromotionCodes) == 0 {
		return nil, nil
	}
	ids := make([]string, len(sale.PromotionCodes))
	for i, code := range sale.PromotionCodes {
		ids[i] = code.ID
	}
	known, err := processors.PromoCodes(ctx, s.db, scope, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if text, ok := known[id]; ok {
			return &text, nil
		}
	}
	for _, code := range sale.PromotionCodes {
		if text := conversion.FoldPromoCode(code.Text); promocode.ValidPromoCode(text) {
			return &text, nil
		}
	}
	return nil, nil
}

// Reverse applies to a conversion what a payment processor says about its refunds and
// disputes. The result depends only on the last state that the processor has reported, so
// Reverse can be repeated. A conversion that does not exist is ignored.
func (s *Service) Reverse(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) error {
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		_, err := reverse(ctx, tx, scope, id, s.now())
		return err
	})
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil
	}
	return err
}

// reverse applies the stored refunds and disputes of a conversion. Errors: NOT_FOUND.
func reverse(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ConversionID, at time.Time) (conversion.Reversal, error) {
	sale, err := conversions.LockSale(ctx, tx, scope, id)
	if err != nil {
		return conversion.Reversal{}, err
	}
	reversal, changed, err := sale.Reverse(at)
	if err != nil || !changed {
		return reversal, err
	}
	return reversal, conversions.ApplyReversal(ctx, tx, reversal)
}
