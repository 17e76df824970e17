package collector

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/publicsuffix"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/collector/snippet"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

// scriptPath and scriptShortPath are the paths of the current version of the browser script, and scriptInfoPath is the
// path of its properties. scriptDocuments adds a path with a hash of the script, for pages that pin a version of the
// script. Only collectors with exactly this version serve that path.
const (
	scriptPath      = "/v1/script.js"
	scriptShortPath = "/v1/"
	scriptInfoPath  = "/v1/script.json"
)

var (
	scriptType      = []string{"text/javascript; charset=utf-8"}
	crossOrigin     = []string{"cross-origin"}
	varyEncoding    = []string{"Accept-Encoding"}
	gzipEncoding    = []string{"gzip"}
	cacheHour       = []string{"public, max-age=3600, stale-while-revalidate=86400"}
	cacheYear       = []string{"public, max-age=31536000, immutable"}
	cacheRevalidate = []string{"no-cache"}
)

type document struct {
	contentType         []string
	cacheControl        []string
	etag                []string // a weak tag, because it is the same for both bodies
	plainBody, gzipBody []byte   // gzipBody is nil if the file is never compressed
}

var documents = scriptDocuments(snippet.Script)

func scriptDocuments(script []byte) map[string]*document {
	sum := sha256.Sum256(script)
	hash := hex.EncodeToString(sum[:8])
	pinned := "/v1/script." + hash + ".js"
	digest := sha512.Sum384(script)
	compressed := httpedge.Gzip(script)
	properties, _ := json.Marshal(map[string]any{ // cannot fail for strings and numbers
		"url": pinned, "integrity": "sha384-" + base64.StdEncoding.EncodeToString(digest[:]), "bytes": len(script), "gzip_bytes": len(compressed),
	})
	etag := []string{`W/"` + hash + `"`}
	current := &document{scriptType, cacheHour, etag, script, compressed}
	return map[string]*document{
		scriptPath:      current,
		scriptShortPath: current,
		pinned:          {scriptType, cacheYear, etag, script, compressed},
		scriptInfoPath:  {jsonType, cacheRevalidate, etag, append(properties, '\n'), nil},
	}
}

