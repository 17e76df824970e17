package collector

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/directory"
)

const (
	// linkPath is the part of a short link's path before its key.
	linkPath = "/r/"
	// linkKeyLength is the length of the key at the end of a short link.
	linkKeyLength = 10
)

// The outcomes of a redirect are the values of the label outcome of the metric redirects_total. With every
// outcome the visitor is redirected to the target of the link.
const (
	redirectRecorded = "recorded"
	// redirectUncounted is the outcome of HEAD requests and prefetches, which are not
	// visits.
	redirectUncounted = "uncounted"
	// redirectLimited means that the visitor's address made too many requests.
	redirectLimited = "limited"
	// redirectNotDurable means that the click could not be stored, because the write
	// failed or the queue is full.
	redirectNotDurable = "not_durable"
)

var (
	htmlType   = []string{"text/html; charset=utf-8"}
	pageCSP    = []string{"default-src 'none'"}
	zeroLength = []string{"0"}
)

// The pages for visitors who cannot be redirected.
var (
	unknownLinkPage     = linkPage("Link not found", "This link does not exist or is not active any more.")
	unavailableLinkPage = linkPage("Please try again", "This link cannot be opened at the moment. Please try again in a few seconds.")
	limitedLinkPage     = linkPage("Too many links", "Too many links that do not exist were opened from here. Please try again in a minute.")
)

