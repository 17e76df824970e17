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
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// route is one HTTP rule of the proto contract.
type route struct {
	rpc, verb, template string
	body                bool
	input               protoreflect.MessageDescriptor
}

// routes reads all HTTP rules from the proto descriptors.
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
		one := route{rpc: string(rpc.Name()), body: r.GetBody() != "", input: rpc.Input()}
		switch pattern := r.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			one.verb, one.template = http.MethodGet, pattern.Get
		case *annotations.HttpRule_Post:
			one.verb, one.template = http.MethodPost, pattern.Post
		case *annotations.HttpRule_Patch:
			one.verb, one.template = http.MethodPatch, pattern.Patch
		case *annotations.HttpRule_Put:
			one.verb, one.template = http.MethodPut, pattern.Put
		case *annotations.HttpRule_Delete:
			one.verb, one.template = http.MethodDelete, pattern.Delete
		default:
			t.Fatalf("%s: unknown kind of pattern %T", rpc.FullName(), pattern)
		}
		all = append(all, one)
	}
	return all
}

func (r route) String() string { return r.verb + " " + r.template }

// path replaces the parameters of the template.
func (r route) path(ids map[string]string) string {
	path := r.template
	for name, id := range ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return path
}

func (r route) hasIDs() bool { return strings.Contains(r.template, "{") }

// unknownOutcome returns the expected outcome for ids that do not exist for the caller.
func (r route) unknownOutcome() outcome {
	if strings.Contains(r.template, "{webhook_id}") {
		return noWebhook
	}
	return notFound
}

// unknownIDs returns an id that does not exist for each path parameter.
func unknownIDs() map[string]string {
	return map[string]string{
		"program_id":     affiliate.NewID[affiliate.Program](time.Now()).String(),
		"participant_id": affiliate.NewID[affiliate.Participant](time.Now()).String(),
		"commission_id":  affiliate.NewID[affiliate.Commission](time.Now()).String(),
		"member_id":      affiliate.NewID[affiliate.User](time.Now()).String(),
		"invite_id":      affiliate.NewID[affiliate.Invite](time.Now()).String(),
		"key_id":         affiliate.NewID[affiliate.APIKey](time.Now()).String(),
		"group_id":       affiliate.NewID[affiliate.Group](time.Now()).String(),
		"link_id":        affiliate.NewID[affiliate.Link](time.Now()).String(),
		"promo_code_id":  affiliate.NewID[affiliate.PromoCode](time.Now()).String(),
		"conversion_id":  affiliate.NewID[affiliate.Conversion](time.Now()).String(),
		"click_id":       affiliate.NewID[affiliate.Click](time.Now()).String(),
		"payout_id":      affiliate.NewID[affiliate.Payout](time.Now()).String(),
		"batch_id":       affiliate.NewID[affiliate.Payout](time.Now()).String(),
		"event_id":       affiliate.NewID[affiliate.Event](time.Now()).String(),
		"webhook_id":     affiliate.NewID[affiliate.Endpoint](time.Now()).String(),
		"delivery_id":    affiliate.NewID[affiliate.Delivery](time.Now()).String(),
	}
}

