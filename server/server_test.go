package server

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestChainOrder(t *testing.T) {
	want := []string{
		"panic guard", "request id", "access log", "error mapping", "recovery", "deadline",
		"authentication", "rate limit", "authorisation", "other mode", "validation",
	}
	var got []string
	for _, l := range (&pipeline{}).chain() {
		got = append(got, l.name)
		if l.reason == "" {
			t.Errorf("the interceptor %s does not state the reason for its position", l.name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the interceptors have the order %q, want %q", got, want)
	}
}

// Every value of the enum ErrorReason has a spec, and toStatus returns a status with the
// code and the message of the spec.
func TestToStatus_FollowsTheErrorSpecs(t *testing.T) {
	values := affiliatev1.ErrorReason(0).Descriptor().Values()
	if got, want := len(errorspec.All()), values.Len()-1; got != want {
		t.Errorf("%d error codes have a spec, want %d", got, want)
	}
	for _, spec := range errorspec.All() {
		reason := spec.Reason
		if spec.HTTPStatus < 400 || spec.GRPCCode == 0 || spec.Message == "" {
			t.Errorf("%s has the spec %v, want an HTTP status of an error, a gRPC code and a message", reason, spec)
		}
		st := toStatus(fmt.Errorf("wrapped: %w", affiliate.Refuse(reason)))
		if uint32(st.Code()) != spec.GRPCCode || st.Message() != spec.Message {
			t.Errorf("%s has the status code %d and the message %q, want %d and %q", reason, st.Code(), st.Message(), spec.GRPCCode, spec.Message)
		}
		if info := errorInfo(st); info.GetReason() != string(reason) || info.GetDomain() != ErrorDomain {
			t.Errorf("%s has the ErrorInfo %v, want the same reason and the domain %s", reason, info, ErrorDomain)
		}
	}
}

func TestToStatus_HasAtMostAHundredViolations(t *testing.T) {
	for count, want := range map[int]int{99: 99, 100: 100, 101: 100, 5000: 100} {
		var found affiliate.Violations
		for i := range count {
			found.Add(fmt.Sprintf("f%d", i), "must be good")
		}
		for _, detail := range toStatus(found.Err()).Details() {
			switch detail := detail.(type) {
			case *errdetails.BadRequest:
				if len(detail.FieldViolations) != want {
					t.Errorf("of %d violations, BadRequest contains %d, want %d", count, len(detail.FieldViolations), want)
				}
			case *affiliatev1.SpellableViolations:
				if len(detail.Violations) != want {
					t.Errorf("of %d violations, SpellableViolations contains %d, want %d", count, len(detail.Violations), want)
				}
			}
		}
	}
}

func TestToStatus_HidesTextOfInternalErrors(t *testing.T) {
	st := toStatus(errors.New("pq: password of user tributary is hunter2"))
	if st.Code() != codes.Internal || strings.Contains(st.String(), "hunter2") || errorInfo(st).GetReason() != "INTERNAL_ERROR" {
		t.Errorf("toStatus returned %v, want INTERNAL_ERROR without the text of the error", st)
	}
}

// sqlError is an error with an SQLSTATE.
type sqlError string

func (e sqlError) Error() string    { return string(e) }
func (e sqlError) SQLState() string { return string(e) }

func TestToStatus_OfLostDependencyIsServiceUnavailable(t *testing.T) {
	for _, lost := range []error{
		context.DeadlineExceeded, context.Canceled, status.Error(codes.Canceled, "context canceled"), io.EOF, io.ErrUnexpectedEOF, &net.OpError{Op: "dial", Err: errors.New("refused")},
		sqlError("08006"), sqlError("57P01"), sqlError("53300"), sqlError("25006"), sqlError("57014"), sqlError("55P03"), sqlError("40001"), sqlError("40P01"),
	} {
		st := toStatus(fmt.Errorf("query: %w", lost))
		if info := errorInfo(st); info.GetReason() != "SERVICE_UNAVAILABLE" || info.GetMetadata()["retry_after"] != "1" {
			t.Errorf("toStatus of %v returned %v, want SERVICE_UNAVAILABLE with retry_after = 1", lost, st)
		}
	}
	for _, internal := range []error{sqlError("42601"), sqlError("23505"), errors.New("bug")} {
		if st := toStatus(fmt.Errorf("query: %w", internal)); errorInfo(st).GetReason() != "INTERNAL_ERROR" {
			t.Errorf("toStatus of %v returned %v, want INTERNAL_ERROR", internal, st)
		}
	}
}

func errorInfo(st *status.Status) *errdetails.ErrorInfo {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

// Every method in the proto files has a policy, and every policy has a method.
func TestPolicies_MatchMethods(t *testing.T) {
	methods := map[string]bool{
		affiliatev1.GateService_Admit_FullMethodName: true, // has the policy of the method that the request names
		healthpb.Health_Check_FullMethodName:         true,
		healthpb.Health_List_FullMethodName:          true,
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("affiliate.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				full := fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(j).Name())
				methods[full] = true
				if _, ok := policies[full]; !ok && full != affiliatev1.GateService_Admit_FullMethodName {
					t.Errorf("the method %s has no policy", full)
				}
			}
		}
		return true
	})
	for method := range policies {
		if !methods[method] {
			t.Errorf("there is a policy for %s, which is not served", method)
		}
	}
	for name, service := range map[string]*grpc.ServiceDesc{
		"method": {ServiceName: "affiliate.v1.ProgramService", Methods: []grpc.MethodDesc{{MethodName: "WithoutPolicy"}}},
		"stream": {ServiceName: "affiliate.v1.ProgramService", Streams: []grpc.StreamDesc{{StreamName: "WithoutPolicy"}}},
	} {
		if err := checkPolicies([]Service{{Desc: service}}); err == nil {
			t.Errorf("checkPolicies accepted a %s without a policy", name)
		}
	}
	for method, policy := range policies {
		if policy.Accept == 0 {
			t.Errorf("%s accepts no kind of credential", method)
		}
		if policy.Accept&MerchantToken != 0 && len(roles[policy.Action]) == 0 {
			t.Errorf("%s has the action %q, which no role may do", method, policy.Action)
		}
		if policy.Accept&NoCredential == 0 && policy.Refusal == "" {
			t.Errorf("%s has no error code for a missing credential", method)
		}
	}
}

// testTokenKeys returns TokenKeys with one random key, and this private key.
func testTokenKeys(t *testing.T, now func() time.Time) (*TokenKeys, ed25519.PrivateKey) {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed)
	keys, err := ParseTokenKeys("k1:"+base64.StdEncoding.EncodeToString(seed), now)
	if err != nil {
		t.Fatal(err)
	}
	return keys, ed25519.NewKeyFromSeed(seed)
}

