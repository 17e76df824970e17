package e2e_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// newPublicProgram creates a programme of a merchant with a branding, and returns it with the
// address of its public page. The fields replace those of the programme.
func (sys *system) newPublicProgram(t *testing.T, fields object) (f fixture, page string) {
	t.Helper()
	merchant, slug := sys.newMerchant(t).inMode("test"), uniqueName("garden")
	merchant.do(t, http.MethodPut, brandingPath, object{
		"slug": slug, "portalName": "Garden Shop", "accentColor": "#ffe600", "supportEmail": "partners@garden.example", "privacyUrl": "https://garden.example/privacy",
	}).wantStatus(http.StatusOK)
	merchant.do(t, http.MethodPut, brandingPath+"/logo", pngFile(t, 40, 20)).wantStatus(http.StatusOK)
	body := object{
		"name": "Garden Friends", "slug": "friends", "publicText": "Welcome.\n\nJoin us.", "termsText": "Be honest.",
		"commissionRules": object{"percentage": 20, "laterPercentage": 10},
		"applicationQuestions": []object{
			{"key": "site", "label": "Your site", "type": "url", "required": true},
			{"key": "size", "label": "Visitors", "type": "select", "options": []string{"few", "many"}},
			{"key": "plan", "label": "Your plan", "type": "long_text"},
			{"key": "adult", "label": "I am of age", "type": "checkbox", "required": true},
		},
	}
	for name, value := range fields {
		body[name] = value
	}
	return fixture{sys: sys, merchant: merchant, program: merchant.createProgram(t, body)}, "/portal/test/" + slug + "/friends"
}

// wantParticipant checks the partner's participation in the programme as the merchant sees it.
func (f fixture) wantParticipant(t *testing.T, partner caller, want object) {
	t.Helper()
	own := partner.get(t, "/api/v1/partner/programs/"+f.program).wantStatus(http.StatusOK)
	f.merchant.get(t, f.programPath()+"/partners/"+own.text("participation.participantId")).wantStatus(http.StatusOK).wantFields(want)
}

// wantOwnLink waits until the page shows the partner's link and its QR code.
func (p *tab) wantOwnLink(f fixture, partner caller) {
	p.Helper()
	own := partner.get(p.T, "/api/v1/partner/programs/"+f.program).wantStatus(http.StatusOK)
	address := own.text("participation.url")
	if short, ok := own.value("participation.shortUrl").(string); ok {
		address = short
	}
	if got := browsertest.Call[string](p.Tab, p.Find("textbox", "Your link"), `function() { return this.value; }`); got != address {
		p.Errorf("the page shows the link %q, want %q", got, address)
	}
	p.Find("image", "QR code of "+address)
}

// existing returns the account with an address, logged in, in test mode.
func (sys *system) existing(t *testing.T, email string) caller {
	t.Helper()
	return caller{apiClient: sys.client(), kind: "partner", email: email}.login(t).inMode("test")
}

func TestPortal_ProgramPage(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	ctx := browsertest.Start(t)
	tasks{
		{"join with a new account", testJoinWithNewAccount},
		{"apply while the terms change", testApplyWhileTermsChange},
		{"apply from the list", testApplyFromList},
	}.run(ctx, t, sys)
	phone := browsertest.Phone
	t.Run("the branding", func(t *testing.T) { testPageHasBranding(ctx, t, sys, phone) })
	t.Run("hostile texts", func(t *testing.T) { testPageShowsHostileTexts(ctx, t, sys, phone) })
	t.Run("an unknown programme", func(t *testing.T) {
		p := newTab(ctx, t, sys, phone)
		p.open("/portal/nobody/friends")
		p.wantText("This page does not exist")
		p.wantAccessible()
		// The areas of the portal have similar addresses.
		p.open("/portal/programs/1")
		p.wantPath("/portal/login")
	})
}

func testJoinWithNewAccount(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f, page := sys.newPublicProgram(t, object{"autoApprovePartners": true})
	email := uniqueName("partner") + "@example.com"
	p := newTab(ctx, t, sys, u)
	p.open(page)
	for _, text := range []string{"by Garden Shop", "Join us.", "20% of each sale", "10% for the second and later payments of a customer", "You get your link at once."} {
		p.wantText(text)
	}
	p.wantAccessibleTask()
	p.register(email)
	p.Find("heading", "Apply to Garden Friends")
	p.wantAccessibleTask()
	p.Press("button", "Apply")
	p.wantFault("Your site", "Is required")
	p.wantText("Must be true because the programme has terms.")
	p.Press("checkbox", "I accept the terms of the programme")
	p.Fill("Your site", "https://garden.example")
	p.Press("button", "Choose Visitors (Optional)")
	p.Press("option", "many")
	p.Fill("Your plan (Optional)", "one\n\ntwo")
	p.Press("checkbox", "I am of age")
	p.Press("button", "Apply")
	p.wantText("You are in. Your link is ready.")
	partner := sys.existing(t, email)
	f.wantParticipant(t, partner, object{
		"status": "approved", "termsVersion": 1, "applicationAnswers": object{"site": "https://garden.example", "size": "many", "plan": "one\n\ntwo", "adult": "true"},
	})
	p.wantOwnLink(f, partner)
	p.wantAccessibleTask()
	p.Press("link", "Go to your start page")
	p.wantPath("/portal/test/")
	p.Find("heading", "Your programmes")
}