// createAll creates one resource for each path parameter and returns the ids.
func (w world) createAll(t *testing.T) map[string]string {
	t.Helper()
	made := func(path string, body object) string {
		return w.merchant.post(t, path, body).want(http.StatusCreated).text("id")
	}
	click := w.click(t)
	report := w.report(t, purchase(click)).want(http.StatusCreated)
	suspicious := purchase(click)
	suspicious["customer_email"] = w.partner.email
	w.report(t, suspicious).want(http.StatusCreated)
	batch := w.sendPayouts(t)
	webhook, delivery := w.createDelivery(t)
	return map[string]string{
		"webhook_id":     webhook,
		"delivery_id":    delivery,
		"click_id":       click,
		"batch_id":       batch,
		"payout_id":      w.merchant.get(t, "/api/v1/payouts?batchId="+batch).want(http.StatusOK).text("data.0.id"),
		"event_id":       w.merchant.get(t, "/api/v1/fraud/events").want(http.StatusOK).text("data.0.id"),
		"program_id":     w.program,
		"participant_id": w.participant,
		"conversion_id":  report.text("id"),
		"commission_id":  report.text("commission.id"),
		"member_id":      w.merchant.id,
		"invite_id":      made("/api/v1/workspace/invites", object{"email": uniqueName("member") + "@example.com", "role": "viewer"}),
		"key_id":         made("/api/v1/api-keys", object{"name": "for the routes"}),
		"group_id":       made(w.programPath()+"/groups", object{"name": "for the routes", "percentage": 30}),
		"link_id":        made(w.programPath()+"/links", object{"participantId": w.participant, "destinationUrl": "https://shop.example/"}),
		"promo_code_id": made(w.programPath()+"/promo-codes", object{
			"participantId": w.participant, "code": "ROUTES", "discountType": "percentage", "discountValue": 10,
		}),
	}
}

// callerFor returns a caller of the world whom the rule allows, in a mode.
func (w world) callerFor(t *testing.T, r rule, mode string) caller {
	t.Helper()
	switch {
	case r.accepts == partners:
		return w.partner.in(mode).caller
	case r.allows(merchants):
		return w.merchant.in(mode).caller
	}
	return w.sys.caller().as(w.merchant.in(mode).secretKey(t))
}

// sendPayouts creates a bonus and a batch with its payout, and exports the batch.
func (w world) sendPayouts(t *testing.T) (batch string) {
	t.Helper()
	w.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com"}).want(http.StatusOK)
	w.merchant.post(t, w.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 500, "reason": "A good start"}).want(http.StatusCreated)
	batch = w.merchant.with("Idempotency-Key", uniqueName("batch")).post(t, "/api/v1/payouts/batches", object{}).want(http.StatusCreated).text("id")
	w.merchant.post(t, "/api/v1/payouts/batches/"+batch+"/confirm", nil).want(http.StatusOK)
	w.merchant.get(t, "/api/v1/payouts/batches/"+batch+"/export").want(http.StatusOK)
	return batch
}

// TestRoutes calls every route of the API with every kind of credential.
func TestRoutes(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	ids := w.createAll(t)
	stranger := sys.merchant(t).in("test")
	credentials := newCredentials(t, sys, w)

	known := map[string]bool{}
	for _, r := range routes(t) {
		known[r.rpc] = true
		rule, decided := contract[r.rpc]
		if !decided {
			t.Errorf("%s (%s) is not in the table contract", r, r.rpc)
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			for _, c := range credentials {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					want := c.expected(rule)
					from := c.caller(sys)
					got := from.do(t, r.verb, r.path(unknownIDs()), nil)
					got.wantOutcome(want)
					if zone, _, _ := strings.Cut(got.header.Get("RateLimit-Policy"), ";"); zone != r.zone(c, rule) {
						t.Errorf("counted in the zone %s, want %s", zone, r.zone(c, rule))
					}
					checkBrokenRequest(t, from, r, rule, want)
					checkBadMode(t, from, r, c, want)
				})
			}
			if r.hasIDs() && rule.allows(merchants) {
				t.Run("ids of another workspace", func(t *testing.T) {
					want := rule.foreign
					if want == (outcome{}) {
						want = r.unknownOutcome()
					}
					stranger.do(t, r.verb, r.path(ids), rule.requestBody()).wantOutcome(want)
				})
			}
			if r.hasIDs() && !rule.modeless {
				t.Run("ids of the other mode", func(t *testing.T) {
					want := r.unknownOutcome()
					if rule.foreign == allFailed {
						want = allFailed
					}
					w.callerFor(t, rule, "live").do(t, r.verb, r.path(ids), rule.requestBody()).wantOutcome(want)
				})
			}
			if r.hasIDs() {
				t.Run("an id that is not a UUID", func(t *testing.T) {
					none := map[string]string{}
					for name := range ids {
						none[name] = "x'--%00"
					}
					none["program_id"], none["commission_id"] = "1", "%C3%28"
					w.callerFor(t, rule, "test").do(t, r.verb, r.path(none), rule.requestBody()).wantOutcome(r.unknownOutcome())
				})
			}
		})
	}
	for name := range contract {
		if !known[name] {
			t.Errorf("%s is in the table contract but has no route", name)
		}
	}
}

