// Package link serves referral links to merchants and to the partners who own the links.
//
// The package guarantees that the destination of a link is on a host that the programme
// allowed when the link was created or last changed. In addition to its default link, a
// participant has at most link.MaxLinks links, even if requests run in parallel. The
// code of a deleted link is not used for another link.
//
// The package does not guarantee that collectors know a change when the response is sent.
// Collectors read the edge directory, and the core waits at most 100 ms for the write to
// this directory. If the write fails, a job writes the change later.
package link

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
)

// Service implements affiliate.v1.LinkService.
type Service struct {
	affiliatev1.UnimplementedLinkServiceServer

	db   *postgres.DB
	host string
	now  func() time.Time
}

// New returns a Service. linkHost is the base URL of short URLs, which redirect to the
// destinations of links. It has no trailing slash. If it is empty, links have no short
// URL. now is the clock.
func New(db *postgres.DB, linkHost string, now func() time.Time) *Service {
	return &Service{db: db, host: linkHost, now: now}
}

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// ListLinks returns one page of a programme's links, newest first.
func (s *Service) ListLinks(ctx context.Context, req *affiliatev1.ListLinksRequest) (*affiliatev1.ListLinksResponse, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	filter := link.Filter{
		Participant: server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId), Search: click.FoldCode(req.GetSearch()),
	}
	page := server.PageOf(req)
	links, total, err := links.List(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, filter, page)
	if filter != (link.Filter{}) { // without a filter, the total is exact
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	return s.listResponse(links, total, page), err
}

// CreateLink creates a link for a participant.
func (s *Service) CreateLink(ctx context.Context, req *affiliatev1.CreateLinkRequest) (*affiliatev1.Link, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	participant, _ := affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId())
	return s.create(ctx, server.PrincipalFrom(ctx).Scope(), program, participant, req)
}

// GetLink returns one link.
func (s *Service) GetLink(ctx context.Context, req *affiliatev1.GetLinkRequest) (*affiliatev1.Link, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	return s.response(links.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id))
}

// UpdateLink changes the fields that the update mask names.
func (s *Service) UpdateLink(ctx context.Context, req *affiliatev1.UpdateLinkRequest) (*affiliatev1.Link, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	return s.response(links.Update(ctx, s.db, scope, program, id, patchOf(req), s.currentTime(), server.ActorFrom(ctx)))
}

// DeleteLink deletes a link.
func (s *Service) DeleteLink(ctx context.Context, req *affiliatev1.DeleteLinkRequest) (*affiliatev1.DeleteLinkResponse, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	err = links.Delete(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id, s.currentTime(), server.ActorFrom(ctx))
	return &affiliatev1.DeleteLinkResponse{}, err
}

// ListPartnerLinks returns one page of the partner's own links, newest first.
func (s *Service) ListPartnerLinks(ctx context.Context, req *affiliatev1.ListPartnerLinksRequest) (*affiliatev1.ListLinksResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter, err := caller.ProgramFilter(server.ParseOptionalID[affiliate.ProgramID](req.ProgramId))
	if err != nil {
		return nil, err
	}
	links, total, err := links.ListOfPartner(ctx, s.db, caller.User, caller.Mode, filter, page)
	return s.listResponse(links, server.Total(ctx, total), page), err
}

// CreatePartnerLink creates a link for the calling partner.
func (s *Service) CreatePartnerLink(ctx context.Context, req *affiliatev1.CreatePartnerLinkRequest) (*affiliatev1.Link, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	if err := caller.CheckProgram(program); err != nil {
		return nil, err
	}
	scope, participant, err := links.PartnerParticipation(ctx, s.db, caller.User, caller.Mode, program)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, scope, program, participant, req)
}

// UpdatePartnerLink changes the fields of the partner's own link that the mask names.
func (s *Service) UpdatePartnerLink(ctx context.Context, req *affiliatev1.UpdatePartnerLinkRequest) (*affiliatev1.Link, error) {
	l, err := s.partnerLink(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.response(links.Update(ctx, s.db, l.Scope, l.Program, l.ID, patchOf(req), s.currentTime(), server.ActorFrom(ctx)))
}

// DeletePartnerLink deletes the partner's own link.
func (s *Service) DeletePartnerLink(ctx context.Context, req *affiliatev1.DeletePartnerLinkRequest) (*affiliatev1.DeletePartnerLinkResponse, error) {
	l, err := s.partnerLink(ctx, req)
	if err != nil {
		return nil, err
	}
	err = links.Delete(ctx, s.db, l.Scope, l.Program, l.ID, s.currentTime(), server.ActorFrom(ctx))
	return &affiliatev1.DeletePartnerLinkResponse{}, err
}

// createRequest has the fields that both requests for a new link share.
type createRequest interface {
	GetDestinationUrl() string
	GetCode() string
	GetSubId() string
	GetUtm() *affiliatev1.Utm
}

func (s *Service) create(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, req createRequest,
) (*affiliatev1.Link, error) {
	at, destination, utm := s.currentTime(), req.GetDestinationUrl(), req.GetUtm()
	return s.response(links.Create(ctx, s.db, link.Link{
		ID:          affiliate.NewID[affiliate.LinkID](at),
		Scope:       scope,
		Program:     program,
		Participant: participant,
		Code:        click.FoldCode(req.GetCode()),
		Destination: &destination,
		SubID:       req.GetSubId(),
		UTM: click.UTM{
			Source: utm.GetSource(), Medium: utm.GetMedium(), Campaign: utm.GetCampaign(), Term: utm.GetTerm(), Content: utm.GetContent(),
		},
		CreatedAt: at,
	}, server.ActorFrom(ctx)))
}

// partnerLink reads the link in the request's path if the calling partner owns it. The
// owner of a link never changes, so the following steps of the call need not check the
// owner again.
func (s *Service) partnerLink(ctx context.Context, req interface{ GetLinkId() string }) (link.Link, error) {
	id, err := server.PathID[affiliate.LinkID](req.GetLinkId())
	if err != nil {
		return link.Link{}, err
	}
	caller := server.PrincipalFrom(ctx)
	return links.GetOfPartner(ctx, s.db, caller.User, caller.Mode, id)
}

// pathIDs returns the ids of the programme and the link in the request's path.
func pathIDs(req interface {
	GetProgramId() string
	GetLinkId() string
},
) (program affiliate.ProgramID, id affiliate.LinkID, err error) {
	if program, err = server.PathID[affiliate.ProgramID](req.GetProgramId()); err == nil {
		id, err = server.PathID[affiliate.LinkID](req.GetLinkId())
	}
	return program, id, err
}
