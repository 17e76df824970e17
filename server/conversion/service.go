// Package conversion records the conversions that merchants' servers report. The response
// to a report contains the attribution decision and the commission.
//
//	report ─▶ validate ─▶ look up the click ─▶ transaction:
//	                            │                lock the customer and the promo code
//	                            │                make the decision (attribution.Attribute)
//	                            │                store conversion, decision, commission,
//	                            │                counts, events and jobs
//	                            │
//	                            └─ click not found: the same transaction also stores
//	                               that the conversion waits for the click
//	                                  │
//	                                  └─ click arrives within a day ─▶ new decision,
//	                                     unless the conversion is already attributed
//
// A click is looked up in Postgres first. If it is not there and its id contains a recent
// time, the look-up waits up to 300 ms for package ingest, which stores the clicks of the
// click stream in Postgres. Then it reads the newest part of the stream.
//
// The package guarantees:
//
//   - Of several reports with the same external id, at most one is recorded.
//   - A conversion and all its effects are stored in one transaction. Reports that
//     arrive at the same time may share a transaction. The failure of one report does
//     not affect the others.
//   - If a click is in Postgres or in the click stream when the report arrives, the click
//     is found, unless Redis cannot be read. A collector that cannot reach Redis stores
//     clicks in its journal and sends them later. If the click arrives up to a day after
//     the report, the conversion is attributed to the click exactly once, unless it is
//     already attributed.
//   - Conversions with the same customer or the same promo code are decided one after the
//     other. A promo code is therefore not redeemed more often than allowed, and the
//     first attributed conversion of a customer binds the customer to a participant.
//   - A customer's payments in a programme are numbered from 1 without gaps, with one
//     exception: if a merchant reattributes a payment to a participant of another
//     programme, the other payments keep their numbers. There can then be a gap in the
//     old programme and a number that occurs twice in the new programme.
//   - Refunds of a conversion are applied one after the other, and their sum does not
//     exceed the amount of the conversion. The commission is reduced according to this
//     sum. A refund whose conversion is not recorded yet is parked: it is stored, and
//     applied in the transaction that records the conversion. If two transactions store
//     the refund and the conversion at the same time, neither sees the other. A job
//     (sweepRefunds) then applies the refund within seconds.
//
// If the response to a report is lost, the client does not know whether the conversion
// was recorded. It can send the report again. The status is then 201 if the first report
// was not recorded, and 409 if it was recorded. If both requests have the same
// Idempotency-Key, the client receives the first response again, for one day. For a
// conversion with a click, the click's programme and participant are read directly before
// the transaction. The decision does not see a change of the programme or the participant
// that is committed after this read.
package conversion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// lateClickWait is the time for which a recorded conversion waits for its click. A
// collector that could not reach the click stream sends the click later from its journal.
const lateClickWait = 24 * time.Hour

// awaitUntil returns the time until which a conversion waits for its click, or nil if it does not wait.
func (s *Service) awaitUntil(c conversion.Conversion, inputs attribution.Inputs) *time.Time {
	if c.Click == nil || inputs.FoundClick != nil || !s.lookup.plausibleID(*c.Click) {
		return nil
	}
	until := c.CreatedAt.Add(lateClickWait)
	return &until
}

// Config configures a Service. A field without a comment about nil is required.
type Config struct {
	DB *postgres.DB
	// Tail finds clicks that collectors have acknowledged but that are not in Postgres
	// yet. nil means that clicks are looked up only in Postgres.
	Tail Tail
	// HashKeys are the secret keys with which buyers' data is hashed.
	HashKeys affiliate.HashKeys
	Now      func() time.Time
	Log      *slog.Logger
	// Metrics counts reports. nil means that they are not counted.
	Metrics *Metrics
}

// Service implements affiliate.v1.ConversionService.
type Service struct {
	affiliatev1.UnimplementedConversionServiceServer
	db     *postgres.DB
	clicks *conversions.Clicks
	// recorder records the reports that arrive at the same time in one transaction.
	recorder *recorder
	lookup   lookup
	hasher   hasher
	now      func() time.Time
	log      *slog.Logger

	metrics *Metrics
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	s := &Service{
		db:     cfg.DB,
		clicks: conversions.NewClicks(cfg.DB), recorder: newRecorder(cfg.DB),
		hasher: hasher{keys: privacy.BuyerKeys(cfg.HashKeys)},
		log:    cfg.Log,

		metrics: cfg.Metrics,
		// Responses must contain the same times as the database, which has milliseconds.
		now: func() time.Time { return cfg.Now().UTC().Truncate(time.Millisecond) },
	}
	s.lookup = lookup{db: cfg.DB, clicks: s.clicks, tail: cfg.Tail, now: s.now, log: cfg.Log}
	return s
}

