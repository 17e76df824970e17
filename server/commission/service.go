// Package commission serves the review of commissions: lists, statistics and their
// CSV, detail, approval and rejection by people, one by one or in bulk, and the
// automatic approval when a hold elapses. The table of legal moves is in package
// affiliate.
//
// Guaranteed: moves that race run one after the other, each on the outcome of the
// one before. A move that was answered with 200 has its line of history, its event
// and its line in the audit log. A page and its total are of the same instant.
// Callers who may not see e-mail addresses cannot search for them either.
//
// Not promised: automatic approval runs some seconds after the end of the hold, and a
// list and its statistics are two requests, so they may be of different instants.
package commission

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.CommissionService.
type Service struct {
	affiliatev1.UnimplementedCommissionServiceServer

	store Store
	now   func() time.Time
}

// New makes the service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// at is the instant of a call: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// GetCommission reads one commission.
func (s *Service) GetCommission(ctx context.Context, req *affiliatev1.GetCommissionRequest) (*affiliatev1.Commission, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	detail, err := s.store.Commission(ctx, server.PrincipalFrom(ctx).Scope(), program, id)
	if err != nil {
		return nil, err
	}
	return readerOf(ctx).detail(detail, s.at()), nil
}

// commissionRequest has the path of one commission.
type commissionRequest interface {
	GetProgramId() string
	GetCommissionId() string
}

// pathIDs reads the ids of the path. Errors: NOT_FOUND for a text that is no UUID.
func pathIDs(req commissionRequest) (program affiliate.ProgramID, id affiliate.CommissionID, err error) {
	if program, err = server.PathID[affiliate.Program](req.GetProgramId()); err == nil {
		id, err = server.PathID[affiliate.Commission](req.GetCommissionId())
	}
	return program, id, err
}
