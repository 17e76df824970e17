package collector

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
)

const (
	clicksPath = "/v1/clicks"
	// maxBody is the maximum size of the body of a click request.
	maxBody = 8 << 10
)

// Header values that many responses share. net/http does not change them.
var (
	anyOrigin      = []string{"*"}
	exposedHeaders = []string{"Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, " + httpedge.IgnoredFieldsHeader}
	jsonType       = []string{"application/json"}
	noStore        = []string{"no-store"}
	hsts           = []string{httpedge.HSTS}
	nosniff        = []string{"nosniff"}
	allowClicks    = []string{"OPTIONS, POST"}
	allowGet       = []string{"GET, HEAD"}
	allowedHeaders = []string{"Authorization, Content-Type, Traceparent, Tracestate, X-Public-Key, X-Request-Id"}
	preflightAge   = []string{"86400"}
)

// bufferPool holds buffers for request bodies, records and responses.
var bufferPool = sync.Pool{New: func() any { b := make([]byte, maxBody+1); return &b }}

// traced reports whether a request is traced. Health probes and requests for the browser
// script are not.
func traced(r *http.Request) bool {
	return r.URL.Path == clicksPath && r.Method == http.MethodPost || strings.HasPrefix(r.URL.Path, linkPath)
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h[httpedge.RequestIDHeader] = []string{httpedge.RequestID(r, c.deps.Now)}
	// Responses of short links have no CORS headers. Browsers navigate to short links,
	// and scripts of other origins have no reason to read the responses.
	isLink := strings.HasPrefix(r.URL.Path, linkPath)
	if !isLink {
		h["Access-Control-Allow-Origin"] = anyOrigin
		h["Access-Control-Expose-Headers"] = exposedHeaders
	}
	if c.stopping.Load() {
		// The client must open a new connection for its next request. The load balancer
		// sends that connection to another collector.
		h["Connection"] = []string{"close"}
	}
	if !c.cfg.AllowHTTP {
		h["Strict-Transport-Security"] = hsts
	}
	if !httpedge.Secure(r, c.cfg.TrustedProxies, c.cfg.AllowHTTP) {
		c.refusedProxies.Log(c.deps.Log, r, c.cfg.TrustedProxies)
		c.refuse(w, http.StatusForbidden, affiliate.ReasonHTTPSRequired, httpedge.HTTPSRequiredMessage)
		return
	}
	if isLink {
		c.serveLink(w, r)
		return
	}
	switch r.URL.Path {
	case clicksPath:
		c.serveClicks(w, r)
	case "/v1/health", "/v1/health/ready", "/v1/health/sink":
		if !c.acceptsGet(w, r) {
			return
		}
		var missing string
		switch path.Base(r.URL.Path) {
		case "ready":
			missing = c.MissingDependency(r.Context())
		case "sink":
			missing = c.MissingSinkDependency(r.Context())
		}
		c.serveHealth(w, missing)
	default:
		if doc := documents[r.URL.Path]; doc != nil {
			c.serveDocument(w, r, doc)
			return
		}
		c.refuse(w, http.StatusNotFound, affiliate.ReasonNotFound, "This path does not exist.")
	}
}

// acceptsGet reports whether the method of the request is GET or HEAD. Otherwise it writes an
// error response.
func (c *Collector) acceptsGet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header()["Allow"] = allowGet
	c.refuse(w, http.StatusMethodNotAllowed, affiliate.ReasonMethodNotAllowed, "This path accepts GET and HEAD.")
	return false
}

func (c *Collector) serveClicks(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	switch r.Method {
	case http.MethodPost:
		spans.SetRoute(r.Context(), http.MethodPost, clicksPath)
		c.registerClick(w, r)
	case http.MethodOptions:
		h["Access-Control-Allow-Methods"] = allowClicks
		h["Access-Control-Allow-Headers"] = allowedHeaders
		h["Access-Control-Max-Age"] = preflightAge
		h["Allow"] = allowClicks
		w.WriteHeader(http.StatusNoContent)
	default:
		h["Allow"] = allowClicks
		c.refuse(w, http.StatusMethodNotAllowed, affiliate.ReasonMethodNotAllowed, "This path accepts POST and OPTIONS.")
	}
}

