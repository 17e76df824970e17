package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// route is one HTTP route that the proto files define for an RPC. body means that the
// route has a JSON body.
type route struct {
	rpc, verb, template string
	first               string // the template of the first route of the RPC
	method              string // the full name of the RPC in gRPC
	body                bool
	input               protoreflect.MessageDescriptor
}

// routes returns all HTTP routes from the proto descriptors.
func routes(t *testing.T) []route {
	t.Helper()
	var all []route
	pkg := affiliatev1.File_affiliate_v1_account_proto.Package()
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				all = append(all, httpRules(t, methods.Get(j))...)
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b route) int { return strings.Compare(a.template+a.verb, b.template+b.verb) })
	return all
}

func httpRules(t *testing.T, rpc protoreflect.MethodDescriptor) []route {
	t.Helper()
	rule, _ := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return nil
	}
	var all []route
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		found := route{rpc: string(rpc.Name()), method: fmt.Sprintf("/%s/%s", rpc.Parent().FullName(), rpc.Name()), body: r.GetBody() == "*", input: rpc.Input()}
		switch pattern := r.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			found.verb, found.template = http.MethodGet, pattern.Get
		case *annotations.HttpRule_Post:
			found.verb, found.template = http.MethodPost, pattern.Post
		case *annotations.HttpRule_Patch:
			found.verb, found.template = http.MethodPatch, pattern.Patch
		case *annotations.HttpRule_Put:
			found.verb, found.template = http.MethodPut, pattern.Put
		case *annotations.HttpRule_Delete:
			found.verb, found.template = http.MethodDelete, pattern.Delete
		default:
			t.Fatalf("%s: unknown kind of pattern %T", rpc.FullName(), pattern)
		}
		found.first = found.template
		if len(all) > 0 {
			found.first = all[0].template
		}
		all = append(all, found)
	}
	return all
}

func (r route) String() string { return r.verb + " " + r.template }

// path returns the path of the route with the ids as its parameters.
func (r route) path(ids map[string]string) string {
	path := strings.ReplaceAll(r.template, "{processor}", "stripe")
	for name, id := range ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return path
}

// hasIDs reports whether the path contains ids. The name of a processor is not an id.
func (r route) hasIDs() bool {
	return strings.Contains(strings.ReplaceAll(r.template, "{processor}", ""), "{")
}

// modalIDs are the ids of records that belong to one mode. A response with the status 404
// names the other mode if the records exist there.
var modalIDs = []string{
	"program_id", "participant_id", "commission_id", "conversion_id", "payout_id", "batch_id", "link_id", "promo_code_id", "event_id", "webhook_id",
}

// hasModalIDs reports whether the path contains such an id.
func (r route) hasModalIDs() bool {
	return slices.ContainsFunc(modalIDs, func(name string) bool { return strings.Contains(r.template, "{"+name+"}") })
}

// unknownOutcome returns the expected outcome for ids that do not exist, or that the
// client may not read.
func (r route) unknownOutcome() outcome {
	switch {
	case strings.Contains(r.template, "{webhook_id}"):
		return noWebhook
	case strings.Contains(r.template, "{entry_id}"):
		return noLogEntry
	case strings.Contains(r.template, "{operation_id}"):
		return noOperation
	case r.rpc == "EraseParticipant":
		return noParticipant
	case strings.Contains(r.template, "{token}"):
		return noExport
	case r.rpc == "ExportParticipant":
		return noParticipant
	}
	return notFound
}

