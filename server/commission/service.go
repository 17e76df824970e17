// Package commission implements the review of commissions: lists, statistics, CSV
// exports, the full record of a commission, approval and rejection by merchants, one by
// one or in bulk, and automatic approval at the end of the hold period. The table of
// legal status transitions is in package affiliate.
//
// The package guarantees that concurrent transitions of one commission run one after the
// other. When a transition has succeeded, its history line, its event and its audit line
// are stored. A page and its total come from the same snapshot. Callers that may only
// read masked e-mail addresses cannot search for addresses either.
//
// Automatic approval may run some seconds after the end of the hold period. A list and
// its statistics are two requests, so they may show different states.
package commission

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service implements affiliate.v1.CommissionService.
type Service struct {
	affiliatev1.UnimplementedCommissionServiceServer

	store Store
	now   func() time.Time
}

// New returns the service. now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// currentTime returns the current time in UTC, truncated to milliseconds, which is the precision
// of the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

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
	return readerOf(ctx).detail(detail, s.currentTime()), nil
}

// commissionRequest is a request whose path names one commission.
type commissionRequest interface {
	GetProgramId() string
	GetCommissionId() string
}

// pathIDs parses the ids in the path. Errors: NOT_FOUND if an id is not a UUID.
func pathIDs(req commissionRequest) (program affiliate.ProgramID, id affiliate.CommissionID, err error) {
	if program, err = server.PathID[affiliate.Program](req.GetProgramId()); err == nil {
		id, err = server.PathID[affiliate.Commission](req.GetCommissionId())
	}
	return program, id, err
}
