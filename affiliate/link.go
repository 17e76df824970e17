package affiliate

import (
	"iter"
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

// LinkObject is a link as events carry it and the audit log compares it.
type LinkObject struct {
	ID          LinkID        `json:"id"`
	Program     ProgramID     `json:"program_id"`
	Participant ParticipantID `json:"participant_id"`
	Code        string        `json:"code"` // in lower case, unique in workspace and mode
	// Destination is null for a default link that leads to the programme's page.
	Destination *string   `json:"destination_url"`
	SubID       *string   `json:"sub_id"`     // what the partner tells its links apart by; null without one
	UTM         UTMObject `json:"utm"`        // campaign parameters that the link adds
	IsDefault   bool      `json:"is_default"` // whether the code is the participant's own
	Version     int       `json:"version"`
}

// UTMObject is UTM with null for what is not set.
type UTMObject struct {
	Source   *string `json:"source"`
	Medium   *string `json:"medium"`
	Campaign *string `json:"campaign"`
	Term     *string `json:"term"`
	Content  *string `json:"content"`
}

// Object is l as events carry it.
func (l Link) Object() LinkObject {
	return LinkObject{
		ID: l.ID, Program: l.Program, Participant: l.Participant, Code: l.Code, Destination: l.Destination,
		SubID: optional(l.SubID),
		UTM: UTMObject{
			Source: optional(l.UTM.Source), Medium: optional(l.UTM.Medium), Campaign: optional(l.UTM.Campaign),
			Term: optional(l.UTM.Term), Content: optional(l.UTM.Content),
		},
		IsDefault: l.IsDefault, Version: l.Version,
	}
}

// LinkPatch changes some fields of a link; its code stays.
type LinkPatch struct {
	// Destination cleared: the programme's page, which only a default link can
	// lead to.
	Destination Change[string]
	SubID       Change[string]
	UTM         UTMPatch
}

// UTMPatch changes some of the campaign parameters.
type UTMPatch struct {
	// Reset starts from none in place of those that are there.
	Reset                                   bool
	Source, Medium, Campaign, Term, Content Change[string]
}

// Patch is l changed by patch; UpdatedAt and Version are the caller's. A new
// destination has to be among the domains.
func (l Link) Patch(patch LinkPatch, domains []string) (Link, error) {
	if patch.Destination.sets() && !AllowedDestination(domains, *patch.Destination.Value) {
		return l, forbiddenDestination()
	}
	l.Destination = patch.Destination.orNil(l.Destination)
	if l.Destination == nil && !l.IsDefault {
		return l, Invalid("destination_url", "is required for every link except the default link")
	}
	l.SubID = patch.SubID.or(l.SubID, "")
	if patch.UTM.Reset {
		l.UTM = UTM{}
	}
	l.UTM.Source = patch.UTM.Source.or(l.UTM.Source, "")
	l.UTM.Medium = patch.UTM.Medium.or(l.UTM.Medium, "")
	l.UTM.Campaign = patch.UTM.Campaign.or(l.UTM.Campaign, "")
	l.UTM.Term = patch.UTM.Term.or(l.UTM.Term, "")
	l.UTM.Content = patch.UTM.Content.or(l.UTM.Content, "")
	return l, nil
}

// CheckDestination refuses a link that is to lead out of the domains.
func (l Link) CheckDestination(domains []string) error {
	if l.Destination != nil && !AllowedDestination(domains, *l.Destination) {
		return forbiddenDestination()
	}
	return nil
}

// CheckDelete refuses the default link, which a participant always has.
func (l Link) CheckDelete() error {
	if l.IsDefault {
		return Invalid("link_id", "must not be the default link")
	}
	return nil
}

func forbiddenDestination() *Error {
	return Invalid("destination_url", "must have a host in the programme's allowed domains")
}

// LinkFilter narrows a list of links; its zero value leaves all of them.
type LinkFilter struct {
	Participant *ParticipantID
	Search      string // prefix of the code, case-folded
}

// LinkCodes are the codes to try for a link of the participant with the given
// code, in that order: a few with little behind it, then with more, forever.
func LinkCodes(participantCode string) iter.Seq[string] {
	made := func(random int) string {
		room := MaxReferralCode - len(referralSeparator) - random
		return participantCode[:min(len(participantCode), room)] + referralSeparator + randomLetters(random)
	}
	return func(yield func(string) bool) {
		for range namesakeAttempts {
			if !yield(made(randomInCode)) {
				return
			}
		}
		for yield(made(randomCode)) {
		}
	}
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

// linkParams are the parameters that links and redirects set besides the code's.
var linkParams = []string{ClickIDParam, SubIDParam, "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"}

// ReservedParam reports whether a programme may not carry its codes in a
// parameter: a visitor could write it, or the redirect would.
func ReservedParam(name string) bool { return slices.Contains(linkParams, strings.ToLower(name)) }

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
// it is, byte for byte. Empty values set nothing; of two parameters with one name
// the first is set.
func WithParams(rawURL string, params []Param) string {
	base, fragment, hasFragment := strings.Cut(rawURL, "#")
	base, query, _ := strings.Cut(base, "?")
	parts := make([]string, 0, 8)
	set := func(name string) bool {
		return slices.ContainsFunc(params, func(p Param) bool { return p.Value != "" && p.Name == name })
	}
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		decoded, err := url.QueryUnescape(name)
		if part != "" && (err != nil || !set(decoded)) {
			parts = append(parts, part)
		}
	}
	for i, p := range params {
		again := slices.ContainsFunc(params[:i], func(q Param) bool { return q.Value != "" && q.Name == p.Name })
		if p.Value != "" && !again {
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

// AllowedDestination reports whether a link may lead to a URL: an http or https
// one, whose host as every browser reads it is among the domains.
func AllowedDestination(domains []string, rawURL string) bool {
	host, ok := ParseWebURL(rawURL)
	return ok && AllowedHost(domains, host)
}

// AllowedHost reports whether a host is among the domains that links may lead
// to: the same, or a subdomain where the entry begins with *.
func AllowedHost(domains []string, host string) bool {
	return slices.ContainsFunc(domains, func(domain string) bool {
		parent, wildcard := strings.CutPrefix(domain, "*.")
		return domain == host || wildcard && strings.HasSuffix(host, "."+parent)
	})
}
