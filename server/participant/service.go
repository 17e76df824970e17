// Package participant serves the participants of programmes. A partner becomes a
// participant by applying to a programme or by accepting an invitation, or is added by the
// merchant. Merchants invite and add partners, and approve, reject, suspend and edit
// participants.
//
// These calls change the status of a participant:
//
//	call        status before           status after
//	apply       (no participant)        pending, or approved if the programme
//	                                    approves partners automatically
//	accept      (no participant)        approved
//	create      (no participant)        approved, or pending without the consent
//	                                    of a partner who already has an account
//	accept      pending without         approved
//	            consent, or declined
//	decline     pending without consent rejected
//	approve     pending or rejected,    approved
//	            not without consent
//	reject      pending                 rejected
//	suspend     approved                suspended
//	reinstate   suspended               approved
//
// The package guarantees that a partner is a participant in a programme at most once, and
// that a referral code belongs to one participant in a workspace and mode. The calls in
// the table are the only ones that change the status. If several calls make the same
// change at the same time, one succeeds and the others return an error. A partner cannot
// read the note, the tags and the group that a merchant has set for the participant. A
// member who can read only masked e-mail addresses cannot search for e-mail addresses.
//
// The package does not guarantee that collectors know a new referral code when the
// response is sent. Collectors read the edge directory, and the service waits at most
// 100 ms for the write to this directory. If the write fails, a job writes the change later.
//
// A suspension sets the review flag of the participant's pending commissions, and a
// reinstatement clears the flag. The call itself changes at most 500 commissions, and
// jobs change the others. Commissions of a suspended participant are not approved
// automatically, even if the jobs have not run yet.
package participant

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
)

// Service implements affiliate.v1.ParticipantService.
type Service struct {
	affiliatev1.UnimplementedParticipantServiceServer

	db           *postgres.DB
	seal         server.InviteSealer
	invitations  server.Invitations
	signer       Signer
	unusableHash func() string
	now          func() time.Time
}

// Signer signs participant tokens. server.TokenKeys implements it.
type Signer interface {
	SignParticipant(workspace affiliate.WorkspaceID, id affiliate.ParticipantID, creator affiliate.Actor) (token string, expiresAt time.Time, err error)
}

// Config holds the dependencies of a Service.
type Config struct {
	DB *postgres.DB
	// Seal encrypts the tokens of mails.
	Seal server.InviteSealer
	// Invitations limits the mailed invitations.
	Invitations server.Invitations
	Signer      Signer
	// UnusableHash returns the hash of a password that nobody knows, for new accounts.
	UnusableHash func() string
	// Now is the clock.
	Now func() time.Time
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, seal: c.Seal, invitations: c.Invitations, signer: c.Signer, unusableHash: c.UnusableHash, now: c.Now}
}

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Apply makes the calling partner a participant in an active programme. If the programme
// is private, the partner needs an invitation. The programme must have the mode in the
// request's X-Mode header.
func (s *Service) Apply(ctx context.Context, req *affiliatev1.ApplyRequest) (*affiliatev1.Participant, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	p, err := participants.Apply(ctx, s.db, participant.Application{
		Program:      program,
		Partner:      caller.User,
		Mode:         caller.Mode,
		ReferralCode: click.FoldCode(req.GetReferralCode()),
		Answers:      req.GetAnswers(),
		AcceptTerms:  req.GetAcceptTerms(),
	}, s.currentTime(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return toPartnerProto(p), nil
}

// ListParticipants returns one page of a programme's participants.
func (s *Service) ListParticipants(ctx context.Context, req *affiliatev1.ListParticipantsRequest) (*affiliatev1.ListParticipantsResponse, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	caller := server.PrincipalFrom(ctx)
	filter := participant.Filter{
		Status:     participant.Status(server.EnumName(req.GetStatus())),
		Search:     req.GetSearch(),
		HideEmails: caller.Role == affiliate.RoleViewer,
		ExternalID: req.GetExternalId(),
		Tag:        req.GetTag(),
		Group:      server.ParseOptionalID[affiliate.GroupID](req.GroupId),
	}
	order := participant.Order{
		By:        participant.Sort(req.GetSortBy()),
		Ascending: req.GetSortOrder() == affiliatev1.SortOrder_SORT_ORDER_ASC,
	}
	if order.By == "" {
		order.By = participant.ParticipantsByAge
	}
	participants, total, err := participants.List(ctx, s.db, caller.Scope(), program, filter, order, page)
	if err != nil {
		return nil, err
	}
	if filter.Search != "" || filter.Group != nil { // otherwise the total is exact
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	data := make([]*affiliatev1.Participant, len(participants))
	for i, p := range participants {
		data[i] = toProto(p, caller.Role)
	}
	return &affiliatev1.ListParticipantsResponse{
		Data: data, Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetParticipant returns one participant.
func (s *Service) GetParticipant(ctx context.Context, req *affiliatev1.GetParticipantRequest) (*affiliatev1.Participant, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	p, err := participants.Get(ctx, s.db, caller.Scope(), program, id)
	if err != nil {
		return nil, err
	}
	return toProto(p, caller.Role), nil
}

// UpdateParticipant changes the fields that the update mask names.
func (s *Service) UpdateParticipant(ctx context.Context, req *affiliatev1.UpdateParticipantRequest) (*affiliatev1.Participant, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	p, err := participants.Update(ctx, s.db, caller.Scope(), program, id, patchOf(req), s.currentTime(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return toProto(p, caller.Role), nil
}

// ApproveParticipant approves a pending or rejected participant. The participant can then
// earn commissions.
func (s *Service) ApproveParticipant(ctx context.Context, req *affiliatev1.ApproveParticipantRequest) (*affiliatev1.Participant, error) {
	return s.move(ctx, req, participant.ApproveParticipant, nil)
}

// RejectParticipant rejects a pending participant.
func (s *Service) RejectParticipant(ctx context.Context, req *affiliatev1.RejectParticipantRequest) (*affiliatev1.Participant, error) {
	return s.move(ctx, req, participant.RejectParticipant, req.Reason)
}

// SuspendParticipant suspends an approved participant. The participant can then earn no
// commissions.
func (s *Service) SuspendParticipant(ctx context.Context, req *affiliatev1.SuspendParticipantRequest) (*affiliatev1.Participant, error) {
	return s.move(ctx, req, participant.SuspendParticipant, req.Reason)
}

// ReinstateParticipant ends the suspension of a participant. The participant is then
// approved again.
func (s *Service) ReinstateParticipant(ctx context.Context, req *affiliatev1.ReinstateParticipantRequest) (*affiliatev1.Participant, error) {
	return s.move(ctx, req, participant.ReinstateParticipant, nil)
}

func (s *Service) move(ctx context.Context, req participantRequest, move participant.Move, reason *string) (*affiliatev1.Participant, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	p, err := participants.Move(ctx, s.db, caller.Scope(), program, id, move, reason, s.currentTime(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return toProto(p, caller.Role), nil
}

// programRequest is a request whose path names a programme.
type programRequest interface{ GetProgramId() string }

// participantRequest is a request whose path names a participant of a programme.
type participantRequest interface {
	programRequest
	GetParticipantId() string
}

// pathIDs returns the ids of the programme and the participant in the request's path.
func pathIDs(req participantRequest) (affiliate.ProgramID, affiliate.ParticipantID, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return affiliate.ProgramID{}, affiliate.ParticipantID{}, err
	}
	id, err := server.PathID[affiliate.ParticipantID](req.GetParticipantId())
	return program, id, err
}