// unknownIDs returns an id that does not exist for each path parameter.
func unknownIDs() map[string]string {
	return map[string]string{
		"program_id":       affiliate.NewID[affiliate.ProgramID](time.Now()).String(),
		"participant_id":   affiliate.NewID[affiliate.ParticipantID](time.Now()).String(),
		"commission_id":    affiliate.NewID[affiliate.CommissionID](time.Now()).String(),
		"member_id":        affiliate.NewID[affiliate.UserID](time.Now()).String(),
		"invite_id":        affiliate.NewID[affiliate.InviteID](time.Now()).String(),
		"key_id":           affiliate.NewID[affiliate.APIKeyID](time.Now()).String(),
		"service_token_id": affiliate.NewID[affiliate.ServiceTokenID](time.Now()).String(),
		"group_id":         affiliate.NewID[affiliate.GroupID](time.Now()).String(),
		"link_id":          affiliate.NewID[affiliate.LinkID](time.Now()).String(),
		"promo_code_id":    affiliate.NewID[affiliate.PromoCodeID](time.Now()).String(),
		"conversion_id":    affiliate.NewID[affiliate.ConversionID](time.Now()).String(),
		"click_id":         affiliate.NewID[affiliate.ClickID](time.Now()).String(),
		"payout_id":        affiliate.NewID[affiliate.PayoutID](time.Now()).String(),
		"proposal_id":      affiliate.NewID[payout.ProposalID](time.Now()).String(),
		"batch_id":         affiliate.NewID[affiliate.PayoutID](time.Now()).String(),
		"event_id":         affiliate.NewID[affiliate.EventID](time.Now()).String(),
		"webhook_id":       affiliate.NewID[affiliate.EndpointID](time.Now()).String(),
		"delivery_id":      affiliate.NewID[affiliate.DeliveryID](time.Now()).String(),
		"notification_id":  affiliate.NewID[notification.ID](time.Now()).String(),
		"entry_id":         affiliate.NewID[notification.MailID](time.Now()).String(),
		"operation_id":     affiliate.NewID[privacy.BuyerErasureID](time.Now()).String(),
		"session_id":       affiliate.NewID[affiliate.SessionID](time.Now()).String(),
		"connection_id":    affiliate.NewID[processor.ConnectionID](time.Now()).String(),
		"token":            "exp_unknown",
		"digest":           strings.Repeat("0", 64),
		"workspace_slug":   "nobody-has-this",
		"program_slug":     "unknown",
	}
}

// createAll creates one resource for each path parameter and returns the ids.
func (f fixture) createAll(t *testing.T) map[string]string {
	t.Helper()
	created := func(path string, body object) string {
		return f.merchant.post(t, path, body).wantStatus(http.StatusCreated).text("id")
	}
	click := f.click(t)
	report := f.report(t, purchase(click)).wantStatus(http.StatusCreated)
	suspicious := purchase(click)
	suspicious["customer_email"] = f.partner.email
	f.report(t, suspicious).wantStatus(http.StatusCreated)
	batch := f.sendPayouts(t)
	webhook, delivery := f.createDelivery(t)
	return map[string]string{
		"webhook_id":  webhook,
		"delivery_id": delivery,
		"click_id":    click,
		"batch_id":    batch,
		"payout_id":   f.merchant.get(t, "/api/v1/payouts?batchId="+batch).wantStatus(http.StatusOK).text("data.0.id"),
		"event_id":    f.merchant.get(t, "/api/v1/fraud/events").wantStatus(http.StatusOK).text("data.0.id"),
		// The notifications of the merchant and of the partner about a new commission have
		// the same id.
		"notification_id":  f.merchant.get(t, "/api/v1/notifications?category=commissions").wantStatus(http.StatusOK).text("data.0.id"),
		"program_id":       f.program,
		"participant_id":   f.participant,
		"conversion_id":    report.text("id"),
		"commission_id":    report.text("commission.id"),
		"member_id":        f.merchant.id,
		"service_token_id": created("/api/v1/service-tokens", object{"name": "for the routes", "role": "viewer"}),
		"invite_id":        created("/api/v1/workspace/invites", object{"email": uniqueName("member") + "@example.com", "role": "viewer"}),
		"key_id":           created("/api/v1/api-keys", object{"name": "for the routes"}),
		"group_id":         created(f.programPath()+"/groups", object{"name": "for the routes", "percentage": 30}),
		"link_id":          created(f.programPath()+"/links", object{"participantId": f.participant, "destinationUrl": "https://shop.example/"}),
		"entry_id":         f.sys.createLogEntry(t, f.merchant),
		"operation_id":     f.eraseBuyer(t, object{"email": uniqueName("buyer") + "@example.com"}),
		"proposal_id": f.merchant.do(t, http.MethodPut, f.participantPath()+"/payout-method-proposal", object{"method": "wise", "account": "pia@example.com"}).
			wantStatus(http.StatusOK).text("id"),
		"promo_code_id": created(f.programPath()+"/promo-codes", object{
			"participantId": f.participant, "code": "ROUTES", "discountType": "percentage", "discountValue": 10,
		}),
	}
}

