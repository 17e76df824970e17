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
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
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

// ListParticipants returns one page of a programme's participants.
func (s *Service) ListParticipants(ctx context.Context, req *affiliatev1.ListParticipantsRequest) (*affiliatev1.ListParticipantsResponse, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	page := server.PageOf(req)
	caller := server.PrincipalFrom(ctx)
	filter, order := listOf(req, caller.Role)
	filter.ExternalID = req.GetExternalId()
	if _, err := programs.Get(ctx, s.db, caller.Scope(), program); err != nil {
		return nil, err
	}
	participants, total, err := participants.List(ctx, s.db, caller.Scope(), program, filter, order, page)
	if err != nil {
		return nil, err
	}
	return listResponse(ctx, participants, total, filter, page), nil
}

// ListPartners returns one page of the participants of all programmes.
func (s *Service) ListPartners(ctx context.Context, req *affiliatev1.ListPartnersRequest) (*affiliatev1.ListParticipantsResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter, order := listOf(req, caller.Role)
	program := server.ParseOptionalID[affiliate.ProgramID](req.ProgramId)
	participants, total, err := participants.ListAll(ctx, s.db, caller.Scope(), program, filter, order, page)
	if err != nil {
		return nil, err
	}
	return listResponse(ctx, participants, total, filter, page), nil
}

// listRequest has the filters and the order of lists and exports of participants.
type listRequest interface {
	GetStatus() affiliatev1.ParticipantStatus
	GetSearch() string
	GetTag() string
	GetGroupId() string
	GetSortBy() string
	GetSortOrder() affiliatev1.SortOrder
}

func listOf(req listRequest, role affiliate.Role) (participant.Filter, participant.Order) {
	filter := participant.Filter{
		Status:     participant.Status(server.EnumName(req.GetStatus())),
		Search:     req.GetSearch(),
		HideEmails: role == affiliate.RoleViewer,
		Tag:        req.GetTag(),
	}
	if group := req.GetGroupId(); group != "" {
		filter.Group = server.ParseOptionalID[affiliate.GroupID](&group)
	}
	order := participant.Order{
		By:        participant.Sort(req.GetSortBy()),
		Ascending: req.GetSortOrder() == affiliatev1.SortOrder_SORT_ORDER_ASC,
	}
	if order.By == "" {
		order.By = participant.ParticipantsByAge
	}
	return filter, order
}

func listResponse(
	ctx context.Context, participants []participant.Detail, total int64, filter participant.Filter, page affiliate.Page,
) *affiliatev1.ListParticipantsResponse {
	if filter.Search != "" || filter.Group != nil || filter.Tag != "" { // otherwise the total is exact
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	role := server.PrincipalFrom(ctx).Role
	return &affiliatev1.ListParticipantsResponse{
		Data:  server.ConvertAll(participants, func(p participant.Detail) *affiliatev1.Participant { return toProto(p, role) }),
		Total: total,
		Page:  int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}
}

// ExportPartners streams the participants of all programmes as CSV.
func (s *Service) ExportPartners(req *affiliatev1.ExportPartnersRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	ctx := stream.Context()
	caller := server.PrincipalFrom(ctx)
	filter, order := listOf(req, caller.Role)
	program := server.ParseOptionalID[affiliate.ProgramID](req.ProgramId)
	columns := []string{
		"id", "createdAt", "status", "programId", "programName", "partnerId", "partnerName", "partnerEmail", "externalId", "referralCode", "groupId", "tags",
		"clicks", "conversions", "revenueCents", "commissionCents", "balanceCents", "currency", "approvedAt",
	}
	return server.StreamCSV(stream, "partners", caller.Mode, s.currentTime(), columns, func(w *csv.Writer) error {
		for p, err := range participants.Export(ctx, s.db, caller.Scope(), program, filter, order) {
			if err != nil {
				return err
			}
			writeRow(w, p, caller.Role)
			if err := w.EndRow(); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeRow(w *csv.Writer, p participant.Detail, role affiliate.Role) {
	w.ID(p.ID.UUID)
	w.Time(p.CreatedAt)
	w.Text(string(p.Status))
	w.ID(p.Program.UUID)
	w.Text(p.ProgramName)
	w.OptionalText(server.OptionalID(p.VisiblePartner()))
	w.Text(p.PartnerName)
	w.Text(emailFor(role, p.PartnerEmail))
	w.OptionalText(p.ExternalID)
	w.Text(p.ReferralCode)
	w.OptionalText(server.OptionalID(p.Group))
	w.Text(strings.Join(p.Tags, ", "))
	for _, n := range []int64{p.Clicks, p.Conversions, p.RevenueCents, p.CommissionCents, p.BalanceCents} {
		w.Int(n)
	}
	w.Text(p.Currency)
	w.OptionalTime(p.ApprovedAt)
}

// GetParticipant returns one participant.
func (s *Service) GetParticipant(ctx context.Context, req *affiliatev1.GetParticipantRequest) (*affiliatev1.Participant, error) {
	program, id := pathIDs(req)
	caller := server.PrincipalFrom(ctx)
	p, err := participants.Get(ctx, s.db, caller.Scope(), program, id)
	if err != nil {
		return nil, err
	}
	return toProto(p, caller.Role), nil
}

// CreateParticipantToken returns a token for one approved participant.
func (s *Service) CreateParticipantToken(ctx context.Context, req *affiliatev1.CreateParticipantTokenRequest) (*affiliatev1.ParticipantToken, error) {
	program, id := pathIDs(req)
	p, err := participants.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id)
	if err != nil {
		return nil, err
	}
	if err := p.CheckApproved(); err != nil {
		return nil, err
	}
	token, expiresAt, err := s.signer.SignParticipant(p.Workspace, p.ID, server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ParticipantToken{Token: token, ExpiresAt: timestamppb.New(expiresAt)}, nil
}

// programRequest is a request whose path names a programme.
type programRequest interface{ GetProgramId() string }

// participantRequest is a request whose path names a participant of a programme.
type participantRequest interface {
	programRequest
	GetParticipantId() string
}

// pathIDs returns the ids of the programme and the participant in the request's path.
func pathIDs(req participantRequest) (affiliate.ProgramID, affiliate.ParticipantID) {
	return server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PathID[affiliate.ParticipantID](req.GetParticipantId())
}