func TestTokenKeys_Verify(t *testing.T) {
	start := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	now := start
	keys, private := testTokenKeys(t, func() time.Time { return now })
	user := account.User{ID: affiliate.NewID[affiliate.UserID](now), Kind: affiliate.Partner}
	session := affiliate.NewID[affiliate.SessionID](now)
	validToken, err := keys.Sign(user, session, nil)
	if err != nil {
		t.Fatal(err)
	}
	forge := func(method jwt.SigningMethod, key any, change func(*jwt.Token, *claims)) string {
		t.Helper()
		c := claims{
			RegisteredClaims: jwt.RegisteredClaims{
				Issuer: tokenIssuer, Audience: jwt.ClaimStrings{tokenAudience},
				ExpiresAt: jwt.NewNumericDate(start.Add(time.Minute)), NotBefore: jwt.NewNumericDate(start),
			},
			Type: affiliate.Partner, Session: session.String(),
		}
		token := jwt.NewWithClaims(method, &c)
		token.Header["kid"] = "k1"
		if change != nil {
			change(token, &c)
		}
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	_, otherKey, _ := ed25519.GenerateKey(rand.Reader)
	for _, tc := range []struct {
		name, token string
		after       time.Duration // time since start
		ok, expired bool
	}{
		{"issued by Sign", validToken, 0, true, false},
		{"one second before the end of the leeway", validToken, account.AccessTokenLife + tokenLeeway - time.Second, true, false},
		{"at the end of the leeway", validToken, account.AccessTokenLife + tokenLeeway, false, true},
		{"signed with the right key", forge(jwt.SigningMethodEdDSA, private, nil), 0, true, false},
		{"not valid yet", forge(jwt.SigningMethodEdDSA, private, func(_ *jwt.Token, c *claims) { c.NotBefore = jwt.NewNumericDate(start.Add(31 * time.Second)) }), 0, false, false},
		{"signed with another key", forge(jwt.SigningMethodEdDSA, otherKey, nil), 0, false, false},
		{"signed with another key and expired", forge(jwt.SigningMethodEdDSA, otherKey, nil), time.Hour, false, false},
		{"alg none", forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil), 0, false, false},
		{"HMAC with the public key", forge(jwt.SigningMethodHS256, []byte(private.Public().(ed25519.PublicKey)), nil), 0, false, false},
		{"unknown kid", forge(jwt.SigningMethodEdDSA, private, func(t *jwt.Token, _ *claims) { t.Header["kid"] = "k2" }), 0, false, false},
		{"header jku", forge(jwt.SigningMethodEdDSA, private, func(t *jwt.Token, _ *claims) { t.Header["jku"] = "https://evil.example" }), 0, false, false},
		{"header jwk", forge(jwt.SigningMethodEdDSA, private, func(t *jwt.Token, _ *claims) { t.Header["jwk"] = map[string]string{} }), 0, false, false},
		{"another issuer", forge(jwt.SigningMethodEdDSA, private, func(_ *jwt.Token, c *claims) { c.Issuer = "other" }), 0, false, false},
		{"another audience", forge(jwt.SigningMethodEdDSA, private, func(_ *jwt.Token, c *claims) { c.Audience = jwt.ClaimStrings{"other"} }), 0, false, false},
		{"no expiry", forge(jwt.SigningMethodEdDSA, private, func(_ *jwt.Token, c *claims) { c.ExpiresAt = nil }), 0, false, false},
		{"unknown account kind", forge(jwt.SigningMethodEdDSA, private, func(_ *jwt.Token, c *claims) { c.Type = "robot" }), 0, false, false},
		{"no session", forge(jwt.SigningMethodEdDSA, private, func(_ *jwt.Token, c *claims) { c.Session = "" }), 0, false, false},
		{"a participant token without a workspace", forge(jwt.SigningMethodEdDSA, private, func(_ *jwt.Token, c *claims) { c.Type = participantType }), 0, false, false},
		{"garbage", "a.b.c", 0, false, false},
		{"a line break in the signature", validToken[:len(validToken)-3] + "\n" + validToken[len(validToken)-3:], 0, false, false},
		{"a line break at the end", validToken + "\r\n", 0, false, false},
		{"unused bits at the end that are not zero", withUnusedBits(validToken), 0, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now = start.Add(tc.after)
			got, err := keys.verify(tc.token)
			if tc.ok != (err == nil) || tc.expired != errors.Is(err, errTokenExpired) {
				t.Fatalf("verify returned the error %v, want success: %t, want the error of an expired token: %t", err, tc.ok, tc.expired)
			}
			if tc.ok && (got.session != session || got.participant != nil) {
				t.Errorf("verify returned the session %v, want %v", got, session)
			}
		})
	}
}

