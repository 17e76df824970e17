package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/tools/browser"
)

// TestPages follows the links of mails in a browser.
func TestPages(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	sys.recordMails(t)
	ctx, stop, err := browser.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	t.Run("verify an address", func(t *testing.T) {
		partner := sys.newPartner(t)
		p := openPage(ctx, t, sys, "/verify-email#token="+sys.takeToken(t, notification.MailVerification, partner.email))
		// Loading the page twice does not use the token.
		p.open(p.address)
		p.submit()
		p.wantMessage("Your e-mail address is verified.")
		if fragment := evaluate[string](p, `location.hash`); fragment != "" {
			t.Errorf("after the success, the fragment is %s, want none", fragment)
		}
		p.open(p.address)
		p.submit()
		p.wantMessage("The link is not valid or has expired.")
	})
	t.Run("set a new password", func(t *testing.T) {
		merchant := sys.newMerchant(t)
		sys.client().post(t, "/api/v1/auth/merchant/forgot-password", object{"email": merchant.email}).wantStatus(http.StatusOK)
		p := openPage(ctx, t, sys, "/reset-password#kind=merchant&token="+sys.takeToken(t, notification.MailPasswordReset, merchant.email))
		p.fill("password", "short")
		p.submit()
		p.wantFault("password", "The password must")
		p.fill("password", "password123")
		p.submit()
		p.wantFault("password", "common")
		p.fill("password", otherPassword)
		p.submit()
		p.wantMessage("Your new password is set.")
		sys.client().post(t, "/api/v1/auth/merchant/login", object{"email": merchant.email, "password": otherPassword}).wantStatus(http.StatusOK)
	})
	t.Run("accept an invitation to a workspace", func(t *testing.T) {
		merchant, email := sys.newMerchant(t), uniqueName("member")+"@example.com"
		merchant.post(t, workspacePath+"/invites", object{"email": email, "role": "viewer"}).wantStatus(http.StatusCreated)
		link := "/accept-invite#kind=merchant&token=" + sys.takeToken(t, notification.MailMemberInvite, email)
		p := openPage(ctx, t, sys, link)
		p.submit()
		p.wantMessage("Check the marked fields.")
		p.wantFault("name", "The name")
		p.wantFault("password", "The password")
		p.fill("name", "<b>Finn</b>")
		p.fill("password", password)
		p.submit()
		p.wantMessage("You are now a member of")
		sys.client().post(t, "/api/v1/auth/merchant/login", object{"email": email, "password": password}).
			wantStatus(http.StatusOK).wantFields(object{"user.name": "<b>Finn</b>", "user.role": "viewer"})
		p.open(p.address)
		p.fill("name", "Finn")
		p.fill("password", password)
		p.submit()
		p.wantMessage("The invitation is not valid.")
	})
	t.Run("accept an invitation to a programme", func(t *testing.T) {
		for _, mode := range []string{"live", "test"} {
			f := sys.newFixture(t, mode, nil)
			f.merchant.patch(t, f.programPath(), object{"termsUrl": "https://shop.example/terms"}).wantStatus(http.StatusOK)
			known, unknown := sys.newPartner(t), uniqueName("partner")+"@example.com"
			for _, email := range []string{known.email, unknown} {
				f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": email}).wantStatus(http.StatusCreated)
				p := openPage(ctx, t, sys, "/accept-invite#kind=partner&token="+sys.takeToken(t, notification.MailParticipantInvite, email))
				p.fill("email", email)
				if email == unknown {
					p.click(`[value="register"]`)
					p.fill("name", "Pia New")
				} else {
					p.fill("password", "a wrong password")
					p.submit()
					p.wantMessage("E-mail or password is wrong.")
				}
				p.fill("password", password)
				p.submit()
				p.wantFault("acceptTerms", "must accept")
				p.click("#acceptTerms")
				p.submit()
				p.wantMessage("You are now a partner in the programme.")
				session := sys.client().post(t, "/api/v1/auth/partner/login", object{"email": email, "password": password}).wantStatus(http.StatusOK)
				sys.client().withCredential(session.text("accessToken")).inMode(mode).get(t, "/api/v1/partner/programs").
					wantStatus(http.StatusOK).wantFields(object{"total": 1})
			}
		}
	})
	t.Run("accept an invitation with a second factor", func(t *testing.T) { testInvitationWithFactor(ctx, t, sys) })
	t.Run("unsubscribe", func(t *testing.T) {
		partner := sys.newPartner(t)
		p := openPage(ctx, t, sys, unsubscribePath+unsubscribeToken(partner, notification.CategoryCommissions))
		partner.get(t, partnerPreferences).wantFields(object{"categories.5.category": "commissions", "categories.5.email": true})
		p.submit()
		p.wantMessage("You get no more mails of the category “Commissions”.")
		partner.get(t, partnerPreferences).wantFields(object{"categories.5.category": "commissions", "categories.5.email": false})
		p = openPage(ctx, t, sys, unsubscribePath+"x")
		p.submit()
		p.wantMessage("The link to unsubscribe is not valid.")
	})
	t.Run("an incomplete link has no form", func(t *testing.T) {
		for _, path := range []string{"/api/v1/notifications/unsubscribe", "/verify-email", "/reset-password#token=x", "/accept-invite#kind=other&token=x"} {
			p := openPage(ctx, t, sys, path)
			p.wantMessage("The link is incomplete.")
			if !evaluate[bool](p, `document.getElementById("form").hidden`) {
				t.Errorf("%s: the form is visible", path)
			}
		}
	})
}

