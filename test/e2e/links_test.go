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

// follow requests a short link without following the redirect.
func (sys *system) follow(t testing.TB, short string) response {
	t.Helper()
	return sys.visit(t, http.MethodGet, short, nil)
}

func (sys *system) visit(t testing.TB, method, short string, header http.Header) response {
	t.Helper()
	stay := *sys.http
	stay.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	at := sys.caller()
	at.header = header.Clone()
	at.sys = &system{http: &stay}
	path := short[strings.Index(short, "/r/"):]
	return at.send(t, method, sys.edge+path, nil)
}

// awaitLink waits until the collector redirects a short link.
func (sys *system) awaitLink(t *testing.T, short string) {
	t.Helper()
	eventually(t, waitTimeout, "the collector redirects the link", func() error {
		if got := sys.visit(t, http.MethodHead, short, nil).status; got != http.StatusFound {
			return fmt.Errorf("it returns %d", got)
		}
		return nil
	})
}

func TestLinks(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", object{"landingUrl": "https://shop.example/welcome", "allowedDomains": []string{"shop.example", "*.shop.example"}, "linkParam": "ref"})
	links := w.programPath() + "/links"
	w.merchant.get(t, links).want(http.StatusOK).wantFields(object{
		"total": 1, "data.0.isDefault": true, "data.0.code": w.code, "data.0.destinationUrl": "https://shop.example/welcome",
		"data.0.url": "https://shop.example/welcome?ref=" + w.code,
	})
	body := object{
		"participantId": w.participant, "destinationUrl": "https://blog.shop.example/beans?size=1&utm_source=old#taste", "code": "Beans-1",
		"subId": "post 7", "utm": object{"source": "pia", "campaign": "spring"},
	}
	link := w.merchant.post(t, links, body).want(http.StatusCreated).wantFields(object{
		"code": "beans-1", "isDefault": false, "clicks": 0, "conversions": 0,
		"url": "https://blog.shop.example/beans?size=1&ref=beans-1&sub_id=post+7&utm_source=pia&utm_campaign=spring#taste",
	})
	w.merchant.post(t, links, body).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	made := w.merchant.post(t, links, object{"participantId": w.participant, "destinationUrl": "https://shop.example"}).want(http.StatusCreated)
	if code := made.text("code"); !strings.HasPrefix(code, w.code+"-") {
		t.Errorf("the code is %q", code)
	}

	// Destinations outside the allowed domains are rejected, to prevent open redirects.
	for _, elsewhere := range []string{
		"https://evil.example/", "https://shop.example.evil.example/", "https://shop.example@evil.example/", "//evil.example",
		"https://evil.example\\.shop.example/", "javascript:alert(1)", "https://evilshop.example/", "ftp://shop.example/",
	} {
		body := object{"participantId": w.participant, "destinationUrl": elsewhere}
		w.merchant.post(t, links, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "destinationUrl")
		w.merchant.patch(t, links+"/"+link.text("id"), object{"destinationUrl": elsewhere}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "destinationUrl")
	}

	// The link's partner may change it, other partners may not.
	w.partner.patch(t, "/api/v1/partner/links/"+link.text("id"), object{"subId": nil, "utm": object{"campaign": nil}}).want(http.StatusOK).wantFields(object{
		"subId": nil, "utm.source": "pia", "utm.campaign": nil,
	})
	other := sys.partner(t).in("test")
	other.patch(t, "/api/v1/partner/links/"+link.text("id"), object{"subId": "mine"}).wantOutcome(notFound)
	other.post(t, "/api/v1/partner/links", object{"programId": w.program, "destinationUrl": "https://shop.example"}).wantOutcome(notFound)
	w.partner.get(t, "/api/v1/partner/links?programId="+w.program).want(http.StatusOK).wantFields(object{"total": 3})
	other.get(t, "/api/v1/partner/links").want(http.StatusOK).wantFields(object{"total": 0})

	// A deleted link cannot be read, but its code stays reserved.
	w.merchant.do(t, http.MethodDelete, links+"/"+link.text("id"), nil).want(http.StatusNoContent)
	w.merchant.get(t, links+"/"+link.text("id")).wantOutcome(notFound)
	w.merchant.post(t, links, body).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	w.merchant.get(t, links).want(http.StatusOK).wantFields(object{"total": 2})
	w.merchant.get(t, links+"?search="+w.code[:4]).want(http.StatusOK).wantFields(object{"total": 2})
	standard := w.merchant.get(t, links+"?participantId="+w.participant+"&page=2&pageSize=1").want(http.StatusOK).text("data.0.id")
	w.merchant.do(t, http.MethodDelete, links+"/"+standard, nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
}

func TestLinks_LimitPerParticipant(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	create := func(int) response {
		return w.partner.post(t, "/api/v1/partner/links", object{"programId": w.program, "destinationUrl": "https://shop.example"})
	}
	for i := range 40 {
		create(i).want(http.StatusCreated)
	}
	if got := countStatuses(concurrently(20, create)); got["201"] != 10 || got["422 LINK_LIMIT_EXCEEDED"] != 10 {
		t.Errorf("%v", got)
	}
	w.merchant.post(t, w.programPath()+"/links", object{"participantId": w.participant, "destinationUrl": "https://shop.example"}).
		wantError(http.StatusUnprocessableEntity, "LINK_LIMIT_EXCEEDED")
	w.merchant.get(t, w.programPath()+"/links").want(http.StatusOK).wantFields(object{"total": 51})
}

// TestRedirect checks that a click on a short link is stored in the same way as a click
// of the browser script, and earns a commission in the same way.
func TestRedirect(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	link := w.merchant.post(t, w.programPath()+"/links", object{
		"participantId": w.participant, "destinationUrl": "https://shop.example/beans?size=1", "code": "beans", "subId": "s1", "utm": object{"source": "pia"},
	}).want(http.StatusCreated)
	short := link.text("shortUrl")
	sys.awaitLink(t, short)

	browser := http.Header{"Referer": {"https://blog.example/post"}, "User-Agent": {"Browser/1"}}
	got := sys.visit(t, http.MethodGet, short+"?sub_id=s2&utm_medium=mail&next=https://evil.example", browser)
	if got.status != http.StatusFound || got.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", got.status, got.header)
	}
	target, err := url.Parse(got.header.Get("Location"))
	if err != nil || target.Host != "shop.example" || target.Path != "/beans" {
		t.Fatalf("redirect to %v, %v", target, err)
	}
	query := target.Query()
	click := query.Get("aff_click_id")
	for name, want := range map[string]string{"via": "beans", "size": "1", "sub_id": "s2", "utm_source": "pia", "utm_medium": "mail", "next": ""} {
		if query.Get(name) != want {
			t.Errorf("%s is %q in %v", name, query.Get(name), target)
		}
	}
	w.report(t, purchase(click)).want(http.StatusCreated).wantFields(object{"attributed": true, "attribution.click_id": click, "attribution.method": "click"})

	// The browser script registers a click of the same visitor for the same link.
	script := sys.caller().as(w.publicKey).with("User-Agent", "Browser/1").send(t, http.MethodPost, sys.edge+"/v1/clicks", object{
		"referral_code": "beans", "url": "https://shop.example/beans", "referrer": "https://blog.example/post", "sub_id": "s2",
		"utm": object{"source": "pia", "medium": "mail"},
	}).want(http.StatusCreated).text("click_id")
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
		t.Errorf("the click has the link %s", id)
	}
	eventually(t, waitTimeout, "both clicks and the sale are counted", func() error {
		now := w.merchant.get(t, w.programPath()+"/links/"+link.text("id")).want(http.StatusOK)
		if now.number("clicks") != 2 || now.number("conversions") != 1 {
			return fmt.Errorf("%d clicks, %d conversions", now.number("clicks"), now.number("conversions"))
		}
		return nil
	})

	// HEAD requests are not counted. An unknown key returns an HTML page.
	head := sys.visit(t, http.MethodHead, short, nil)
	if head.status != http.StatusFound || strings.Contains(head.header.Get("Location"), "aff_click_id") {
		t.Errorf("HEAD: %d %s", head.status, head.header.Get("Location"))
	}
	last, err := url.Parse(sys.follow(t, short).header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	record(last.Query().Get("aff_click_id"))
	if n := sys.count(t, "select count(*) from clicks where link_id = $1", link.text("id")); n != 3 {
		t.Errorf("%d clicks are stored, want 3", n)
	}
	for _, key := range []string{"/r/AAAAAAAAAA", "/r/short", "/r/", "/r/AAAAAAAAAAA", "/r/AAAAAAAAA%2F"} {
		if got := sys.visit(t, http.MethodGet, key, nil); got.status != http.StatusNotFound || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %s", key, got.status, got.header.Get("Content-Type"))
		}
	}
	w.merchant.do(t, http.MethodDelete, w.programPath()+"/links/"+link.text("id"), nil).want(http.StatusNoContent)
	eventually(t, waitTimeout, "the collector rejects the deleted link", func() error {
		if got := sys.follow(t, short).status; got != http.StatusNotFound {
			return fmt.Errorf("it returns %d", got)
		}
		return nil
	})
}

