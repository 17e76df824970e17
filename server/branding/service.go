// Package branding serves the branding of a workspace: its name, colour, links and logo as
// partners see them, and the short name in the addresses of its public pages.
//
// The package guarantees that two workspaces never have the same slug, and that a logo is stored
// only as a PNG file that the service has encoded itself. The file therefore contains only
// pixels and no metadata. The size of a picture is checked before it is decoded.
package branding

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Service implements affiliate.v1.BrandingService.
type Service struct {
	affiliatev1.UnimplementedBrandingServiceServer
	db        *postgres.DB
	publicURL string
	now       func() time.Time
	decoding  chan struct{}
}

// maxDecoding is the number of logos that are decoded at the same time. A logo needs up to 50 MB
// of memory.
const maxDecoding = 2

// New returns a Service. publicURL is the base URL of the REST API; if it is empty, the addresses
// of logos are paths. now is the clock.
func New(db *postgres.DB, publicURL string, now func() time.Time) *Service {
	return &Service{db: db, publicURL: strings.TrimSuffix(publicURL, "/"), now: now, decoding: make(chan struct{}, maxDecoding)}
}

// GetBranding returns the branding of the workspace.
func (s *Service) GetBranding(ctx context.Context, _ *affiliatev1.GetBrandingRequest) (*affiliatev1.Branding, error) {
	b, err := accounts.Branding(ctx, s.db, server.PrincipalFrom(ctx).Workspace)
	if err != nil {
		return nil, err
	}
	return s.toProto(b), nil
}

// PutBranding replaces the branding except the logo. If the branding already has the new values,
// it stores nothing. Errors: SLUG_TAKEN.
func (s *Service) PutBranding(ctx context.Context, req *affiliatev1.PutBrandingRequest) (*affiliatev1.Branding, error) {
	return s.update(ctx, "workspace.update_branding", func(tx *postgres.Tx, b account.Branding) (account.Branding, error) {
		if req.GetSlug() != b.Slug {
			// Until the transaction ends, no new workspace chooses the slug.
			if err := accounts.LockSlugs(ctx, tx); err != nil {
				return b, err
			}
		}
		b.Slug, b.PortalName, b.SupportEmail = req.GetSlug(), req.PortalName, req.SupportEmail
		b.WebsiteURL, b.TermsURL, b.PrivacyURL = req.WebsiteUrl, req.TermsUrl, req.PrivacyUrl
		b.AccentColor, b.Locale = nil, account.English
		if req.AccentColor != nil {
			color := strings.ToLower(req.GetAccentColor())
			b.AccentColor = &color
		}
		if locale := server.EnumName(req.GetLocale()); locale != "" {
			b.Locale = account.Locale(locale)
		}
		return b, nil
	})
}

// PutLogo replaces the logo. Errors: VALIDATION_ERROR if the body is no picture that the service
// can use.
func (s *Service) PutLogo(ctx context.Context, req *affiliatev1.PutLogoRequest) (*affiliatev1.Branding, error) {
	select {
	case s.decoding <- struct{}{}:
		defer func() { <-s.decoding }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	file, err := reencode(req.GetBody().GetData())
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(file)
	return s.update(ctx, "workspace.put_logo", func(tx *postgres.Tx, b account.Branding) (account.Branding, error) {
		b.LogoDigest = digest[:]
		return b, accounts.PutLogo(ctx, tx, account.Logo{Workspace: b.Workspace, Digest: digest[:], PNG: file, CreatedAt: s.currentTime()})
	})
}

// DeleteLogo removes the logo. If the workspace has no logo, nothing changes.
func (s *Service) DeleteLogo(ctx context.Context, _ *affiliatev1.DeleteLogoRequest) (*affiliatev1.DeleteLogoResponse, error) {
	_, err := s.update(ctx, "workspace.delete_logo", func(tx *postgres.Tx, b account.Branding) (account.Branding, error) {
		b.LogoDigest = nil
		return b, accounts.DeleteLogo(ctx, tx, b.Workspace)
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.DeleteLogoResponse{}, nil
}

// update locks the branding of the caller's workspace, changes it and stores it with an entry of
// the audit log. If nothing has changed, it stores no branding and no entry.
func (s *Service) update(
	ctx context.Context, action string, change func(*postgres.Tx, account.Branding) (account.Branding, error),
) (*affiliatev1.Branding, error) {
	workspace, at := server.PrincipalFrom(ctx).Workspace, s.currentTime()
	return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (*affiliatev1.Branding, error) {
		before, err := accounts.LockBranding(ctx, tx, workspace)
		if err != nil {
			return nil, err
		}
		after, err := change(tx, before)
		if err != nil {
			return nil, err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return s.toProto(after), err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if err := accounts.UpdateBranding(ctx, tx, after); err != nil {
			return nil, err
		}
		if err := affiliate.RedactChange(oldValues, newValues, "support_email", affiliate.MaskEmail); err != nil {
			return nil, err
		}
		return s.toProto(after), tx.Audit(ctx, affiliate.AuditLine{
			Workspace: workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: action, ResourceType: "workspace", ResourceID: workspace, Before: oldValues, After: newValues,
		})
	})
}

func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) } // the precision of the API

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	put, ok := req.(*affiliatev1.PutBrandingRequest)
	if !ok {
		return found
	}
	server.CheckName("portal_name", put.GetPortalName(), &found)
	if account.ReservedSlug(put.GetSlug()) {
		found.Add("slug", "must not be a reserved word")
	}
	if put.SupportEmail != nil && !account.BareAddress(put.GetSupportEmail()) {
		found.Add("support_email", affiliate.MustBeEmail)
	}
	for _, url := range []struct {
		field string
		value *string
	}{{"website_url", put.WebsiteUrl}, {"terms_url", put.TermsUrl}, {"privacy_url", put.PrivacyUrl}} {
		if url.value == nil {
			continue
		}
		if _, ok := affiliate.ParseWebURL(*url.value); !ok {
			found.Add(url.field, affiliate.MustBeWebURL)
		}
	}
	return found
}

func (s *Service) toProto(b account.Branding) *affiliatev1.Branding {
	return &affiliatev1.Branding{
		PortalName: b.PortalName, Slug: b.Slug, AccentColor: b.AccentColor, Palette: server.Palette(b.AccentColor),
		SupportEmail: b.SupportEmail, WebsiteUrl: b.WebsiteURL, TermsUrl: b.TermsURL, PrivacyUrl: b.PrivacyURL,
		Locale: server.EnumValue[affiliatev1.PortalLocale](b.Locale), LogoUrl: b.LogoURL(s.publicURL), UpdatedAt: server.Timestamp(b.UpdatedAt),
	}
}
