package e2e_test

import (
	"net/http"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// TestPages follows the links of mails in a browser.
func TestPages(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	sys.recordMails(t)
	ctx := browsertest.Start(t)
	phone := browsertest.Phone

	t.Run("verify an address", func(t *testing.T) {
		partner := sys.newPartner(t)
		link := "/verify-email#token=" + sys.takeToken(t, notification.MailVerification, partner.email)
		p := newTab(ctx, t, sys, phone)
		p.open(link)
		// Loading the page twice does not use the token.
		p.open(link)
		p.Press("button", "Verify address")
		p.wantText("Your e-mail address is verified.")
		if fragment := browsertest.Evaluate[string](p.Tab, `location.hash`); fragment != "" {
			t.Errorf("after the success, the fragment is %s, want none", fragment)
		}
		p.open(link)
		p.Press("button", "Verify address")
		p.wantText("The link was used or has expired.")
	})
	t.Run("set a new password", func(t *testing.T) {
		for _, kind := range []string{"merchant", "partner"} {
			email := sys.newMerchant(t).email
			if kind == "partner" {
				email = sys.newPartner(t).email
			}
			sys.client().post(t, "/api/v1/auth/"+kind+"/forgot-password", object{"email": email}).wantStatus(http.StatusOK)
			p := newTab(ctx, t, sys, phone)
			p.open("/reset-password#kind=" + kind + "&token=" + sys.takeToken(t, notification.MailPasswordReset, email))
			p.Fill("New password", "short")
			p.Press("button", "Set a new password")
			p.wantFault("New password", "Must")
			p.Fill("New password", "password123")
			p.Press("button", "Set a new password")
			p.wantFault("New password", "Must not be one of the most common passwords")
			p.Fill("New password", otherPassword)
			p.Press("button", "Set a new password")
			p.wantText("Your new password is set.")
			sys.client().post(t, "/api/v1/auth/"+kind+"/login", object{"email": email, "password": otherPassword}).wantStatus(http.StatusOK)
		}
	})
	t.Run("accept an invitation to a workspace", func(t *testing.T) {
		merchant, email := sys.newMerchant(t), uniqueName("member")+"@example.com"
		merchant.post(t, workspacePath+"/invites", object{"email": email, "role": "viewer"}).wantStatus(http.StatusCreated)
		link := "/accept-invite#kind=merchant&token=" + sys.takeToken(t, notification.MailMemberInvite, email)
		p := newTab(ctx, t, sys, phone)
		p.open(link)
		p.wantText("Viewer, without the right to change anything")
		p.wantText("m***@example.com")
		p.wantAccessible()
		p.Fill("Name", "<b>Finn</b>")
		p.Fill("Password", password)
		p.Press("button", "Accept invitation")
		p.wantText("You are now a member of")
		sys.client().post(t, "/api/v1/auth/merchant/login", object{"email": email, "password": password}).
			wantStatus(http.StatusOK).wantFields(object{"user.name": "<b>Finn</b>", "user.role": "viewer"})
		p.open(link)
		p.wantText("The invitation was used or revoked, or has expired.")
	})
	t.Run("unsubscribe", func(t *testing.T) {
		partner := sys.newPartner(t)
		p := newTab(ctx, t, sys, phone)
		p.open(unsubscribePath + unsubscribeToken(partner, notification.CategoryCommissions))
		partner.get(t, partnerPreferences).wantFields(object{"categories.5.category": "commissions", "categories.5.email": true})
		p.Press("button", "Unsubscribe")
		p.wantText("You get no more mails of the category “Commissions”.")
		partner.get(t, partnerPreferences).wantFields(object{"categories.5.category": "commissions", "categories.5.email": false})
		p.open(unsubscribePath + "x")
		p.Press("button", "Unsubscribe")
		p.wantText("The link to unsubscribe is not valid.")
	})
	t.Run("an incomplete link has no form", func(t *testing.T) {
		p := newTab(ctx, t, sys, phone)
		for _, path := range []string{"/api/v1/notifications/unsubscribe", "/verify-email", "/reset-password", "/accept-invite#kind=partner"} {
			p.open(path)
			p.wantText("The link is incomplete.")
			if buttons, err := p.Query("button", ""); err != nil || len(buttons) > 0 {
				t.Errorf("%s: the page has %d buttons (error %v), want none", path, len(buttons), err)
			}
		}
	})
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
