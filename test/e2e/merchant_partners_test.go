package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// TestMerchantPartners tests partners that a merchant's server adds to its programmes.
func TestMerchantPartners(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	sys.recordMails(t)
	t.Run("a new account is claimed by its mail", func(t *testing.T) { testPartnerClaim(t, sys) })
	t.Run("an existing account decides", func(t *testing.T) { testPartnerConsent(t, sys) })
	t.Run("the request is validated", func(t *testing.T) { testPartnerValidation(t, sys) })
	t.Run("in parallel", func(t *testing.T) { testPartnersInParallel(t, sys) })
	t.Run("over gRPC", func(t *testing.T) { testPartnersOverGRPC(t, sys) })
}

// server returns a client with a service token of the fixture's merchant.
func (f fixture) server(t *testing.T) apiClient {
	t.Helper()
	return f.sys.client().withCredential(f.merchant.createServiceToken(t, "manager", "test", false))
}

func testPartnerClaim(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	server, email := f.server(t), uniqueName("new")+"@example.com"
	created := server.post(t, f.programPath()+"/partners", object{"email": strings.ToUpper(email), "name": " Ada ", "externalId": " cust-17 "})
	created.wantStatus(http.StatusCreated).wantFields(object{
		"status": "approved", "partnerConsent": nil, "partnerName": "Ada", "partnerEmail": email, "externalId": "cust-17", "groupId": nil,
	})
	path := f.programPath() + "/partners/" + created.text("id")
	server.get(t, f.programPath()+"/partners?externalId=cust-17").wantStatus(http.StatusOK).wantFields(object{
		"total": 1, "data.0.id": created.text("id"), "data.0.partnerId": created.text("partnerId"),
	})
	f.merchant.get(t, workspacePath+"/audit-log?action=participant.create").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.resourceId": created.text("id")})
	if name := f.merchant.get(t, workspacePath+"/audit-log?action=participant.create").text("data.0.actorName"); !strings.HasPrefix(name, "service:service-") {
		t.Errorf("the audit log names the actor %q, want the service token", name)
	}

	// A login or a registration is not possible before the claim. A request for a new password
	// claims too.
	for _, guess := range []string{"unusable", password, "Ada Ada Ada"} {
		sys.client().post(t, "/api/v1/auth/partner/login", object{"email": email, "password": guess}).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
	}
	sys.client().post(t, "/api/v1/auth/partner/register", object{"email": email, "password": password, "name": "Eve"}).wantError(http.StatusConflict, "EMAIL_TAKEN")
	if n := sys.countMails(t, notification.MailNotifications, email); n != 0 {
		t.Errorf("%d mails about notifications were sent to an account without a password", n)
	}
	token := sys.takeToken(t, notification.MailPartnerClaim, email)
	sys.client().post(t, "/api/v1/auth/partner/reset-password", object{"token": token, "password": password}).wantStatus(http.StatusOK)
	sys.client().post(t, "/api/v1/auth/partner/reset-password", object{"token": token, "password": password}).wantError(http.StatusBadRequest, "RESET_TOKEN_INVALID")
	session := sys.client().post(t, "/api/v1/auth/partner/login", object{"email": email, "password": password}).wantStatus(http.StatusOK)
	session.wantFields(object{"user.name": "Ada", "user.emailVerified": true})
	partner := sys.account("partner", email, session).inMode("test")
	partner.get(t, "/api/v1/partner/programs/"+f.program).wantStatus(http.StatusOK).wantFields(object{
		"participation.status": "approved", "participation.partnerConsent": nil, "participation.referralCode": created.text("referralCode"),
	})

	server.patch(t, path, object{"externalId": nil}).wantStatus(http.StatusOK).wantFields(object{"externalId": nil})
	server.patch(t, path, object{"externalId": "cust-18"}).wantStatus(http.StatusOK)
	server.patch(t, f.participantPath(), object{"externalId": "cust-18"}).wantError(http.StatusConflict, "EXTERNAL_ID_TAKEN")
	server.patch(t, f.participantPath(), object{"externalId": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "externalId")

	// The id is free again after an erasure.
	f.merchant.post(t, path+"/erase", confirmed).wantStatus(http.StatusOK)
	server.patch(t, f.participantPath(), object{"externalId": "cust-18"}).wantStatus(http.StatusOK)
	f.merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{"externalId": nil})
}