// clientFor returns a client with a credential of the fixture that the rule allows.
func (f fixture) clientFor(t *testing.T, r rule, mode string) apiClient {
	t.Helper()
	switch {
	case r.accepts == partners || r.accepts == participations:
		return f.partner.inMode(mode).apiClient
	case r.allows(merchants):
		return f.merchant.inMode(mode).apiClient
	}
	return f.sys.client().withCredential(f.merchant.inMode(mode).createSecretKey(t))
}

// sendPayouts creates a bonus, creates and confirms a batch with a payout of the bonus,
// and processes the batch. It returns the id of the batch.
func (f fixture) sendPayouts(t *testing.T) (batch string) {
	t.Helper()
	f.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
	// The first method of a partner with pending commissions is held.
	f.sys.exec(t, `update payout_methods set held_until = null where user_id = $1`, f.partner.id)
	f.merchant.post(t, f.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 500, "reason": "A good start"}).wantStatus(http.StatusCreated)
	batch = f.merchant.withHeader("Idempotency-Key", uniqueName("batch")).post(t, "/api/v1/payouts/batches", object{}).wantStatus(http.StatusCreated).text("id")
	f.merchant.post(t, "/api/v1/payouts/batches/"+batch+"/confirm", nil).wantStatus(http.StatusOK)
	f.merchant.post(t, "/api/v1/payouts/batches/"+batch+"/process", nil).wantStatus(http.StatusOK)
	return batch
}

// testRoutes calls every route of the API with every kind of credential.
func testRoutes(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	ids := f.createAll(t)
	stranger := sys.newMerchant(t).inMode("test")
	credentials := newCredentials(t, sys, f)

	known := map[string]bool{}
	for _, r := range routes(t) {
		known[r.rpc] = true
		rule, found := routeRules[r.rpc]
		if !found {
			t.Errorf("%s (%s) is not in routeRules", r, r.rpc)
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			for _, c := range credentials {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					want := c.expected(rule)
					client := c.client(sys)
					got := client.withHeader("Origin", "https://page.example").do(t, r.verb, r.path(unknownIDs()), nil)
					got.wantOutcome(want)
					if allow := got.header.Get("Access-Control-Allow-Origin"); (allow == "*") != (rule.accepts == participations) {
						t.Errorf("the response has Access-Control-Allow-Origin %q, want * only if the route accepts participant tokens", allow)
					}
					if zone, _, _ := strings.Cut(got.header.Get("RateLimit-Policy"), ";"); zone != r.zone(c, rule) {
						t.Errorf("the request counts in the rate limit zone %s, want %s", zone, r.zone(c, rule))
					}
					if want == rule.allowedOutcome {
						checkBrokenRequest(t, client, r)
						checkUnknownMode(t, client, r, c, want)
						return
					}
					// A refused client gets the same error for a request that is also broken.
					client.inMode("prod").do(t, r.verb, r.path(unknownIDs())+"?noSuchParameter=1", r.brokenBody()).wantOutcome(want)
				})
			}
			if r.hasIDs() && rule.allows(merchants) {
				t.Run("ids of another workspace", func(t *testing.T) {
					want := rule.foreignOutcome
					if want == (outcome{}) {
						want = r.unknownOutcome()
					}
					stranger.do(t, r.verb, r.path(ids), rule.requestBody()).wantOutcome(want)
				})
			}
			if r.hasIDs() && !rule.sharedByModes {
				t.Run("ids of the other mode", func(t *testing.T) {
					want := r.unknownOutcome()
					if rule.foreignOutcome == allFailed {
						want = allFailed
					}
					f.clientFor(t, rule, "live").do(t, r.verb, r.path(ids), rule.requestBody()).wantOutcome(want)
				})
			}
			if r.hasIDs() {
				t.Run("an id that is not a UUID", func(t *testing.T) {
					malformedIDs := map[string]string{}
					for name := range ids {
						malformedIDs[name] = "x'--%00"
					}
					malformedIDs["program_id"], malformedIDs["commission_id"] = "1", "%C3%28"
					f.clientFor(t, rule, "test").do(t, r.verb, r.path(malformedIDs), rule.requestBody()).wantOutcome(r.unknownOutcome())
				})
			}
		})
	}
	for name := range routeRules {
		if !known[name] {
			t.Errorf("%s is in routeRules but has no route", name)
		}
	}
}