// withUnusedBits changes the last character of a token. The decoded signature stays the
// same, because a signature of 64 bytes leaves four bits of the last character unused.
func withUnusedBits(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1
	return token[:last] + string(alphabet[strings.IndexByte(alphabet, token[last])|1])
}

// A participant token names the participant and no session. It is valid as long as an
// access token.
func TestTokenKeys_ParticipantToken(t *testing.T) {
	start := time.Date(2026, 5, 6, 7, 8, 9, 500e6, time.UTC)
	now := start
	keys, err := ParseTokenKeys("k:"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", ed25519.SeedSize))), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	want := participantClaim{workspace: affiliate.NewID[affiliate.WorkspaceID](start), id: affiliate.NewID[affiliate.ParticipantID](start)}
	member, service := affiliate.NewID[affiliate.UserID](start), affiliate.NewID[affiliate.ServiceTokenID](start)
	text, expiresAt, err := keys.SignParticipant(want.workspace, want.id, affiliate.Actor{User: &member})
	if err != nil || !expiresAt.Equal(start.Add(15*time.Minute).Truncate(time.Second)) {
		t.Fatalf("SignParticipant returned the expiry %v and the error %v, want 15 minutes after %v", expiresAt, err, start)
	}
	got, err := keys.verify(text)
	if err != nil || got.participant == nil || !got.session.IsZero() || !got.expiresAt.Equal(expiresAt) {
		t.Fatalf("verify returned %+v, %v, want the participant %v and no session", got, err, want)
	}
	creator := got.participant.creator
	if got.participant.workspace != want.workspace || got.participant.id != want.id || creator.User == nil || *creator.User != member || creator.ServiceToken != nil {
		t.Errorf("verify returned %+v, want the participant %v and the creator %v", got.participant, want, member)
	}
	sign := func(creator *creatorClaim) string {
		signed, err := keys.sign(claims{
			RegisteredClaims: registered(want.id.String(), now, time.Minute), Type: participantType, Workspace: want.workspace.String(), Creator: creator,
		})
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	made, _, err := keys.SignParticipant(want.workspace, want.id, affiliate.Actor{ServiceToken: &service})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := keys.verify(made); err != nil || *got.participant.creator.ServiceToken != service || got.participant.creator.User != nil {
		t.Errorf("verify returned %+v, %v, want the service token %v as the creator", got.participant, err, service)
	}
	for _, wrong := range []*creatorClaim{nil, {}, {Subject: "x", Type: affiliate.Merchant}, {Subject: member.String(), Type: affiliate.Partner}} {
		if _, err := keys.verify(sign(wrong)); err == nil {
			t.Errorf("verify accepted the creator %+v", wrong)
		}
	}
	now = expiresAt.Add(tokenLeeway)
	if _, err := keys.verify(text); !errors.Is(err, errTokenExpired) {
		t.Errorf("verify of an expired token returned %v", err)
	}
}

// A change with a participant token is a change by the creator of the token.
func TestActorFrom_ParticipantToken(t *testing.T) {
	partner, service := affiliate.NewID[affiliate.UserID](time.Now()), affiliate.NewID[affiliate.ServiceTokenID](time.Now())
	caller := Principal{Kind: ParticipantToken, User: partner, Creator: affiliate.Actor{ServiceToken: &service}}
	if actor := ActorFrom(WithPrincipal(t.Context(), caller)); actor.String() != service.String() || !actor.ParticipantToken {
		t.Errorf("the actor is %+v, want a participant token of the service token %v", actor, service)
	}
}

func TestTokenKeys_AcceptTokensOfOlderKeys(t *testing.T) {
	seed := func(b byte) string {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), ed25519.SeedSize)))
	}
	oldKey, err := ParseTokenKeys("old:"+seed('o'), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	token, err := oldKey.Sign(account.User{Kind: affiliate.Partner}, affiliate.NewID[affiliate.SessionID](time.Now()), nil)
	if err != nil {
		t.Fatal(err)
	}
	bothKeys, err := ParseTokenKeys("new:"+seed('n')+", old:"+seed('o'), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bothKeys.verify(token); err != nil {
		t.Errorf("verify of a token of the old key: %v", err)
	}
	if bothKeys.signingKid != "new" || len(bothKeys.Public()) != 2 {
		t.Errorf(`the signing key is %q and there are %d public keys, want "new" and 2`, bothKeys.signingKid, len(bothKeys.Public()))
	}
	for _, list := range []string{"", "k1", "k1:xx", "k1:" + base64.StdEncoding.EncodeToString([]byte("short")), "a:" + seed('a') + ",a:" + seed('b')} {
		if _, err := ParseTokenKeys(list, time.Now); err == nil {
			t.Errorf("ParseTokenKeys accepted %q", list)
		}
	}
}

func TestEnumNames(t *testing.T) {
	if got, want := EnumName(affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX_SHIPPING_FEES), string(program.NetOfTaxShippingAndFee); got != want {
		t.Errorf("EnumName of NET_BASIS_NET_OF_TAX_SHIPPING_FEES returned %q, want %q", got, want)
	}
	if got := EnumName(affiliatev1.Mode_MODE_UNSPECIFIED); got != "" {
		t.Errorf("EnumName of MODE_UNSPECIFIED returned %q, want an empty name", got)
	}
	for name, want := range map[affiliate.Role]affiliatev1.Role{
		affiliate.RoleFinance: affiliatev1.Role_ROLE_FINANCE, "unknown": affiliatev1.Role_ROLE_UNSPECIFIED,
	} {
		if got := EnumValue[affiliatev1.Role](name); got != want {
			t.Errorf("EnumValue of %q returned %v, want %v", name, got, want)
		}
	}
}

func TestValidate_ReportsAllViolationsWithProtoPaths(t *testing.T) {
	conversion := func(change func(*affiliatev1.ReportConversionRequest)) proto.Message {
		r := &affiliatev1.ReportConversionRequest{EventType: affiliatev1.EventType_EVENT_TYPE_LEAD, ExternalTransactionId: "x"}
		change(r)
		return r
	}
	for name, tc := range map[string]struct {
		request    proto.Message
		wantFields []string
	}{
		"several fields": {
			&affiliatev1.CreateProgramRequest{
				Name:                  "  " + strings.Repeat("é", 101) + " ",
				AttributionWindowDays: new(int32(366)),
				CommissionRules:       &affiliatev1.CommissionRules{Percentage: new(100.5), HoldPeriodDays: new(int32(181))},
			},
			[]string{"attribution_window_days", "commission_rules.hold_period_days", "commission_rules.percentage", "name"},
		},
		"item of a list": {
			conversion(func(r *affiliatev1.ReportConversionRequest) {
				r.LineItems = []*affiliatev1.LineItem{{ProductId: "p"}, {ProductId: "p", AmountCents: -1}}
			}),
			[]string{"line_items[1].amount_cents"},
		},
		"NUL in a map": {
			&affiliatev1.ApplyRequest{ReferralCode: new("anna"), Answers: map[string]string{"why": "be\x00cause"}},
			[]string{"answers"},
		},
		"unknown enum value and NUL in a list": {
			conversion(func(r *affiliatev1.ReportConversionRequest) { r.EventType, r.ProductIds = 99, []string{"a", "b\x00"} }),
			[]string{"event_type", "product_ids[1]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for _, v := range ValidateItem(nil, tc.request) {
				fields = append(fields, v.Field)
			}
			slices.Sort(fields)
			if !slices.Equal(fields, tc.wantFields) {
				t.Errorf("validate found violations of %q, want %q", fields, tc.wantFields)
			}
		})
	}
}

