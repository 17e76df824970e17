// Package link has the rules of partner links: their destinations, their codes, and the
// addresses that are built from them.
package link

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// MaxLinks is the greatest number of links of a participant, not counting the default
// link.
const MaxLinks = 50

// Link is a referral link. It leads to a page of the merchant and has a code that
// credits the participant.
type Link struct {
	ID affiliate.LinkID `db:"id,fixed"`
	affiliate.Scope
	Program     affiliate.ProgramID     `db:"program_id,fixed"`
	Participant affiliate.ParticipantID `db:"participant_id,fixed"`
	Code        string                  // case-folded
	ShortKey    string                  `db:"short_key,fixed"` // ten base62 characters, unique in the deployment
	// Destination is nil for a default link that leads to the programme's page.
	Destination *string `db:"destination_url"`
	SubID       string  `db:"sub_id,nullable"`
	click.UTM
	IsDefault bool      `db:"is_default,fixed"`
	Version   int       // increases by one with every change
	CreatedAt time.Time `db:"created_at,fixed"`
	UpdatedAt time.Time
	DeletedAt *time.Time
	// Clicks is the number of all clicks except clicks of bots. Conversions is the number of all conversions.
	Clicks      int64 `db:"-"`
	Conversions int64 `db:"-"`
	// Page and Param come from the programme: the page that a default link leads to,
	// and the query parameter that carries the code.
	Page  string `db:"-"`
	Param string `db:"-"`
	// ProgramName and PartnerName are the current names.
	ProgramName string `db:"-"`
	PartnerName string `db:"-"`
}

// Object is a link as events and the audit log show it.
type Object struct {
	ID          affiliate.LinkID        `json:"id"`
	Program     affiliate.ProgramID     `json:"program_id"`
	Participant affiliate.ParticipantID `json:"participant_id"`
	Code        string                  `json:"code"` // in lower case, unique in the workspace and mode
	// Destination is null for a default link that leads to the programme's page.
	Destination *string   `json:"destination_url"`
	SubID       *string   `json:"sub_id"`     // a label by which the partner distinguishes its links; null if there is none
	UTM         UTMObject `json:"utm"`        // campaign parameters that the link adds
	IsDefault   bool      `json:"is_default"` // whether this is the participant's default link
	Version     int       `json:"version"`
}

// UTMObject holds campaign parameters. Parameters that are not set are null.
type UTMObject struct {
	Source   *string `json:"source"`
	Medium   *string `json:"medium"`
	Campaign *string `json:"campaign"`
	Term     *string `json:"term"`
	Content  *string `json:"content"`
}

// Object returns l as events show it.
func (l Link) Object() Object {
	return Object{
		ID: l.ID, Program: l.Program, Participant: l.Participant, Code: l.Code, Destination: l.Destination,
		SubID: affiliate.Optional(l.SubID),
		UTM: UTMObject{
			Source: affiliate.Optional(l.Source), Medium: affiliate.Optional(l.Medium), Campaign: affiliate.Optional(l.Campaign),
			Term: affiliate.Optional(l.Term), Content: affiliate.Optional(l.Content),
		},
		IsDefault: l.IsDefault, Version: l.Version,
	}
}

// Patch holds changes of the fields of a link. The code cannot be changed.
type Patch struct {
	// If Destination is cleared, the link leads to the programme's page. Only the
	// Destination of a default link can be cleared.
	Destination affiliate.Change[string]
	SubID       affiliate.Change[string]
	UTM         UTMPatch
}

// UTMPatch holds changes of the campaign parameters of a link.
type UTMPatch struct {
	// Reset clears all parameters before the other changes are applied.
	Reset                                   bool
	Source, Medium, Campaign, Term, Content affiliate.Change[string]
}

// Patch returns l with the given changes. The caller sets UpdatedAt and Version. The host of a
// new destination must match one of the given domains. Errors: VALIDATION_ERROR.
func (l Link) Patch(patch Patch, domains []string) (Link, error) {
	if patch.Destination.HasValue() && !AllowedDestination(domains, *patch.Destination.Value) {
		return l, forbiddenDestination(domains)
	}
	l.Destination = patch.Destination.ApplyOptional(l.Destination)
	if l.Destination == nil && !l.IsDefault {
		return l, affiliate.Invalid("destination_url", "is required for every link except the default link")
	}
	l.SubID = patch.SubID.Apply(l.SubID, "")
	if patch.UTM.Reset {
		l.UTM = click.UTM{}
	}
	l.Source = patch.UTM.Source.Apply(l.Source, "")
	l.Medium = patch.UTM.Medium.Apply(l.Medium, "")
	l.Campaign = patch.UTM.Campaign.Apply(l.Campaign, "")
	l.Term = patch.UTM.Term.Apply(l.Term, "")
	l.Content = patch.UTM.Content.Apply(l.Content, "")
	return l, nil
}

// CheckDestination returns an error if the host of the link's destination matches none of the
// given domains. Errors: VALIDATION_ERROR.
func (l Link) CheckDestination(domains []string) error {
	if l.Destination != nil && !AllowedDestination(domains, *l.Destination) {
		return forbiddenDestination(domains)
	}
	return nil
}