func testPartnerConsent(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	server, partner := f.server(t), sys.newPartner(t).inMode("test")
	offered := server.post(t, f.programPath()+"/partners", object{"email": partner.email, "name": "Given Name", "externalId": "cust-2"})
	offered.wantStatus(http.StatusCreated).wantFields(object{
		"status": "pending", "partnerConsent": "awaited", "partnerId": nil, "partnerName": "Given Name", "partnerEmail": partner.email,
	})
	if strings.Contains(offered.body, partner.id) || strings.Contains(offered.body, "Pia") {
		t.Errorf("the response has data of the account: %s", offered.body)
	}
	path := f.programPath() + "/partners/" + offered.text("id")
	for _, export := range []string{path + "/export", "/api/v1/merchant/account/export"} {
		link := f.merchant.post(t, export, nil).wantStatus(http.StatusOK).text("download_url")
		bundle := sys.client().withHeader("Accept-Encoding", "identity").get(t, link[strings.Index(link, "/api/v1/"):]).wantStatus(http.StatusOK)
		if strings.Contains(bundle.body, partner.id) || !strings.Contains(bundle.body, "cust-2") {
			t.Errorf("the export of the merchant has the id of the account, or no external id: %s", bundle.body)
		}
	}
	server.patch(t, path+"/approve", nil).wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
	server.patch(t, f.programPath()+"/partners/bulk-approve", object{"participantIds": []string{offered.text("id")}}).wantOutcome(allFailed)
	server.post(t, f.programPath()+"/partners", object{"email": partner.email, "name": "Again"}).wantError(http.StatusConflict, "APPLICATION_DUPLICATE")
	partner.post(t, f.applyPath(), object{}).wantError(http.StatusConflict, "APPLICATION_DUPLICATE")

	mine := "/api/v1/partner/programs/" + f.program
	partner.get(t, "/api/v1/partner/programs").wantStatus(http.StatusOK).wantFields(object{
		"total": 1, "data.0.participation.status": "pending", "data.0.participation.partnerConsent": "awaited",
	})
	partner.get(t, "/api/v1/partner/notifications").wantStatus(http.StatusOK).wantFields(object{"data.0.type": "participant.offered"})
	// Before the partner accepts, nothing that the partner does shows who the partner is.
	link := object{"programId": f.program, "destinationUrl": "https://shop.example/beans"}
	partner.post(t, "/api/v1/partner/links", link).wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
	partner.get(t, "/api/v1/partner/links").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	own := f.merchant.get(t, f.programPath()+"/links?participantId="+offered.text("id")).wantStatus(http.StatusOK).text("data.0.id")
	partner.patch(t, "/api/v1/partner/links/"+own, object{"destinationUrl": "https://shop.example/tea"}).wantOutcome(notFound)
	partner.post(t, mine+"/decline", object{}).wantStatus(http.StatusOK).wantFields(object{"status": "rejected", "partnerConsent": "declined", "externalId": nil})
	if log := f.merchant.get(t, workspacePath+"/audit-log").wantStatus(http.StatusOK); strings.Contains(log.body, partner.id) {
		t.Errorf("the audit log of the merchant names the partner who has declined: %s", log.body)
	}
	server.patch(t, path+"/approve", nil).wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
	partner.inMode("live").post(t, mine+"/accept", object{}).wantOutcome(notFound)
	partner.post(t, mine+"/accept", object{}).wantStatus(http.StatusOK).wantFields(object{"status": "approved", "partnerConsent": nil, "partnerName": "Pia Partner"})
	partner.post(t, mine+"/accept", object{}).wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
	server.get(t, path).wantStatus(http.StatusOK).wantFields(object{"partnerId": partner.id, "partnerName": "Pia Partner", "externalId": "cust-2"})

	// The mailed token accepts too.
	second := sys.newFixtureFor(t, f.merchant, f.partner, nil)
	server.post(t, second.programPath()+"/partners", object{"email": partner.email, "name": "Given Name"}).wantStatus(http.StatusCreated)
	token := sys.takeToken(t, notification.MailParticipantInvite, partner.email)
	partner.post(t, "/api/v1/partner/invites/accept", object{"token": token}).wantStatus(http.StatusOK + 1).wantFields(object{"status": "approved"})
}