// ReportConversion records one conversion. If an earlier request had the same
// Idempotency-Key, it returns the response to that request again. Errors, in the order of their
// checks: NO_ATTRIBUTION_SIGNAL, IDEMPOTENCY_KEY_REUSED, MODE_MISMATCH, CONVERSION_DUPLICATE.
// If a customer is the only signal, IDEMPOTENCY_KEY_REUSED is checked first.
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

// report records one conversion. The function find looks up its click. key can be nil.
// replayed is true for the response to an earlier request with the same key.
func (s *Service) report(
	ctx context.Context, req *affiliatev1.ReportConversionRequest, key *affiliate.IdempotencyKey,
	find func(context.Context, affiliate.WorkspaceID, affiliate.ClickID) (*attribution.FoundClick, error),
) (response *affiliatev1.ReportConversionResponse, replayed bool, err error) {
	now := s.now()
	c, err := s.conversionOf(ctx, server.PrincipalFrom(ctx).Scope(), req, now)
	if err != nil {
		return nil, false, err
	}
	if namesNoSignal(c) {
		return nil, false, affiliate.Refuse(affiliate.ReasonNoAttributionSignal)
	}
	if key != nil {
		// The key is checked before the click is looked up, because the look-up may wait.
		if outcome, err := postgres.Replay(ctx, s.db, c.Scope, *key); err != nil || outcome != nil {
			return replayedResponse(outcome, err)
		}
	}
	inputs := inputsOf(c)
	if c.Click != nil {
		if inputs.FoundClick, err = find(ctx, c.Workspace, *c.Click); err != nil {
			return nil, false, err
		}
	}
	r := &report{
		Report: conversions.Report{Conversion: c, Inputs: inputs, AwaitUntil: s.awaitUntil(c, inputs), Key: key, Aliases: processorAliases(c)},
		decide: func(found attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
			switch {
			case found.HasNoSignal():
				return attribution.Decision{}, nil, affiliate.Refuse(affiliate.ReasonNoAttributionSignal)
			case found.HasSignalOfOtherMode():
				return attribution.Decision{}, nil, affiliate.Refuse(affiliate.ReasonModeMismatch)
			}
			d, commission := decide(c, found, now)
			return d, commission, nil
		},
	}
	err = s.recorder.record(ctx, r)
	if errors.Is(err, privacy.ErrParticipantDeleted) {
		return s.report(ctx, req, key, find) // a new look-up does not find the participant
	}
	s.metrics.observe(r, err)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonConversionDuplicate)) {
		err = s.duplicate(ctx, c)
	}
	if err != nil || r.Replay != nil {
		return replayedResponse(r.Replay, err)
	}
	spans.SetConversion(ctx, c.ID, c.Click)
	recorded := r.Recorded
	return responseOf(conversion.OutcomeOf(recorded.Conversion, recorded.Decision, recorded.Commission)), false, nil
}

// duplicate returns the error for a report of a conversion that exists. The error has the
// id of the existing conversion, unless the buyer of that conversion was erased.
func (s *Service) duplicate(ctx context.Context, c conversion.Conversion) error {
	refusal := affiliate.Refuse(affiliate.ReasonConversionDuplicate)
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		recorded, err := conversions.FindSale(ctx, tx, c.Scope, []string{c.ExternalTransactionID})
		if err == nil && recorded.Conversion != nil && !recorded.Erased {
			refusal.Metadata = map[string]string{affiliate.DuplicateOf: recorded.Conversion.String()}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("find the duplicate of a conversion: %w", err)
	}
	return refusal
}