// zone returns the name of the rate limit zone in which a request of the credential
// counts (docs/merchant/rate-limits.md). A report of a conversion counts in the zone
// "conversions" only if its credential is a valid key. Otherwise it counts in the zone
// "general".
func (r route) zone(c credential, rule rule) string {
	switch {
	case strings.Contains(r.template, "/health"):
		return ""
	case strings.HasSuffix(r.template, "/resend-verification") && rule.allows(c.validKind):
		// The request also counts in the zone "auth". The header shows only the last zone.
		return `"resend"`
	case strings.HasSuffix(r.template, "/erase") && rule.allows(c.validKind):
		return `"erasure"`
	case strings.HasPrefix(r.rpc, "Export") && r.verb == http.MethodPost && rule.allows(c.validKind):
		// The request also counts in the zone "general".
		return `"export"`
	case strings.Contains(r.template, "/auth/") || r.rpc == "LookupPortalInvite":
		return `"auth"`
	case r.rpc == "EraseBuyer" && rule.allows(c.validKind):
		// The request also counts in the zone "general".
		return `"buyer_erasure"`
	case r.rpc == "ReceiveProviderEvent":
		return `"mail_provider"`
	case r.rpc == "Unsubscribe":
		return `"unsubscribe"`
	case r.rpc == "ReportConversion" && (c.validKind == secretKeys || c.validKind == "public key"):
		return `"conversions"`
	}
	return `"general"`
}

// checkBrokenRequest sends requests that cannot be decoded. The client has the permission
// to call the route.
func checkBrokenRequest(t *testing.T, client apiClient, r route) {
	t.Helper()
	client.do(t, r.verb, r.path(unknownIDs())+"?noSuchParameter=1", nil).wantOutcome(invalid)
	if r.body {
		client.do(t, r.verb, r.path(unknownIDs()), r.brokenBody()).wantOutcome(invalid)
	}
}

// brokenBody returns a body that cannot be decoded, or nil if the route has no body.
func (r route) brokenBody() any {
	if !r.body {
		return nil
	}
	return `{"broken`
}

// checkUnknownMode sends a header X-Mode with a mode that does not exist. The client has
// the permission to call the route. The service must ignore the header if the credential
// is a key, because a key belongs to one mode. It must also ignore the header on routes
// that need no credential, because they have no mode, and on the deletion of the test data.
func checkUnknownMode(t *testing.T, client apiClient, r route, c credential, want outcome) {
	t.Helper()
	if c.token && routeRules[r.rpc].accepts != anyone && r.rpc != "DeleteTestData" {
		want = invalid
	}
	modes := []string{"prod"}
	if c.token {
		modes = append(modes, "LIVE", "test, live")
	}
	for _, mode := range modes {
		client.inMode(mode).do(t, r.verb, r.path(unknownIDs()), nil).wantOutcome(want)
	}
}

// credential is a value of the header Authorization.
type credential struct {
	name string
	// authorization is the value of the header. If it is empty, the header is not sent.
	authorization string
	// validKind is the kind of a valid credential. It is empty if the credential is not
	// valid.
	validKind string
	// expired means that this is an expired access token. The outcome is UNAUTHORIZED on
	// every route.
	expired bool
	// token means that this is a valid access token.
	token bool
	// mode is the mode of a service token. Its role is admin, and it may move payouts.
	mode string
	// cookie is the value of the header Cookie.
	cookie string
}