func testPartnerValidation(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	server, path := f.server(t), f.programPath()+"/partners"
	body := func(changes object) object {
		all := object{"email": uniqueName("v") + "@example.com", "name": "Vera"}
		for name, value := range changes {
			all[name] = value
		}
		return all
	}
	for name, tc := range map[string]struct {
		field   string
		changes object
	}{
		"no address":            {"email", object{"email": nil}},
		"a bad address":         {"email", object{"email": "vera"}},
		"no name":               {"name", object{"name": "  "}},
		"a long name":           {"name", object{"name": strings.Repeat("x", 101)}},
		"an empty external id":  {"externalId", object{"externalId": ""}},
		"a long external id":    {"externalId", object{"externalId": strings.Repeat("x", 121)}},
		"a short code":          {"referralCode", object{"referralCode": "ab"}},
		"a reserved code":       {"referralCode", object{"referralCode": "admin"}},
		"a group that is no id": {"groupId", object{"groupId": "gold"}},
		"a text for the mail":   {"sendInvite", object{"sendInvite": "no"}},
		"a status":              {"status", object{"status": "approved"}},
	} {
		t.Run(name, func(t *testing.T) {
			server.post(t, path, body(tc.changes)).wantError(http.StatusBadRequest, "VALIDATION_ERROR", tc.field)
		})
	}
	server.post(t, path, body(object{"groupId": unknownID})).wantOutcome(notFound)
	server.post(t, path, body(object{"referralCode": f.code})).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	server.post(t, path, body(object{"externalId": strings.Repeat("é", 120)})).wantStatus(http.StatusCreated)
	quiet := body(object{"sendInvite": false})
	server.post(t, path, quiet).wantStatus(http.StatusCreated)
	if n := sys.countMails(t, notification.MailPartnerClaim, quiet["email"].(string)); n != 0 {
		t.Errorf("%d mails were sent although sendInvite is false", n)
	}
	// A partner who got no mail requests a password.
	sys.client().post(t, "/api/v1/auth/partner/forgot-password", object{"email": quiet["email"]}).wantStatus(http.StatusOK)
	token := sys.takeToken(t, notification.MailPasswordReset, quiet["email"].(string))
	sys.client().post(t, "/api/v1/auth/partner/reset-password", object{"token": token, "password": password}).wantStatus(http.StatusOK)
	f.merchant.post(t, f.programPath()+"/archive", nil).wantStatus(http.StatusOK)
	server.post(t, path, body(nil)).wantError(http.StatusConflict, "PROGRAM_STATE_INVALID")
}