// ReattributeConversion attributes a conversion to a participant whom a member has
// chosen.
func (s *Service) ReattributeConversion(ctx context.Context, req *affiliatev1.ReattributeConversionRequest) (*affiliatev1.ReportConversionResponse, error) {
	id := server.PathID[affiliate.ConversionID](req.GetConversionId())
	newParticipant, ok := affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId())
	if !ok {
		return nil, affiliate.Invalid("participant_id", affiliate.MustBeUUID)
	}
	now, by, scope := s.now(), server.ActorFrom(ctx), server.PrincipalFrom(ctx).Scope()
	var r conversion.Reattribution
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := conversions.LockAttribution(ctx, tx, scope, id, newParticipant)
		if err != nil {
			return err
		}
		if err := before.Refusal(newParticipant); err != nil {
			return err
		}
		inputs := inputsOf(before.Conversion)
		inputs.Assigned, inputs.Customer, inputs.Rates = before.Assignee, before.Customer, before.Rates
		d, commission := decide(before.Conversion, inputs, now)
		d.DecidedBy = by.ID()
		if r, err = before.Reattribute(d, commission, by, now, req.GetReason()); err != nil {
			return err
		}
		return conversions.ApplyReattribution(ctx, tx, r)
	})
	if err != nil {
		return nil, err
	}
	return responseOf(conversion.OutcomeOf(r.Conversion, r.Decision, r.Commission())), nil
}

// processorAliases returns the aliases of a conversion that a merchant's server reports: its
// external id, if a payment processor may report the same sale under this id.
func processorAliases(c conversion.Conversion) []string {
	if !conversion.IsProcessorID(c.ExternalTransactionID) {
		return nil
	}
	return []string{c.ExternalTransactionID}
}

// decide makes the decision about a conversion, and returns its commission, or nil if it earns none.
func decide(c conversion.Conversion, in attribution.Inputs, now time.Time) (attribution.Decision, *commission.Commission) {
	d := attribution.Attribute(in)
	d.ID = affiliate.NewID[affiliate.DecisionID](now)
	d.Conversion, d.DecidedAt = c.ID, now
	if d.Earning == nil {
		return d, nil
	}
	commission := conversion.NewCommission(affiliate.NewID[affiliate.CommissionID](now), c, d, now)
	return d, &commission
}

// namesNoSignal reports whether a conversion names neither a click nor a promo code nor a customer.
func namesNoSignal(c conversion.Conversion) bool {
	return c.Click == nil && c.PromoCode == nil && c.CustomerRef == nil
}

func inputsOf(c conversion.Conversion) attribution.Inputs {
	return attribution.Inputs{
		Mode: c.Mode, EventType: c.EventType, OccurredAt: c.OccurredAt, Sale: c.Sale,
		Click: c.Click, PromoCode: c.PromoCode,
		IsRecurring: c.IsRecurring, ProductIDs: c.ProductIDs, LineItems: c.LineItems,
	}
}

// Metrics counts the reports of conversions, by merchants' servers and payment processors.
// Labels contain no workspaces, so that the number of time series stays small.
type Metrics struct{ reports *prometheus.CounterVec }

// The outcomes of reports that record nothing.
const (
	outcomeDuplicate = string(affiliate.ReasonConversionDuplicate)
	outcomeFailed    = string(affiliate.ReasonInternal)
)

// NewMetrics returns Metrics and registers them in registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tributary_conversions_total",
		Help: "Reports of conversions, by mode and outcome: the code of the attribution reason if the conversion was recorded, CONVERSION_DUPLICATE, " +
			"or INTERNAL_ERROR if the database failed. Reports that the API refused for another reason are not counted.",
	}, []string{"mode", "outcome"})}
	outcomes := []string{outcomeDuplicate, outcomeFailed}
	for _, reason := range attribution.DecisionReasons() {
		outcomes = append(outcomes, string(reason))
	}
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		for _, outcome := range outcomes {
			m.reports.WithLabelValues(string(mode), outcome)
		}
	}
	registry.MustRegister(m.reports)
	return m
}

// observe counts a report by its outcome; err is the error of recorder.record.
func (m *Metrics) observe(r *report, err error) {
	outcome := string(r.Recorded.Decision.Reason)
	var refusal *affiliate.Error
	switch {
	case errors.Is(err, affiliate.Refuse(affiliate.ReasonConversionDuplicate)):
		outcome = outcomeDuplicate
	case errors.As(err, &refusal), r.Replay != nil, errors.Is(err, context.Canceled): // the caller has gone
		return
	case err != nil:
		outcome = outcomeFailed
	}
	m.reports.WithLabelValues(string(r.Conversion.Scope.Mode), outcome).Inc()
}