func (c credential) client(sys *system) apiClient {
	if c.cookie != "" {
		return sys.client().withHeader("Cookie", c.cookie)
	}
	if c.authorization == "" {
		return sys.client()
	}
	return sys.client().withHeader("Authorization", c.authorization)
}

func (c credential) expected(r rule) outcome {
	switch {
	case c.mode != "" && r.tokenMode != "" && r.tokenMode != c.mode:
		return forbidden
	case r.allows(c.validKind):
		return r.allowedOutcome
	case c.validKind != "":
		return forbidden
	case c.expired:
		return unauthorized
	}
	return r.credentialOutcome()
}

func newCredentials(t *testing.T, sys *system, f fixture) []credential {
	t.Helper()
	// The tokens belong to another workspace, because only one call at a time can delete
	// the test data of a workspace.
	loggedOut, tokenOwner := f.merchant.login(t), sys.newMerchant(t)
	sys.client().post(t, "/api/v1/auth/logout", object{"refreshToken": loggedOut.refresh}).wantStatus(http.StatusNoContent)
	// The token is of live mode, because one of the routes deletes all test data.
	live := sys.newFixture(t, "live", nil)
	participantToken := live.merchant.post(t, live.participantPath()+"/token", nil).wantStatus(http.StatusCreated).text("token")
	merchantBrowser, _ := f.merchant.inBrowser(t, "")
	partnerBrowser, _ := f.partner.inBrowser(t, "")
	bearer := func(text string) string { return "Bearer " + text }
	unknownKey := func(kind account.KeyKind) string {
		return bearer(account.NewKey(kind, affiliate.ModeTest).Reveal())
	}
	forge := func(change func(*jwt.Token, jwt.MapClaims), key any) string {
		return bearer(forgeToken(t, f.merchant.access, change, key))
	}
	return []credential{
		{name: "no credential"},
		{name: "the cookies of browsers", cookie: merchantBrowser.cookie() + "; " + partnerBrowser.cookie()},
		{name: "garbage", authorization: bearer("garbage")},
		{name: "garbage in three parts", authorization: bearer("a.b.c")},
		{name: "another scheme", authorization: "Basic " + f.merchant.access},
		{name: "a scheme without a credential", authorization: "Bearer "},
		{name: "a token with the algorithm none", authorization: forge(withAlgorithmNone, jwt.UnsafeAllowNoneSignatureType)},
		{name: "a token with the algorithm HS256, signed with the public key", authorization: forge(withAlgorithmHMAC, []byte(signingKey().Public().(ed25519PublicKey)))},
		{name: "a token that another key has signed", authorization: forge(noChange, foreignSigningKey())},
		{name: "a token with an unknown key id", authorization: forge(func(token *jwt.Token, _ jwt.MapClaims) { token.Header["kid"] = "other" }, signingKey())},
		{name: "a token whose header refers to its own key", authorization: forge(func(token *jwt.Token, _ jwt.MapClaims) { token.Header["jku"] = "https://evil.example" }, signingKey())},
		{name: "a token for another audience", authorization: forge(func(_ *jwt.Token, c jwt.MapClaims) { c["aud"] = "other" }, signingKey())},
		{name: "an expired token", expired: true, authorization: forge(func(_ *jwt.Token, c jwt.MapClaims) {
			c["exp"] = sys.clock.now().Add(-time.Minute).Unix()
		}, signingKey())},
		{name: "a session that was logged out", authorization: bearer(loggedOut.access)},
		{name: "an unknown secret key", authorization: unknownKey(account.SecretKey)},
		{name: "an unknown public key", authorization: unknownKey(account.PublicKey)},
		{name: "a mistyped secret key", authorization: bearer(mistyped(f.secretKey))},
		{name: "a merchant", validKind: merchants, authorization: bearer(f.merchant.access), token: true},
		{name: "a partner", validKind: partners, authorization: bearer(f.partner.access), token: true},
		{name: "an unknown service token", authorization: unknownKey(account.ServiceKey)},
		{name: "a mistyped service token", authorization: bearer(mistyped(tokenOwner.createServiceToken(t, "admin", "test", true)))},
		{name: "a service token of test mode", validKind: serviceTokens, mode: "test", authorization: bearer(tokenOwner.createServiceToken(t, "admin", "test", true))},
		{name: "a service token of live mode", validKind: serviceTokens, mode: "live", authorization: bearer(tokenOwner.createServiceToken(t, "admin", "live", true))},
		{name: "a participant token", validKind: participantTokens, authorization: bearer(participantToken)},
		{name: "a participant token that another key has signed", authorization: bearer(forgeToken(t, participantToken, noChange, foreignSigningKey()))},
		{name: "a participant token of another workspace's participant", authorization: bearer(forgeToken(t, participantToken, func(_ *jwt.Token, c jwt.MapClaims) {
			c["wid"] = tokenOwner.workspace
		}, signingKey()))},
		{name: "a participant token as an access token", authorization: bearer(forgeToken(t, participantToken, func(_ *jwt.Token, c jwt.MapClaims) { c["typ"] = "partner" }, signingKey()))},
		{name: "a secret key", validKind: secretKeys, authorization: bearer(f.secretKey)},
		{name: "a public key", validKind: "public key", authorization: bearer(f.publicKey)},
	}
}

