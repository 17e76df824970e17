// Package conversion records the conversions that merchants' servers report. The response
// to a report contains the attribution decision and the commission.
//
//	report ─▶ validate ─▶ find the click ─▶ transaction: lock customer and promo code,
//	                       │                decide (affiliate.Attribute), store conversion,
//	                       │                decision, commission, counts, events and jobs
//	                       │
//	                       └─ not found: the same transaction also stores
//	                          that the conversion waits for the click
//	                             │
//	                             └─ the click arrives within a day ─▶ decide again, once,
//	                                unless the conversion is already attributed
//
// A click is looked up in Postgres first. If it is new, the look-up waits up to 300 ms
// for ingestion. If the click is still not found, the newest part of the click stream is
// read.
//
// The package guarantees:
//
//   - Of several reports with the same external id, exactly one is recorded.
//   - A conversion commits together with everything that it causes. Reports that arrive
//     at the same time may share a transaction, but they have no other effect on each
//     other.
//   - A click that was acknowledged before the report is found. A click that arrives up
//     to a day after the report is attributed exactly once.
//   - Conversions with the same customer or the same promo code are decided one after the
//     other. A promo code is therefore never redeemed too often, only the first
//     attributed event binds a customer, and a customer's payments are numbered from 1
//     without gaps until a person reattributes one of them.
//   - Refunds of a sale are applied one after the other and never exceed its amount. The
//     commission follows their total. A refund without a conversion is parked. It is
//     applied together with the conversion, or by a sweep if both were stored at the same
//     time.
//
// If the response to a report is lost, the client cannot tell whether the report was
// recorded. The client then repeats the report and gets either 201 or 409. With an
// Idempotency-Key it gets the first response again, for a day. A decision uses the
// programme and the participant as they were when they were read. For a click, they are
// read just before the transaction.
package conversion

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// lateClickWait is the time for which a conversion waits for its click. A click can arrive
// late if its collector was cut off from the stream and replays its journal later.
const lateClickWait = 24 * time.Hour

// Config configures a Service. A field is required unless its comment says otherwise.
type Config struct {
	Store Store
	// Tail finds clicks that are acknowledged but not stored in Postgres yet. If it is
	// nil, only Postgres is searched.
	Tail Tail
	// HashKey is the key of the hashes of buyers' data.
	HashKey []byte
	Now     func() time.Time
	Log     *slog.Logger
}

// Service implements affiliate.v1.ConversionService.
type Service struct {
	affiliatev1.UnimplementedConversionServiceServer
	store  Store
	lookup lookup
	hasher hasher
	now    func() time.Time
	log    *slog.Logger
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{
		store:  cfg.Store,
		hasher: hasher{key: cfg.HashKey},
		log:    cfg.Log,
		// Times are truncated to milliseconds here, so that responses contain the same
		// times as the database.
		now: func() time.Time { return cfg.Now().UTC().Truncate(time.Millisecond) },
	}
	s.lookup = lookup{store: cfg.Store, tail: cfg.Tail, now: s.now, log: cfg.Log}
	return s
}

// ReportConversion records one conversion. If the Idempotency-Key was used before, it
// returns the first response again. Errors, in the order of their checks:
// NO_ATTRIBUTION_SIGNAL, IDEMPOTENCY_KEY_REUSED, MODE_MISMATCH, CONVERSION_DUPLICATE.
func (s *Service) ReportConversion(ctx context.Context, req *affiliatev1.ReportConversionRequest) (*affiliatev1.ReportConversionResponse, error) {
	key, err := s.keyFrom(ctx, affiliatev1.ConversionService_ReportConversion_FullMethodName, req, s.now())
	if err != nil {
		return nil, err
	}
	response, replayed, err := s.report(ctx, req, key, s.lookup.find)
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	return response, nil
}

