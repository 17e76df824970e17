// Package payout serves payout batches and the payouts in them. The proto file of the
// service contains a drawing of the payout statuses, and the file affiliate/payout/payout.go
// contains the table of allowed status changes.
//
// The package guarantees that a commission is in at most one open payout, even if
// requests run in parallel. Several requests with the same Idempotency-Key create one
// batch. When a payout is confirmed, sent or retried, the service checks again that its
// commissions are payable. The ledger entries of payouts contain exactly the amounts that
// were sent.
//
// The package does not transfer money. The merchant processes and exports a batch,
// transfers the money and reports the result of each payout. An export changes nothing. A
// refund does not stop a payout that is already processing. The refunded amount becomes a
// debt of the participant, and the next payout is reduced by this amount.
package payout

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// Config holds the dependencies of a Service.
type Config struct {
	DB *postgres.DB
	// Seal decrypts payout accounts for exports, and encrypts those that merchants propose.
	Seal server.Sealer
	// Now is the clock.
	Now func() time.Time
}

// Service implements affiliate.v1.PayoutService.
type Service struct {
	affiliatev1.UnimplementedPayoutServiceServer

	db   *postgres.DB
	seal server.Sealer
	now  func() time.Time
}

// New returns a Service.
func New(c Config) *Service { return &Service{db: c.DB, seal: c.Seal, now: c.Now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// ListPayouts returns one page of the workspace's payouts in the mode of the call.
func (s *Service) ListPayouts(ctx context.Context, req *affiliatev1.ListPayoutsRequest) (*affiliatev1.ListPayoutsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	items, total, err := payouts.List(ctx, s.db, server.PrincipalFrom(ctx).Scope(), payout.Filter{
		Status:      payout.Status(server.EnumName(req.GetStatus())),
		Program:     server.ParseOptionalID[affiliate.ProgramID](req.ProgramId),
		Participant: server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId),
		Batch:       server.ParseOptionalID[payout.BatchID](req.BatchId),
		Created:     created,
	}, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListPayoutsResponse{
		Data: server.ConvertAll(items, toProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetPayout returns one payout with its commissions.
func (s *Service) GetPayout(ctx context.Context, req *affiliatev1.GetPayoutRequest) (*affiliatev1.PayoutDetail, error) {
	id := server.PathID[affiliate.PayoutID](req.GetPayoutId())
	p, err := payouts.GetDetail(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return toDetail(p), nil
}

// GetPartnerPayout returns one payout of the partner with its commissions.
func (s *Service) GetPartnerPayout(ctx context.Context, req *affiliatev1.GetPartnerPayoutRequest) (*affiliatev1.PartnerPayoutDetail, error) {
	caller := server.PrincipalFrom(ctx)
	p, merchant, err := payouts.GetOfPartner(ctx, s.db, caller.User, caller.Mode, server.PathID[affiliate.PayoutID](req.GetPayoutId()))
	if err != nil {
		return nil, err
	}
	if err := caller.CheckProgram(p.Program); err != nil {
		return nil, err
	}
	return toPartnerDetail(p, merchant), nil
}

// ListPartnerPayouts returns one page of the partner's own payouts.
func (s *Service) ListPartnerPayouts(
	ctx context.Context, req *affiliatev1.ListPartnerPayoutsRequest,
) (*affiliatev1.ListPartnerPayoutsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	program, err := caller.ProgramFilter(server.ParseOptionalID[affiliate.ProgramID](req.ProgramId))
	if err != nil {
		return nil, err
	}
	items, total, err := payouts.ListOfPartner(ctx, s.db, caller.User, caller.Mode, payout.Filter{
		Status:  payout.Status(server.EnumName(req.GetStatus())),
		Program: program,
		Created: created,
	}, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListPartnerPayoutsResponse{
		Data: server.ConvertAll(items, toPartner), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}
