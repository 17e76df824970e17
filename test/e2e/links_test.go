package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// getShortLink requests a short link with GET and without headers. It does not follow the
// redirect.
func (sys *system) getShortLink(t testing.TB, short string) response {
	t.Helper()
	return sys.visit(t, http.MethodGet, short, nil)
}

// visit requests a short link and does not follow the redirect.
func (sys *system) visit(t testing.TB, method, short string, header http.Header) response {
	t.Helper()
	httpClient := *sys.http
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := sys.client()
	client.header = header.Clone()
	client.sys = &system{http: &httpClient}
	path := short[strings.Index(short, "/r/"):]
	return client.send(t, method, sys.edge+path, nil)
}

// awaitLink waits until the collector redirects a short link.
func (sys *system) awaitLink(t *testing.T, short string) {
	t.Helper()
	eventually(t, waitTimeout, "the collector redirects the link", func() error {
		if got := sys.visit(t, http.MethodHead, short, nil).status; got != http.StatusFound {
			return fmt.Errorf("the collector returns %d", got)
		}
		return nil
	})
}

func testLinks(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", object{"landingUrl": "https://shop.example/welcome", "allowedDomains": []string{"shop.example", "*.shop.example"}, "linkParam": "ref"})
	links := f.programPath() + "/links"
	f.merchant.get(t, links).wantStatus(http.StatusOK).wantFields(object{
		"total": 1, "data.0.isDefault": true, "data.0.code": f.code, "data.0.destinationUrl": "https://shop.example/welcome",
		"data.0.url": "https://shop.example/welcome?ref=" + f.code,
	})
	body := object{
		"participantId": f.participant, "destinationUrl": "https://blog.shop.example/beans?size=1&utm_source=old#taste", "code": "Beans-1",
		"subId": "post 7", "utm": object{"source": "pia", "campaign": "spring"},
	}
	link := f.merchant.post(t, links, body).wantStatus(http.StatusCreated).wantFields(object{
		"code": "beans-1", "isDefault": false, "clicks": 0, "conversions": 0,
		"url": "https://blog.shop.example/beans?size=1&ref=beans-1&sub_id=post+7&utm_source=pia&utm_campaign=spring#taste",
	})
	f.merchant.post(t, links, body).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	created := f.merchant.post(t, links, object{"participantId": f.participant, "destinationUrl": "https://shop.example"}).wantStatus(http.StatusCreated)
	if code := created.text("code"); !strings.HasPrefix(code, f.code+"-") {
		t.Errorf("the new link has the code %q, want the prefix %s-", code, f.code)
	}

	// Destinations outside the allowed domains are rejected, to prevent open redirects.
	for _, foreignURL := range []string{
		"https://evil.example/", "https://shop.example.evil.example/", "https://shop.example@evil.example/", "//evil.example",
		"https://evil.example\\.shop.example/", "javascript:alert(1)", "https://evilshop.example/", "ftp://shop.example/",
	} {
		body := object{"participantId": f.participant, "destinationUrl": foreignURL}
		f.merchant.post(t, links, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "destinationUrl")
		f.merchant.patch(t, links+"/"+link.text("id"), object{"destinationUrl": foreignURL}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "destinationUrl")
	}

	// Without allowed domains, links lead to the hosts of the programme's pages and their
	// subdomains. The refusal names the allowed hosts.
	second := f.merchant.createProgram(t, object{"slug": uniqueName("slug"), "websiteUrl": "https://shop.example", "landingUrl": "https://land.example/start", "allowedDomains": []string{}})
	participant := f.partner.post(t, "/api/v1/partner/programs/"+second+"/apply", object{}).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, "/api/v1/programs/"+second+"/partners/"+participant+"/approve", nil)
	for _, host := range []string{"shop.example", "blog.shop.example", "land.example", "a.land.example"} {
		f.merchant.post(t, "/api/v1/programs/"+second+"/links", object{"participantId": participant, "destinationUrl": "https://" + host}).wantStatus(http.StatusCreated)
	}
	allowed := "shop.example, *.shop.example, land.example, *.land.example"
	f.merchant.post(t, "/api/v1/programs/"+second+"/links", object{"participantId": participant, "destinationUrl": "https://evil.example"}).
		wantError(http.StatusBadRequest, "VALIDATION_ERROR", "destinationUrl").
		wantFields(object{"context": object{"allowedHosts": allowed}, "details.0.message": "destinationUrl must have one of the programme's allowed hosts: " + allowed + "."})

	// Only the partner of the link may change it.
	f.partner.patch(t, "/api/v1/partner/links/"+link.text("id"), object{"subId": nil, "utm": object{"campaign": nil}}).wantStatus(http.StatusOK).wantFields(object{
		"subId": nil, "utm.source": "pia", "utm.campaign": nil,
	})
	other := sys.newPartner(t).inMode("test")
	other.patch(t, "/api/v1/partner/links/"+link.text("id"), object{"subId": "mine"}).wantOutcome(notFound)
	other.post(t, "/api/v1/partner/links", object{"programId": f.program, "destinationUrl": "https://shop.example"}).wantOutcome(notFound)
	f.partner.get(t, "/api/v1/partner/links?programId="+f.program).wantStatus(http.StatusOK).wantFields(object{"total": 3})
	other.get(t, "/api/v1/partner/links").wantStatus(http.StatusOK).wantFields(object{"total": 0})

	// A deleted link cannot be read, but its code stays reserved.
	f.merchant.do(t, http.MethodDelete, links+"/"+link.text("id"), nil).wantStatus(http.StatusNoContent)
	f.merchant.get(t, links+"/"+link.text("id")).wantOutcome(notFound)
	f.merchant.post(t, links, body).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	f.merchant.get(t, links).wantStatus(http.StatusOK).wantFields(object{"total": 2})
	f.merchant.get(t, links+"?search="+f.code[:4]).wantStatus(http.StatusOK).wantFields(object{"total": 2})
	defaultLink := f.merchant.get(t, links+"?participantId="+f.participant+"&page=2&pageSize=1").wantStatus(http.StatusOK).text("data.0.id")
	f.merchant.do(t, http.MethodDelete, links+"/"+defaultLink, nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
}