// report records one conversion. find looks up its click. key is nil if the caller sent
// no Idempotency-Key. replayed reports whether the response is the stored response of an
// earlier request with the same key.
func (s *Service) report(
	ctx context.Context, req *affiliatev1.ReportConversionRequest, key *affiliate.IdempotencyKey,
	find func(context.Context, affiliate.WorkspaceID, affiliate.ClickID) (*affiliate.FoundClick, error),
) (response *affiliatev1.ReportConversionResponse, replayed bool, err error) {
	now := s.now()
	c := s.conversionOf(server.PrincipalFrom(ctx).Scope(), req, now)
	if c.Click == nil && c.PromoCode == nil {
		return nil, false, affiliate.Refuse(affiliate.ReasonNoAttributionSignal)
	}
	if key != nil {
		// This comes before the look-up of the click, which may have to wait.
		if outcome, err := s.store.Replay(ctx, c.Scope, *key); err != nil || outcome != nil {
			return replayedResponse(outcome, err)
		}
	}
	inputs := inputsOf(c)
	if c.Click != nil {
		if inputs.FoundClick, err = find(ctx, c.Scope.Workspace, *c.Click); err != nil {
			return nil, false, err
		}
	}
	var awaitUntil *time.Time
	if c.Click != nil && inputs.FoundClick == nil && s.lookup.plausibleID(*c.Click) {
		until := now.Add(lateClickWait)
		awaitUntil = &until
	}
	recorded, err := s.store.RecordConversion(ctx, affiliate.Report{
		Conversion: c, Inputs: inputs, AwaitUntil: awaitUntil,
		Decide: func(found affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
			if found.HasSignalOfOtherMode() {
				return affiliate.Decision{}, nil, affiliate.Refuse(affiliate.ReasonModeMismatch)
			}
			d, commission := decide(c, found, now)
			return d, commission, nil
		},
		Key: key,
	})
	if err != nil || recorded.Replay != nil {
		return replayedResponse(recorded.Replay, err)
	}
	return responseOf(recorded.Outcome()), false, nil
}

// ReattributeConversion attributes a conversion to the participant that a member of the
// merchant chose.
func (s *Service) ReattributeConversion(ctx context.Context, req *affiliatev1.ReattributeConversionRequest) (*affiliatev1.ReportConversionResponse, error) {
	id, err := server.PathID[affiliate.Conversion](req.GetConversionId())
	if err != nil {
		return nil, err
	}
	to, ok := affiliate.ParseID[affiliate.Participant](req.GetParticipantId())
	if !ok {
		return nil, affiliate.Invalid("participant_id", affiliate.MustBeUUID)
	}
	now, by, scope := s.now(), server.ActorFrom(ctx), server.PrincipalFrom(ctx).Scope()
	var r affiliate.Reattribution
	err = s.store.InTx(ctx, func(tx Tx) error {
		before, err := tx.LockAttribution(ctx, scope, id, to)
		if err != nil {
			return err
		}
		if err := before.Refusal(to); err != nil {
			return err
		}
		inputs := inputsOf(before.Conversion)
		inputs.Assigned, inputs.Customer, inputs.Rates = before.To, before.Customer, before.Rates
		d, commission := decide(before.Conversion, inputs, now)
		d.DecidedBy = by.User
		if r, err = before.Reattribute(d, commission, by, now, req.GetReason()); err != nil {
			return err
		}
		return tx.ApplyReattribution(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	return responseOf(affiliate.OutcomeOf(r.Conversion, r.Decision, r.Commission())), nil
}

// decide attributes a conversion. It also returns the commission, or nil if the decision
// earns none.
func decide(c affiliate.Conversion, in affiliate.AttributionInputs, now time.Time) (affiliate.Decision, *affiliate.Commission) {
	d := affiliate.Attribute(in)
	d.ID = affiliate.NewID[affiliate.Decision](now)
	d.Conversion, d.DecidedAt = c.ID, now
	if d.Earns == nil {
		return d, nil
	}
	commission := affiliate.NewCommission(affiliate.NewID[affiliate.Commission](now), c, d, now)
	return d, &commission
}

func inputsOf(c affiliate.Conversion) affiliate.AttributionInputs {
	return affiliate.AttributionInputs{
		Mode: c.Scope.Mode, EventType: c.EventType, OccurredAt: c.OccurredAt, Sale: c.Sale,
		Click: c.Click, PromoCode: c.PromoCode,
		IsRecurring: c.IsRecurring, ProductIDs: c.ProductIDs, LineItems: c.LineItems,
	}
}
