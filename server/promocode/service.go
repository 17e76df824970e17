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
	"errors"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
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
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	filter := promocode.Filter{
		Participant: server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId), Active: req.Active,
		Search: conversion.FoldPromoCode(req.GetSearch()),
	}
	page, scope := server.PageOf(req), server.PrincipalFrom(ctx).Scope()
	if _, err := programs.Get(ctx, s.db, scope, program); err != nil {
		return nil, err
	}
	if err := postgres.CheckFilter(ctx, s.db, scope, nil, filter.Participant, nil); err != nil {
		return nil, err
	}
	codes, total, err := promocodes.List(ctx, s.db, scope, program, filter, page)
	if filter != (promocode.Filter{}) { // without a filter, the total is exact
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	return listResponse(codes, total, page), err
}

// CreatePromoCode creates a promo code for a participant. A fixed discount without a currency
// has the programme's currency. Errors: PROGRAM_STATE_INVALID, VALIDATION_ERROR if the
// participant is not valid, PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID, PROMO_CODE_TAKEN.
func (s *Service) CreatePromoCode(ctx context.Context, req *affiliatev1.CreatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	programID := server.PathID[affiliate.ProgramID](req.GetProgramId())
	at, actor, scope := s.currentTime(), server.ActorFrom(ctx), server.PrincipalFrom(ctx).Scope()
	code := newPromoCode(req)
	code.ID, code.Scope, code.Program = affiliate.NewID[affiliate.PromoCodeID](at), scope, programID
	code.Participant, _ = affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId())
	code.CreatedAt, code.UpdatedAt = at, at
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		program, err := programs.LockOpen(ctx, tx, scope, programID)
		if err != nil {
			return err
		}
		owner, err := participants.Lock(ctx, tx, scope, programID, code.Participant)
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			return participant.NotInProgram()
		} else if err != nil {
			return err
		}
		if err := owner.CheckNewCode(actor); err != nil {
			return err
		}
		if code.DiscountType == promocode.DiscountFixed && req.Currency == nil {
			code.Currency = &program.Currency
		}
		if err := promocodes.Insert(ctx, tx, code); err != nil {
			return err
		}
		code.ProgramName, code.PartnerName = program.Name, owner.PartnerName
		event := affiliate.NewEvent(scope, affiliate.EventPromoCodeCreated, at, code.Object(), nil)
		return recordChange(ctx, tx, code, "promo_code.create", at, nil, code.Object(), event)
	})
	return response(code, err)
}

// GetPromoCode returns one promo code.
func (s *Service) GetPromoCode(ctx context.Context, req *affiliatev1.GetPromoCodeRequest) (*affiliatev1.PromoCode, error) {
	program, id := pathIDs(req)
	return response(promocodes.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id))
}

// UpdatePromoCode changes the fields that the update mask names. If nothing changes, it writes
// no audit record and no event. Errors: PARTICIPANT_ERASED, VALIDATION_ERROR if the code cannot
// exist at a payment processor.
func (s *Service) UpdatePromoCode(ctx context.Context, req *affiliatev1.UpdatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	program, id := pathIDs(req)
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	var after promocode.PromoCode
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := lock(ctx, tx, scope, program, id)
		if err != nil {
			return err
		}
		after = before.Patch(patchOf(req))
		if err := after.CheckSync(); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if err := promocodes.Update(ctx, tx, after); err != nil {
			return err
		}
		var events []affiliate.Event
		if before.Active && !after.Active {
			events = append(events, affiliate.NewEvent(scope, affiliate.EventPromoCodeDeactivated, at, after.Object(), oldValues))
		}
		if before.Sync && !after.Sync {
			if err := tx.Enqueue(ctx, after.SyncJob()); err != nil {
				return err
			}
		}
		return recordChange(ctx, tx, after, "promo_code.update", at, oldValues, newValues, events...)
	})
	return response(after, err)
}

// lock locks the participant of a promo code and then the promo code. Conversions lock only the
// promo code. Errors: NOT_FOUND, PARTICIPANT_ERASED.
func lock(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID,
) (promocode.PromoCode, error) {
	code, err := promocodes.Get(ctx, tx, scope, program, id)
	if err != nil {
		return code, err
	}
	owner, err := participants.Lock(ctx, tx, scope, program, code.Participant)
	if err != nil {
		return code, err
	}
	if owner.ErasedAt != nil {
		return code, affiliate.Refuse(affiliate.ReasonParticipantErased)
	}
	return promocodes.Lock(ctx, tx, scope, program, id)
}

// DeletePromoCode deletes a promo code. The same code can then be created again. Conversions
// keep the text of the code. The status of the participant and of the programme does not matter.
func (s *Service) DeletePromoCode(ctx context.Context, req *affiliatev1.DeletePromoCodeRequest) (*affiliatev1.DeletePromoCodeResponse, error) {
	program, id := pathIDs(req)
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		code, err := promocodes.Delete(ctx, tx, scope, program, id)
		if err != nil {
			return err
		}
		before := code.Object()
		var events []affiliate.Event
		if code.Active {
			code.Active, code.Version = false, code.Version+1
			oldValues := map[string]bool{"active": true}
			events = append(events, affiliate.NewEvent(scope, affiliate.EventPromoCodeDeactivated, at, code.Object(), oldValues))
		}
		return recordChange(ctx, tx, code, "promo_code.delete", at, before, nil, events...)
	})
	return &affiliatev1.DeletePromoCodeResponse{}, err
}

// recordChange stores everything that follows from a change of a promo code: the audit record,
// the events, the job that updates the participant's promo code in the edge directory, and the
// job that updates it at the payment processor.
func recordChange(
	ctx context.Context, tx *postgres.Tx, c promocode.PromoCode, action string, at time.Time, oldValues, newValues any, events ...affiliate.Event,
) error {
	err := tx.Audit(ctx, affiliate.AuditLine{
		Workspace: c.Workspace, Mode: &c.Mode, Actor: server.ActorFrom(ctx), At: at,
		Action: action, ResourceType: "promo_code", ResourceID: c.ID, Before: oldValues, After: newValues,
	})
	if err != nil {
		return err
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	jobs := []affiliate.Job{affiliate.SyncDirectory{Workspace: c.Workspace, Participant: &c.Participant}}
	if c.Sync {
		jobs = append(jobs, c.SyncJob())
	}
	return tx.Enqueue(ctx, jobs...)
}

// ListPartnerPromoCodes returns one page of the partner's own promo codes, newest first.
func (s *Service) ListPartnerPromoCodes(ctx context.Context, req *affiliatev1.ListPartnerPromoCodesRequest) (*affiliatev1.ListPromoCodesResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter, err := caller.ProgramFilter(server.ParseOptionalID[affiliate.ProgramID](req.ProgramId))
	if err != nil {
		return nil, err
	}
	if err := postgres.CheckParticipation(ctx, s.db, caller.User, caller.Mode, filter); err != nil {
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
) (affiliate.ProgramID, affiliate.PromoCodeID) {
	return server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PathID[affiliate.PromoCodeID](req.GetPromoCodeId())
}
