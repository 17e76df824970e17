// Package promocode serves promo codes. A buyer enters a promo code in the shop to get a
// discount, and the sale is attributed to the partner who owns the code.
//
// The package guarantees that a code belongs to only one participant in a workspace and
// mode until the code is deleted. Codes that differ only in upper and lower case are the
// same code. If several requests create the same code at the same time, one request
// succeeds. The code, its participant and its discount never change. The other fields can
// be updated.
//
// The package does not decide whether a conversion can redeem a code. This is a part of
// the attribution of the conversion. The package does not guarantee that collectors know
// a new code when the response is sent. Collectors read the edge directory, and the core
// waits at most 100 ms for the write to this directory. If the write fails, a job writes
// the change later.
package promocode

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	promocodes "github.com/tributary-hq/tributary/storage/postgres/promocode"
)

// Service implements affiliate.v1.PromoCodeService.
type Service struct {
	affiliatev1.UnimplementedPromoCodeServiceServer

	db  *postgres.DB
	now func() time.Time
}

// New returns a Service; now is its clock.
func New(db *postgres.DB, now func() time.Time) *Service { return &Service{db: db, now: now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// ListPromoCodes returns one page of a programme's promo codes, newest first.
func (s *Service) ListPromoCodes(ctx context.Context, req *affiliatev1.ListPromoCodesRequest) (*affiliatev1.ListPromoCodesResponse, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	filter := promocode.Filter{
		Participant: server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId), Active: req.Active,
		Search: conversion.FoldPromoCode(req.GetSearch()),
	}
	page := server.PageOf(req)
	codes, total, err := promocodes.List(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, filter, page)
	if filter != (promocode.Filter{}) { // without a filter, the total is exact
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	return listResponse(codes, total, page), err
}

// CreatePromoCode creates a promo code for a participant.
func (s *Service) CreatePromoCode(ctx context.Context, req *affiliatev1.CreatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	participant, _ := affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId())
	at := s.currentTime()
	code := newPromoCode(req)
	code.ID, code.Scope = affiliate.NewID[affiliate.PromoCodeID](at), server.PrincipalFrom(ctx).Scope()
	code.Program, code.Participant, code.CreatedAt = program, participant, at
	return response(promocodes.Create(ctx, s.db, code, server.ActorFrom(ctx)))
}

// GetPromoCode returns one promo code.
func (s *Service) GetPromoCode(ctx context.Context, req *affiliatev1.GetPromoCodeRequest) (*affiliatev1.PromoCode, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	return response(promocodes.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id))
}

// UpdatePromoCode changes the fields that the update mask names.
func (s *Service) UpdatePromoCode(ctx context.Context, req *affiliatev1.UpdatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	return response(promocodes.Update(ctx, s.db, scope, program, id, patchOf(req), s.currentTime(), server.ActorFrom(ctx)))
}

// DeletePromoCode deletes a promo code. The same code can then be created again.
func (s *Service) DeletePromoCode(ctx context.Context, req *affiliatev1.DeletePromoCodeRequest) (*affiliatev1.DeletePromoCodeResponse, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	err = promocodes.Delete(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id, s.currentTime(), server.ActorFrom(ctx))
	return &affiliatev1.DeletePromoCodeResponse{}, err
}

// ListPartnerPromoCodes returns one page of the partner's own promo codes, newest first.
func (s *Service) ListPartnerPromoCodes(ctx context.Context, req *affiliatev1.ListPartnerPromoCodesRequest) (*affiliatev1.ListPromoCodesResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter, err := caller.ProgramFilter(server.ParseOptionalID[affiliate.ProgramID](req.ProgramId))
	if err != nil {
		return nil, err
	}
	codes, total, err := promocodes.ListOfPartner(ctx, s.db, caller.User, caller.Mode, filter, page)
	return listResponse(codes, server.Total(ctx, total), page), err
}

// pathIDs returns the ids of the programme and the promo code in the request's path.
func pathIDs(req interface {
	GetProgramId() string
	GetPromoCodeId() string
},
) (program affiliate.ProgramID, id affiliate.PromoCodeID, err error) {
	if program, err = server.PathID[affiliate.ProgramID](req.GetProgramId()); err == nil {
		id, err = server.PathID[affiliate.PromoCodeID](req.GetPromoCodeId())
	}
	return program, id, err
}
