// Package conversion takes what merchants' servers report and says at once to
// whom it is attributed and what it earns.
//
//	report ─▶ check ─▶ find the click ─▶ one transaction: lock customer and promo code ─▶ affiliate.Attribute ─▶
//	                     │                                conversion, decision, commission, redemption, binding,
//	                     │                                counts, events and their job
//	                     │ Postgres, a short wait, the stream's tail
//	                     └─ unknown: the conversion is kept and its click awaited ───────────────┐
//	                                                                                             │ the click arrives
//	         decided anew, once, with all that follows, unless another signal attributed it ◀────┘
//
// It guarantees that of any number of reports of one external id exactly one is
// recorded, that everything a conversion causes commits with it (reports of the
// same moment share a transaction, and nothing else), that a click
// whose registration was acknowledged before the report is found, and that one
// that arrives up to a day later is attributed exactly once. Conversions that
// name one customer or one promo code are decided one after the other, so that a
// code is never redeemed too often, the first attributed event alone binds, and
// payments count from 1 without a gap, until a person moves one of them.
//
// Refunds are applied one after the other and never give back more than was
// paid; what a sale earns follows their total. One that comes before its
// conversion is parked, and is applied with it, or by a sweep when the two came at
// the same moment.
//
// It does not promise that a report whose answer was lost has not been recorded:
// the client repeats it, and 201 and 409 are both right then; under an
// Idempotency-Key, within a day, it gets the first answer. Facts about the
// programme and the participant are those of the moment in which they were read,
// for a click just before the transaction.
package conversion

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// awaitedFor is how long a click that a conversion names may take to arrive: an
// edge may have been cut off and replay its journal.
const awaitedFor = 24 * time.Hour

// Config is what the service needs. All fields are required unless marked.
type Config struct {
	Store Store
	// Tail looks into what ingestion has not stored yet; nil: nothing is looked at.
	Tail Tail
	// HashKey keys the hashes of what is known of buyers.
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

// New makes the service.
func New(cfg Config) *Service {
	s := &Service{
		store:  cfg.Store,
		hasher: hasher{key: cfg.HashKey},
		log:    cfg.Log,
		// Instants have milliseconds everywhere, so that what is answered is what
		// is stored.
		now: func() time.Time { return cfg.Now().UTC().Truncate(time.Millisecond) },
	}
	s.lookup = lookup{store: cfg.Store, tail: cfg.Tail, now: s.now, log: cfg.Log}
	return s
}

// ReportConversion records one conversion, or answers a repeated Idempotency-Key
// as it was answered before. Refusals, in this order: NO_ATTRIBUTION_SIGNAL,
// IDEMPOTENCY_KEY_REUSED, MODE_MISMATCH, CONVERSION_DUPLICATE.
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

// report records one conversion whose click find looks for. key is nil where the
// caller sent none; replayed tells that the answer was given under it before.
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
		// Before the look-up, which may have to wait for the click.
		if answer, err := s.store.Replay(ctx, c.Scope, *key); err != nil || answer != nil {
			return replay(answer, err)
		}
	}
	inputs := inputsOf(c)
	if c.Click != nil {
		if inputs.FoundClick, err = find(ctx, c.Scope.Workspace, *c.Click); err != nil {
			return nil, false, err
		}
	}
	var awaitUntil *time.Time
	if c.Click != nil && inputs.FoundClick == nil && s.lookup.mayArrive(*c.Click) {
		until := now.Add(awaitedFor)
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
		return replay(recorded.Replay, err)
	}
	return responseOf(recorded.Outcome()), false, nil
}

// ReattributeConversion gives a conversion to another participant by hand.
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

// decide attributes a conversion and makes the commission that it earns, if any.
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
