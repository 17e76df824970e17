package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

type outcome struct {
	status     processor.EventStatus
	reason     processor.Ignored
	conversion *affiliate.ConversionID
	charge     string // the charge of an event that waits for its sale
}

func ignored(reason processor.Ignored) outcome {
	return outcome{status: processor.EventIgnored, reason: reason}
}

func parked(reason processor.Ignored) outcome {
	return outcome{status: processor.EventParked, reason: reason}
}

func applied(conversion *affiliate.ConversionID) outcome {
	return outcome{status: processor.EventApplied, conversion: conversion}
}

// maxSaleAge is how far back the earlier sales of a customer are read. Events arrive at most
// three days late, or by a resync of at most processor.MaxResyncAge.
const maxSaleAge = processor.MaxResyncAge + 24*time.Hour

// apply reads the current state of an event's object and applies it. It can be repeated, and
// it gives the same result for every order of events.
func (s *Service) apply(ctx context.Context, event processor.StoredProcessorEvent, c processor.LockedProcessorConnection) (outcome, error) {
	if event.Charge != "" {
		// The charge is stored. Each later change of the charge is another event, so nothing
		// has to be read.
		return s.reverseSale(ctx, event, event.Charge)
	}
	request, key, err := s.readRequest(event, c)
	if err != nil {
		return outcome{}, err
	}
	// The number is taken before the state is read: a state with a larger number is not older.
	number, err := processors.NextRead(ctx, s.DB)
	if err != nil {
		return outcome{}, err
	}
	facts, err := s.Processors[c.Processor].Read(ctx, key, request)
	switch {
	case err != nil:
		return outcome{}, fmt.Errorf("read the object of event %s: %w", event.Event, err)
	case facts.Ignored != "":
		return ignored(facts.Ignored), nil
	case facts.Charge != nil:
		facts.Charge.HappenedAt = event.HappenedAt
		return s.applyCharge(ctx, event, *facts.Charge, number)
	}
	addCharges := func(sale *processor.Sale, withFee bool) error {
		return s.Processors[c.Processor].AddCharges(ctx, key, sale, withFee)
	}
	if !c.CreateConversions {
		return s.applyIDs(ctx, event, facts.Sales, addCharges)
	}
	return s.applySales(ctx, event, facts.Sales, addCharges)
}

type addCharges func(sale *processor.Sale, withFee bool) error

func (s *Service) readRequest(
	event processor.StoredProcessorEvent, c processor.LockedProcessorConnection,
) (request ReadRequest, key string, err error) {
	if key, err = s.keyOf(c); err != nil {
		return request, "", err
	}
	body, err := s.open(c.ID, sealedEvent, event.Body)
	if err != nil {
		return request, "", fmt.Errorf("open event %s: %w", event.Event, err)
	}
	since := c.ConnectedAt
	if event.Since != nil {
		since = *event.Since
	}
	if earliest := event.HappenedAt.Add(-maxSaleAge); since.Before(earliest) {
		since = earliest
	}
	return ReadRequest{Body: body, ReadAgain: event.Resync, Since: since, OutOfBand: c.IncludeOutOfBand}, key, nil
}

// applySales records the sales in the order in which they happened. The last one is the sale
// of the event. After each sale, applySales applies the refunds and disputes that arrived
// before the sale. It stops at a sale that must wait.
func (s *Service) applySales(
	ctx context.Context, event processor.StoredProcessorEvent, sales []processor.Sale, addCharges addCharges,
) (result outcome, err error) {
	fees, err := processors.SubtractsFees(ctx, s.DB, event.Scope())
	if err != nil {
		return outcome{}, err
	}
	for _, sale := range sales {
		result, err = s.applySale(ctx, event, sale, func(sale *processor.Sale) error { return addCharges(sale, fees) })
		if err != nil || result.status == processor.EventParked {
			return result, err
		}
		if result.conversion == nil {
			continue
		}
		if err := s.Sales.Reverse(ctx, event.Scope(), *result.conversion); err != nil {
			return outcome{}, err
		}
	}
	return result, nil
}