func testLinksLimitPerParticipant(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	create := func(int) response {
		return f.partner.post(t, "/api/v1/partner/links", object{"programId": f.program, "destinationUrl": "https://shop.example"})
	}
	for i := range 40 {
		create(i).wantStatus(http.StatusCreated)
	}
	if got := countStatuses(concurrently(20, create)); got["201"] != 10 || got["422 LINK_LIMIT_EXCEEDED"] != 10 {
		t.Errorf("20 concurrent requests got %v, want ten 201 and ten LINK_LIMIT_EXCEEDED", got)
	}
	f.merchant.post(t, f.programPath()+"/links", object{"participantId": f.participant, "destinationUrl": "https://shop.example"}).
		wantError(http.StatusUnprocessableEntity, "LINK_LIMIT_EXCEEDED")
	f.merchant.get(t, f.programPath()+"/links").wantStatus(http.StatusOK).wantFields(object{"total": 51})
}

// testRedirect checks that a visit to a short link has the same effect as a click of the
// browser script: the stored clicks are equal, and both can earn a commission.
func testRedirect(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	link := f.merchant.post(t, f.programPath()+"/links", object{
		"participantId": f.participant, "destinationUrl": "https://shop.example/beans?size=1", "code": "beans", "subId": "s1", "utm": object{"source": "pia"},
	}).wantStatus(http.StatusCreated)
	short := link.text("shortUrl")
	sys.awaitLink(t, short)

	browser := http.Header{"Referer": {"https://blog.example/post"}, "User-Agent": {"Browser/1"}}
	got := sys.visit(t, http.MethodGet, short+"?sub_id=s2&utm_medium=mail&next=https://evil.example", browser)
	if got.status != http.StatusFound || got.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the short link returns %d with the headers %v, want 302 and Cache-Control no-store", got.status, got.header)
	}
	target, err := url.Parse(got.header.Get("Location"))
	if err != nil || target.Host != "shop.example" || target.Path != "/beans" {
		t.Fatalf("the short link redirects to %v, %v; want https://shop.example/beans", target, err)
	}
	query := target.Query()
	click := query.Get("aff_click_id")
	for name, want := range map[string]string{"via": "beans", "size": "1", "sub_id": "s2", "utm_source": "pia", "utm_medium": "mail", "next": ""} {
		if query.Get(name) != want {
			t.Errorf("the parameter %s is %q in %v, want %q", name, query.Get(name), target, want)
		}
	}
	f.report(t, purchase(click)).wantStatus(http.StatusCreated).wantFields(object{"attributed": true, "attribution.click_id": click, "attribution.method": "click"})

	// The browser script registers a click of the same visitor for the same link.
	script := sys.client().withCredential(f.publicKey).withHeader("User-Agent", "Browser/1").send(t, http.MethodPost, sys.edge+"/v1/clicks", object{
		"referral_code": "beans", "url": "https://shop.example/beans", "referrer": "https://blog.example/post", "sub_id": "s2",
		"utm": object{"source": "pia", "medium": "mail"},
	}).wantStatus(http.StatusCreated).text("click_id")
	record := func(id string) (row map[string]any) {
		eventually(t, waitTimeout, "the click is stored", func() error {
			return sys.oneRow(t, &row, `
				select workspace_id, mode, program_id, participant_id, link_id, referral_code, landing_url, referrer_domain, utm_source, utm_medium,
					sub_id, consent, ua_hash, ip_prefix, is_bot, foreign_origin, expires_at - received_at as window
				from clicks where id = $1`, id)
		})
		return row
	}
	if a, b := fmt.Sprint(record(click)), fmt.Sprint(record(script)); a != b {
		t.Errorf("the clicks differ:\nredirect %s\nscript   %s", a, b)
	}
	if id := fmt.Sprintf("%x", record(click)["link_id"]); id != strings.ReplaceAll(link.text("id"), "-", "") {
		t.Errorf("the click has the link id %s, want %s", id, link.text("id"))
	}
	eventually(t, waitTimeout, "both clicks and the sale are counted", func() error {
		current := f.merchant.get(t, f.programPath()+"/links/"+link.text("id")).wantStatus(http.StatusOK)
		if current.number("clicks") != 2 || current.number("conversions") != 1 {
			return fmt.Errorf("%d clicks and %d conversions are counted", current.number("clicks"), current.number("conversions"))
		}
		return nil
	})

	// A HEAD request is redirected, but not stored as a click. The third stored click is
	// the visit after the HEAD request.
	head := sys.visit(t, http.MethodHead, short, nil)
	if head.status != http.StatusFound || strings.Contains(head.header.Get("Location"), "aff_click_id") {
		t.Errorf("HEAD returns %d and the location %s, want 302 without a click id", head.status, head.header.Get("Location"))
	}
	last, err := url.Parse(sys.getShortLink(t, short).header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	record(last.Query().Get("aff_click_id"))
	if n := sys.count(t, "select count(*) from clicks where link_id = $1", link.text("id")); n != 3 {
		t.Errorf("%d clicks are stored, want 3", n)
	}
	// For a short link that does not exist, the collector returns an HTML page.
	for _, key := range []string{"/r/AAAAAAAAAA", "/r/short", "/r/", "/r/AAAAAAAAAAA", "/r/AAAAAAAAA%2F"} {
		if got := sys.visit(t, http.MethodGet, key, nil); got.status != http.StatusNotFound || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("GET %s returns %d and the type %s, want 404 and text/html", key, got.status, got.header.Get("Content-Type"))
		}
	}
	f.merchant.do(t, http.MethodDelete, f.programPath()+"/links/"+link.text("id"), nil).wantStatus(http.StatusNoContent)
	eventually(t, waitTimeout, "the collector rejects the deleted link", func() error {
		if got := sys.getShortLink(t, short).status; got != http.StatusNotFound {
			return fmt.Errorf("the collector returns %d", got)
		}
		return nil
	})
}

