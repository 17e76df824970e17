// Package portal serves what the portal shows to visitors without an account.
//
// The package guarantees that its responses contain only data that the merchant has published or
// that belongs to an invitation whose token the caller has. The response for a record that is not
// public is the same as for a record that does not exist. No response says whether a person has
// an account.
package portal

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// Config holds the dependencies of a Service.
type Config struct {
	DB *postgres.DB
	// PublicURL is the base URL of the REST API. If it is empty, the addresses of logos are
	// paths.
	PublicURL string
	// PartnerRegistration says who can create a partner account.
	PartnerRegistration account.Registration
	Now                 func() time.Time
}

// Service implements affiliate.v1.PortalService.
type Service struct {
	affiliatev1.UnimplementedPortalServiceServer
	Config
}

// New returns a Service.
func New(c Config) *Service {
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	return &Service{Config: c}
}

// GetPortalLogo sends the file of a logo.
func (s *Service) GetPortalLogo(req *affiliatev1.GetPortalLogoRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	digest, err := hex.DecodeString(req.GetDigest())
	if err != nil {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	file, err := accounts.LogoPNG(stream.Context(), s.DB, digest)
	if err != nil {
		return err
	}
	if err := stream.SetHeader(metadata.Pairs("cache-control", "public, max-age=31536000, immutable")); err != nil {
		return err
	}
	return stream.Send(&httpbody.HttpBody{ContentType: "image/png", Data: file})
}

// GetPortalProgram returns the page of an active and public programme. A cache may return the page
// for a minute after a change.
func (s *Service) GetPortalProgram(ctx context.Context, req *affiliatev1.GetPortalProgramRequest) (*affiliatev1.PortalProgram, error) {
	mode := cmp.Or(affiliate.Mode(server.EnumName(req.GetMode())), affiliate.ModeLive)
	p, err := programs.Public(ctx, s.DB, mode, req.GetWorkspaceSlug(), req.GetProgramSlug())
	if err != nil {
		return nil, err
	}
	b, err := accounts.Branding(ctx, s.DB, p.Workspace)
	if err != nil {
		return nil, err
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs("cache-control", "public, max-age=60"))
	return s.programToProto(p, s.brandingToProto(b)), nil
}

// LookupPortalInvite returns the open invitation with a token.
func (s *Service) LookupPortalInvite(ctx context.Context, req *affiliatev1.LookupPortalInviteRequest) (*affiliatev1.PortalInvite, error) {
	digest := account.DigestInviteToken(req.GetToken())
	member, _, err := accounts.InviteByToken(ctx, s.DB, digest)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return s.partnerInvite(ctx, digest)
	}
	if err != nil {
		return nil, err
	}
	invite, err := s.invite(ctx, member.Invite, member.Workspace)
	if err != nil {
		return nil, err
	}
	invite.Kind, invite.Role = affiliatev1.PortalInviteKind_PORTAL_INVITE_KIND_MEMBER, server.EnumValue[affiliatev1.Role](member.Role)
	return invite, nil
}

// partnerInvite returns the open invitation to an active programme that has a token with the
// digest. Errors: NOT_FOUND.
func (s *Service) partnerInvite(ctx context.Context, digest [32]byte) (*affiliatev1.PortalInvite, error) {
	partner, err := participants.InviteByToken(ctx, s.DB, digest)
	if err != nil {
		return nil, err
	}
	invite, err := s.invite(ctx, partner.Invite, partner.Workspace)
	if err != nil {
		return nil, err
	}
	p, err := programs.Get(ctx, s.DB, partner.Scope, partner.Program)
	if err != nil {
		return nil, err
	}
	if p.Status != program.Active {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	own, err := programs.GroupRate(ctx, s.DB, partner.Scope, partner.Program, partner.Group)
	if err != nil {
		return nil, err
	}
	rate := p.Rules.RateText(own, p.Currency)
	invite.Kind, invite.Program = affiliatev1.PortalInviteKind_PORTAL_INVITE_KIND_PARTNER, s.programToProto(p, invite.GetBranding())
	invite.CommissionRate, invite.Rate = server.Rate(own), &rate
	return invite, nil
}

// invite returns the parts that both kinds of invitations have. Errors: NOT_FOUND if the
// invitation is not open.
func (s *Service) invite(ctx context.Context, i account.Invite, workspace affiliate.WorkspaceID) (*affiliatev1.PortalInvite, error) {
	if !i.Open(s.Now()) {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	b, err := accounts.Branding(ctx, s.DB, workspace)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.PortalInvite{
		Email: affiliate.MaskEmail(i.Email), ExpiresAt: server.Timestamp(i.ExpiresAt), Branding: s.brandingToProto(b),
	}, nil
}

func (s *Service) brandingToProto(b account.Branding) *affiliatev1.PortalBranding {
	return &affiliatev1.PortalBranding{
		Name: b.DisplayName(), Slug: b.Slug, Palette: server.Palette(b.AccentColor), LogoUrl: b.LogoURL(s.PublicURL),
		SupportEmail: b.SupportEmail, WebsiteUrl: b.WebsiteURL, TermsUrl: b.TermsURL, PrivacyUrl: b.PrivacyURL,
		Locale: server.EnumValue[affiliatev1.PortalLocale](b.Locale),
	}
}

func (s *Service) programToProto(p program.Program, branding *affiliatev1.PortalBranding) *affiliatev1.PortalProgram {
	return &affiliatev1.PortalProgram{
		Id: p.ID.String(), Name: p.Name, Slug: p.Slug, Mode: server.EnumValue[affiliatev1.Mode](p.Mode), Branding: branding,
		Description: p.Description, PublicText: p.PublicText, WebsiteUrl: p.WebsiteURL, Currency: p.Currency,
		CommissionRules: server.Rules(p.Rules), Rate: p.Rules.RateText(nil, p.Currency),
		AttributionWindowDays: int32(p.WindowDays), MinPayoutCents: p.MinPayoutCents, PayoutTermDays: int32(p.PayoutTermDays), //nolint:gosec // at most 365
		TermsUrl: p.TermsURL, TermsText: p.TermsText, TermsVersion: int32(p.TermsVersion), //nolint:gosec // users create the versions one by one
		ApplicationQuestions: server.Questions(p.Questions), AutoApprovePartners: p.AutoApprovePartners,
		RegistrationNeedsInvitation: s.PartnerRegistration == account.InviteRegistration,
	}
}

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	if get, ok := req.(*affiliatev1.GetPortalProgramRequest); ok {
		server.CheckEnum("mode", get.GetMode(), &found)
	}
	return found
}