func testApplyWhileTermsChange(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f, page := sys.newPublicProgram(t, nil)
	partner := sys.newPartner(t).inMode("test")
	recovery := partner.enableFactor(t)
	p := newTab(ctx, t, sys, u)
	p.open(page)
	p.wantText("The merchant decides about each application.")
	p.Press("button", "Log in")
	p.logIn(partner.email, password)
	p.Fill("Code", recovery[0])
	p.Press("button", "Continue")
	p.Fill("Your site", "https://garden.example")
	p.Press("checkbox", "I am of age")
	p.Press("checkbox", "I accept the terms of the programme")
	f.merchant.patch(t, f.programPath(), object{"termsText": "Be honest, always."}).wantStatus(http.StatusOK)
	p.Press("button", "Apply")
	p.wantText("The terms have changed.")
	p.wantText("Be honest, always.")
	partner.get(t, "/api/v1/partner/programs/"+f.program).wantStatus(http.StatusOK).wantFields(object{"participation": nil})
	p.Press("checkbox", "I accept the terms of the programme")
	p.Press("button", "Apply")
	p.wantText("Your application is sent. You get a mail when the merchant has decided.")
	f.wantParticipant(t, partner, object{"status": "pending", "termsVersion": 2, "applicationAnswers": object{"site": "https://garden.example", "adult": "true"}})
	// Later, the page shows the state instead of the form.
	p.open(page)
	p.wantText("The link works already, but earns only after the merchant has accepted you.")
	p.wantOwnLink(f, partner)
}

func testApplyFromList(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f, _ := sys.newPublicProgram(t, object{"autoApprovePartners": true})
	partner := sys.newPartner(t).inMode("test")
	p := newTab(ctx, t, sys, u)
	p.open("/portal/test/login?next=%2Fprograms%2F" + f.program)
	p.logIn(partner.email, password)
	p.Press("button", "Apply")
	p.Fill("Your site", "https://garden.example")
	p.Press("checkbox", "I am of age")
	p.Press("checkbox", "I accept the terms of the programme")
	p.Press("button", "Apply")
	p.wantText("You are in. Your link is ready.")
	f.wantParticipant(t, partner, object{"status": "approved", "termsVersion": 1, "applicationAnswers": object{"site": "https://garden.example", "adult": "true"}})
	p.wantOwnLink(f, partner)
}

func testPageHasBranding(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f, page := sys.newPublicProgram(t, object{"description": "For people with gardens."})
	if html := sys.client().get(t, page).wantStatus(http.StatusOK).body; !strings.Contains(html, "<title>Garden Friends · Garden Shop</title>") || !strings.Contains(html, `content="For people with gardens."`) {
		t.Errorf("the page has not the title and the description of the programme: %s", html)
	}
	p := newTab(ctx, t, sys, u)
	colour := func() string {
		return browsertest.Call[string](p.Tab, p.Find("button", "Create account"), `function() { return getComputedStyle(this).backgroundColor; }`)
	}
	p.open(page)
	p.Find("image", "Garden Shop")
	if got := browsertest.Evaluate[string](p.Tab, `document.title`); got != "Garden Friends · Garden Shop" {
		t.Errorf("the title is %q", got)
	}
	p.setAppearance("light")
	if got := colour(); got != "rgb(166, 150, 0)" {
		t.Errorf("in light, the button has the colour %s, want #a69600", got)
	}
	p.setAppearance("dark")
	if got := colour(); got != "rgb(255, 230, 0)" {
		t.Errorf("in dark, the button has the colour %s, want #ffe600", got)
	}
	slug := strings.Split(page, "/")[3]
	f.merchant.do(t, http.MethodPut, brandingPath, object{"slug": slug, "portalName": "Garden Shop", "locale": "de"}).wantStatus(http.StatusOK)
	p.open(page)
	p.Find("heading", "Partner werden")
	p.Press("button", "English")
	p.Find("heading", "Become a partner")
	p.open(page) // the language was chosen
	p.Find("heading", "Become a partner")
}

func testPageShowsHostileTexts(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	name := "<img src=x onerror=alert(1)>" + strings.Repeat("W", 72)
	text := "\u202e<script>alert(2)</script>" + strings.Repeat("ü", 200)
	_, page := sys.newPublicProgram(t, object{
		"name": name, "description": text, "publicText": text, "termsText": text,
		"applicationQuestions": []object{{"key": "a", "label": strings.Repeat("W", 190), "type": "select", "options": []string{strings.Repeat("M", 100)}}},
	})
	partner := sys.newPartner(t)
	p := newTab(ctx, t, sys, u)
	p.open(page)
	p.Find("heading", name)
	p.wantText("<script>alert(2)</script>")
	p.Press("button", "Log in")
	p.logIn(partner.email, password)
	p.Find("heading", "Apply to "+name)
	p.wantFits()
	p.wantAccessible()
}

// TestPortal_RegistrationByInvitation tests the pages of a deployment in which people need an
// invitation to register.
func TestPortal_RegistrationByInvitation(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_REGISTRATION_PARTNER": "invite"}})
	sys.recordMails(t)
	f, page := sys.newPublicProgram(t, nil)
	p := newTab(browsertest.Start(t), t, sys, browsertest.Phone)
	p.open(page)
	p.wantText("New accounts need an invitation from a merchant.")
	p.Find("button", "Log in")
	if buttons, err := p.Query("button", "Create account"); err != nil || len(buttons) > 0 {
		t.Errorf("the page has %d buttons that create an account (error %v), want none", len(buttons), err)
	}
	email := uniqueName("partner") + "@example.com"
	f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": email}).wantStatus(http.StatusCreated)
	p.open("/accept-invite#kind=partner&token=" + sys.takeToken(t, notification.MailParticipantInvite, email))
	p.Press("button", "Create account")
	p.register(email)
	p.Press("checkbox", "I accept the terms of the programme")
	p.Press("button", "Accept invitation")
	p.wantText("You are now a partner in the programme.")
	p.wantOwnLink(f, sys.existing(t, email))
}