func TestValidate_TrimsText(t *testing.T) {
	req := &affiliatev1.CreateApiKeyRequest{Name: "  shop \n"}
	if found := ValidateItem(nil, req); len(found) > 0 || req.GetName() != "shop" {
		t.Errorf("validate found the violations %v and changed the name to %q, want shop", found, req.GetName())
	}
}

func TestValidate_TrimsTextInLists(t *testing.T) {
	const id = "01936f2e-7c1a-7a3b-9d4e-5f60718293aa"
	invites := &affiliatev1.BulkInviteParticipantsRequest{ProgramId: id, Invites: []*affiliatev1.ParticipantInvitation{{Email: "fay@x.example ", Name: new(" ")}}}
	if found := ValidateItem(nil, invites); len(found) > 0 || invites.GetInvites()[0].GetEmail() != "fay@x.example" || invites.GetInvites()[0].Name != nil {
		t.Errorf("validate found the violations %v and changed the invitation to %v, want the address without the space", found, invites.GetInvites()[0])
	}
	blank := &affiliatev1.BulkMarkPayoutsPaidRequest{Payouts: []*affiliatev1.PaidPayout{{PayoutId: id, Reference: "T-1"}, {PayoutId: id, Reference: "  "}}}
	if found := ValidateItem(nil, blank); len(found) != 1 || found[0].Field != "payouts[1].reference" {
		t.Errorf("validate found the violations %v, want one of the blank reference", found)
	}
}