func (c *Collector) serveDocument(w http.ResponseWriter, r *http.Request, d *document) {
	if !c.acceptsGet(w, r) {
		return
	}
	h := w.Header()
	// Caches store the response, so it must not contain one client's request id.
	delete(h, httpedge.RequestIDHeader)
	h["Cache-Control"] = d.cacheControl
	h["Etag"] = d.etag
	h["Cross-Origin-Resource-Policy"] = crossOrigin
	body := d.plainBody
	if d.gzipBody != nil {
		h["Vary"] = varyEncoding
		if httpedge.AcceptsGzip(r.Header) {
			body = d.gzipBody
			h["Content-Encoding"] = gzipEncoding
		}
	}
	if httpedge.ETagMatches(r.Header, d.etag[0]) {
		delete(h, "Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h["Content-Type"] = d.contentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["X-Content-Type-Options"] = nosniff
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// cookieAge returns how long a browser keeps the cookie with the click id.
func cookieAge(codeEntry *edgev1.ReferralCodeEntry) time.Duration {
	if codeEntry == nil {
		return unknownWindowCookieAge
	}
	return min(time.Duration(codeEntry.AttributionWindowDays)*24*time.Hour, maxCookieAge)
}

// setCookie sets a cookie with the click id if the request came through a first-party
// proxy, which has the same origin as the page. For other requests the script sets the
// cookie. A cookie of the server is better: if a script sets a cookie, Safari deletes the
// cookie after at most seven days. If the visitor denied consent, setCookie sets no
// cookie. An existing cookie stays if the programme attributes conversions to the first
// click, or if the collector could not look up the programme.
func setCookie(h http.Header, r *http.Request, id affiliate.ClickID, codeEntry *edgev1.ReferralCodeEntry, consent click.Consent) {
	if consent == click.ConsentDenied || r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		return
	}
	if codeEntry == nil || codeEntry.AttributionModel == string(program.FirstClick) {
		if existing, err := r.Cookie(link.ClickIDParam); err == nil {
			if _, valid := affiliate.ParseID[affiliate.ClickID](existing.Value); valid {
				return
			}
		}
	}
	page, err := url.Parse(r.Header.Get("Origin"))
	if err != nil {
		page = &url.URL{}
	}
	cookie := http.Cookie{
		Name: link.ClickIDParam, Value: id.String(), Path: "/", Domain: registrableDomain(page.Hostname()),
		MaxAge: int(cookieAge(codeEntry) / time.Second), SameSite: http.SameSiteLaxMode, Secure: page.Scheme != "http",
	}
	h["Set-Cookie"] = []string{cookie.String()}
}

// notInHost reports whether a character cannot be in a plain host name. Browsers reject
// cookies for hosts with such characters.
func notInHost(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-'
}

// registrableDomain returns the widest domain for which a host may set a cookie. It
// returns "" for addresses, names without a dot and public suffixes. A cookie of such a
// host must have no domain, so that it is limited to the host itself.
func registrableDomain(host string) string {
	if _, err := netip.ParseAddr(host); err == nil || strings.ContainsFunc(host, notInHost) {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(host))
	if err != nil {
		return ""
	}
	return domain
}

const (
	// unknownWindowCookieAge is the maximum age of the cookie if the attribution window
	// is not known because the directory cannot be read.
	unknownWindowCookieAge = 30 * 24 * time.Hour
	// maxCookieAge is the longest age that browsers accept.
	maxCookieAge = 400 * 24 * time.Hour
)

// appendResponse appends the JSON body of the response to a click. The order of its
// fields never changes. codeEntry is nil if the referral code could not be looked up.
func appendResponse(dst []byte, issued *issuedClick, mode affiliate.Mode, codeEntry *edgev1.ReferralCodeEntry, repeated bool, now time.Time) []byte {
	dst = append(dst, `{"click_id":"`...)
	dst = appendUUID(dst, issued.id.UUID)
	dst = append(dst, `","program_id":`...)
	if codeEntry == nil {
		dst = append(dst, "null"...)
	} else {
		program, _ := affiliate.IDFromBytes[affiliate.ProgramID](codeEntry.ProgramId)
		dst = append(dst, '"')
		dst = appendUUID(dst, program.UUID)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"mode":"`...)
	dst = append(dst, mode...)
	dst = append(dst, `","recorded":true,"deduplicated":`...)
	dst = strconv.AppendBool(dst, repeated)
	dst = append(dst, `,"expires_at":`...)
	if codeEntry == nil {
		dst = append(dst, `null,"attribution_window_days":null`...)
	} else {
		days := int(codeEntry.AttributionWindowDays)
		dst = append(dst, '"')
		dst = affiliate.AppendTime(dst, click.WindowEnd(issued.receivedAt, days))
		dst = append(dst, `","attribution_window_days":`...)
		dst = strconv.AppendInt(dst, int64(days), 10)
	}
	dst = append(dst, `,"cookie_max_age":`...)
	dst = strconv.AppendInt(dst, int64(cookieAge(codeEntry)/time.Second), 10)
	dst = append(dst, `,"attribution_model":`...)
	dst = appendQuoted(dst, codeEntry.GetAttributionModel(), codeEntry.GetAttributionModel() != "")
	dst = append(dst, `,"discount":`...)
	dst = appendDiscount(dst, codeEntry.GetDiscount(), now)
	return append(dst, "}\n"...)
}

// appendDiscount appends the discount that a landing page may offer, or null. It checks
// the expiry time of the promo code, because the core may not have updated the directory
// since the promo code expired.
func appendDiscount(dst []byte, d *edgev1.Discount, now time.Time) []byte {
	if d == nil || d.ExpiresAtMs != 0 && now.UnixMilli() > d.ExpiresAtMs {
		return append(dst, "null"...)
	}
	fixed := d.Type == string(promocode.DiscountFixed)
	dst = append(dst, `{"promo_code":`...)
	dst = appendText(dst, d.PromoCode)
	dst = append(dst, `,"type":`...)
	dst = appendText(dst, d.Type)
	dst = append(dst, `,"value":`...)
	if fixed {
		dst = strconv.AppendInt(dst, d.Value, 10)
		dst = append(dst, `,"currency":`...)
		dst = appendText(dst, d.Currency)
	} else {
		dst = append(dst, program.Percent(d.Value)...)
	}
	return append(dst, '}')
}

// appendText appends text as a JSON string with all necessary escapes.
func appendText(dst []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // Marshal cannot fail for a string
	return append(dst, quoted...)
}

func appendUUID(dst []byte, id uuid.UUID) []byte {
	for i, part := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// appendQuoted appends text in quotes, or null if present is false. text must not contain
// characters that JSON escapes.
func appendQuoted(dst []byte, text string, present bool) []byte {
	if !present {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
