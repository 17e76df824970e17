package fraud_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) getPolicy() *affiliatev1.ProgramFraudPolicy {
	f.Helper()
	policy, err := f.service.GetFraudPolicy(asOwner(f.Shop), &affiliatev1.GetFraudPolicyRequest{ProgramId: f.Program.String()})
	if err != nil {
		f.Fatal(err)
	}
	return policy
}

// putPolicy sets the programme in req and sends it as the shop's owner, one second after
// the previous call.
func (f *fixture) putPolicy(req *affiliatev1.PutFraudPolicyRequest) *affiliatev1.ProgramFraudPolicy {
	f.Helper()
	f.clock.Advance(time.Second)
	req.ProgramId = f.Program.String()
	policy, err := f.service.PutFraudPolicy(asOwner(f.Shop), req)
	if err != nil {
		f.Fatal(err)
	}
	return policy
}

func TestGetFraudPolicy_OfNewProgramme(t *testing.T) {
	f := newFixture(t)
	got := f.getPolicy()
	want := &affiliatev1.ProgramFraudPolicy{
		ProgramId: f.Program.String(), Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_FLAG, Rules: got.GetRules(), UpdatedAt: server.Timestamp(f.Now()),
	}
	if !proto.Equal(got, want) {
		t.Errorf("GetFraudPolicy returned %v\nwant %v", got, want)
	}
	rules := got.GetRules()
	if len(rules) != 14 || rules[0].GetName() != "self_referral_email" || rules[0].GetScore() != 100 {
		t.Errorf("GetFraudPolicy returned the rules %v, want 14, starting with self_referral_email and its score 100", rules)
	}
	for _, rule := range rules {
		if !rule.GetEnabled() || rule.GetDescription() == "" {
			t.Errorf("GetFraudPolicy returned the rule %v, want an enabled rule with a description", rule)
		}
	}
}

func TestPutFraudPolicy_ReplacesThePolicy(t *testing.T) {
	f := newFixture(t)
	got := f.putPolicy(&affiliatev1.PutFraudPolicyRequest{
		Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_BLOCK, DisabledRules: []string{"bot_click", "bot_click"}, BlockedCountries: []string{"AQ"},
		CouponSites: []string{" Coupons.Example", "coupons.example"}, BrandTerms: []string{"ACME Shop "},
	})
	want := &affiliatev1.ProgramFraudPolicy{
		ProgramId: f.Program.String(), Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_BLOCK, DisabledRules: []string{"bot_click"},
		BlockedCountries: []string{"AQ"}, CouponSites: []string{"coupons.example"}, BrandTerms: []string{"acme shop"},
		Rules: got.GetRules(), UpdatedAt: server.Timestamp(f.Now()),
	}
	if !proto.Equal(got, want) {
		t.Errorf("PutFraudPolicy returned %v\nwant %v", got, want)
	}
	for _, rule := range got.GetRules() {
		if want := rule.GetName() != "bot_click"; rule.GetEnabled() != want {
			t.Errorf("the rule %s has enabled = %v, want %v", rule.GetName(), rule.GetEnabled(), want)
		}
	}
	if read := f.getPolicy(); !proto.Equal(read, got) {
		t.Errorf("GetFraudPolicy returned %v after PutFraudPolicy returned %v", read, got)
	}
	object, previous := f.LastEvent(affiliate.EventProgramUpdated)
	if object["fraud_policy"] != "block" || object["version"] != 2.0 || previous["fraud_policy"] != "flag" {
		t.Errorf("the event has policy %v after %v, version %v, want block after flag, version 2", object["fraud_policy"], previous["fraud_policy"], object["version"])
	}
	if n := f.Count(`select count(*) from audit_log where action = 'program.put_fraud_policy' and resource_id::text = $1
		and before ->> 'fraud_policy' = 'flag' and after -> 'brand_terms' = '["acme shop"]' and actor = $2`, f.Program.String(), f.Owner.String()); n != 1 {
		t.Errorf("the audit log has %d records of the change by the owner, want 1", n)
	}

	// Fields that are absent from the request become empty.
	got = f.putPolicy(&affiliatev1.PutFraudPolicyRequest{Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_BLOCK})
	want = &affiliatev1.ProgramFraudPolicy{
		ProgramId: f.Program.String(), Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_BLOCK, Rules: got.GetRules(), UpdatedAt: server.Timestamp(f.Now()),
	}
	if !proto.Equal(got, want) {
		t.Errorf("PutFraudPolicy returned %v\nwant %v", got, want)
	}
	// Only the lists of the policy have changed. The event does not contain them, so it
	// has no previous values.
	if object, previous := f.LastEvent(affiliate.EventProgramUpdated); object["version"] != 3.0 || previous != nil {
		t.Errorf("the event has version %v and the previous values %v, want version 3 and none", object["version"], previous)
	}
}

