package collector

import (
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
)

const (
	clicksPath = "/v1/clicks"
	// maxBody bounds a click (RELIABILITY.md 6.6).
	maxBody = 8 << 10
)

// Header values that all responses share. net/http only reads them.
var (
	anyOrigin     = []string{"*"}
	exposed       = []string{"Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, " + httpedge.IgnoredFieldsHeader}
	jsonType      = []string{"application/json"}
	noStore       = []string{"no-store"}
	hsts          = []string{httpedge.HSTS}
	nosniff       = []string{"nosniff"}
	allowClicks   = []string{"OPTIONS, POST"}
	allowHealth   = []string{"GET, HEAD"}
	allowedInPost = []string{"Authorization, Content-Type, X-Public-Key, X-Request-Id"}
	preflightAge  = []string{"86400"}
)

var bodies = sync.Pool{New: func() any { b := make([]byte, maxBody+1); return &b }}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h[httpedge.RequestIDHeader] = []string{httpedge.RequestID(r, c.mintRequestID)}
	// Visitors follow links. Scripts of other origins have no reason to read them.
	link := strings.HasPrefix(r.URL.Path, linkPath)
	if !link {
		h["Access-Control-Allow-Origin"] = anyOrigin
		h["Access-Control-Expose-Headers"] = exposed
	}
	if c.stopping.Load() {
		// The client's next request then goes to another collector.
		h["Connection"] = []string{"close"}
	}
	if !c.allowHTTP {
		h["Strict-Transport-Security"] = hsts
	}
	if !httpedge.Secure(r, c.trusted, c.allowHTTP) {
		c.refuse(w, http.StatusForbidden, affiliate.ReasonHTTPSRequired, httpedge.HTTPSRequiredMessage)
		return
	}
	if link {
		c.serveLink(w, r)
		return
	}
	switch r.URL.Path {
	case clicksPath:
		c.serveClicks(w, r)
	case "/v1/health", "/v1/health/ready", "/v1/health/sink":
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h["Allow"] = allowHealth
			c.refuse(w, http.StatusMethodNotAllowed, affiliate.ReasonMethodNotAllowed, "This path answers GET and HEAD.")
			return
		}
		var missing string
		switch path.Base(r.URL.Path) {
		case "ready":
			missing = c.NotReady(r.Context())
		case "sink":
			missing = c.SinkNotReady(r.Context())
		}
		c.serveHealth(w, missing)
	default:
		if found := documents[r.URL.Path]; found != nil {
			c.serveDocument(w, r, found)
			return
		}
		c.refuse(w, http.StatusNotFound, affiliate.ReasonNotFound, "There is nothing at this path.")
	}
}

func (c *Collector) serveClicks(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	switch r.Method {
	case http.MethodPost:
		c.takeClick(w, r)
	case http.MethodOptions:
		h["Access-Control-Allow-Methods"] = allowClicks
		h["Access-Control-Allow-Headers"] = allowedInPost
		h["Access-Control-Max-Age"] = preflightAge
		h["Allow"] = allowClicks
		w.WriteHeader(http.StatusNoContent)
	default:
		h["Allow"] = allowClicks
		c.refuse(w, http.StatusMethodNotAllowed, affiliate.ReasonMethodNotAllowed, "This path answers POST and OPTIONS.")
	}
}

// takeClick handles POST /v1/clicks. It first checks what needs no credential (503,
// 413, 415). Then it checks credential, limit, kind of credential, origin, body and
// code, in this order: 401, 429, 403, 403, 400, 404. A request with an unknown
// credential counts under its address before it is refused.
func (c *Collector) takeClick(w http.ResponseWriter, r *http.Request) {
	if c.batches.full() {
		c.unavailable(w, "The collector is at its limit.")
		return
	}
	ctx := r.Context()
	addr := httpedge.ClientAddr(r, c.trusted)
	credential, inHeader := headerCredential(r.Header)
	if status, reason, message := unreadable(r); status != 0 {
		c.refuseUnread(w, r, credential, inHeader, status, reason, message)
		return
	}
	h := w.Header()
	buffer := bodies.Get().(*[]byte)
	defer bodies.Put(buffer)
	raw, err := readBody(r.Body, *buffer)
	switch {
	case err != nil:
		// The body ended early or stalled, so the next request of an HTTP/1 connection
		// cannot be found.
		if r.ProtoMajor == 1 {
			h["Connection"] = []string{"close"}
		}
		c.refuseUnread(w, r, credential, inHeader, http.StatusBadRequest, affiliate.ReasonValidation, "The request body could not be read.",
			affiliate.Violation{Field: affiliate.WholeBody, Message: "could not be read to its end"})
		return
	case len(raw) > maxBody:
		c.refuseUnread(w, r, credential, inHeader, http.StatusRequestEntityTooLarge, affiliate.ReasonPayloadTooLarge, tooLarge)
		return
	}
	click, wrong := decode(raw)
	httpedge.SetIgnoredFields(h, click.ignored)
	if !inHeader {
		credential = click.text[fieldPublicKey]
	}

	who := c.identify(ctx, credential)
	result := c.charge(ctx, who, addr)
	result.SetHeaders(h, zoneTracking)
	if !result.Allowed {
		c.refuse(w, http.StatusTooManyRequests, affiliate.ReasonRateLimitExceeded, tooMany)
		return
	}
	switch who.standing {
	case unknown:
		h["Www-Authenticate"] = []string{"Bearer"}
		c.refuse(w, http.StatusUnauthorized, affiliate.ReasonInvalidPublicKey, "A valid public key is required.")
		return
	case wrongKind:
		c.refuse(w, http.StatusForbidden, affiliate.ReasonForbidden, "Clicks are registered with a public key.")
		return
	case unverified, known:
	}
	foreign := who.foreign(r.Header)
	switch {
	case foreign && who.entry.EnforceOrigins:
		c.refuse(w, http.StatusForbidden, affiliate.ReasonOriginNotAllowed, "Clicks of this origin are not accepted.")
		return
	case len(wrong) > 0:
		c.refuse(w, http.StatusBadRequest, affiliate.ReasonValidation, "The request is invalid.", wrong...)
		return
	}
	var target *edgev1.ReferralCodeEntry
	if who.standing == known {
		entry, state := c.directory.ReferralCode(ctx, who.scope, click.code)
		if state == directory.Absent || state == directory.Found && !entry.Active {
			c.refuse(w, http.StatusNotFound, affiliate.ReasonNotFound, "No active programme has this referral code.")
			return
		}
		if state == directory.Found {
			target = entry
		}
	}
	c.write(w, r, who, target, click, visitor{
		addr: addr, agent: r.UserAgent(), foreign: foreign, prefetched: prefetch(r.Header),
		paidPlatform: paidPlatform(queryOf(click.text[fieldURL])),
	})
}

