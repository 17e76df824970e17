package gateway

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/gateway/site"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/web"
)

const pagesPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// assetAddresses matches the addresses of the files of a page.
var assetAddresses = regexp.MustCompile(`/assets/[A-Za-z0-9_-]+\.(js|css)`)

func TestSite_PagesHaveTheirHeaders(t *testing.T) {
	if !site.Built(web.Files()) {
		t.Fatal("the web applications are not built: run make web")
	}
	f := newFixture(t, nil)
	for _, path := range []string{
		"/console", "/console/login", "/console/test/commissions", "/portal", "/portal/login", "/portal/commissions/1", "/portal/test", "/verify-email", "/reset-password", "/accept-invite",
		"/api/v1/notifications/unsubscribe",
	} {
		page := f.do("GET", path, "")
		want := map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": pagesPolicy, "Referrer-Policy": "no-referrer",
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		}
		for name, value := range want {
			if page.status != 200 || page.header.Get(name) != value {
				t.Errorf("GET %s: status %d with %s %q, want 200 with %q", path, page.status, name, page.header.Get(name), value)
			}
		}
		if !strings.Contains(page.header.Get("Permissions-Policy"), "camera=()") {
			t.Errorf("GET %s: Permissions-Policy is %q, want no camera", path, page.header.Get("Permissions-Policy"))
		}
		if strings.Contains(page.body, "http://") || strings.Contains(page.body, "https://") || strings.Contains(page.body, "<style") || strings.Contains(page.body, "<script>") {
			t.Errorf("GET %s: the page contains another host, a style or a script: %s", path, page.body)
		}
		if post := f.do("POST", path, "{}"); post.status != 405 && path != "/api/v1/notifications/unsubscribe" {
			t.Errorf("POST %s: status %d, want 405", path, post.status)
		}
	}
}

func TestSite_FilesAreCachedForever(t *testing.T) {
	f := newFixture(t, nil)
	types := map[string]string{"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
	for _, path := range []string{"/console", "/portal", "/docs"} {
		addresses := assetAddresses.FindAllString(f.do("GET", path, "").body, -1)
		found := map[string]bool{}
		for _, address := range addresses {
			kind := address[strings.LastIndex(address, ".")+1:]
			found[kind] = true
			file := f.do("GET", address, "")
			if file.status != 200 || file.header.Get("Content-Type") != types[kind] || file.header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
				t.Errorf("GET %s: status %d with headers %v, want 200 with %s, cached for a year", address, file.status, file.header, types[kind])
			}
		}
		if kinds := slices.Sorted(maps.Keys(found)); !slices.Equal(kinds, []string{"css", "js"}) {
			t.Errorf("GET %s: the page loads files of the kinds %q, want css and js", path, kinds)
		}
	}
}

// maxFirstLoad is the size of the files that an application loads first, with gzip
// (docs/adr/0018-web-applications-without-a-second-build-system.md).
var maxFirstLoad = map[string]int{"/console": 280_000, "/portal": 170_000}

func TestSite_FirstLoadIsSmall(t *testing.T) {
	f := newFixture(t, nil)
	for path, limit := range maxFirstLoad {
		size := len(f.do("GET", path, "", "Accept-Encoding", "gzip").body)
		for _, address := range assetAddresses.FindAllString(f.do("GET", path, "").body, -1) {
			size += len(f.do("GET", address, "", "Accept-Encoding", "gzip").body)
		}
		if size > limit || size < 85_000 {
			t.Errorf("%s first loads %d bytes, want at most %d", path, size, limit)
		}
	}
}