// zone returns the rate limit zone in which a request counts (SPEC.md section 8). Only
// valid keys count in the zone of the conversion API.
func (r route) zone(c credential, rule rule) string {
	switch {
	case strings.Contains(r.template, "/health"):
		return ""
	case strings.Contains(r.template, "/auth/"):
		return `"auth"`
	case r.rpc == "ReportConversion" && (c.validKind == secretKeys || c.validKind == "public key"):
		return `"conversions"`
	}
	return `"general"`
}

// checkBrokenRequest sends requests that cannot be decoded. A rejected caller gets the
// same error as for a valid request and no information about the body.
func checkBrokenRequest(t *testing.T, from caller, r route, rule rule, want outcome) {
	t.Helper()
	broken := want
	if want == rule.admitted {
		broken = invalid
	}
	from.do(t, r.verb, r.path(unknownIDs())+"?noSuchParameter=1", nil).wantOutcome(broken)
	if r.body {
		from.do(t, r.verb, r.path(unknownIDs()), `{"broken`).wantOutcome(broken)
	}
}

// checkBadMode sends a mode that does not exist. The header is read only with access
// tokens, because keys contain their mode and open routes have none.
func checkBadMode(t *testing.T, from caller, r route, c credential, want outcome) {
	t.Helper()
	if c.token && want.status != http.StatusForbidden && contract[r.rpc].accepts != anyone {
		want = invalid
	}
	modes := []string{"prod"}
	if c.token {
		modes = append(modes, "LIVE", "test, live")
	}
	for _, mode := range modes {
		from.in(mode).do(t, r.verb, r.path(unknownIDs()), nil).wantOutcome(want)
	}
}

// credential is one kind of caller.
type credential struct {
	name string
	// authorization is the header, empty for none.
	authorization string
	// validKind is the kind of a valid credential, or empty.
	validKind string
	// expired marks an expired access token, which gets UNAUTHORIZED on every route.
	expired bool
	token   bool
}

func (c credential) caller(sys *system) caller {
	if c.authorization == "" {
		return sys.caller()
	}
	return sys.caller().with("Authorization", c.authorization)
}

func (c credential) expected(r rule) outcome {
	switch {
	case r.allows(c.validKind):
		return r.admitted
	case c.validKind != "":
		return forbidden
	case c.expired:
		return unauthorized
	}
	return r.rejection()
}