// countingLimiter allows every request and records the zone and the kind of subject.
type countingLimiter struct{ calls []string }

func (l *countingLimiter) Allow(_ context.Context, zone Zone, subject string) Allowance {
	l.calls = append(l.calls, string(zone)+" "+strings.SplitN(subject, ":", 2)[0])
	return Allowance{Allowed: true, Limit: 10, Window: 60, Remaining: 9, Reset: 60}
}

func TestLimit_ZoneAndSubject(t *testing.T) {
	key := Principal{Kind: SecretKey, Key: affiliate.NewID[affiliate.APIKeyID](time.Now())}
	user := Principal{Kind: MerchantToken, User: affiliate.NewID[affiliate.UserID](time.Now())}
	conversions := policies[affiliatev1.ConversionService_ReportConversion_FullMethodName]
	programs := policies[affiliatev1.ProgramService_ListPrograms_FullMethodName]
	change := policies[affiliatev1.AccountService_ChangeMerchantEmail_FullMethodName]
	resend := policies[affiliatev1.AccountService_ResendMerchantVerification_FullMethodName]
	buyer := policies[affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName]
	for _, tc := range []struct {
		name   string
		policy Policy
		id     identity
		want   string
	}{
		{"conversion with an API key", conversions, identity{principal: key}, "conversions key"},
		{"conversion with a token", conversions, identity{principal: user}, "general user"},
		{"conversion without a credential", conversions, identity{fault: faultMissing}, "general address"},
		{"list with a token", programs, identity{principal: user}, "general user"},
		{"list with a bad credential", programs, identity{fault: faultInvalid}, "general address"},
		{"login", Policy{Accept: NoCredential, Zone: ZoneAuth}, identity{fault: faultMissing}, "auth address"},
		{"change of address with a token", change, identity{principal: user}, "auth address"},
		{"resend with a token", resend, identity{principal: user}, "auth address,resend user"},
		{"resend with a token of a partner", resend, identity{principal: Principal{Kind: PartnerToken}}, "auth address"},
		{"resend without a credential", resend, identity{fault: faultMissing}, "auth address"},
		{"erasure of a buyer", buyer, identity{principal: user}, "general user,buyer_erasure workspace"},
		{"health", Policy{Accept: NoCredential}, identity{fault: faultMissing}, ""},
	} {
		l := &countingLimiter{}
		if err := limit(t.Context(), l, tc.policy, tc.id); err != nil {
			t.Errorf("%s: limit: %v", tc.name, err)
		}
		if got := strings.Join(l.calls, ","); got != tc.want {
			t.Errorf("%s: limit counted %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestPolicy_AuthoriseFollowsTheRoleMatrix(t *testing.T) {
	// Each letter stands for an action. The map letters names the action.
	allowedActions := map[affiliate.Role]string{
		affiliate.RoleOwner: "rpvk", affiliate.RoleAdmin: "rpvk", affiliate.RoleManager: "rpv",
		affiliate.RoleFinance: "rv", affiliate.RoleDeveloper: "rk", affiliate.RoleViewer: "r",
	}
	letters := map[string]Action{"r": readDashboards, "p": runPrograms, "v": review, "k": manageKeys}
	for role, allowed := range allowedActions {
		for letter, action := range letters {
			err := Policy{Accept: merchants, Action: action}.authorise(identity{principal: Principal{Kind: MerchantToken, Role: role}}, false)
			if want := strings.Contains(allowed, letter); (err == nil) != want {
				t.Errorf("authorise of the role %s for the action %s returned the error %v, want success: %t", role, action, err, want)
			}
		}
	}
}

func TestPolicy_RequiresVerifiedEmail(t *testing.T) {
	for _, tc := range []struct {
		name                           string
		method                         string
		caller                         Principal
		withSetting, verified, refused bool
	}{
		{"live key", affiliatev1.WorkspaceService_CreateApiKey_FullMethodName, Principal{Mode: affiliate.ModeLive}, true, false, true},
		{"live key, verified", affiliatev1.WorkspaceService_CreateApiKey_FullMethodName, Principal{Mode: affiliate.ModeLive}, true, true, false},
		{"live key, without the setting", affiliatev1.WorkspaceService_CreateApiKey_FullMethodName, Principal{Mode: affiliate.ModeLive}, false, false, false},
		{"test key", affiliatev1.WorkspaceService_CreateApiKey_FullMethodName, Principal{Mode: affiliate.ModeTest}, true, false, false},
		{"live programme", affiliatev1.ProgramService_ActivateProgram_FullMethodName, Principal{Mode: affiliate.ModeLive}, true, false, true},
		{"live payout batch", affiliatev1.PayoutService_ConfirmPayoutBatch_FullMethodName, Principal{Mode: affiliate.ModeLive}, true, false, true},
		{"payout method", affiliatev1.PartnerService_SetPayoutMethod_FullMethodName, Principal{Kind: PartnerToken, Mode: affiliate.ModeLive}, true, false, true},
		{"payout method with X-Mode test", affiliatev1.PartnerService_SetPayoutMethod_FullMethodName, Principal{Kind: PartnerToken, Mode: affiliate.ModeTest}, true, false, true},
		{"proposed payout method", affiliatev1.PartnerService_ConfirmPayoutMethodProposal_FullMethodName, Principal{Kind: PartnerToken, Mode: affiliate.ModeLive}, true, false, true},
		{"another live change", affiliatev1.ProgramService_PauseProgram_FullMethodName, Principal{Mode: affiliate.ModeLive}, true, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.caller.Kind == 0 {
				tc.caller.Kind, tc.caller.Role = MerchantToken, affiliate.RoleOwner
			}
			err := policies[tc.method].authorise(identity{principal: tc.caller, emailVerified: tc.verified}, tc.withSetting)
			if refused := errors.Is(err, affiliate.Refuse(affiliate.ReasonEmailNotVerified)); refused != tc.refused || err != nil && !refused {
				t.Errorf("authorise returned the error %v, want EMAIL_NOT_VERIFIED: %t", err, tc.refused)
			}
		})
	}
}

func TestInterceptors_TurnPanicsIntoInternalErrors(t *testing.T) {
	p := &pipeline{log: slog.New(slog.DiscardHandler), now: time.Now}
	boom := func(context.Context, any) (any, error) { panic("boom") }
	_, err := p.guard(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x/Y"}, boom)
	if errorInfo(status.Convert(err)).GetReason() != "INTERNAL_ERROR" {
		t.Errorf("guard returned the error %v, want INTERNAL_ERROR", err)
	}
	_, err = p.recover(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x/Y"}, boom)
	if !errors.Is(err, affiliate.Refuse(affiliate.ReasonInternal)) {
		t.Errorf("recover returned the error %v, want %s", err, affiliate.ReasonInternal)
	}
}

func TestIdempotencyKey_IsRefusedWhereItHasNoEffect(t *testing.T) {
	p := &pipeline{log: slog.New(slog.DiscardHandler), now: time.Now}
	next := func(context.Context, any) (any, error) { return nil, nil }
	// found calls a method with an empty request and returns the fields with violations, or
	// the error code of another refusal.
	found := func(ctx context.Context, method string, policy Policy) []string {
		t.Helper()
		request, err := requestOf(method)
		if err != nil {
			t.Fatal(err)
		}
		ctx = context.WithValue(ctx, admissionKey{}, admission{policy: policy})
		_, err = p.validate(ctx, request, &grpc.UnaryServerInfo{FullMethod: method}, next)
		var refusal *affiliate.Error
		if err == nil || !errors.As(err, &refusal) {
			return nil
		}
		if refusal.Reason != affiliate.ReasonValidation {
			return []string{string(refusal.Reason)}
		}
		fields := make([]string, len(refusal.Violations))
		for i, v := range refusal.Violations {
			fields[i] = v.Field
		}
		return fields
	}
	withKey := metadata.NewIncomingContext(t.Context(), metadata.Pairs("idempotency-key", "k-1"))
	for method, policy := range policies {
		if strings.HasPrefix(method, "/grpc.") {
			continue
		}
		// All faults are named at once, so the faults of the empty request come too. The
		// confirmation of an erasure is checked before the other fields.
		want := found(t.Context(), method, policy)
		if !policy.AcceptsKey && !slices.Equal(want, []string{string(affiliate.ReasonConfirmationInvalid)}) {
			want = append(want, "Idempotency-Key")
		}
		if got := found(withKey, method, policy); !slices.Equal(got, want) {
			t.Errorf("%s with an Idempotency-Key has the faults %q, want %q", method, got, want)
		}
	}
}

// A stream cannot send to a client that has gone. This is not an error of the service. A
// call that ends with 503 is a warning.
func TestInterceptors_LogInternalErrorsOnly(t *testing.T) {
	for err, logged := range map[error]string{
		errors.New("bug"): "ERROR",
		affiliate.Refuse(affiliate.ReasonValidation):              "",
		fmt.Errorf("query: %w", context.Canceled):                 "",
		status.FromContextError(context.Canceled).Err():           "",
		status.Error(codes.Unavailable, "transport is closing"):   "",
		fmt.Errorf("query: %w", context.DeadlineExceeded):         "WARN",
		status.Error(codes.Internal, "grpc: error while marshal"): "ERROR",
	} {
		var log strings.Builder
		p := &pipeline{log: slog.New(slog.NewTextHandler(&log, nil)), now: time.Now}
		_, _ = p.mapErrors(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x/Y"}, func(context.Context, any) (any, error) { return nil, err })
		if got := log.String(); logged == "" && got != "" || !strings.Contains(got, logged) {
			t.Errorf("%v: logged %q, want the level %q", err, got, logged)
		}
	}
}

// A gateway has one connection, on which its streams of notifications stay open.
func TestServer_AcceptsCallsBesideHundredsOfStreams(t *testing.T) {
	s, err := New(Config{DB: pgtest.Open(t, time.Now).DB, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client := healthpb.NewHealthClient(conn)
	calls, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	for i := range 300 {
		stream, err := client.Watch(calls, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	if _, err := client.Check(calls, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a call beside the streams: %v", err)
	}
	_ = conn.Close()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// The client's address and the request id are taken from the metadata only if the call
// comes from the in-process channel or from a trusted proxy.
func TestIdentifyCaller_IgnoresMetadataOfUntrustedPeer(t *testing.T) {
	p := &pipeline{now: time.Now}
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-client-ip", "203.0.113.9", "x-request-id", "chosen"))
	var c caller
	_, _ = p.identifyCaller(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) { c = callerFrom(ctx); return nil, nil })
	if c.address.IsValid() || c.requestID == "chosen" {
		t.Errorf("identifyCaller took the address %v and the request id %q from an untrusted peer, want neither", c.address, c.requestID)
	}
}