func TestSite_DescribesProgrammes(t *testing.T) {
	text := `Write "about" us <script>`
	program := func(description *string) *affiliatev1.PortalProgram {
		return &affiliatev1.PortalProgram{
			Name: `</title><img src=x onerror=alert(1)>`, Rate: "20% of each sale", Description: description,
			Branding: &affiliatev1.PortalBranding{Name: "Käfer & Co"},
		}
	}
	const title = "&lt;/title&gt;&lt;img src=x onerror=alert(1)&gt; · Käfer &amp; Co"
	const plain = "<title>Partner portal</title>\n<meta name=\"robots\" content=\"noindex\">"
	notFound := coreError(codes.NotFound, "NOT_FOUND", "Not found.", nil)
	for name, tc := range map[string]struct {
		path    string
		want    []string
		mode    affiliatev1.Mode // of the call, or 0 for no call
		program *affiliatev1.PortalProgram
		err     error
	}{
		"description": {
			path: "/portal/kaefer/friends", mode: affiliatev1.Mode_MODE_LIVE, program: program(&text),
			want: []string{
				"<title>" + title + "</title>", `<meta name="description" content="Write &#34;about&#34; us &lt;script&gt;">`, `<meta property="og:title" content="` + title,
				`<script type="application/json" id="program">{"id":"",`, `"description":"Write \"about\" us \u003cscript\u003e",`,
			},
		},
		"rate, in test mode": {
			path: "/portal/test/kaefer/friends", mode: affiliatev1.Mode_MODE_TEST, program: program(nil),
			want: []string{"<title>" + title + "</title>", `content="20% of each sale"`},
		},
		"unknown":                 {path: "/portal/kaefer/friends", mode: affiliatev1.Mode_MODE_LIVE, err: notFound, want: []string{plain}},
		"the core does not work":  {path: "/portal/kaefer/friends", mode: affiliatev1.Mode_MODE_LIVE, err: coreError(codes.Internal, "INTERNAL_ERROR", "Internal error.", nil), want: []string{plain}},
		"a page of the portal":    {path: "/portal/programs/1", want: []string{plain}},
		"a page in test mode":     {path: "/portal/test/payouts/method", want: []string{plain}},
		"more than two segments":  {path: "/portal/kaefer/friends/more", want: []string{plain}},
		"one segment":             {path: "/portal/kaefer", want: []string{plain}},
		"one segment, test mode":  {path: "/portal/test/kaefer", want: []string{plain}},
		"a page of the console":   {path: "/console/commissions/1", want: []string{"<title>Console</title>"}},
		"outside of the portal":   {path: "/accept-invite", want: []string{plain}},
		"the portal in test mode": {path: "/portal/test", want: []string{plain}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
				if tc.err != nil {
					return nil, tc.err
				}
				return tc.program, nil
			})
			page := f.do("GET", tc.path, "")
			for _, want := range tc.want {
				if page.status != 200 || !strings.Contains(page.body, want) {
					t.Errorf("status %d, want 200 with %s:\n%s", page.status, want, page.body)
				}
			}
			if tc.program == nil && strings.Contains(page.body, "<script type=\"application/json\"") {
				t.Errorf("the page contains a programme:\n%s", page.body)
			}
			if tc.mode == affiliatev1.Mode_MODE_UNSPECIFIED {
				if calls := f.core.takeCalls(); len(calls) > 0 {
					t.Errorf("the core received the calls %v, want none", calls)
				}
				return
			}
			want := &affiliatev1.GetPortalProgramRequest{WorkspaceSlug: "kaefer", ProgramSlug: "friends", Mode: tc.mode}
			call := requireOneCall(t, f.core, affiliatev1.PortalService_GetPortalProgram_FullMethodName)
			if !proto.Equal(call.request, want) || len(call.metadata.Get("x-client-ip")) != 1 {
				t.Errorf("the core received %v with %v, want %v with the address of the client", call.request, call.metadata, want)
			}
		})
	}
}

func TestSite_UnknownPaths(t *testing.T) {
	f := newFixture(t, nil)
	for path, want := range map[string]struct {
		status   int
		location string
	}{
		"/":                   {307, "/console"},
		"/console/":           {307, "/console"},
		"/portal/":            {307, "/portal"},
		"/portal/login/":      {307, "/portal/login"},
		"/docs/":              {307, "/docs"},
		"/portal//login":      {404, ""},
		"/portal/../console/": {404, ""},
		"//evil.example/":     {404, ""},
		"/assets/unknown.js":  {404, ""},
		"/assets/portal.html": {404, ""},
		"/assets/":            {404, ""},
		"/docs/index.html":    {404, ""},
		"/verify-email.html":  {404, ""},
		"/portals":            {404, ""},
		"/consoles":           {404, ""},
	} {
		if got := f.do("GET", path, ""); got.status != want.status || got.header.Get("Location") != want.location {
			t.Errorf("GET %s: status %d with Location %q, want %d with %q", path, got.status, got.header.Get("Location"), want.status, want.location)
		}
	}
}