// applySale records a sale, or adds the processor's ids to a sale that is already recorded. It binds the customer if
// the sale makes no conversion (Sale.Binds) or was reported by the merchant's server.
func (s *Service) applySale(
	ctx context.Context, event processor.StoredProcessorEvent, sale processor.Sale, addCharges func(*processor.Sale) error,
) (outcome, error) {
	age := s.now().Sub(event.ReceivedAt)
	recorded, err := s.Sales.AddProcessorIDs(ctx, event.Scope(), sale)
	if err != nil {
		return outcome{}, err
	}
	if recorded.Conversion == nil && !sale.Binds {
		if sale.IsPayment() {
			// The merchant may have reported the sale under the id of the charge.
			if err := addCharges(&sale); err != nil {
				return outcome{}, err
			}
			if !sale.FeeKnown && age < processor.FeeWait {
				return parked(processor.ParkedForFee), nil
			}
		}
		if recorded, err = s.Sales.RecordSale(ctx, event.Scope(), sale, age < processor.CheckoutWait); err != nil {
			return outcome{}, err
		}
		if recorded.Waits {
			return parked(processor.ParkedForCheckout), nil
		}
	}
	if (sale.Binds || recorded.Reported) && !recorded.Erased {
		// The merchant's report may have another id of the customer than the sales of the
		// processor. Later sales of the processor must find the binding.
		if err := s.Sales.BindCustomer(ctx, event.Scope(), sale); err != nil {
			return outcome{}, err
		}
	}
	return applied(recorded.Conversion), nil
}

// applyIDs adds the processor's ids to the conversion of a sale that the merchant's server
// reports. Refunds and disputes then find the conversion by every id.
func (s *Service) applyIDs(
	ctx context.Context, event processor.StoredProcessorEvent, sales []processor.Sale, addCharges addCharges,
) (outcome, error) {
	if len(sales) == 0 {
		return ignored(processor.IgnoredConversionsOff), nil
	}
	sale := sales[len(sales)-1]
	found, err := s.Sales.AddProcessorIDs(ctx, event.Scope(), sale)
	if err == nil && found.Conversion == nil && sale.IsPayment() {
		if err := addCharges(&sale, false); err != nil {
			return outcome{}, err
		}
		found, err = s.Sales.AddProcessorIDs(ctx, event.Scope(), sale)
	}
	if err != nil || found.Conversion == nil {
		return ignored(processor.IgnoredConversionsOff), err
	}
	return applied(found.Conversion), s.Sales.Reverse(ctx, event.Scope(), *found.Conversion)
}

// applyCharge stores the refunds and disputes of a charge, and applies them to the
// conversion. Two transactions are needed: a sale that is being recorded now either sees the
// stored charge, or is seen by the search for the conversion.
func (s *Service) applyCharge(ctx context.Context, event processor.StoredProcessorEvent, charge processor.Charge, number int64) (outcome, error) {
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		return processors.PutCharge(ctx, tx, event.Scope(), charge, number, s.now())
	})
	if err != nil {
		return outcome{}, err
	}
	return s.reverseSale(ctx, event, charge.ID)
}

// reverseSale applies a stored charge to its conversion. If the conversion is not recorded
// yet, the event waits for it, for at most conversion.ParkedRefundLifetime.
func (s *Service) reverseSale(ctx context.Context, event processor.StoredProcessorEvent, charge string) (outcome, error) {
	var conversionID *affiliate.ConversionID
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) (err error) {
		conversionID, err = processors.FindChargeSale(ctx, tx, event.Scope(), charge)
		return err
	})
	switch {
	case err != nil:
		return outcome{}, err
	case conversionID != nil:
		return applied(conversionID), s.Sales.Reverse(ctx, event.Scope(), *conversionID)
	case s.now().Sub(event.ReceivedAt) >= conversion.ParkedRefundLifetime:
		return ignored(processor.IgnoredNoConversion), nil
	}
	result := parked(processor.ParkedForSale)
	result.charge = charge
	return result, nil
}

func failureReason(err error) processor.Ignored {
	var missing *PermissionError
	switch {
	case errors.Is(err, ErrBadKey):
		return processor.FailedKey
	case errors.As(err, &missing):
		return processor.FailedPermission
	case errors.Is(err, ErrUnavailable):
		return processor.FailedProcessor
	}
	return processor.FailedInternal
}
