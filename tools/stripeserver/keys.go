package stripeserver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
)

// accountPath is the path of the account of the key.
const accountPath = "/v1/account"

const missingKey = "You did not provide an API key. You need to provide your API key in the Authorization header, " +
	"using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY'). See https://stripe.com/docs/api#authentication " +
	"for details, or we can help at https://support.stripe.com/."

// SetAccount sets the account of a key. The account of a key that was never set is
// acct_test with a digest of the key.
func (s *Server) SetAccount(key, account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[key] = account
}

// RejectKey makes all later requests with a key fail with 401, as if the key had been
// deleted.
func (s *Server) RejectKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected[key] = true
}

// Deny removes permissions from a key. Requests that need one of them fail with 403. The
// names are the ones in Stripe's error messages, such as rak_webhook_write.
//
// The permission for GET /v1/account is rak_accounts_kyc_basic_read. In Stripe's dashboard
// it belongs to the setting that is named rak_connected_account_read in links to the
// dashboard, so denying rak_connected_account_read denies it too. A write permission does
// not include the read permission here. Deny both if a test needs that.
func (s *Server) Deny(key string, permissions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied[key] == nil {
		s.denied[key] = map[string]bool{}
	}
	for _, p := range permissions {
		s.denied[key][p] = true
		if p == "rak_connected_account_read" {
			s.denied[key]["rak_accounts_kyc_basic_read"] = true
		}
	}
}

// requestKey returns the API key of a request; empty if it has none. With Basic
// authentication, the key is the user name.
func requestKey(r *http.Request) string {
	if name, _, ok := r.BasicAuth(); ok {
		return name
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// isLive reports whether a key belongs to the live mode.
func isLive(key string) bool {
	return strings.HasPrefix(key, "rk_live_") || strings.HasPrefix(key, "sk_live_")
}

func isTest(key string) bool {
	return strings.HasPrefix(key, "rk_test_") || strings.HasPrefix(key, "sk_test_")
}

// authorize checks the key of a request and its permission. If ok is false, the answer is
// the error.
func (s *Server) authorize(r apiRequest) (a answer, ok bool) {
	if r.key == "" {
		return failure(http.StatusUnauthorized, apiError{Message: missingKey}), false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isLive(r.key) && !isTest(r.key) || s.rejected[r.key] {
		return invalidKey(r.key), false
	}
	permission := requiredPermission(r.Method, r.URL.Path)
	if s.denied[r.key][permission] {
		return s.permissionError(r.key, permission), false
	}
	return answer{}, true
}

// requiredPermission returns the permission for a request. It is empty if this package
// does not know it.
func requiredPermission(method, path string) string {
	if path == accountPath {
		return "rak_accounts_kyc_basic_read"
	}
	for _, r := range resources {
		if path == r.path() || strings.HasPrefix(path, r.path()+"/") {
			if method == http.MethodGet {
				return "rak_" + r.permission + "_read"
			}
			return "rak_" + r.permission + "_write"
		}
	}
	return ""
}

func invalidKey(key string) answer {
	return failure(http.StatusUnauthorized, apiError{Message: "Invalid API Key provided: " + maskKey(key)})
}

// permissionError returns Stripe's error for a missing permission. It does not name the
// permission if permission is empty.
func (s *Server) permissionError(key, permission string) answer {
	message := fmt.Sprintf("The provided key '%s' does not have the required permissions for this endpoint on account '%s'.", maskKey(key), s.accountID(key))
	if permission != "" {
		message += fmt.Sprintf(" Having the '%s' permission would allow this request to continue.", permission)
	}
	return failure(http.StatusForbidden, apiError{Message: message})
}

func (s *Server) accountID(key string) string {
	if account, found := s.accounts[key]; found {
		return account
	}
	digest := sha256.Sum256([]byte(key))
	return "acct_test" + hex.EncodeToString(digest[:6])
}

// maskKey replaces a key by stars, except for its prefix and its last four characters.
func maskKey(key string) string {
	prefix, rest := "", key
	if isLive(key) || isTest(key) {
		prefix, rest = key[:len("rk_test_")], key[len("rk_test_"):]
	}
	visible := min(4, len(rest)/2)
	return prefix + strings.Repeat("*", len(rest)-visible) + rest[len(rest)-visible:]
}
