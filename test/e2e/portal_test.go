package e2e_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// TestPortal uses the portal as partners do, with the mouse, with the keyboard and on a phone.
// The results are checked through the API.
func TestPortal(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	sys.recordMails(t)
	tasks{{"join by invitation", testJoinByInvitation}}.run(browsertest.Start(t), t, sys)
}

func testJoinByInvitation(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f, _ := sys.newPublicProgram(t, object{"isPublic": false})
	group := f.merchant.post(t, f.programPath()+"/groups", object{"name": "Best", "percentage": 33}).wantStatus(http.StatusCreated).text("id")
	known, unknown := sys.newPartner(t), uniqueName("partner")+"@example.com"
	recovery := known.enableFactor(t)
	for _, email := range []string{known.email, unknown} {
		f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": email, "groupId": group}).wantStatus(http.StatusCreated)
		p := newTab(ctx, t, sys, u)
		p.open("/accept-invite#kind=partner&token=" + sys.takeToken(t, notification.MailParticipantInvite, email))
		p.wantText("Garden Shop invites you to become a partner in the programme Garden Friends.")
		p.wantText("33% of each sale (Your own rate)")
		p.wantText(email[:1] + "***@example.com")
		p.Find("image", "Garden Shop")
		if email == unknown {
			p.Press("button", "Create account")
			p.register(email)
		} else {
			p.logIn(email, "a wrong password")
			p.wantText("The e-mail address, the password or the code is wrong.")
			p.logIn(email, password)
			p.wantText("Your account has a second factor.")
			p.Fill("Code", recovery[0])
			p.Press("button", "Continue")
		}
		p.Find("button", "Accept invitation")
		p.Press("button", "Accept invitation")
		p.wantText("Must be true because the programme has terms.")
		p.wantText("Be honest.")
		if email == unknown {
			p.wantAccessibleTask()
		}
		p.Press("checkbox", "I accept the terms of the programme")
		p.Press("button", "Accept invitation")
		p.wantText("You are now a partner in the programme.")
		partner := known.inMode("test")
		if email == unknown {
			partner = sys.existing(t, email)
		}
		f.wantParticipant(t, partner, object{"status": "approved", "termsVersion": 1, "groupId": group})
		p.wantOwnLink(f, partner)
		p.Press("link", "Go to your start page")
		p.wantPath("/portal/test")
		p.Find("heading", "Your programmes")
	}
}

// register fills the form that creates an account, and sends it.
func (p *tab) register(email string) {
	p.Helper()
	p.Fill("Name", "Pia New")
	p.Fill("E-mail address", email)
	p.Fill("Password", password)
	p.Press("button", "Create account")
}

// logIn fills the form of the login and sends it.
func (p *tab) logIn(email, password string) {
	p.Helper()
	p.Fill("E-mail address", email)
	p.Fill("Password", password)
	p.Press("button", "Log in")
}
