// Package participant serves the partners of a programme: how they join it and
// what its merchant does with them.
//
//	apply ──▶ pending ──approve──▶ approved ◀──reinstate── suspended
//	  │          └──reject──▶ rejected ──approve──▲ │            ▲
//	  └──(the programme approves by itself)───────┘ └──suspend───┘
//	invite ──accept──▶ approved
//
// It guarantees that a partner is in a programme at most once, that a referral
// code belongs to one participant of a workspace and mode, and that a move
// happens only from a status that leads there: of any number of callers at a
// time one succeeds and the others are told why not. What a merchant notes about
// a partner (note, tags, group) the partner never sees, and who sees e-mail
// addresses masked cannot search for them either.
//
// It does not promise that a new code works at the edge from the response on: the core
// waits at most 100 ms for the edge directory, and the job of the change repeats the
// write. Nor does it promise that all pending commissions of a participant carry the
// flag of a suspension, or are free of it after the reinstatement, when the call
// returns: beyond the first 500 they follow in jobs. Until then the participant's
// status keeps them from being approved automatically.
package participant

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.ParticipantService.
type Service struct {
	affiliatev1.UnimplementedParticipantServiceServer

	store Store
	now   func() time.Time
}

// New makes the service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// at is the instant of a change: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Apply asks to join an active, public programme. A partner has no workspace;
// the mode is what X-Mode says.
func (s *Service) Apply(ctx context.Context, req *affiliatev1.ApplyRequest) (*affiliatev1.Participant, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	p, err := s.store.Apply(ctx, affiliate.Application{
		Program:      program,
		Partner:      caller.User,
		Mode:         caller.Mode,
		ReferralCode: affiliate.FoldCode(req.GetReferralCode()),
		Answers:      req.GetAnswers(),
		AcceptTerms:  req.GetAcceptTerms(),
	}, s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return toPartner(p), nil
}

// ListParticipants pages through a programme's participants.
func (s *Service) ListParticipants(ctx context.Context, req *affiliatev1.ListParticipantsRequest) (*affiliatev1.ListParticipantsResponse, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	caller := server.PrincipalFrom(ctx)
	filter := affiliate.ParticipantFilter{
		Status:     affiliate.ParticipantStatus(server.Word(req.GetStatus())),
		Search:     req.GetSearch(),
		HideEmails: caller.Role == affiliate.RoleViewer,
	}
	if group, ok := affiliate.ParseID[affiliate.Group](req.GetGroupId()); ok {
		filter.Group = &group
	}
	order := affiliate.ParticipantOrder{
		By:        affiliate.ParticipantSort(req.GetSortBy()),
		Ascending: req.GetSortOrder() == affiliatev1.SortOrder_SORT_ORDER_ASC,
	}
	if order.By == "" {
		order.By = affiliate.ParticipantsByAge
	}
	participants, total, err := s.store.ListParticipants(ctx, caller.Scope(), program, filter, order, page)
	if err != nil {
		return nil, err
	}
	if filter.Search != "" || filter.Group != nil { // other totals are kept
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	data := make([]*affiliatev1.Participant, len(participants))
	for i, p := range participants {
		data[i] = toProto(p, caller.Role)
	}
	return &affiliatev1.ListParticipantsResponse{
		Data: data, Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// GetParticipant reads one participant.
func (s *Service) GetParticipant(ctx context.Context, req *affiliatev1.GetParticipantRequest) (*affiliatev1.Participant, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	p, err := s.store.Participant(ctx, caller.Scope(), program, id)
	if err != nil {
		return nil, err
	}
	return toProto(p, caller.Role), nil
}

// UpdateParticipant changes what the mask names.
func (s *Service) UpdateParticipant(ctx context.Context, req *affiliatev1.UpdateParticipantRequest) (*affiliatev1.Participant, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	p, err := s.store.UpdateParticipant(ctx, caller.Scope(), program, id, patchOf(req), s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return toProto(p, caller.Role), nil
}

// ApproveParticipant lets a pending or rejected partner earn.
func (s *Service) ApproveParticipant(ctx context.Context, req *affiliatev1.ApproveParticipantRequest) (*affiliatev1.Participant, error) {
	return s.move(ctx, req, affiliate.ApproveParticipant, nil)
}

// RejectParticipant refuses a pending partner.
func (s *Service) RejectParticipant(ctx context.Context, req *affiliatev1.RejectParticipantRequest) (*affiliatev1.Participant, error) {
	return s.move(ctx, req, affiliate.RejectParticipant, req.Reason)
}

// SuspendParticipant stops an approved partner from earning.
func (s *Service) SuspendParticipant(ctx context.Context, req *affiliatev1.SuspendParticipantRequest) (*affiliatev1.Participant, error) {
	return s.move(ctx, req, affiliate.SuspendParticipant, req.Reason)
}

// ReinstateParticipant ends a suspension.
func (s *Service) ReinstateParticipant(ctx context.Context, req *affiliatev1.ReinstateParticipantRequest) (*affiliatev1.Participant, error) {
	return s.move(ctx, req, affiliate.ReinstateParticipant, nil)
}

func (s *Service) move(ctx context.Context, req named, move affiliate.ParticipantMove, reason *string) (*affiliatev1.Participant, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	p, err := s.store.MoveParticipant(ctx, caller.Scope(), program, id, move, reason, s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return toProto(p, caller.Role), nil
}

type inProgram interface{ GetProgramId() string }

// named is a request about one participant.
type named interface {
	inProgram
	GetParticipantId() string
}

func ids(req named) (affiliate.ProgramID, affiliate.ParticipantID, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return affiliate.ProgramID{}, affiliate.ParticipantID{}, err
	}
	id, err := server.PathID[affiliate.Participant](req.GetParticipantId())
	return program, id, err
}
