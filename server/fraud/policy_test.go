package fraud_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (w *world) getPolicy() *affiliatev1.ProgramFraudPolicy {
	w.Helper()
	p, err := w.service.GetFraudPolicy(w.callContext(w.scope), &affiliatev1.GetFraudPolicyRequest{ProgramId: w.program.String()})
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) putPolicy(req *affiliatev1.PutFraudPolicyRequest) *affiliatev1.ProgramFraudPolicy {
	w.Helper()
	req.ProgramId = w.program.String()
	p, err := w.service.PutFraudPolicy(w.callContext(w.scope), req)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func TestGetFraudPolicy_OfNewProgramme(t *testing.T) {
	w := newWorld(t)
	p := w.getPolicy()
	if p.GetProgramId() != w.program.String() || p.GetPolicy() != affiliatev1.FraudPolicy_FRAUD_POLICY_FLAG || p.GetUpdatedAt() == nil ||
		len(p.GetDisabledRules())+len(p.GetBlockedCountries())+len(p.GetCouponSites())+len(p.GetBrandTerms()) != 0 {
		t.Errorf("%v", p)
	}
	if len(p.GetRules()) != 14 || p.GetRules()[0].GetName() != "self_referral_email" || p.GetRules()[0].GetScore() != 100 ||
		slices.ContainsFunc(p.GetRules(), func(r *affiliatev1.FraudRule) bool { return !r.GetEnabled() || r.GetDescription() == "" }) {
		t.Errorf("%v", p.GetRules())
	}
}

func TestPutFraudPolicy_ReplacesThePolicy(t *testing.T) {
	w := newWorld(t)
	block := affiliatev1.FraudPolicy_FRAUD_POLICY_BLOCK
	p := w.putPolicy(&affiliatev1.PutFraudPolicyRequest{
		Policy: block, DisabledRules: []string{"bot_click", "bot_click"}, BlockedCountries: []string{"AQ"},
		CouponSites: []string{" Coupons.Example", "coupons.example"}, BrandTerms: []string{"ACME Shop "},
	})
	if p.GetPolicy() != block || !slices.Equal(p.GetDisabledRules(), []string{"bot_click"}) || !slices.Equal(p.GetBlockedCountries(), []string{"AQ"}) ||
		!slices.Equal(p.GetCouponSites(), []string{"coupons.example"}) || !slices.Equal(p.GetBrandTerms(), []string{"acme shop"}) {
		t.Errorf("%v", p)
	}
	for _, rule := range p.GetRules() {
		if rule.GetEnabled() == (rule.GetName() == "bot_click") {
			t.Errorf("%v", rule)
		}
	}
	if got := w.getPolicy(); !proto.Equal(got, p) {
		t.Errorf("put %v, got %v", p, got)
	}
	object, previous := w.LastEvent(affiliate.EventProgramUpdated)
	if object["fraud_policy"] != "block" || object["version"] != float64(2) || previous["fraud_policy"] != "flag" {
		t.Errorf("%v, %v", object, previous)
	}
	if n := w.Count(`select count(*) from audit_log where action = 'program.put_fraud_policy' and resource_id::text = $1
		and before ->> 'fraud_policy' = 'flag' and after -> 'brand_terms' = '["acme shop"]' and actor = $2`, w.program.String(), w.user.String()); n != 1 {
		t.Errorf("%d audit records", n)
	}

	// Fields that are absent from the request become empty.
	p = w.putPolicy(&affiliatev1.PutFraudPolicyRequest{Policy: block})
	if len(p.GetDisabledRules())+len(p.GetBlockedCountries())+len(p.GetCouponSites())+len(p.GetBrandTerms()) != 0 {
		t.Errorf("%v", p)
	}
	if object, previous := w.LastEvent(affiliate.EventProgramUpdated); object["version"] != float64(3) || previous != nil {
		t.Errorf("%v, %v", object, previous)
	}
}

func TestPutFraudPolicy_SamePolicyIsNotRecorded(t *testing.T) {
	w := newWorld(t)
	req := &affiliatev1.PutFraudPolicyRequest{Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_OBSERVE, BrandTerms: []string{"acme"}}
	first := w.putPolicy(req)
	if again := w.putPolicy(req); !proto.Equal(again, first) {
		t.Errorf("%v became %v", first, again)
	}
	if types, _ := w.Events(); len(types) != 1 {
		t.Errorf("%q", types)
	}
	if got := w.AuditActions("program", w.program.String()); !slices.Equal(got, []string{"program.put_fraud_policy"}) {
		t.Errorf("%q", got)
	}
}

func TestPutFraudPolicy_InParallelAppliesEach(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for _, terms := range [][]string{{"aa"}, {"bb"}, {"cc"}, {"dd"}} {
		wg.Go(func() {
			if _, err := w.service.PutFraudPolicy(w.callContext(w.scope), &affiliatev1.PutFraudPolicyRequest{
				ProgramId: w.program.String(), Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_FLAG, BrandTerms: terms,
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if version := w.Count(`select version from programs where id = $1`, w.program); version != 5 {
		t.Errorf("version %d", version)
	}
	// Each put recorded its predecessor's policy as the previous one.
	if n := w.Count(`select count(*) from audit_log a where exists (select from audit_log b where b.before -> 'brand_terms' = a.after -> 'brand_terms')`); n != 3 {
		t.Errorf("%d policies were recorded as replaced", n)
	}
}

func TestFraudPolicy_OfOtherScopesIsNotFound(t *testing.T) {
	w := newWorld(t)
	stranger := affiliate.Scope{Workspace: w.NewWorkspace(), Mode: w.scope.Mode}
	for name, tc := range map[string]struct {
		scope   affiliate.Scope
		program string
	}{
		"another workspace": {stranger, w.program.String()},
		"the other mode":    {affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeTest}, w.program.String()},
		"unknown":           {w.scope, affiliate.NewID[affiliate.Program](start).String()},
		"not a UUID":        {w.scope, "spring"},
	} {
		_, err := w.service.GetFraudPolicy(w.callContext(tc.scope), &affiliatev1.GetFraudPolicyRequest{ProgramId: tc.program})
		if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("%s, get: %v", name, err)
		}
		_, err = w.service.PutFraudPolicy(w.callContext(tc.scope), &affiliatev1.PutFraudPolicyRequest{
			ProgramId: tc.program, Policy: affiliatev1.FraudPolicy_FRAUD_POLICY_OFF,
		})
		if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("%s, put: %v", name, err)
		}
	}
	if types, _ := w.Events(); len(types) != 0 {
		t.Errorf("%q", types)
	}
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		req    proto.Message
		fields []string
	}{
		"valid":          {&affiliatev1.PutFraudPolicyRequest{DisabledRules: []string{"bot_click"}, CouponSites: []string{"Coupons.Example"}, BrandTerms: []string{"ab"}}, nil},
		"unknown rules":  {&affiliatev1.PutFraudPolicyRequest{DisabledRules: []string{"bot_click", "luck"}}, []string{"disabled_rules[1]"}},
		"not domains":    {&affiliatev1.PutFraudPolicyRequest{CouponSites: []string{"https://coupons.example/", "localhost", "a.example"}}, []string{"coupon_sites[0]", "coupon_sites[1]"}},
		"blank terms":    {&affiliatev1.PutFraudPolicyRequest{BrandTerms: []string{"  "}}, []string{"brand_terms[0]"}},
		"unknown policy": {&affiliatev1.PutFraudPolicyRequest{Policy: 99}, []string{"policy"}},
		"unknown status": {&affiliatev1.ListFraudEventsRequest{Status: 99}, []string{"status"}},
	} {
		var fields []string
		for _, violation := range w.service.Check(tc.req) {
			fields = append(fields, violation.Field)
		}
		if !slices.Equal(fields, tc.fields) {
			t.Errorf("%s: %s", name, strings.Join(fields, ", "))
		}
	}
}