// oneRow reads the only row that a query returns into a map from column names to values.
func (sys *system) oneRow(t *testing.T, row *map[string]any, sql string, args ...any) (err error) {
	t.Helper()
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		rows, queryErr := conn.Query(context.Background(), sql, args...)
		if queryErr != nil {
			return queryErr
		}
		*row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
		return nil
	})
	return err
}

// TestOrigins checks clicks from an origin that the workspace does not allow. With the
// origin policy "observe", which is the default, they are stored and marked. With the
// policy "enforce" they are rejected.
func TestOrigins(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	click := func(origin string) response {
		client := sys.client().withCredential(f.publicKey)
		if origin != "" {
			client = client.withHeader("Origin", origin)
		}
		return client.send(t, http.MethodPost, sys.edge+"/v1/clicks", object{"referral_code": f.code})
	}
	f.click(t)
	markedClicks := func() int { return sys.count(t, "select count(*) from clicks where foreign_origin") }
	f.merchant.patch(t, workspacePath, object{"allowedOrigins": []string{"https://*.shop.example"}}).wantStatus(http.StatusOK)
	eventually(t, waitTimeout, "a foreign click is marked", func() error {
		click("https://other.example").wantStatus(http.StatusCreated)
		if markedClicks() == 0 {
			return fmt.Errorf("no click is marked")
		}
		return nil
	})
	f.merchant.patch(t, workspacePath, object{"originPolicy": "enforce"}).wantStatus(http.StatusOK)
	eventually(t, waitTimeout, "a foreign click is rejected", func() error {
		if got := click("https://other.example"); got.status != http.StatusForbidden {
			return fmt.Errorf("the collector returns %d", got.status)
		}
		return nil
	})
	click("https://other.example").wantError(http.StatusForbidden, "ORIGIN_NOT_ALLOWED")
	click("https://shop.example").wantError(http.StatusForbidden, "ORIGIN_NOT_ALLOWED")
	click("https://www.shop.example").wantStatus(http.StatusCreated)
	click("").wantStatus(http.StatusCreated) // a click from a server has no Origin header
	f.merchant.patch(t, workspacePath, object{"originPolicy": "enforce_strict"}).wantStatus(http.StatusOK)
	eventually(t, waitTimeout, "a click without an origin is rejected", func() error {
		if got := click(""); got.status != http.StatusForbidden {
			return fmt.Errorf("the collector returns %d", got.status)
		}
		return nil
	})
	click("https://www.shop.example").wantStatus(http.StatusCreated)
}
