package gateway

import (
	"strings"
	"testing"
)

const pagesPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

func TestPages_AreServedWithTheirPolicy(t *testing.T) {
	f := newFixture(t, nil)
	for path, contentType := range map[string]string{
		"/api/v1/notifications/unsubscribe": "text/html; charset=utf-8",
		"/verify-email":                     "text/html; charset=utf-8", "/reset-password": "text/html; charset=utf-8", "/accept-invite": "text/html; charset=utf-8",
		"/pages/account.js": "text/javascript; charset=utf-8", "/pages/account.css": "text/css; charset=utf-8",
	} {
		got := f.do("GET", path, "")
		if got.status != 200 || got.header.Get("Content-Type") != contentType || got.header.Get("Content-Security-Policy") != pagesPolicy ||
			got.header.Get("Referrer-Policy") != "no-referrer" || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: status %d with headers %v, want 200 with %s and the policy", path, got.status, got.header, contentType)
		}
		if strings.Contains(got.body, "http://") || strings.Contains(got.body, "https://") || strings.Contains(got.body, "<style") {
			t.Errorf("GET %s: the body contains another host or a style: %s", path, got.body)
		}
		if post := f.do("POST", path, "{}"); post.status != 405 && path != "/api/v1/notifications/unsubscribe" {
			t.Errorf("POST %s: status %d, want 405", path, post.status)
		}
	}
	for _, path := range []string{"/verify-email.html", "/pages/", "/pages/pages.go"} {
		if got := f.do("GET", path, ""); got.status != 404 {
			t.Errorf("GET %s: status %d, want 404", path, got.status)
		}
	}
}