// oneRow reads the only row of a query as a map of its columns.
func (sys *system) oneRow(t *testing.T, into *map[string]any, sql string, args ...any) (err error) {
	t.Helper()
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		rows, queryErr := conn.Query(context.Background(), sql, args...)
		if queryErr != nil {
			return queryErr
		}
		*into, err = pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
		return nil
	})
	return err
}

// TestOrigins checks that a click from a foreign origin is marked, or rejected if the
// workspace requires it.
func TestOrigins(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	click := func(origin string) response {
		at := sys.caller().as(w.publicKey)
		if origin != "" {
			at = at.with("Origin", origin)
		}
		return at.send(t, http.MethodPost, sys.edge+"/v1/clicks", object{"referral_code": w.code})
	}
	w.click(t)
	foreign := func() int { return sys.count(t, "select count(*) from clicks where foreign_origin") }
	w.merchant.patch(t, workspacePath, object{"allowedOrigins": []string{"https://*.shop.example"}}).want(http.StatusOK)
	eventually(t, waitTimeout, "a foreign click is marked", func() error {
		click("https://other.example").want(http.StatusCreated)
		if foreign() == 0 {
			return fmt.Errorf("no click is marked")
		}
		return nil
	})
	w.merchant.patch(t, workspacePath, object{"originPolicy": "enforce"}).want(http.StatusOK)
	eventually(t, waitTimeout, "a foreign click is rejected", func() error {
		if got := click("https://other.example"); got.status != http.StatusForbidden {
			return fmt.Errorf("it returns %d", got.status)
		}
		return nil
	})
	click("https://other.example").wantError(http.StatusForbidden, "ORIGIN_NOT_ALLOWED")
	click("https://shop.example").wantError(http.StatusForbidden, "ORIGIN_NOT_ALLOWED")
	click("https://www.shop.example").want(http.StatusCreated)
	click("").want(http.StatusCreated) // a server sends no Origin
}
