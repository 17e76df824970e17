package collector

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
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

// takeClick handles POST /v1/clicks. It checks, in this order: capacity (503), credential
// (429 from an address beyond its limit, else 401), limit of the key (429), kind of
// credential (403), origin (403), whether the body can be read (415, 413, 400), its
// fields (400) and the code (404). A key in the body is known only after the body is
// read, so a body that cannot be read is refused before the credential is checked.
func (c *Collector) takeClick(w http.ResponseWriter, r *http.Request) {
	if c.batches.full() {
		c.unavailable(w, "The collector is at its limit.")
		return
	}
	h := w.Header()
	addr := httpedge.ClientAddr(r, c.trusted)
	var who caller
	var foreign, admitted bool
	credential, inHeader := headerCredential(r.Header)
	if inHeader {
		if who, foreign, admitted = c.admit(w, r, credential, addr); !admitted {
			return
		}
	}
	buffer := bodies.Get().(*[]byte)
	defer bodies.Put(buffer)
	raw, bad := readBody(r, *buffer)
	if bad != nil {
		if bad == incompleteBody && r.ProtoMajor == 1 {
			// The start of the connection's next request cannot be found.
			h["Connection"] = []string{"close"}
		}
		if inHeader || c.count(w, r, caller{}, addr) {
			c.refuse(w, bad.status, bad.reason, bad.message, bad.violations...)
		}
		return
	}
	click, wrong := decode(raw)
	if !inHeader {
		if who, foreign, admitted = c.admit(w, r, click.text[fieldPublicKey], addr); !admitted {
			return
		}
	}
	httpedge.SetIgnoredFields(h, click.ignored)
	if len(wrong) > 0 {
		c.refuse(w, http.StatusBadRequest, affiliate.ReasonValidation, "The request is invalid.", wrong...)
		return
	}
	var target *edgev1.ReferralCodeEntry
	if who.standing == known {
		entry, state := c.directory.ReferralCode(r.Context(), who.scope, click.code)
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

// admit identifies the caller, counts the request and checks the origin. foreign reports
// a page whose origin the workspace does not allow. ok is false if admit has refused the
// request.
func (c *Collector) admit(w http.ResponseWriter, r *http.Request, credential string, addr netip.Addr) (who caller, foreign, ok bool) {
	who = c.identify(r.Context(), credential)
	if !c.count(w, r, who, addr) {
		return who, false, false
	}
	switch who.standing {
	case unknown:
		w.Header()["Www-Authenticate"] = []string{"Bearer"}
		c.refuse(w, http.StatusUnauthorized, affiliate.ReasonInvalidPublicKey, "A valid public key is required.")
		return who, false, false
	case wrongKind:
		c.refuse(w, http.StatusForbidden, affiliate.ReasonForbidden, "Clicks are registered with a public key.")
		return who, false, false
	case unverified, known:
	}
	foreign = who.foreign(r.Header)
	if foreign && who.entry.EnforceOrigins {
		c.refuse(w, http.StatusForbidden, affiliate.ReasonOriginNotAllowed, "Clicks of this origin are not accepted.")
		return who, true, false
	}
	return who, foreign, true
}

// count counts the request (see charge) and sets the RateLimit headers. It refuses a
// request beyond the limit and returns false.
func (c *Collector) count(w http.ResponseWriter, r *http.Request, who caller, addr netip.Addr) bool {
	result := c.charge(r.Context(), who, addr)
	result.SetHeaders(w.Header(), zoneTracking)
	if !result.Allowed {
		c.refuse(w, http.StatusTooManyRequests, affiliate.ReasonRateLimitExceeded, "Too many requests. Try again after the seconds of Retry-After.")
	}
	return result.Allowed
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

// refusal is an error response.
type refusal struct {
	status     int
	reason     affiliate.Reason
	message    string
	violations affiliate.Violations
}

// Responses to bodies that cannot be read.
var (
	encodedBody    = &refusal{status: http.StatusUnsupportedMediaType, reason: affiliate.ReasonUnsupportedMediaType, message: "The request body must not be encoded."}
	wrongType      = &refusal{status: http.StatusUnsupportedMediaType, reason: affiliate.ReasonUnsupportedMediaType, message: "The Content-Type must be application/json or text/plain."}
	largeBody      = &refusal{status: http.StatusRequestEntityTooLarge, reason: affiliate.ReasonPayloadTooLarge, message: "The request body must have at most 8 KiB."}
	incompleteBody = &refusal{
		status: http.StatusBadRequest, reason: affiliate.ReasonValidation, message: "The request body could not be read.",
		violations: affiliate.Violations{{Field: affiliate.WholeBody, Message: "could not be read to its end"}},
	}
)

// readBody reads the body into buffer, which has one byte more than the limit. It does
// not read a body that the headers show to be unacceptable.
func readBody(r *http.Request, buffer []byte) ([]byte, *refusal) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, encodedBody
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "" {
		media, _, _ := strings.Cut(contentType, ";")
		media = strings.TrimSpace(media)
		if !strings.EqualFold(media, "application/json") && !strings.EqualFold(media, "text/plain") {
			return nil, wrongType
		}
	}
	if r.ContentLength > maxBody {
		return nil, largeBody
	}
	n := 0
	for n < len(buffer) {
		more, err := r.Body.Read(buffer[n:])
		n += more
		if err == io.EOF {
			break
		}
		if err != nil {
			// The body ended early or stalled.
			return nil, incompleteBody
		}
	}
	if n > maxBody {
		return nil, largeBody
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
