package affiliate

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

// MaxLinks bounds a participant's links besides its default one.
const MaxLinks = 50

// Link is a referral link: a page of the merchant, with the code that credits
// the participant.
type Link struct {
	ID          LinkID
	Scope       Scope
	Program     ProgramID
	Participant ParticipantID
	Code        string // case-folded
	ShortKey    string // ten base62 characters, unique over the deployment
	// Destination is nil for a default link that leads to the programme's page.
	Destination *string
	SubID       string
	UTM         UTM
	IsDefault   bool
	Clicks      int64 // without those of bots
	Conversions int64
	Version     int // one more with every change
	CreatedAt   time.Time
	UpdatedAt   time.Time
	DeletedAt   *time.Time
	// Page and Param are the programme's: where a default link leads, and the
	// query parameter of the code.
	Page  string
	Param string
}

// shortKeyLength characters of 62 make 8 × 10^17 keys.
const shortKeyLength = 10

// NewShortKey makes the key of a short link. A key that is taken has to be drawn
// anew.
func NewShortKey() string { return randomBase62(shortKeyLength) }

// Names of the query parameters that a link and its redirect add.
const (
	ClickIDParam = "aff_click_id"
	SubIDParam   = "sub_id"
)

// URL is the link's destination with the code, the sub id and the campaign
// parameters. What the destination says itself is replaced where the link says
// something, and stays otherwise, in its order. Empty: there is no destination.
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
		{"utm_source", l.UTM.Source},
		{"utm_medium", l.UTM.Medium},
		{"utm_campaign", l.UTM.Campaign},
		{"utm_term", l.UTM.Term},
		{"utm_content", l.UTM.Content},
	})
}

// Param is a query parameter.
type Param struct{ Name, Value string }

// WithParams sets query parameters of a URL and leaves everything else in it as
// it is, byte for byte. Empty values set nothing.
func WithParams(rawURL string, params []Param) string {
	base, fragment, hasFragment := strings.Cut(rawURL, "#")
	base, query, _ := strings.Cut(base, "?")
	kept := make([]string, 0, 8)
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		decoded, err := url.QueryUnescape(name)
		replaced := err == nil && slices.ContainsFunc(params, func(p Param) bool { return p.Value != "" && p.Name == decoded })
		if part != "" && !replaced {
			kept = append(kept, part)
		}
	}
	for _, p := range params {
		if p.Value != "" {
			kept = append(kept, url.QueryEscape(p.Name)+"="+url.QueryEscape(p.Value))
		}
	}
	if len(kept) > 0 {
		base += "?" + strings.Join(kept, "&")
	}
	if hasFragment {
		base += "#" + fragment
	}
	return base
}

// AllowedHost reports whether a host is among the domains that links may lead
// to: the same, or a subdomain where the entry begins with *.
func AllowedHost(domains []string, host string) bool {
	return slices.ContainsFunc(domains, func(domain string) bool {
		parent, wildcard := strings.CutPrefix(domain, "*.")
		return domain == host || wildcard && strings.HasSuffix(host, "."+parent)
	})
}