func linkPage(title, text string) string {
	return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>` + title +
		"</title></head><body><h1>" + title + "</h1><p>" + text + "</p></body></html>\n"
}

// serveLink redirects a visitor and registers the click. If the link is known, the
// visitor is redirected even if the click cannot be registered. The target URL then has
// no click id, and the script on the target page registers a click instead.
func (c *Collector) serveLink(w http.ResponseWriter, r *http.Request) {
	if !c.acceptsGet(w, r) {
		return
	}
	spans.SetRoute(r.Context(), r.Method, linkPath+"{key}")
	key := r.URL.Path[len(linkPath):]
	if !isLinkKey(key) {
		c.writeLinkPage(w, r, http.StatusNotFound, affiliate.ReasonNotFound, unknownLinkPage)
		return
	}
	entry, state := c.deps.Directory.Link(r.Context(), key)
	switch {
	case state == directory.Unknown:
		w.Header()["Retry-After"] = retryAfter()
		c.writeLinkPage(w, r, http.StatusServiceUnavailable, affiliate.ReasonServiceUnavailable, unavailableLinkPage)
		return
	case state == directory.Absent || !entry.Active:
		// Limit how many link keys a client can try. The request has no public key, so it
		// counts towards the limit of the client's address.
		if limit := c.countRequest(r.Context(), apiCaller{}, httpedge.ClientAddr(r, c.cfg.TrustedProxies)); !limit.Allowed {
			limit.SetHeaders(w.Header(), zoneTracking)
			c.writeLinkPage(w, r, http.StatusTooManyRequests, affiliate.ReasonRateLimitExceeded, limitedLinkPage)
			return
		}
		c.writeLinkPage(w, r, http.StatusNotFound, affiliate.ReasonNotFound, unknownLinkPage)
		return
	}
	params := readLinkParams(r.URL.RawQuery)
	target := link.WithParams(entry.TargetUrl, params.params())
	outcome := redirectUncounted
	if r.Method == http.MethodGet && !prefetch(r.Header) {
		var id affiliate.ClickID
		if id, outcome = c.recordVisit(r, entry, params, target); outcome == redirectRecorded {
			target = link.WithParams(target, []link.Param{{Name: link.ClickIDParam, Value: id.String()}})
		}
	}
	c.deps.metrics.redirects.WithLabelValues(outcome).Inc()
	h := w.Header()
	h["Location"] = []string{visibleASCII(target)}
	h["Cache-Control"] = noStore
	h["Content-Length"] = zeroLength
	w.WriteHeader(http.StatusFound)
}

// recordVisit makes the click of a visitor durable. It returns the click id and the
// outcome of the redirect.
func (c *Collector) recordVisit(r *http.Request, link *edgev1.LinkEntry, params linkParams, target string) (affiliate.ClickID, string) {
	addr := httpedge.ClientAddr(r, c.cfg.TrustedProxies)
	// There is no public key, so the request counts towards the limit of the address.
	if !c.countRequest(r.Context(), apiCaller{}, addr).Allowed {
		return affiliate.ClickID{}, redirectLimited
	}
	id, err := c.writeLinkClick(r, addr, link, params, target)
	if err != nil {
		c.logSinkError(r.Context(), err)
		return id, redirectNotDurable
	}
	return id, redirectRecorded
}

// writeLinkClick writes a click record like the one for a click that the script on the target page registers, but
// without the values that only the script can determine.
func (c *Collector) writeLinkClick(r *http.Request, addr netip.Addr, link *edgev1.LinkEntry, params linkParams, target string) (affiliate.ClickID, error) {
	now := c.deps.Now()
	id := affiliate.NewID[affiliate.ClickID](now)
	workspace, _ := affiliate.IDFromBytes[affiliate.WorkspaceID](link.WorkspaceId)
	mode := affiliate.ModeTest
	if link.Mode == edgev1.Mode_MODE_LIVE {
		mode = affiliate.ModeLive
	}
	caller := apiCaller{
		parsedKey: parsedKey{key: account.Key{Kind: account.PublicKey, Mode: mode}},
		scope:     affiliate.Scope{Workspace: workspace, Mode: mode},
	}
	codeEntry := &edgev1.ReferralCodeEntry{
		ProgramId: link.ProgramId, ParticipantId: link.ParticipantId, LinkId: link.LinkId,
		AttributionWindowDays: link.AttributionWindowDays,
	}
	body := &clickBody{code: link.ReferralCode, consent: click.ConsentUnknown}
	if landing, ok := landingOf(target); ok && utf8.RuneCountInString(landing) <= maxURL {
		body.landing = landing
	}
	if referrer, ok := hostOf(r.Referer()); ok && storable(referrer) {
		body.referrer = referrer
	}
	linkDefaults := linkParams{link.SubId, link.UtmSource, link.UtmMedium, link.UtmCampaign, link.UtmTerm, link.UtmContent}
	// A parameter of the target URL is used if neither the visitor's URL nor the link
	// sets the parameter.
	targetQuery := queryOf(target)
	targetParams := readLinkParams(targetQuery)
	for i, p := range linkParamNames {
		body.text[p.field] = cmp.Or(params[i], linkDefaults[i], targetParams[i])
	}
	clickBatch, err := c.enqueue(r.Context(), id, now, caller, codeEntry, body, visitor{
		addr: addr, agent: r.UserAgent(),
		// The ad platform may have added its parameter to the visitor's URL or to the
		// target URL.
		paidPlatform: cmp.Or(paidPlatform(r.URL.RawQuery), paidPlatform(targetQuery)),
		trace:        spans.Reference(r.Context()),
	})
	spans.SetClick(r.Context(), id)
	if err != nil {
		return id, err
	}
	return id, clickBatch.wait()
}

func (c *Collector) writeLinkPage(w http.ResponseWriter, r *http.Request, status int, reason affiliate.Reason, page string) {
	c.deps.metrics.reject(reason)
	h := w.Header()
	h["Content-Type"] = htmlType
	h["Content-Length"] = []string{strconv.Itoa(len(page))}
	h["Content-Security-Policy"] = pageCSP
	h["X-Content-Type-Options"] = nosniff
	h["Cache-Control"] = noStore
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(page))
	}
}

func isLinkKey(key string) bool {
	return len(key) == linkKeyLength && !strings.ContainsFunc(key, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9')
	})
}

// prefetch reports whether a browser fetches the page in advance, before the visitor
// sees it.
func prefetch(h http.Header) bool {
	for _, name := range [...]string{"Sec-Purpose", "Purpose"} {
		for _, line := range h[name] {
			purpose, _, _ := strings.Cut(line, ";")
			if purpose = strings.TrimSpace(purpose); strings.EqualFold(purpose, "prefetch") || strings.EqualFold(purpose, "prerender") {
				return true
			}
		}
	}
	return false
}

// linkParamNames lists the query parameters that are copied to the click record. The
// visitor's URL, the link and the target URL may set them. field is an index of
// body.text.
var linkParamNames = [...]struct {
	name  string
	field int
}{
	{link.SubIDParam, fieldSubID},
	{"utm_source", fieldUTMSource},
	{"utm_medium", fieldUTMMedium},
	{"utm_campaign", fieldUTMCampaign},
	{"utm_term", fieldUTMTerm},
	{"utm_content", fieldUTMContent},
}

// linkParams contains the values of the parameters in linkParamNames, in the same order.
// An empty value means that the parameter is absent.
type linkParams [len(linkParamNames)]string

// readLinkParams returns the values of the parameters in a query. It ignores values that are blank or cannot be
// stored. If a parameter is repeated, it returns the first value that it does not ignore.
func readLinkParams(query string) linkParams {
	var params linkParams
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		for i, p := range linkParamNames {
			if params[i] != "" || !unescapesTo(name, p.name) {
				continue
			}
			if value, err := url.QueryUnescape(value); err == nil && !blank(value) && storable(value) {
				params[i] = value
			}
		}
	}
	return params
}

func unescapesTo(escaped, name string) bool {
	// An escaped byte (%XX) has three characters.
	if len(escaped) < len(name) || len(escaped) > 3*len(name) {
		return false
	}
	plain, err := url.QueryUnescape(escaped)
	return err == nil && plain == name
}

func (p linkParams) params() []link.Param {
	var params []link.Param
	for i, value := range p {
		if value != "" {
			params = append(params, link.Param{Name: linkParamNames[i].name, Value: value})
		}
	}
	return params
}

func storable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0) && utf8.RuneCountInString(text) <= maxText
}

// visibleASCII percent-encodes all bytes that are not visible ASCII. A header must not contain such bytes, and clients
// decode them differently.
func visibleASCII(target string) string {
	if !strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return target
	}
	return httpedge.PercentEncode(target, func(c byte) bool { return c > ' ' && c <= '~' })
}