// write makes the click durable and writes the response.
func (c *Collector) write(w http.ResponseWriter, r *http.Request, who caller, target *edgev1.ReferralCodeEntry, b *body, from visitor) {
	now := c.now()
	entry := &issued{receivedAt: now}
	if b.proposed {
		entry = c.memory.claim(proposal{id: b.clickID, digest: who.digest, code: b.code}, now)
	} else {
		entry.id = affiliate.NewID[affiliate.Click](now)
	}
	repeated, err := entry.write(func() (*batch, error) {
		scratch := bodies.Get().(*[]byte)
		defer bodies.Put(scratch)
		click := c.record((*scratch)[:0], entry.id, entry.receivedAt, who, target, b, from)
		return c.batches.add(clickstream.Shard(entry.id, c.shards), frame(click[len(click):], click))
	})
	if err != nil {
		c.logSinkError(err)
		c.unavailable(w, "The click could not be stored.")
		return
	}
	status := http.StatusCreated
	if repeated {
		status = http.StatusOK
		c.metrics.repeated.Inc()
	} else {
		c.metrics.accepted.Inc()
		if target == nil {
			c.metrics.unresolved.Inc()
		}
	}
	answer := bodies.Get().(*[]byte)
	defer bodies.Put(answer)
	text := appendAnswer((*answer)[:0], entry, who.key.Mode, target, repeated, now)
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = nosniff
	setCookie(h, r, entry.id, target, b.consent)
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

const (
	tooLarge = "The request body must have at most 8 KiB."
	tooMany  = "Too many requests. Try again after the seconds of Retry-After."
)

// unreadable returns the error for a body that the headers show to be unacceptable;
// status is 0 if there is none.
func unreadable(r *http.Request) (status int, reason affiliate.Reason, message string) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return http.StatusUnsupportedMediaType, affiliate.ReasonUnsupportedMediaType, "The request body must not be encoded."
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "" {
		media, _, _ := strings.Cut(contentType, ";")
		media = strings.TrimSpace(media)
		if !strings.EqualFold(media, "application/json") && !strings.EqualFold(media, "text/plain") {
			return http.StatusUnsupportedMediaType, affiliate.ReasonUnsupportedMediaType, "The Content-Type must be application/json or text/plain."
		}
	}
	if r.ContentLength > maxBody {
		return http.StatusRequestEntityTooLarge, affiliate.ReasonPayloadTooLarge, tooLarge
	}
	return 0, "", ""
}

// refuseUnread refuses a request without decoding its body. Every request with a known
// key counts, so a request with a known key in its headers is charged.
func (c *Collector) refuseUnread(w http.ResponseWriter, r *http.Request, credential string, inHeader bool, status int, reason affiliate.Reason, message string, violations ...affiliate.Violation) {
	if inHeader {
		who := c.identify(r.Context(), credential)
		if who.standing == known {
			result := c.charge(r.Context(), who, httpedge.ClientAddr(r, c.trusted))
			result.SetHeaders(w.Header(), zoneTracking)
			if !result.Allowed {
				status, reason = http.StatusTooManyRequests, affiliate.ReasonRateLimitExceeded
				message = tooMany
			}
		}
	}
	c.refuse(w, status, reason, message, violations...)
}

// readBody reads the body, at most one byte more than the limit.
func readBody(from io.Reader, buffer []byte) ([]byte, error) {
	n := 0
	for n < len(buffer) {
		more, err := from.Read(buffer[n:])
		n += more
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return buffer[:n], nil
}

func (c *Collector) refuse(w http.ResponseWriter, status int, reason affiliate.Reason, message string, violations ...affiliate.Violation) {
	c.metrics.reject(reason)
	httpedge.WriteError(w, status, reason, message, violations...)
}

// unavailable responds 503. Retry-After is a random number of 1 to 5 seconds, so that
// clients do not all return at the same time.
func (c *Collector) unavailable(w http.ResponseWriter, message string) {
	w.Header()["Retry-After"] = retryAfter()
	c.refuse(w, http.StatusServiceUnavailable, affiliate.ReasonServiceUnavailable, message)
}

func retryAfter() []string { return []string{strconv.Itoa(1 + rand.IntN(5))} }