// testInvitationWithFactor accepts an invitation to a programme with terms, as a partner
// whose account has a second factor.
func testInvitationWithFactor(ctx context.Context, t *testing.T, sys *system) {
	f, partner := sys.newFixture(t, "test", nil), sys.newPartner(t)
	f.merchant.patch(t, f.programPath(), object{"termsUrl": "https://shop.example/terms"}).wantStatus(http.StatusOK)
	recovery := partner.enableFactor(t)
	f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": partner.email}).wantStatus(http.StatusCreated)
	p := openPage(ctx, t, sys, "/accept-invite#kind=partner&token="+sys.takeToken(t, notification.MailParticipantInvite, partner.email))
	logIn := func() {
		p.wantVisible("password", true)
		p.wantVisible("code", false)
		p.fill("email", partner.email)
		p.fill("password", password)
		p.submit()
		p.wantMessage("Your account has a second factor, so enter a code too.")
		p.wantVisible("password", false)
		p.wantVisible("code", true)
	}
	logIn()
	p.submit()
	p.wantFault("code", "The code must")
	p.fill("code", "000000")
	p.submit()
	p.wantMessage("The code is wrong or was used before.")
	sys.exec(t, "update login_challenges set expires_at = created_at where user_id = $1", partner.id)
	p.submit()
	p.wantMessage("The challenge")
	logIn()
	p.fill("code", recovery[0])
	p.submit()
	p.wantFault("acceptTerms", "must accept")
	p.wantVisible("code", false)
	// The session stays open, so a second attempt needs no code.
	p.click("#acceptTerms")
	p.submit()
	p.wantMessage("You are now a partner in the programme. Log in with " + partner.email)
	partner.inMode("test").get(t, "/api/v1/partner/programs").wantStatus(http.StatusOK).wantFields(object{"total": 1})
}

const (
	unsubscribePath    = "/api/v1/notifications/unsubscribe?token="
	oneClickForm       = "List-Unsubscribe=One-Click"
	partnerPreferences = "/api/v1/partner/notifications/preferences"
)

// unsubscribeToken returns the token in the mails of a category to an account.
func unsubscribeToken(a caller, category notification.Category) string {
	user, _ := affiliate.ParseID[affiliate.UserID](a.id)
	return notification.NewUnsubscribeTokens(affiliate.HashKeys{hashKey}).Token(user, category)
}

// tab is a tab of the browser that shows one of the pages, on the screen of a phone.
type tab struct {
	*testing.T
	ctx     context.Context
	address string
}

func openPage(ctx context.Context, t *testing.T, sys *system, link string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &tab{T: t, ctx: ctx, address: sys.api + link}
	p.do(chromedp.EmulateViewport(phoneWidth, 800))
	p.open(p.address)
	return p
}

const phoneWidth = 390

// open loads an address. It checks that the page fits on the screen.
func (p *tab) open(address string) {
	p.Helper()
	// The empty page in between makes the browser load an address again that differs only
	// in its fragment.
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	if width := evaluate[int64](p, `document.documentElement.scrollWidth`); width > phoneWidth {
		p.Errorf("%s has a width of %d pixels, want at most %d", address, width, phoneWidth)
	}
	p.screenshot()
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

func (p *tab) fill(field, text string) {
	p.Helper()
	evaluate[string](p, fmt.Sprintf(`document.getElementById(%q).value = %q`, field, text))
}

func (p *tab) click(selector string) {
	p.Helper()
	evaluate[bool](p, fmt.Sprintf("document.querySelector(%q).click(), true", selector))
}

// submit clicks the button and waits for the response.
func (p *tab) submit() {
	p.Helper()
	p.click("button")
	eventually(p.T, waitTimeout, "the page shows a message", func() error {
		if !evaluate[bool](p, `!document.querySelector("button").disabled && !document.getElementById("message").hidden`) {
			return fmt.Errorf("there is no message")
		}
		return nil
	})
	p.screenshot()
}

func (p *tab) wantMessage(want string) {
	p.Helper()
	if got := evaluate[string](p, `document.getElementById("message").innerText`); !strings.Contains(got, want) {
		p.Errorf("the page shows the message %q, want %q", got, want)
	}
}

// wantFault checks that the page shows a fault at a field.
func (p *tab) wantFault(field, want string) {
	p.Helper()
	got := evaluate[string](p, fmt.Sprintf(`document.getElementById("%s-fault").innerText`, field))
	invalid := evaluate[string](p, fmt.Sprintf(`document.getElementById(%q).ariaInvalid ?? ""`, field))
	if !strings.Contains(got, want) || invalid != "true" {
		p.Errorf("the field %s has the fault %q and aria-invalid %q, want a fault with %q", field, got, invalid, want)
	}
}

func (p *tab) wantVisible(field string, want bool) {
	p.Helper()
	if got := evaluate[bool](p, fmt.Sprintf(`document.getElementById(%q).checkVisibility()`, field)); got != want {
		p.Errorf("the field %s is visible: %v, want %v", field, got, want)
	}
}

// screenshot writes a picture of the page to the folder in PAGE_PICTURES, if it is set.
func (p *tab) screenshot() {
	p.Helper()
	folder := os.Getenv("PAGE_PICTURES")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.Fatal(err)
	}
	name := fmt.Sprintf("%s-%d.png", strings.ReplaceAll(p.Name(), "/", "-"), uniqueCounter.Add(1))
	if err := os.WriteFile(filepath.Join(folder, name), picture, 0o600); err != nil {
		p.Fatal(err)
	}
}

// evaluate returns the value of a JavaScript expression in the page.
func evaluate[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatal(err)
	}
	return value
}
