// Package promocode serves promo codes: what a buyer types to save something,
// and what attributes the sale to the partner who has the code.
//
// It guarantees that a code, whatever its case, belongs to one participant of a
// workspace and mode as long as it is there: of any number who want it at a time
// one gets it. Code, participant and discount never change; the rest does by the
// mask of an update.
//
// It does not decide whether a conversion may redeem a code: attribution does,
// at the conversion's instant. Nor does it promise that the edge offers a new code
// from the response on: the core waits at most 100 ms for the edge directory, and the
// job of the change repeats the write.
package promocode

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.PromoCodeService.
type Service struct {
	affiliatev1.UnimplementedPromoCodeServiceServer

	store Store
	now   func() time.Time
}

// New makes the service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// at is the instant of a change: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// ListPromoCodes pages through a programme's promo codes, newest first.
func (s *Service) ListPromoCodes(ctx context.Context, req *affiliatev1.ListPromoCodesRequest) (*affiliatev1.ListPromoCodesResponse, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	filter := affiliate.PromoCodeFilter{Active: req.Active, Search: affiliate.FoldPromoCode(req.GetSearch())}
	if participant, ok := affiliate.ParseID[affiliate.Participant](req.GetParticipantId()); ok {
		filter.Participant = &participant
	}
	page := server.PageOf(req)
	codes, total, err := s.store.PromoCodes(ctx, server.PrincipalFrom(ctx).Scope(), program, filter, page)
	if filter != (affiliate.PromoCodeFilter{}) { // the number of all codes is kept
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	return pageOf(codes, total, page), err
}

// CreatePromoCode gives a participant a code.
func (s *Service) CreatePromoCode(ctx context.Context, req *affiliatev1.CreatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	participant, _ := affiliate.ParseID[affiliate.Participant](req.GetParticipantId())
	at := s.at()
	code := newPromoCode(req)
	code.ID, code.Scope = affiliate.NewID[affiliate.PromoCode](at), server.PrincipalFrom(ctx).Scope()
	code.Program, code.Participant, code.CreatedAt = program, participant, at
	return answer(s.store.CreatePromoCode(ctx, code, server.ActorFrom(ctx)))
}

// GetPromoCode reads one promo code.
func (s *Service) GetPromoCode(ctx context.Context, req *affiliatev1.GetPromoCodeRequest) (*affiliatev1.PromoCode, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	return answer(s.store.PromoCode(ctx, server.PrincipalFrom(ctx).Scope(), program, id))
}

// UpdatePromoCode changes what is given.
func (s *Service) UpdatePromoCode(ctx context.Context, req *affiliatev1.UpdatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	return answer(s.store.UpdatePromoCode(ctx, scope, program, id, patchOf(req), s.at(), server.ActorFrom(ctx)))
}

// DeletePromoCode ends a code and frees its name.
func (s *Service) DeletePromoCode(ctx context.Context, req *affiliatev1.DeletePromoCodeRequest) (*affiliatev1.DeletePromoCodeResponse, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	err = s.store.DeletePromoCode(ctx, server.PrincipalFrom(ctx).Scope(), program, id, s.at(), server.ActorFrom(ctx))
	return &affiliatev1.DeletePromoCodeResponse{}, err
}

// ListPartnerPromoCodes pages through the partner's own codes, newest first.
func (s *Service) ListPartnerPromoCodes(ctx context.Context, req *affiliatev1.ListPartnerPromoCodesRequest) (*affiliatev1.ListPromoCodesResponse, error) {
	var in *affiliate.ProgramID
	if program, ok := affiliate.ParseID[affiliate.Program](req.GetProgramId()); ok {
		in = &program
	}
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	codes, total, err := s.store.PartnerPromoCodes(ctx, caller.User, caller.Mode, in, page)
	return pageOf(codes, server.Total(ctx, total), page), err
}

func ids(req interface {
	GetProgramId() string
	GetPromoCodeId() string
},
) (program affiliate.ProgramID, id affiliate.PromoCodeID, err error) {
	if program, err = server.PathID[affiliate.Program](req.GetProgramId()); err == nil {
		id, err = server.PathID[affiliate.PromoCode](req.GetPromoCodeId())
	}
	return program, id, err
}