// registerClick handles POST /v1/clicks. It makes these checks, in this order:
//
//  1. The collector has capacity for another click (otherwise 503).
//  2. The credential is valid (otherwise 401, or 429 if the client's address has made too
//     many requests with invalid credentials).
//  3. The client's address and the key are within their rate limits (otherwise 429).
//  4. The credential is a public key (otherwise 403).
//  5. The workspace allows the origin of the page or does not enforce origins (otherwise 403).
//  6. The body can be read (otherwise 415, 413 or 400).
//  7. The fields of the body are valid (otherwise 400).
//  8. The referral code is active (otherwise 404).
//
// If the key is in the body, check 6 comes first. While the directory cannot be read, a
// key with a valid checksum passes check 2, and checks 5 and 8 are omitted.
func (c *Collector) registerClick(w http.ResponseWriter, r *http.Request) {
	if c.batches.full() {
		c.unavailable(w, "The collector is overloaded.")
		return
	}
	h := w.Header()
	addr := httpedge.ClientAddr(r, c.cfg.TrustedProxies)
	var caller apiCaller
	var foreignOrigin, admitted bool
	credential, inHeader := headerCredential(r.Header)
	if inHeader {
		if caller, foreignOrigin, admitted = c.admit(w, r, credential, addr); !admitted {
			return
		}
	}
	buffer := bufferPool.Get().(*[]byte)
	defer bufferPool.Put(buffer)
	raw, refused := readBody(r, *buffer)
	if refused != nil {
		if refused == incompleteBody && r.ProtoMajor == 1 {
			// The client may still send the rest of this body on this connection. The
			// collector could then not tell where the next request starts.
			h["Connection"] = []string{"close"}
		}
		if inHeader || c.enforceLimit(w, r, apiCaller{}, addr) {
			c.refuse(w, refused.status, refused.reason, refused.message, refused.violations...)
		}
		return
	}
	body, violations := decode(raw)
	if !inHeader {
		if caller, foreignOrigin, admitted = c.admit(w, r, body.text[fieldPublicKey], addr); !admitted {
			return
		}
	}
	httpedge.SetIgnoredFields(h, body.ignored)
	if len(violations) > 0 {
		c.refuse(w, http.StatusBadRequest, affiliate.ReasonValidation, "The request is invalid.", violations...)
		return
	}
	var codeEntry *edgev1.ReferralCodeEntry
	if caller.status == keyValid {
		entry, state := c.deps.Directory.ReferralCode(r.Context(), caller.scope, body.code)
		if state == directory.Absent || state == directory.Found && !entry.Active {
			c.refuse(w, http.StatusNotFound, affiliate.ReasonNotFound, "No active programme has this referral code.")
			return
		}
		if state == directory.Found {
			codeEntry = entry
		}
	}
	c.storeClick(w, r, caller, codeEntry, body, visitor{
		addr: addr, agent: r.UserAgent(), foreignOrigin: foreignOrigin, prefetched: prefetch(r.Header),
		paidPlatform: paidPlatform(queryOf(body.text[fieldURL])), trace: spans.Reference(r.Context()),
	})
}

// admit identifies the caller, counts the request for the rate limit and checks the
// origin. foreignOrigin is true if the workspace does not allow the origin of the page.
// If ok is false, admit has already written an error response.
func (c *Collector) admit(w http.ResponseWriter, r *http.Request, credential string, addr netip.Addr) (caller apiCaller, foreignOrigin, ok bool) {
	caller = c.identify(r.Context(), credential)
	if !c.enforceLimit(w, r, caller, addr) {
		return caller, false, false
	}
	switch caller.status {
	case keyInvalid:
		w.Header()["Www-Authenticate"] = []string{"Bearer"}
		c.refuse(w, http.StatusUnauthorized, affiliate.ReasonInvalidPublicKey, "A valid public key is required.")
		return caller, false, false
	case keyWrongKind:
		c.refuse(w, http.StatusForbidden, affiliate.ReasonForbidden, "Clicks are registered with a public key.")
		return caller, false, false
	case keyUnverified, keyValid:
	}
	foreignOrigin = caller.foreignOrigin(r.Header)
	if foreignOrigin && caller.entry.EnforceOrigins {
		message := "Clicks of this origin are not accepted."
		if r.Header.Get("Origin") == "" {
			message = "Clicks without the header Origin are not accepted."
		}
		c.refuse(w, http.StatusForbidden, affiliate.ReasonOriginNotAllowed, message)
		return caller, true, false
	}
	return caller, foreignOrigin, true
}