func newCredentials(t *testing.T, sys *system, w world) []credential {
	t.Helper()
	loggedOut := w.merchant.login(t)
	sys.caller().post(t, "/api/v1/auth/logout", object{"refreshToken": loggedOut.refresh}).want(http.StatusNoContent)
	bearer := func(text string) string { return "Bearer " + text }
	unknownKey := func(kind affiliate.KeyKind) string {
		return bearer(affiliate.NewKey(kind, affiliate.ModeTest).Reveal())
	}
	forge := func(change func(*jwt.Token, jwt.MapClaims), key any) string {
		return bearer(forgeToken(t, w.merchant.access, change, key))
	}
	return []credential{
		{name: "no credential"},
		{name: "garbage", authorization: bearer("garbage")},
		{name: "garbage in three parts", authorization: bearer("a.b.c")},
		{name: "another scheme", authorization: "Basic " + w.merchant.access},
		{name: "a scheme without a credential", authorization: "Bearer "},
		{name: "alg none", authorization: forge(asNone, jwt.UnsafeAllowNoneSignatureType)},
		{name: "alg HS256 with the public key", authorization: forge(asHMAC, []byte(signingKey().Public().(ed25519PublicKey)))},
		{name: "signed with another key", authorization: forge(noChange, otherKey())},
		{name: "unknown kid", authorization: forge(func(token *jwt.Token, _ jwt.MapClaims) { token.Header["kid"] = "other" }, signingKey())},
		{name: "a key in its own header", authorization: forge(func(token *jwt.Token, _ jwt.MapClaims) { token.Header["jku"] = "https://evil.example" }, signingKey())},
		{name: "for another audience", authorization: forge(func(_ *jwt.Token, c jwt.MapClaims) { c["aud"] = "other" }, signingKey())},
		{name: "an expired token", expired: true, authorization: forge(func(_ *jwt.Token, c jwt.MapClaims) {
			c["exp"] = sys.clock.now().Add(-time.Minute).Unix()
		}, signingKey())},
		{name: "a session that was logged out", authorization: bearer(loggedOut.access)},
		{name: "an unknown secret key", authorization: unknownKey(affiliate.SecretKey)},
		{name: "an unknown public key", authorization: unknownKey(affiliate.PublicKey)},
		{name: "a mistyped secret key", authorization: bearer(mistyped(w.secretKey))},
		{name: "a merchant", validKind: merchants, authorization: bearer(w.merchant.access), token: true},
		{name: "a partner", validKind: partners, authorization: bearer(w.partner.access), token: true},
		{name: "a secret key", validKind: secretKeys, authorization: bearer(w.secretKey)},
		{name: "a public key", validKind: "public key", authorization: bearer(w.publicKey)},
	}
}

func mistyped(key string) string {
	last := key[len(key)-1]
	if last == 'A' {
		return key[:len(key)-1] + "B"
	}
	return key[:len(key)-1] + "A"
}

// TestRoles checks every route against the role matrix.
func TestRoles(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	owner := sys.merchant(t)
	for _, role := range allRoles {
		owner.setRole(t, role)
		for _, r := range routes(t) {
			rule := contract[r.rpc]
			if !rule.allows(merchants) || rule.accepts == anyone {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", role, r), func(t *testing.T) {
				want := forbidden
				if slices.Contains(matrix[rule.permission], role) {
					want = rule.admitted
				}
				owner.do(t, r.verb, r.path(unknownIDs()), nil).wantOutcome(want)
			})
		}
	}

	t.Run("a removed member", func(t *testing.T) {
		sys.exec(t, "delete from members where user_id = $1", owner.id)
		owner.get(t, "/api/v1/programs").wantOutcome(unauthorized)
	})
}

// TestViewer_SeesMaskedAddresses checks that a viewer sees e-mail addresses in a masked
// form in every response. The masked form is enough to distinguish two partners.
func TestViewer_SeesMaskedAddresses(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	commission := w.earn(t)
	paths := map[string]string{
		w.programPath() + "/partners":    "data.0.partnerEmail",
		w.participantPath():              "partnerEmail",
		"/api/v1/commissions":            "data.0.partnerEmail",
		w.programPath() + "/commissions": "data.0.partnerEmail",
		w.commissionPath(commission):     "partnerEmail",
	}
	for path, field := range paths {
		w.merchant.get(t, path).want(http.StatusOK).wantFields(object{field: w.partner.email})
	}
	w.merchant.setRole(t, "viewer")
	for path, field := range paths {
		got := w.merchant.get(t, path).want(http.StatusOK)
		if seen := got.text(field); strings.Contains(got.body, w.partner.email) || !strings.HasPrefix(seen, "p***@") {
			t.Errorf("%s shows the address as %q to a viewer", path, seen)
		}
	}
	w.merchant.get(t, "/api/v1/commissions?search="+w.partner.email).want(http.StatusOK).wantFields(object{"total": 0})
}
