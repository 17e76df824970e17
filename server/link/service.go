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
	"errors"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
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
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	filter := link.Filter{
		Participant: server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId), Search: click.FoldCode(req.GetSearch()),
	}
	page, scope := server.PageOf(req), server.PrincipalFrom(ctx).Scope()
	if _, err := programs.Get(ctx, s.db, scope, program); err != nil {
		return nil, err
	}
	if err := postgres.CheckFilter(ctx, s.db, scope, nil, filter.Participant, nil); err != nil {
		return nil, err
	}
	links, total, err := links.List(ctx, s.db, scope, program, filter, page)
	if filter != (link.Filter{}) { // without a filter, the total is exact
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	return s.listResponse(links, total, page), err
}

// CreateLink creates a link for a participant.
func (s *Service) CreateLink(ctx context.Context, req *affiliatev1.CreateLinkRequest) (*affiliatev1.Link, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	participant, _ := affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId())
	return s.create(ctx, server.PrincipalFrom(ctx).Scope(), program, participant, req)
}

// GetLink returns one link.
func (s *Service) GetLink(ctx context.Context, req *affiliatev1.GetLinkRequest) (*affiliatev1.Link, error) {
	program, id := pathIDs(req)
	return s.response(links.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id))
}

// UpdateLink changes the fields that the update mask names.
func (s *Service) UpdateLink(ctx context.Context, req *affiliatev1.UpdateLinkRequest) (*affiliatev1.Link, error) {
	program, id := pathIDs(req)
	return s.response(s.update(ctx, server.PrincipalFrom(ctx).Scope(), program, id, patchOf(req)))
}

// DeleteLink deletes a link.
func (s *Service) DeleteLink(ctx context.Context, req *affiliatev1.DeleteLinkRequest) (*affiliatev1.DeleteLinkResponse, error) {
	program, id := pathIDs(req)
	err := s.delete(ctx, server.PrincipalFrom(ctx).Scope(), program, id)
	return &affiliatev1.DeleteLinkResponse{}, err
}

// ListPartnerLinks returns one page of the partner's own links, newest first.
func (s *Service) ListPartnerLinks(ctx context.Context, req *affiliatev1.ListPartnerLinksRequest) (*affiliatev1.ListLinksResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter, err := caller.ProgramFilter(server.ParseOptionalID[affiliate.ProgramID](req.ProgramId))
	if err != nil {
		return nil, err
	}
	if err := postgres.CheckParticipation(ctx, s.db, caller.User, caller.Mode, filter); err != nil {
		return nil, err
	}
	links, total, err := links.ListOfPartner(ctx, s.db, caller.User, caller.Mode, filter, page)
	return s.listResponse(links, server.Total(ctx, total), page), err
}

// CreatePartnerLink creates a link for the calling partner.
func (s *Service) CreatePartnerLink(ctx context.Context, req *affiliatev1.CreatePartnerLinkRequest) (*affiliatev1.Link, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
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
	return s.response(s.update(ctx, l.Scope, l.Program, l.ID, patchOf(req)))
}

// DeletePartnerLink deletes the partner's own link.
func (s *Service) DeletePartnerLink(ctx context.Context, req *affiliatev1.DeletePartnerLinkRequest) (*affiliatev1.DeletePartnerLinkResponse, error) {
	l, err := s.partnerLink(ctx, req)
	if err != nil {
		return nil, err
	}
	err = s.delete(ctx, l.Scope, l.Program, l.ID)
	return &affiliatev1.DeletePartnerLinkResponse{}, err
}

// createRequest has the fields that both requests for a new link share.
type createRequest interface {
	GetDestinationUrl() string
	GetCode() string
	GetSubId() string
	GetUtm() *affiliatev1.Utm
}

// create stores an additional link of a participant. Without a code in the request, the code is
// derived from the participant's code. Errors: NOT_FOUND if the programme does not exist,
// VALIDATION_ERROR if the participant or the destination is not valid, PROGRAM_STATE_INVALID,
// PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID, LINK_LIMIT_EXCEEDED, REFERRAL_CODE_TAKEN.
func (s *Service) create(
	ctx context.Context, scope affiliate.Scope, programID affiliate.ProgramID, participantID affiliate.ParticipantID, req createRequest,
) (*affiliatev1.Link, error) {
	at, actor, destination, utm := s.currentTime(), server.ActorFrom(ctx), req.GetDestinationUrl(), req.GetUtm()
	l := link.Link{
		ID:          affiliate.NewID[affiliate.LinkID](at),
		Scope:       scope,
		Program:     programID,
		Participant: participantID,
		Destination: &destination,
		SubID:       req.GetSubId(),
		UTM: click.UTM{
			Source: utm.GetSource(), Medium: utm.GetMedium(), Campaign: utm.GetCampaign(), Term: utm.GetTerm(), Content: utm.GetContent(),
		},
		Version: 1, CreatedAt: at, UpdatedAt: at,
	}
	var created link.Link
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		program, err := programs.LockOpen(ctx, tx, scope, programID)
		if err != nil {
			return err
		}
		if err := l.CheckDestination(program.LinkHosts()); err != nil {
			return err
		}
		owner, err := participants.Lock(ctx, tx, scope, programID, participantID)
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			return participant.NotInProgram()
		} else if err != nil {
			return err
		}
		if err := owner.CheckNewCode(actor); err != nil {
			return err
		}
		n, err := links.CountOfParticipant(ctx, tx, scope, participantID)
		if err != nil {
			return err
		}
		if n >= link.MaxLinks {
			return affiliate.Refuse(affiliate.ReasonLinkLimitExceeded)
		}
		if l.Code, err = links.ReserveFirst(ctx, tx, l, link.Codes(click.FoldCode(req.GetCode()), owner.ReferralCode)); err != nil {
			return err
		}
		if _, err := links.Insert(ctx, tx, l); err != nil {
			return err
		}
		if created, err = links.Get(ctx, tx, scope, programID, l.ID); err != nil {
			return err
		}
		event := affiliate.NewEvent(scope, affiliate.EventLinkCreated, at, created.Object(), nil)
		return recordChange(ctx, tx, created, "link.create", at, nil, created.Object(), event)
	})
	return s.response(created, err)
}

