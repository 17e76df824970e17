package httpedge

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tributary-hq/tributary/affiliate"
)

// RequestIDHeader contains the request id in requests and responses.
const RequestIDHeader = "X-Request-Id"

// maxRequestID is the greatest length of an id that a client sends. It is limited because
// the id is returned and logged.
const maxRequestID = 128

// RequestID returns the client's X-Request-Id if it is valid (see ValidRequestID), and
// otherwise a new id.
func RequestID(r *http.Request, now func() time.Time) string {
	if id := r.Header.Get(RequestIDHeader); ValidRequestID(id) {
		return id
	}
	return affiliate.NewID[affiliate.RequestID](now()).String()
}

// ValidRequestID reports whether id consists of 1 to 128 visible ASCII characters. Other
// characters could break a log line or a header.
func ValidRequestID(id string) bool {
	return id != "" && len(id) <= maxRequestID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// IsPlainJSON reports whether the headers declare the body as JSON in UTF-8 without
// compression. If there is no Content-Type, the body counts as JSON.
func IsPlainJSON(h http.Header) bool {
	for _, encoding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return false
		}
	}
	types := h["Content-Type"]
	if len(types) == 0 {
		return true
	}
	if len(types) == 1 && types[0] == "application/json" {
		return true
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || len(types) > 1 || media != "application/json" {
		return false
	}
	charset, hasCharset := parameters["charset"]
	return !hasCharset || strings.EqualFold(charset, "utf-8")
}

// Origins is the set of web origins whose scripts may read the responses of a server.
type Origins map[string]bool

// defaultPorts are the schemes of origins with the ports that browsers leave out.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// browserForm reports whether the scheme and the host of an origin have the form in which browsers send them: in
// ASCII and lower case, without a wildcard, an empty port or the default port.
func browserForm(u *url.URL) bool {
	defaultPort, ok := defaultPorts[u.Scheme]
	return ok && u.Port() != defaultPort && !strings.HasSuffix(u.Host, ":") &&
		!strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsUpper(r) || r == '*' })
}

// ParseOrigins returns the origins as a set. It fails if an origin does not have the form
// that browsers use in the header Origin.
func ParseOrigins(origins []string) (Origins, error) {
	set := make(Origins, len(origins))
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || !browserForm(u) {
			return nil, fmt.Errorf("%q is not an origin such as https://app.example", origin)
		}
		set[origin] = true
	}
	return set, nil
}

// commonHeaders are the headers of every response of an API. All responses share the slices,
// so a handler may replace a slice but must not change its elements.
var commonHeaders = http.Header{
	"X-Content-Type-Options": {"nosniff"},
	"Cache-Control":          {"no-store"},
	"Referrer-Policy":        {"no-referrer"},
	"Vary":                   {"Origin"},
}

// CORS are the rules of an API for scripts of other web origins.
type CORS struct {
	Origins Origins
	// RequestHeaders are the headers that the scripts may send. ResponseHeaders are the headers
	// that the scripts may read.
	RequestHeaders, ResponseHeaders string
}

// corsMaxAge is the number of seconds for which a browser caches the response to a preflight request.
const corsMaxAge = "600"

// SetHeaders sets the headers that all responses of an API have. It returns the origin of the
// request if scripts of that origin may read the response, and otherwise "".
func (c *CORS) SetHeaders(h http.Header, r *http.Request, requestID string, trusted []netip.Prefix) (origin string) {
	maps.Copy(h, commonHeaders)
	h.Set(RequestIDHeader, requestID)
	// A server must not send this header over plain HTTP (RFC 6797 section 7.2).
	if Secure(r, trusted, false) {
		h.Set("Strict-Transport-Security", HSTS)
	}
	origin = r.Header.Get("Origin")
	if !c.Origins[origin] {
		return ""
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", c.ResponseHeaders)
	return origin
}

// RespondToOptions responds with the methods of a path. For a preflight request of an allowed
// origin, it also sets the CORS headers. It does not allow credentials, because the APIs use
// only bearer tokens, which scripts set themselves.
func (c *CORS) RespondToOptions(w http.ResponseWriter, r *http.Request, methods []string, origin string) {
	h, allow := w.Header(), strings.Join(methods, ", ")
	h.Set("Allow", allow)
	if origin != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", allow)
		h.Set("Access-Control-Allow-Headers", c.RequestHeaders)
		h.Set("Access-Control-Max-Age", corsMaxAge)
	}
	w.WriteHeader(http.StatusNoContent)
}

// IgnoredFieldsHeader is the response header that lists the unknown keys of a request
// body. It is used by routes that are called by many versions of clients. These routes
// ignore unknown keys instead of rejecting the request.
const IgnoredFieldsHeader = "Ignored-Fields"

// maxIgnored bounds the length of the header, because the client chooses the names.
const maxIgnored = 1024

