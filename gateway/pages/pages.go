// Package pages serves the pages to which the links in mails lead: a page that verifies
// an address, a page that sets a new password, a page that accepts an invitation, and a
// page that disables the mails of a category.
//
// Guarantees: a GET request changes nothing. The token is in the fragment of the link,
// which browsers do not send to the server. Only the token of an unsubscribe link is in
// the query, because mail programs post to this link (RFC 8058). A script sends the token
// to the API when the user submits the form of the page. The pages load nothing from other
// hosts, and their Content-Security-Policy forbids such requests, inline scripts and
// frames.
//
// Not guaranteed: that the pages work without JavaScript.
package pages

import (
	"embed"
	"net/http"
	"strings"

	"github.com/tributary-hq/tributary/gateway/embedded"
)

//go:embed *.html account.js account.css
var files embed.FS

const (
	// assets is the folder of the files that the pages load.
	assets = "/pages"
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

// unsubscribePage is the path of the page that disables mails. It is also the path of the
// API to which mail programs post.
const unsubscribePage = "/api/v1/notifications/unsubscribe"

// Handlers returns the handlers of the pages and their files, by path. The path of a page
// is the name of its file without the extension, except for unsubscribePage.
func Handlers() (map[string]http.HandlerFunc, error) { return embedded.Handlers(files, policy, pathOf) }

func pathOf(file string) string {
	switch page, isPage := strings.CutSuffix(file, ".html"); {
	case !isPage:
		return assets + "/" + file
	case page == "unsubscribe":
		return unsubscribePage
	default:
		return "/" + page
	}
}
