// Package browsersession keeps the session of a browser in a cookie. The pages of the service
// call the routes below Prefix instead of those of the API that return refresh tokens.
//
// The cookie contains a secret that the core gives for the refresh token of a login
// (AccountService.BindBrowser). With the cookie a page gets access tokens, which it sends to
// the API as bearer tokens. The API itself ignores cookies.
//
// Scripts cannot read the cookie (HttpOnly). Browsers send it only to the host that has set it
// (the prefix __Host-), over HTTPS (Secure), and not with requests of other sites
// (SameSite=Strict). CheckOrigin also refuses requests of other origins of the same site.
//
// The package does not decode requests or encode responses. Package gateway does this as for
// all other routes.
package browsersession

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

// Prefix is the beginning of the paths of the routes.
const Prefix = "/session/"

// Kind is a kind of account. A browser can have one session of each kind at the same time.
type Kind struct {
	// Name is the kind in paths.
	Name  string
	Proto affiliatev1.AccountKind
	// Opening has the routes that open a session, as the ends of their paths. The API has the same routes
	// below /api/v1/auth/.
	Opening []string
}

// Kinds has all kinds of accounts.
var Kinds = []Kind{
	{"merchant", affiliatev1.AccountKind_ACCOUNT_KIND_MERCHANT, []string{"login", "login/second-factor", "register", "accept-invite"}},
	{"partner", affiliatev1.AccountKind_ACCOUNT_KIND_PARTNER, []string{"login", "login/second-factor", "register"}},
}

// Sessions opens, renews and ends the sessions of browsers.
type Sessions struct {
	// Accounts calls the core.
	Accounts affiliatev1.AccountServiceClient
	// TrustedProxies are the proxies whose headers may report that the client used HTTPS.
	TrustedProxies []netip.Prefix

	protection http.CrossOriginProtection
}

// CheckOrigin returns an error if a page of another origin has sent the request.
func (s *Sessions) CheckOrigin(r *http.Request) error { return s.protection.Check(r) }

// Open exchanges the refresh token of a new session for a cookie. If keepLoggedIn is false, the
// browser deletes the cookie when it is closed.
func (s *Sessions) Open(ctx context.Context, w http.ResponseWriter, r *http.Request, kind Kind, keepLoggedIn bool, refreshToken string) error {
	bound, err := s.Accounts.BindBrowser(ctx, &affiliatev1.BindBrowserRequest{RefreshToken: refreshToken, Kind: kind.Proto, KeepLoggedIn: keepLoggedIn})
	if err != nil {
		return err
	}
	cookie := s.cookie(r, kind)
	cookie.Value = bound.GetBrowserSecret()
	if keepLoggedIn {
		cookie.MaxAge = int(bound.GetExpiresIn())
	}
	http.SetCookie(w, cookie)
	return nil
}

// ErrNoCookie means that the request has no usable cookie.
var ErrNoCookie = errors.New("the request has no cookie of a session")

// Renew returns a new access token for the cookie of the request. If the cookie is missing
// or not valid, it deletes the cookie. After any other error the cookie stays, so that
// users stay logged in during an outage or after too many requests. Errors: ErrNoCookie.
func (s *Sessions) Renew(ctx context.Context, w http.ResponseWriter, r *http.Request, kind Kind, options ...grpc.CallOption) (*affiliatev1.SessionResponse, error) {
	secret := s.secret(r, kind)
	if secret == "" {
		s.deleteCookie(w, r, kind)
		return nil, ErrNoCookie
	}
	request := &affiliatev1.RenewBrowserSessionRequest{BrowserSecret: secret, Kind: kind.Proto}
	response, err := s.Accounts.RenewBrowserSession(ctx, request, options...)
	if status.Code(err) == codes.Unauthenticated {
		s.deleteCookie(w, r, kind)
	}
	return response, err
}

// End ends the session of the cookie, if there is one, and deletes the cookie. After an error
// the cookie stays, so that the user can try again.
func (s *Sessions) End(ctx context.Context, w http.ResponseWriter, r *http.Request, kind Kind, options ...grpc.CallOption) error {
	if secret := s.secret(r, kind); secret != "" {
		if _, err := s.Accounts.EndBrowserSession(ctx, &affiliatev1.EndBrowserSessionRequest{BrowserSecret: secret}, options...); err != nil {
			return err
		}
	}
	s.deleteCookie(w, r, kind)
	return nil
}

// secretLength is the length of a secret: 32 bytes in base64url.
const secretLength = 43

// secret returns the secret in the cookie of the request, or "".
func (s *Sessions) secret(r *http.Request, kind Kind) string {
	cookie, err := r.Cookie(s.cookie(r, kind).Name)
	if err != nil || len(cookie.Value) != secretLength {
		return ""
	}
	return cookie.Value
}

func (s *Sessions) deleteCookie(w http.ResponseWriter, r *http.Request, kind Kind) {
	cookie := s.cookie(r, kind)
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
}

// cookie returns the cookie of a kind without a value. Browsers refuse the prefix __Host- and the
// attribute Secure over plain HTTP, which is only allowed for development.
func (s *Sessions) cookie(r *http.Request, kind Kind) *http.Cookie {
	cookie := &http.Cookie{Name: "tributary-" + kind.Name, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if httpedge.Secure(r, s.TrustedProxies, false) {
		cookie.Name, cookie.Secure = "__Host-"+cookie.Name, true
	}
	return cookie
}