// SetIgnoredFields sets IgnoredFieldsHeader to the paths of the ignored keys, separated
// by ", ". Bytes other than letters, digits, "_", "-", ".", "[" and "]" are
// percent-encoded. If the list is too long, it is cut and ends with "...". If paths is
// empty, no header is set.
func SetIgnoredFields(h http.Header, paths []string) {
	if len(paths) == 0 {
		return
	}
	var b strings.Builder
	for i, path := range paths {
		name := encodePath(path)
		if b.Len()+len(name) > maxIgnored {
			b.WriteString("...")
			break
		}
		b.WriteString(name)
		if i < len(paths)-1 {
			b.WriteString(", ")
		}
	}
	h.Set(IgnoredFieldsHeader, b.String())
}

func encodePath(path string) string {
	return PercentEncode(path, func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.[]", c) >= 0
	})
}

// PercentEncode percent-encodes the bytes of text for which the function plain returns false.
func PercentEncode(text string, plain func(c byte) bool) string {
	var b strings.Builder
	for i := range len(text) {
		if plain(text[i]) {
			b.WriteByte(text[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", text[i])
		}
	}
	return b.String()
}

// ETag returns a weak entity tag for content. A weak tag is the same for the content and
// its compressed form.
func ETag(content []byte) string {
	sum := sha256.Sum256(content)
	return `W/"` + hex.EncodeToString(sum[:8]) + `"`
}

// Gzip compresses content as much as possible, which is slow.
func Gzip(content []byte) []byte {
	var compressed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // fails only for an invalid level
	_, _ = w.Write(content)                                        // writing to memory cannot fail
	_ = w.Close()
	return compressed.Bytes()
}

// WriteGzip writes a body with its length, compressed if the client accepts gzip. request is the
// header of the request. compressed returns the body that Gzip returns.
func WriteGzip(w http.ResponseWriter, request http.Header, body []byte, compressed func() []byte) {
	h := w.Header()
	VaryByEncoding(h)
	if AcceptsGzip(request) {
		body = compressed()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// VaryByEncoding says that the response depends on the encodings that the client accepts.
func VaryByEncoding(h http.Header) {
	h["Vary"] = append(h["Vary"][:len(h["Vary"]):len(h["Vary"])], "Accept-Encoding") // h may share its slices with other responses
}

// ETagMatches reports whether the client already has the version with this tag.
func ETagMatches(h http.Header, etag string) bool {
	for _, line := range h.Values("If-None-Match") {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
				return true
			}
		}
	}
	return false
}

// AcceptsGzip reports whether the client accepts a response that is compressed with gzip.
func AcceptsGzip(h http.Header) bool {
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			value, weighted := strings.CutPrefix(strings.TrimSpace(strings.ToLower(weight)), "q=")
			q, err := strconv.ParseFloat(value, 64)
			return !weighted || err == nil && q > 0
		}
	}
	return false
}

// Envelope is the body of every error response (docs/errors.md).
type Envelope struct {
	StatusCode int              `json:"statusCode"`
	Message    string           `json:"message"`
	Error      string           `json:"error"`
	Code       affiliate.Reason `json:"code"`
	// Details is set only for VALIDATION_ERROR.
	Details []Detail `json:"details,omitempty"`
}

// Detail is one violation of a VALIDATION_ERROR.
type Detail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// WriteError writes an error response with the envelope as its body. It keeps the headers
// that the caller has set (Retry-After, Allow, CORS, request id). It replaces headers
// that describe another body, such as its length and encoding. If reason is
// VALIDATION_ERROR, the details have a sentence for each violation. The field names in
// violations must be in the client's spelling.
func WriteError(w http.ResponseWriter, status int, reason affiliate.Reason, message string, violations ...affiliate.Violation) {
	WriteErrorWithFields(w, status, reason, message, nil, violations...)
}

// WriteErrorWithFields is WriteError with additional fields in the body. object is a JSON
// object with these fields, or nil. It must not be empty and must not contain a field of
// the envelope.
func WriteErrorWithFields(w http.ResponseWriter, status int, reason affiliate.Reason, message string, object []byte, violations ...affiliate.Violation) {
	envelope := Envelope{StatusCode: status, Message: message, Error: http.StatusText(status), Code: reason}
	if reason == affiliate.ReasonValidation {
		for _, v := range violations {
			envelope.Details = append(envelope.Details, Detail{Field: v.Field, Message: v.Sentence()})
		}
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	// Encode cannot fail, because the envelope contains only strings and ints.
	_ = encoder.Encode(envelope)
	if object != nil {
		body.Truncate(body.Len() - len("}\n"))
		body.WriteByte(',')
		body.Write(bytes.TrimPrefix(object, []byte("{")))
		body.WriteByte('\n')
	}

	h := w.Header()
	h.Del("Content-Encoding")
	h.Del("Etag")
	h.Del("Last-Modified")
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(envelope.StatusCode)
	_, _ = w.Write(body.Bytes())
}
