package account

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Branding says how a workspace presents itself to partners. It is a part of a row of the table
// workspaces.
type Branding struct {
	Workspace affiliate.WorkspaceID `db:"id,fixed"`
	Name      string                `db:"name,fixed"` // of the workspace
	Slug      string                // unique among all workspaces
	// PortalName replaces Name for partners; nil if it is not set.
	PortalName   *string
	AccentColor  *string // #rrggbb in lower case
	SupportEmail *string
	WebsiteURL   *string
	TermsURL     *string
	PrivacyURL   *string
	Locale       Locale
	LogoDigest   []byte // see Logo; nil without a logo
	Version      int    // the same column as Workspace.Version
	UpdatedAt    time.Time
}

// Logo is the logo of a workspace, a row of the table workspace_logos.
type Logo struct {
	Workspace affiliate.WorkspaceID `db:"workspace_id"`
	Digest    []byte                // SHA-256 of PNG
	PNG       []byte
	CreatedAt time.Time
}

// LogoPath is the path of the public route of logos. The hexadecimal digest follows it.
const LogoPath = "/api/v1/portal/logos/"

// DisplayName returns the name that partners see.
func (b Branding) DisplayName() string {
	if b.PortalName != nil {
		return *b.PortalName
	}
	return b.Name
}

// LogoURL returns the address of the logo; nil without a logo. publicURL is the base URL of the
// REST API.
func (b Branding) LogoURL(publicURL string) *string {
	if b.LogoDigest == nil {
		return nil
	}
	url := publicURL + LogoPath + hex.EncodeToString(b.LogoDigest)
	return &url
}

// BrandingObject is a Branding in the form in which the audit log shows its changes. The audit
// log shows the e-mail address masked.
type BrandingObject struct {
	PortalName   *string `json:"portal_name"`
	Slug         string  `json:"slug"`
	AccentColor  *string `json:"accent_color"`
	SupportEmail *string `json:"support_email"`
	WebsiteURL   *string `json:"website_url"`
	TermsURL     *string `json:"terms_url"`
	PrivacyURL   *string `json:"privacy_url"`
	Locale       Locale  `json:"locale"`
	Logo         string  `json:"logo"` // hexadecimal digest of the file
}

// Object returns b in the form in which the audit log shows its changes.
func (b Branding) Object() BrandingObject {
	return BrandingObject{
		PortalName: b.PortalName, Slug: b.Slug, AccentColor: b.AccentColor, SupportEmail: b.SupportEmail, WebsiteURL: b.WebsiteURL,
		TermsURL: b.TermsURL, PrivacyURL: b.PrivacyURL, Locale: b.Locale, Logo: hex.EncodeToString(b.LogoDigest),
	}
}

var (
	slugPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,38}[a-z0-9]$`)
	// reservedSlugs are part of the addresses of the portal and the API, or could make a page
	// look like a page of the service. The migration 0004_branding.sql has the same list.
	reservedSlugs = strings.Fields(`
		accept-invite account admin api apply assets commissions console docs health help home invite invites
		links live login logos logout mail merchant new notifications partner partners payouts portal privacy
		profile programmes programs promo-codes register reset-password security session settings static status
		support terms test tributary unsubscribe verify-email webhooks www`)
)

// ReservedSlug reports whether a workspace must not have the slug.
func ReservedSlug(slug string) bool { return slices.Contains(reservedSlugs, slug) }

// Slugs returns the slugs to try for a new workspace, in this order: its name, then the name
// with 2 to 20, then the name with a random number, which no other workspace has.
func Slugs(name string) []string {
	base := affiliate.Slug(name, 27)
	if base == "" {
		base = "workspace"
	}
	slugs := []string{base}
	for n := 2; n <= 20; n++ {
		slugs = append(slugs, base+"-"+strconv.Itoa(n))
	}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	slugs = append(slugs, base+"-"+hex.EncodeToString(random[:]))
	return slices.DeleteFunc(slugs, func(s string) bool { return !slugPattern.MatchString(s) || ReservedSlug(s) })
}