func TestPutFraudPolicy_SamePolicyIsNotRecorded(t *testing.T) {
	f := newFixture(t)
	req := &affiliatev1.PutFraudPolicyRequest{Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_OBSERVE, BrandTerms: []string{"acme"}}
	first := f.putPolicy(req)
	if again := f.putPolicy(req); !proto.Equal(again, first) {
		t.Errorf("PutFraudPolicy returned %v for the same policy, want %v", again, first)
	}
	if types, _ := f.Events(); !slices.Equal(types, []string{"program.updated"}) {
		t.Errorf("the events are %q, want one program.updated", types)
	}
	if got := f.AuditActions("program", f.Program.String()); !slices.Equal(got, []string{"program.put_fraud_policy"}) {
		t.Errorf("the audit log has %q, want one program.put_fraud_policy", got)
	}
}

func TestPutFraudPolicy_InParallelAppliesEach(t *testing.T) {
	f := newFixture(t)
	var calls sync.WaitGroup
	for _, terms := range [][]string{{"aa"}, {"bb"}, {"cc"}, {"dd"}} {
		calls.Go(func() {
			_, err := f.service.PutFraudPolicy(asOwner(f.Shop), &affiliatev1.PutFraudPolicyRequest{
				ProgramId: f.Program.String(), Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_FLAG, BrandTerms: terms,
			})
			if err != nil {
				t.Errorf("PutFraudPolicy: %v", err)
			}
		})
	}
	calls.Wait()
	if version := f.Count(`select version from programs where id = $1`, f.Program); version != 5 {
		t.Errorf("after 4 changes the programme has version %d, want 5", version)
	}
	// The audit record of each change contains the policy that the change replaced. The
	// policies of three of the four changes were replaced by another change.
	n := f.Count(`select count(*) from audit_log a where exists (select from audit_log b where b.before -> 'brand_terms' = a.after -> 'brand_terms')`)
	if n != 3 {
		t.Errorf("the audit log shows that %d of the four new policies were replaced, want 3", n)
	}
}

func TestFraudPolicy_OfOtherScopesIsNotFound(t *testing.T) {
	f := newFixture(t)
	for name, tc := range map[string]struct {
		caller  context.Context
		program string
	}{
		"another workspace":    {asOwner(f.NewShop(affiliate.ModeLive)), f.Program.String()},
		"the other mode":       {asOwner(f.InOtherMode()), f.Program.String()},
		"unknown programme":    {asOwner(f.Shop), affiliate.NewID[affiliate.ProgramID](f.Now()).String()},
		"invalid programme id": {asOwner(f.Shop), "spring"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.GetFraudPolicy(tc.caller, &affiliatev1.GetFraudPolicyRequest{ProgramId: tc.program})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.PutFraudPolicy(tc.caller, &affiliatev1.PutFraudPolicyRequest{
				ProgramId: tc.program, Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_OFF,
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if types, _ := f.Events(); len(types) != 0 {
		t.Errorf("after refused calls the events are %q, want none", types)
	}
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	f := newFixture(t)
	for name, tc := range map[string]struct {
		req  proto.Message
		want []string
	}{
		"valid policy": {&affiliatev1.PutFraudPolicyRequest{
			DisabledRules: []string{"bot_click"}, CouponSites: []string{"Coupons.Example"}, BrandTerms: []string{"ab"},
		}, nil},
		"unknown rule": {&affiliatev1.PutFraudPolicyRequest{DisabledRules: []string{"bot_click", "luck"}}, []string{"disabled_rules[1]"}},
		"coupon sites that are no domains": {&affiliatev1.PutFraudPolicyRequest{
			CouponSites: []string{"https://coupons.example/", "localhost", "a.example"},
		}, []string{"coupon_sites[0]", "coupon_sites[1]"}},
		"blank brand term":     {&affiliatev1.PutFraudPolicyRequest{BrandTerms: []string{"  "}}, []string{"brand_terms[0]"}},
		"unknown policy":       {&affiliatev1.PutFraudPolicyRequest{Policy: 99}, []string{"policy"}},
		"unknown event status": {&affiliatev1.ListFraudEventsRequest{Status: 99}, []string{"status"}},
	} {
		var fields []string
		for _, violation := range f.service.Check(tc.req) {
			fields = append(fields, violation.Field)
		}
		if !slices.Equal(fields, tc.want) {
			t.Errorf("%s: Check found violations of the fields %q, want %q", name, fields, tc.want)
		}
	}
}