// CheckDelete returns an error for the default link, because every participant must have
// a default link. Errors: VALIDATION_ERROR.
func (l Link) CheckDelete() error {
	if l.IsDefault {
		return affiliate.Invalid("link_id", "must not be the default link")
	}
	return nil
}

// maxNamedHosts is the maximum number of allowed hosts that an error message names.
const maxNamedHosts = 10

func forbiddenDestination(domains []string) *affiliate.Error {
	if len(domains) == 0 {
		return affiliate.Invalid("destination_url", "must have a host that the programme allows, but the programme has no allowed domains and no website")
	}
	named := strings.Join(domains[:min(len(domains), maxNamedHosts)], ", ")
	hosts := named
	if more := len(domains) - maxNamedHosts; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	refusal := affiliate.Invalid("destination_url", "must have one of the programme's allowed hosts: "+named)
	refusal.Metadata = map[string]string{affiliate.AllowedHosts: hosts}
	return refusal
}

// Filter restricts a list of links. A zero field matches every link.
type Filter struct {
	Participant *affiliate.ParticipantID
	Search      string // prefix of the code, case-folded
}

// Query parameters that a link and its redirect add.
const (
	ClickIDParam = "aff_click_id"
	SubIDParam   = "sub_id"
)

// linkParams lists the query parameters that links and redirects set. The parameter that
// carries the referral code is not listed, because each programme names it.
var linkParams = []string{ClickIDParam, SubIDParam, "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"}

// ReservedParam reports whether a programme must not use a query parameter for its
// codes, because links and redirects set it themselves.
func ReservedParam(name string) bool { return slices.Contains(linkParams, strings.ToLower(name)) }

// URL returns the link's destination with the code, the sub id and the campaign
// parameters added. These parameters replace parameters of the same name in the
// destination. All other parameters stay, in their order. The result is empty if the
// link has no destination and the programme has no page.
func (l Link) URL() string {
	destination := l.Page
	if l.Destination != nil {
		destination = *l.Destination
	}
	if destination == "" {
		return ""
	}
	return WithParams(destination, []Param{
		{l.Param, l.Code},
		{SubIDParam, l.SubID},
		{"utm_source", l.Source},
		{"utm_medium", l.Medium},
		{"utm_campaign", l.Campaign},
		{"utm_term", l.Term},
		{"utm_content", l.Content},
	})
}

// Param is a query parameter.
type Param struct{ Name, Value string }

// WithParams sets query parameters of a URL and leaves everything else in it unchanged.
// Parameters with an empty value are not set. If two parameters have the same name,
// only the first is set.
func WithParams(rawURL string, params []Param) string {
	base, fragment, hasFragment := strings.Cut(rawURL, "#")
	base, query, _ := strings.Cut(base, "?")
	parts := make([]string, 0, 8)
	isReplaced := func(name string) bool {
		return slices.ContainsFunc(params, func(p Param) bool { return p.Value != "" && p.Name == name })
	}
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		decoded, err := url.QueryUnescape(name)
		if part != "" && (err != nil || !isReplaced(decoded)) {
			parts = append(parts, part)
		}
	}
	for i, p := range params {
		duplicate := slices.ContainsFunc(params[:i], func(q Param) bool { return q.Value != "" && q.Name == p.Name })
		if p.Value != "" && !duplicate {
			parts = append(parts, url.QueryEscape(p.Name)+"="+url.QueryEscape(p.Value))
		}
	}
	if len(parts) > 0 {
		base += "?" + strings.Join(parts, "&")
	}
	if hasFragment {
		base += "#" + fragment
	}
	return base
}

// AllowedDestination reports whether a link may lead to a URL. The URL must be an http or https
// URL. Its host, as all browsers read it, must match one of the given domains.
func AllowedDestination(domains []string, rawURL string) bool {
	host, ok := affiliate.ParseWebURL(rawURL)
	return ok && AllowedHost(domains, host)
}

// Hosts returns the hosts to which the links of a programme may lead: its allowed domains. If
// it has none, the hosts of its pages and their subdomains are allowed. An element of the
// parameter pages is nil if the page is not set.
func Hosts(allowedDomains []string, pages ...*string) []string {
	if len(allowedDomains) > 0 {
		return allowedDomains
	}
	hosts := []string{}
	for _, page := range pages {
		if page == nil {
			continue
		}
		if host, ok := affiliate.ParseWebURL(*page); ok && !slices.Contains(hosts, host) {
			hosts = append(hosts, host, "*."+host)
		}
	}
	return hosts
}

// AllowedHost reports whether a host matches one of the given domains. An entry that begins
// with *. matches all subdomains. Any other entry matches only the same host.
func AllowedHost(domains []string, host string) bool {
	return slices.ContainsFunc(domains, func(domain string) bool {
		parent, wildcard := strings.CutPrefix(domain, "*.")
		return domain == host || wildcard && strings.HasSuffix(host, "."+parent)
	})
}

// Subject returns the participant whose personal data the object contains.
func (o Object) Subject() affiliate.ParticipantID { return o.Participant }