// enforceLimit counts the request for the rate limits (countVisitor, countRequest) and
// sets the RateLimit headers. If the request is over a limit, it writes an error response
// and returns false. A request over the limit of its address does not count for its key.
func (c *Collector) enforceLimit(w http.ResponseWriter, r *http.Request, caller apiCaller, addr netip.Addr) bool {
	zone := zoneVisitor
	result, counted := c.countVisitor(r.Context(), caller, addr)
	if !counted || result.Allowed {
		zone, result = zoneTracking, c.countRequest(r.Context(), caller, addr)
	}
	result.SetHeaders(w.Header(), zone)
	if !result.Allowed {
		c.refuse(w, http.StatusTooManyRequests, affiliate.ReasonRateLimitExceeded, "Too many requests. Try again after the number of seconds in Retry-After.")
	}
	return result.Allowed
}

// storeClick makes the click durable and writes the response. codeEntry is nil if the
// referral code could not be looked up.
func (c *Collector) storeClick(w http.ResponseWriter, r *http.Request, caller apiCaller, codeEntry *edgev1.ReferralCodeEntry, body *clickBody, v visitor) {
	now := c.deps.Now()
	issued := &issuedClick{receivedAt: now}
	if body.proposed {
		issued = c.proposals.claim(proposal{id: body.clickID, digest: caller.digest, code: body.code}, now)
	} else {
		issued.id = affiliate.NewID[affiliate.ClickID](now)
	}
	repeated, err := issued.write(func() (*batch, error) {
		return c.enqueue(r.Context(), issued.id, issued.receivedAt, caller, codeEntry, body, v)
	})
	spans.SetClick(r.Context(), issued.id)
	if err != nil {
		c.logSinkError(r.Context(), err)
		c.unavailable(w, "The click could not be stored.")
		return
	}
	status := http.StatusCreated
	if repeated {
		status = http.StatusOK
		c.deps.metrics.repeated.Inc()
	} else {
		c.deps.metrics.accepted.Inc()
		if codeEntry == nil {
			c.deps.metrics.unresolved.Inc()
		}
	}
	buffer := bufferPool.Get().(*[]byte)
	defer bufferPool.Put(buffer)
	text := appendResponse((*buffer)[:0], issued, caller.key.Mode, codeEntry, repeated, now)
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = nosniff
	setCookie(h, r, issued.id, codeEntry, body.consent)
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// enqueue adds the record of a click to a batch of its shard. The caller must wait for the
// batch.
func (c *Collector) enqueue(
	ctx context.Context, id affiliate.ClickID, receivedAt time.Time, caller apiCaller, codeEntry *edgev1.ReferralCodeEntry, body *clickBody, v visitor,
) (*batch, error) {
	scratch := bufferPool.Get().(*[]byte)
	defer bufferPool.Put(scratch)
	record := c.record((*scratch)[:0], id, receivedAt, caller, codeEntry, body, v)
	// The framed record uses the rest of the same buffer.
	return c.batches.add(ctx, clickstream.Shard(id, c.cfg.Shards), frame(record[len(record):], record))
}

type refusal struct {
	status     int
	reason     affiliate.Reason
	message    string
	violations affiliate.Violations
}

// Responses to request bodies that cannot be read.
var (
	encodedBody = &refusal{http.StatusUnsupportedMediaType, affiliate.ReasonUnsupportedMediaType, "The request body must not be encoded.", nil}
	wrongType   = &refusal{
		http.StatusUnsupportedMediaType, affiliate.ReasonUnsupportedMediaType, "The Content-Type must be application/json or text/plain.", nil,
	}
	largeBody      = &refusal{http.StatusRequestEntityTooLarge, affiliate.ReasonPayloadTooLarge, "The request body must have at most 8 KiB.", nil}
	incompleteBody = &refusal{
		http.StatusBadRequest, affiliate.ReasonValidation, "The request body could not be read.",
		affiliate.Violations{{Field: affiliate.WholeBody, Message: "could not be read to its end"}},
	}
)

// readBody reads the body into buffer, which is one byte longer than the limit. If the
// headers are enough to refuse the body, readBody does not read it.
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
	c.deps.metrics.reject(reason)
	httpedge.WriteError(w, status, reason, message, violations...)
}

// unavailable writes a 503. Retry-After is a random number from 1 to 5 seconds, so that
// clients do not all repeat their requests at the same time.
func (c *Collector) unavailable(w http.ResponseWriter, message string) {
	w.Header()["Retry-After"] = retryAfter()
	c.refuse(w, http.StatusServiceUnavailable, affiliate.ReasonServiceUnavailable, message)
}

func retryAfter() []string { return []string{strconv.Itoa(1 + rand.IntN(5))} }