// lock locks the participant of a link and then reads the link. Changes of one participant's
// links run one after another. Errors: NOT_FOUND, PARTICIPANT_ERASED.
func lock(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID) (link.Link, error) {
	participant, err := links.Owner(ctx, tx, scope, program, id)
	if err != nil {
		return link.Link{}, err
	}
	owner, err := participants.Lock(ctx, tx, scope, program, participant)
	if err != nil {
		return link.Link{}, err
	}
	if owner.ErasedAt != nil {
		return link.Link{}, affiliate.Refuse(affiliate.ReasonParticipantErased)
	}
	return links.Get(ctx, tx, scope, program, id)
}

// update changes the fields that the patch contains. If nothing changes, it writes no audit
// record and no event. Errors: NOT_FOUND, PARTICIPANT_ERASED, PROGRAM_STATE_INVALID,
// VALIDATION_ERROR if the destination is not valid.
func (s *Service) update(
	ctx context.Context, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.LinkID, patch link.Patch,
) (link.Link, error) {
	at := s.currentTime()
	var after link.Link
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		program, err := programs.Lock(ctx, tx, scope, programID)
		if err != nil {
			return err
		}
		before, err := lock(ctx, tx, scope, programID, id)
		if err != nil {
			return err
		}
		if err := program.CheckNotArchived(); err != nil {
			return err
		}
		if after, err = before.Patch(patch, program.LinkHosts()); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if err := links.Update(ctx, tx, after); err != nil {
			return err
		}
		event := affiliate.NewEvent(scope, affiliate.EventLinkUpdated, at, after.Object(), oldValues)
		return recordChange(ctx, tx, after, "link.update", at, oldValues, newValues, event)
	})
	return after, err
}

// delete deletes a link. Errors: NOT_FOUND, PARTICIPANT_ERASED, VALIDATION_ERROR for a default
// link.
func (s *Service) delete(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID) error {
	at := s.currentTime()
	return s.db.InTx(ctx, func(tx *postgres.Tx) error {
		l, err := lock(ctx, tx, scope, program, id)
		if err != nil {
			return err
		}
		if err := l.CheckDelete(); err != nil {
			return err
		}
		if err := links.Delete(ctx, tx, l, at); err != nil {
			return err
		}
		return recordChange(ctx, tx, l, "link.delete", at, l.Object(), nil)
	})
}

// recordChange stores everything that follows from a change of a link: the audit record,
// the events, and the job that updates the edge directory.
func recordChange(
	ctx context.Context, tx *postgres.Tx, l link.Link, action string, at time.Time, oldValues, newValues any, events ...affiliate.Event,
) error {
	err := tx.Audit(ctx, affiliate.AuditLine{
		Workspace: l.Workspace, Mode: &l.Mode, Actor: server.ActorFrom(ctx), At: at,
		Action: action, ResourceType: "link", ResourceID: l.ID, Before: oldValues, After: newValues,
	})
	if err != nil {
		return err
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: l.Workspace, Participant: &l.Participant})
}

// partnerLink reads the link in the request's path if the calling partner owns it. The
// owner of a link never changes, so the following steps of the call need not check the
// owner again.
func (s *Service) partnerLink(ctx context.Context, req interface{ GetLinkId() string }) (link.Link, error) {
	id := server.PathID[affiliate.LinkID](req.GetLinkId())
	caller := server.PrincipalFrom(ctx)
	return links.GetOfPartner(ctx, s.db, caller.User, caller.Mode, id)
}

// pathIDs returns the ids of the programme and the link in the request's path.
func pathIDs(req interface {
	GetProgramId() string
	GetLinkId() string
},
) (affiliate.ProgramID, affiliate.LinkID) {
	return server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PathID[affiliate.LinkID](req.GetLinkId())
}