func testPartnersInParallel(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	server, email := f.server(t), uniqueName("many")+"@example.com"
	for name, tc := range map[string]struct {
		code string
		body func(i int) object
	}{
		"one address": {"APPLICATION_DUPLICATE", func(int) object { return object{"email": email, "name": "Ada"} }},
		"one external id": {"EXTERNAL_ID_TAKEN", func(i int) object {
			return object{"email": fmt.Sprintf("%d-%s", i, email), "name": "Ada", "externalId": "one"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var wait sync.WaitGroup
			responses := make([]response, 20)
			for i := range responses {
				wait.Go(func() { responses[i] = server.post(t, f.programPath()+"/partners", tc.body(i)) })
			}
			wait.Wait()
			made := 0
			for _, got := range responses {
				if got.status == http.StatusCreated {
					made++
					continue
				}
				got.wantError(http.StatusConflict, tc.code)
			}
			if made != 1 {
				t.Errorf("%d of 20 requests made a participant, want 1", made)
			}
		})
	}
}

func testPartnersOverGRPC(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+f.merchant.createServiceToken(t, "admin", "test", false))
	participants := affiliatev1.NewParticipantServiceClient(sys.dial(t))
	request := &affiliatev1.CreateParticipantRequest{ProgramId: f.program, Email: uniqueName("rpc") + "@example.com", Name: "Ada", ExternalId: new("cust-3")}
	made, err := participants.CreateParticipant(ctx, request)
	if err != nil || made.GetStatus() != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED || made.GetExternalId() != "cust-3" {
		t.Fatalf("CreateParticipant returned %v, %v", made, err)
	}
	_, err = participants.CreateParticipant(ctx, request)
	wantGRPCError(t, err, codes.AlreadyExists, "APPLICATION_DUPLICATE")
	request.Email = "other-" + request.GetEmail()
	_, err = participants.CreateParticipant(ctx, request)
	wantGRPCError(t, err, codes.AlreadyExists, "EXTERNAL_ID_TAKEN")
	token, err := participants.CreateParticipantToken(ctx, &affiliatev1.CreateParticipantTokenRequest{ProgramId: f.program, ParticipantId: made.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	ctx = metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token.GetToken())
	programs, err := affiliatev1.NewPartnerServiceClient(sys.dial(t)).ListPartnerPrograms(ctx, &affiliatev1.ListPartnerProgramsRequest{})
	if err != nil || programs.GetTotal() != 1 || programs.GetData()[0].GetParticipation().GetParticipantId() != made.GetId() {
		t.Errorf("ListPartnerPrograms returned %v, %v; want the participation of the token", programs, err)
	}
	_, err = participants.GetParticipant(ctx, &affiliatev1.GetParticipantRequest{ProgramId: f.program, ParticipantId: made.GetId()})
	wantGRPCError(t, err, codes.PermissionDenied, "FORBIDDEN")
}

// testParticipantToken tests that a token shows one participation, and for how long.
func testParticipantToken(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	f.createAll(t)
	other := sys.newFixtureFor(t, sys.newMerchant(t).inMode("test"), f.partner, object{"isPublic": true})
	other.createAll(t)
	f.earnCommission(t)
	made := f.server(t).post(t, f.participantPath()+"/token", nil).wantStatus(http.StatusCreated)
	if life := made.instant("expiresAt").Sub(sys.clock.now()).Minutes(); life < 14 || life > 15 {
		t.Errorf("the token is valid for %.1f minutes, want 15", life)
	}
	page := sys.client().withCredential(made.text("token")).inMode("live").withHeader("Origin", "https://app.merchant.example")

	// Each list has the rows of this participation only.
	for path, field := range map[string]string{
		"programs": "id", "programs?scope=public": "id", "links": "programId", "promo-codes": "programId", "commissions": "programId", "payouts": "programId",
	} {
		got := page.get(t, "/api/v1/partner/"+path).wantStatus(http.StatusOK)
		all := f.partner.get(t, "/api/v1/partner/"+path).wantStatus(http.StatusOK)
		if path != "programs?scope=public" && (got.length("data") == 0 || all.length("data") <= got.length("data")) {
			t.Errorf("%s: %d rows with the token and %d of the partner, want some and more", path, got.length("data"), all.length("data"))
		}
		for i := range got.length("data") {
			got.wantFields(object{fmt.Sprintf("data.%d.%s", i, field): f.program})
		}
		if allow := got.header.Get("Access-Control-Allow-Origin"); allow != "*" {
			t.Errorf("%s: scripts of the origin %q may read the response, want *", path, allow)
		}
		if path != "programs" && path != "programs?scope=public" {
			page.get(t, "/api/v1/partner/"+path+"?programId="+other.program).wantOutcome(notFound)
			page.get(t, "/api/v1/partner/"+path+"?programId="+f.program).wantStatus(http.StatusOK).wantFields(object{"total": got.value("total")})
		}
	}
	page.get(t, "/api/v1/partner/programs/"+other.program).wantOutcome(notFound)
	page.get(t, "/api/v1/partner/programs/"+f.program).wantStatus(http.StatusOK).wantFields(object{"participation.participantId": f.participant})
	one, all := page.get(t, "/api/v1/partner/balances"), f.partner.get(t, "/api/v1/partner/balances")
	want := f.partner.get(t, "/api/v1/partner/programs/"+f.program).number("participation.balanceCents")
	if got := one.number("balances.0.balanceCents"); got != want || one.number("balances.0.pendingCents") == all.number("balances.0.pendingCents") {
		t.Errorf("the balances with the token are %s, those of the partner %s; want the balance %d of the participation", one.body, all.body, want)
	}

	for _, report := range []string{"summary", "timeseries", "breakdown?groupBy=program", "funnel", "cohorts"} {
		got := page.get(t, "/api/v1/partner/analytics/"+report).wantStatus(http.StatusOK)
		if strings.Contains(got.body, other.program) {
			t.Errorf("%s: the report with the token contains the other programme: %s", report, got.body)
		}
	}
	page.get(t, "/api/v1/partner/analytics/summary?programId="+other.program).wantOutcome(notFound)

	// The partner confirms the payout method on the page. A stolen token is not enough.
	method := object{"method": "paypal", "account": "paid@example.com", "password": "wrong password"}
	page.patch(t, "/api/v1/partner/payout-method", method).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
	method["password"] = password
	page.patch(t, "/api/v1/partner/payout-method", method).wantStatus(http.StatusOK).wantFields(object{"method": "paypal", "accountHint": "p***@example.com"})
	f.partner.get(t, "/api/v1/partner/profile").wantFields(object{"payoutMethod.accountHint": "p***@example.com"})

	// A page can create links of this participation and change nothing else.
	link := object{"programId": f.program, "destinationUrl": "https://shop.example/beans"}
	id := page.post(t, "/api/v1/partner/links", link).wantStatus(http.StatusCreated).wantFields(object{"participantId": f.participant}).text("id")
	page.do(t, http.MethodDelete, "/api/v1/partner/links/"+id, nil).wantOutcome(forbidden)
	byMember := f.merchant.post(t, f.participantPath()+"/token", nil).wantStatus(http.StatusCreated)
	second := sys.client().withCredential(byMember.text("token")).post(t, "/api/v1/partner/links", link).wantStatus(http.StatusCreated).text("id")
	f.merchant.get(t, workspacePath+"/audit-log?action=link.create&resourceId="+second).wantFields(object{
		"total": 1, "data.0.actor": f.merchant.id, "data.0.actorName": "participant token of Mara Merchant",
	})
	entry := f.merchant.get(t, workspacePath+"/audit-log?action=link.create&resourceId="+id).wantFields(object{"total": 1})
	if name := entry.text("data.0.actorName"); !strings.HasPrefix(name, "participant token of service:service-") {
		t.Errorf("the audit log names the actor %q, want the participant token of the service token", name)
	}
	page.post(t, "/api/v1/partner/links", object{"programId": other.program, "destinationUrl": "https://shop.example/beans"}).wantOutcome(notFound)
	for _, path := range []string{"/api/v1/partner/profile", "/api/v1/partner/ledger", "/api/v1/programs", f.participantPath()} {
		refused := page.get(t, path)
		refused.wantOutcome(forbidden)
		if refused.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("scripts of every origin may read the response of %s", path)
		}
	}

	// Browsers ask first.
	preflight := page.withoutHeader("Authorization").withHeader("Access-Control-Request-Method", "GET").do(t, http.MethodOptions, "/api/v1/partner/links", nil)
	preflight.wantStatus(http.StatusNoContent)
	for header, want := range map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS, POST", "Access-Control-Allow-Credentials": ""} {
		if got := preflight.header.Get(header); got != want {
			t.Errorf("the preflight response has %s: %q, want %q", header, got, want)
		}
	}
	if allow := page.do(t, http.MethodOptions, "/api/v1/partner/profile", nil).header.Get("Access-Control-Allow-Origin"); allow != "" {
		t.Errorf("the preflight response of the profile allows %q", allow)
	}
	expired := sys.client().withCredential("x").withHeader("Origin", "https://app.merchant.example").get(t, "/api/v1/partner/links")
	if expired.wantOutcome(unauthorized); expired.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Error("a script cannot read the 401 that says it needs a new token")
	}

	// A suspension ends the token at once, and so does an erasure.
	f.merchant.patch(t, f.participantPath()+"/suspend", nil).wantStatus(http.StatusOK)
	page.get(t, "/api/v1/partner/programs").wantOutcome(unauthorized)
	f.server(t).post(t, f.participantPath()+"/token", nil).wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
	f.merchant.patch(t, f.participantPath()+"/reinstate", nil).wantStatus(http.StatusOK)
	page.get(t, "/api/v1/partner/programs").wantOutcome(ok)
	f.merchant.do(t, http.MethodDelete, workspacePath+"/test-data", nil).wantStatus(http.StatusOK)
	page.get(t, "/api/v1/partner/programs").wantOutcome(unauthorized)
	f.merchant.post(t, f.participantPath()+"/token", nil).wantOutcome(notFound)
}
