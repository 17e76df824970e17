// Package link serves referral links, to the merchant and to the partner whose
// they are: a call of either is brought to a workspace, a programme and a link
// and does the same from there.
//
// It guarantees that a link leads only to hosts that the programme allowed when
// it was made or changed, that a participant has at most affiliate.MaxLinks
// links besides its default one however many are made at a time, and that a code
// which a link once had never leads anywhere else.
//
// It does not promise that a change works at the edge from the response on: the core
// waits at most 100 ms for the edge directory, and the job of the change repeats the
// write.
package link

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.LinkService.
type Service struct {
	affiliatev1.UnimplementedLinkServiceServer

	store Store
	host  string
	now   func() time.Time
}

// New makes the service. linkHost is the base URL of the redirect, without a
// slash at its end; empty: links have no short URL. now is the clock.
func New(store Store, linkHost string, now func() time.Time) *Service {
	return &Service{store: store, host: linkHost, now: now}
}

// at is the instant of a change: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// ListLinks pages through a programme's links, newest first.
func (s *Service) ListLinks(ctx context.Context, req *affiliatev1.ListLinksRequest) (*affiliatev1.ListLinksResponse, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	filter := affiliate.LinkFilter{Search: affiliate.FoldCode(req.GetSearch())}
	if participant, ok := affiliate.ParseID[affiliate.Participant](req.GetParticipantId()); ok {
		filter.Participant = &participant
	}
	page := server.PageOf(req)
	links, total, err := s.store.Links(ctx, server.PrincipalFrom(ctx).Scope(), program, filter, page)
	if filter != (affiliate.LinkFilter{}) { // the number of all links is kept
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	return s.pageOf(links, total, page), err
}

// CreateLink makes a link for a participant.
func (s *Service) CreateLink(ctx context.Context, req *affiliatev1.CreateLinkRequest) (*affiliatev1.Link, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	participant, _ := affiliate.ParseID[affiliate.Participant](req.GetParticipantId())
	return s.create(ctx, server.PrincipalFrom(ctx).Scope(), program, participant, req)
}

// GetLink reads one link.
func (s *Service) GetLink(ctx context.Context, req *affiliatev1.GetLinkRequest) (*affiliatev1.Link, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	return s.answer(s.store.Link(ctx, server.PrincipalFrom(ctx).Scope(), program, id))
}

// UpdateLink changes what is given.
func (s *Service) UpdateLink(ctx context.Context, req *affiliatev1.UpdateLinkRequest) (*affiliatev1.Link, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	return s.answer(s.store.UpdateLink(ctx, scope, program, id, patchOf(req), s.at(), server.ActorFrom(ctx)))
}

// DeleteLink ends a link.
func (s *Service) DeleteLink(ctx context.Context, req *affiliatev1.DeleteLinkRequest) (*affiliatev1.DeleteLinkResponse, error) {
	program, id, err := ids(req)
	if err != nil {
		return nil, err
	}
	err = s.store.DeleteLink(ctx, server.PrincipalFrom(ctx).Scope(), program, id, s.at(), server.ActorFrom(ctx))
	return &affiliatev1.DeleteLinkResponse{}, err
}

// ListPartnerLinks pages through the partner's own links, newest first.
func (s *Service) ListPartnerLinks(ctx context.Context, req *affiliatev1.ListPartnerLinksRequest) (*affiliatev1.ListLinksResponse, error) {
	var in *affiliate.ProgramID
	if program, ok := affiliate.ParseID[affiliate.Program](req.GetProgramId()); ok {
		in = &program
	}
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	links, total, err := s.store.PartnerLinks(ctx, caller.User, caller.Mode, in, page)
	return s.pageOf(links, server.Total(ctx, total), page), err
}

// CreatePartnerLink makes a link for the partner itself.
func (s *Service) CreatePartnerLink(ctx context.Context, req *affiliatev1.CreatePartnerLinkRequest) (*affiliatev1.Link, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	scope, participant, err := s.store.PartnerParticipation(ctx, caller.User, caller.Mode, program)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, scope, program, participant, req)
}

// UpdatePartnerLink changes what is given of the partner's own link.
func (s *Service) UpdatePartnerLink(ctx context.Context, req *affiliatev1.UpdatePartnerLinkRequest) (*affiliatev1.Link, error) {
	own, err := s.own(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.answer(s.store.UpdateLink(ctx, own.Scope, own.Program, own.ID, patchOf(req), s.at(), server.ActorFrom(ctx)))
}

// DeletePartnerLink ends the partner's own link.
func (s *Service) DeletePartnerLink(ctx context.Context, req *affiliatev1.DeletePartnerLinkRequest) (*affiliatev1.DeletePartnerLinkResponse, error) {
	own, err := s.own(ctx, req)
	if err != nil {
		return nil, err
	}
	err = s.store.DeleteLink(ctx, own.Scope, own.Program, own.ID, s.at(), server.ActorFrom(ctx))
	return &affiliatev1.DeletePartnerLinkResponse{}, err
}

// creation is what both requests for a new link say about it.
type creation interface {
	GetDestinationUrl() string
	GetCode() string
	GetSubId() string
	GetUtm() *affiliatev1.Utm
}

func (s *Service) create(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, req creation,
) (*affiliatev1.Link, error) {
	at, destination, utm := s.at(), req.GetDestinationUrl(), req.GetUtm()
	return s.answer(s.store.CreateLink(ctx, affiliate.Link{
		ID:          affiliate.NewID[affiliate.Link](at),
		Scope:       scope,
		Program:     program,
		Participant: participant,
		Code:        affiliate.FoldCode(req.GetCode()),
		Destination: &destination,
		SubID:       req.GetSubId(),
		UTM: affiliate.UTM{
			Source: utm.GetSource(), Medium: utm.GetMedium(), Campaign: utm.GetCampaign(), Term: utm.GetTerm(), Content: utm.GetContent(),
		},
		CreatedAt: at,
	}, server.ActorFrom(ctx)))
}

// own finds the partner's link that the path names. Whose a link is never
// changes, so what is found holds for the call.
func (s *Service) own(ctx context.Context, req interface{ GetLinkId() string }) (affiliate.Link, error) {
	id, err := server.PathID[affiliate.Link](req.GetLinkId())
	if err != nil {
		return affiliate.Link{}, err
	}
	caller := server.PrincipalFrom(ctx)
	return s.store.PartnerLink(ctx, caller.User, caller.Mode, id)
}

func ids(req interface {
	GetProgramId() string
	GetLinkId() string
},
) (program affiliate.ProgramID, id affiliate.LinkID, err error) {
	if program, err = server.PathID[affiliate.Program](req.GetProgramId()); err == nil {
		id, err = server.PathID[affiliate.Link](req.GetLinkId())
	}
	return program, id, err
}