func mistyped(key string) string {
	last := key[len(key)-1]
	if last == 'A' {
		return key[:len(key)-1] + "B"
	}
	return key[:len(key)-1] + "A"
}

// testRoles checks that each role can call exactly the routes for which it has the
// permission.
func testRoles(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	for _, role := range allRoles {
		owner.setRole(t, role)
		for _, r := range routes(t) {
			rule := routeRules[r.rpc]
			if !rule.allows(merchants) || rule.accepts == anyone {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", role, r), func(t *testing.T) {
				want := forbidden
				if slices.Contains(rolesByPermission[rule.permission], role) {
					want = rule.allowedOutcome
				}
				owner.do(t, r.verb, r.path(unknownIDs()), nil).wantOutcome(want)
			})
		}
	}

	t.Run("a removed member cannot call a route", func(t *testing.T) {
		sys.exec(t, "delete from members where user_id = $1", owner.id)
		owner.get(t, "/api/v1/programs").wantOutcome(unauthorized)
	})
}

// testServiceTokenRoles checks that a service token of each role can call exactly the
// routes that a member of the role can call, without the routes that move payouts.
func testServiceTokenRoles(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	for _, role := range allRoles[1:] {
		client := sys.client().withCredential(owner.createServiceToken(t, role, "test", false))
		for _, r := range routes(t) {
			rule := routeRules[r.rpc]
			if !rule.allows(serviceTokens) || rule.accepts == anyone {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", role, r), func(t *testing.T) {
				want := forbidden
				if slices.Contains(rolesByPermission[rule.permission], role) && !rule.movesPayouts && rule.tokenMode != "live" {
					want = rule.allowedOutcome
				}
				client.do(t, r.verb, r.path(unknownIDs()), nil).wantOutcome(want)
			})
		}
	}
}

// testViewerSeesMaskedAddresses checks that responses to a viewer contain e-mail
// addresses only in a masked form, and that a viewer cannot search for an address.
func testViewerSeesMaskedAddresses(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	commission := f.earnCommission(t)
	paths := map[string]string{
		f.programPath() + "/partners":    "data.0.partnerEmail",
		f.participantPath():              "partnerEmail",
		"/api/v1/commissions":            "data.0.partnerEmail",
		f.programPath() + "/commissions": "data.0.partnerEmail",
		f.commissionPath(commission):     "partnerEmail",
	}
	for path, field := range paths {
		f.merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{field: f.partner.email})
	}
	f.merchant.setRole(t, "viewer")
	for path, field := range paths {
		got := f.merchant.get(t, path).wantStatus(http.StatusOK)
		if seen := got.text(field); strings.Contains(got.body, f.partner.email) || !strings.HasPrefix(seen, "p***@") {
			t.Errorf("GET %s as a viewer returns the address %q, want p***@ and no full address", path, seen)
		}
	}
	f.merchant.get(t, "/api/v1/commissions?search="+f.partner.email).wantStatus(http.StatusOK).wantFields(object{"total": 0})
}
