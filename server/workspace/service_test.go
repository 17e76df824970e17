package workspace_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	observe = affiliatev1.OriginPolicy_ORIGIN_POLICY_OBSERVE
	enforce = affiliatev1.OriginPolicy_ORIGIN_POLICY_ENFORCE
)

func (f *fixture) update(req *affiliatev1.UpdateWorkspaceRequest, paths ...string) (*affiliatev1.Workspace, error) {
	f.Helper()
	req = proto.CloneOf(req)
	req.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
	if found := f.service.Check(req); found != nil {
		f.Fatalf("check: %v", found)
	}
	return f.service.UpdateWorkspace(f.asOwner(), req)
}

func TestUpdateWorkspace(t *testing.T) {
	f := newFixture(t)
	f.newTester("qa+1@shop.example")
	type req = affiliatev1.UpdateWorkspaceRequest
	for _, tc := range []struct {
		name   string
		req    *req
		paths  []string
		change func(*affiliatev1.Workspace)
		jobs   int // jobs that update the edge directory
	}{
		{"nothing", &req{}, nil, func(*affiliatev1.Workspace) {}, 0},
		{"name", &req{Name: "New"}, []string{"name"}, func(p *affiliatev1.Workspace) { p.Name = "New" }, 0},
		{"the same name", &req{Name: "Full"}, []string{"name"}, func(*affiliatev1.Workspace) {}, 0},
		{
			"a field outside the mask", &req{Name: "New", Currency: "EUR"},
			[]string{"currency"},
			func(p *affiliatev1.Workspace) { p.Currency = "EUR" },
			0,
		},
		{
			"currency and timezone", &req{Currency: "jpy", Timezone: "Asia/Tokyo"},
			[]string{"currency", "timezone"},
			func(p *affiliatev1.Workspace) { p.Currency, p.Timezone = "JPY", "Asia/Tokyo" },
			0,
		},
		{
			"origins replaced", &req{AllowedOrigins: []string{"HTTPS://Shop.example:443", "http://localhost:3000", "https://shop.example", "https://*.B.example"}},
			[]string{"allowed_origins"},
			func(p *affiliatev1.Workspace) {
				p.AllowedOrigins = []string{"https://shop.example", "http://localhost:3000", "https://*.b.example"}
			},
			1,
		},
		{
			"the same origins", &req{AllowedOrigins: []string{"https://A.example:443"}},
			[]string{"allowed_origins"},
			func(*affiliatev1.Workspace) {},
			0,
		},
		{"policy cleared", &req{}, []string{"origin_policy"}, func(p *affiliatev1.Workspace) { p.OriginPolicy = observe }, 1},
		{
			"policy and origins cleared", &req{},
			[]string{"origin_policy", "allowed_origins"},
			func(p *affiliatev1.Workspace) { p.OriginPolicy, p.AllowedOrigins = observe, nil },
			1,
		},
		{
			"redirect set", &req{TestMailRedirect: proto.String("QA+1@Shop.example")},
			[]string{"test_mail_redirect"},
			func(p *affiliatev1.Workspace) { p.TestMailRedirect = proto.String("qa+1@shop.example") },
			0,
		},
		{"redirect cleared", &req{}, []string{"test_mail_redirect"}, func(p *affiliatev1.Workspace) { p.TestMailRedirect = nil }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.Exec(`update workspaces set name = 'Full', currency = 'USD', timezone = 'UTC', version = 1, updated_at = created_at,
				allowed_origins = '{https://a.example}', origin_policy = 'enforce', test_mail_redirect = 'mail@a.example'`)
			f.Exec(`delete from river.river_job`)
			records := f.countAudit("workspace.update")
			before, err := f.service.GetWorkspace(f.asOwner(), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := proto.CloneOf(before)
			tc.change(want)
			changes := 0
			if !proto.Equal(want, before) {
				changes = 1
			}
			f.clock.Advance(time.Second)
			got, err := f.update(tc.req, tc.paths...)
			if err != nil {
				t.Fatal(err)
			}
			if later := got.UpdatedAt.AsTime().After(before.UpdatedAt.AsTime()); later != (changes == 1) {
				t.Errorf("updated_at was %v and is %v, after %d changes", before.UpdatedAt.AsTime(), got.UpdatedAt.AsTime(), changes)
			}
			want.UpdatedAt = got.UpdatedAt
			if !proto.Equal(got, want) {
				t.Errorf("UpdateWorkspace returned\n%v, want\n%v", got, want)
			}
			if read, err := f.service.GetWorkspace(f.asOwner(), nil); err != nil || !proto.Equal(read, got) {
				t.Errorf("GetWorkspace returned %v, %v, want %v", read, err, got)
			}
			if n := f.countAudit("workspace.update") - records; n != changes {
				t.Errorf("%d audit records, want %d", n, changes)
			}
			if n := f.Count(`select version - 1 from workspaces`); n != changes {
				t.Errorf("the version grew by %d, want %d", n, changes)
			}
			if n := f.countDirectoryJobs(); n != tc.jobs {
				t.Errorf("%d jobs for the edge directory, want %d", n, tc.jobs)
			}
		})
	}
}

func TestUpdateWorkspace_EnforceRequiresAnOrigin(t *testing.T) {
	for _, policy := range []affiliatev1.OriginPolicy{enforce, affiliatev1.OriginPolicy_ORIGIN_POLICY_ENFORCE_STRICT} {
		t.Run(policy.String(), func(t *testing.T) {
			f := newFixture(t)
			_, err := f.update(&affiliatev1.UpdateWorkspaceRequest{OriginPolicy: policy}, "origin_policy")
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "origin_policy")
			if _, err := f.update(&affiliatev1.UpdateWorkspaceRequest{OriginPolicy: policy, AllowedOrigins: []string{"https://a.example"}}, "origin_policy", "allowed_origins"); err != nil {
				t.Fatal(err)
			}
			_, err = f.update(&affiliatev1.UpdateWorkspaceRequest{}, "allowed_origins")
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "origin_policy")
			if got, err := f.service.GetWorkspace(f.asOwner(), nil); err != nil || !slices.Equal(got.AllowedOrigins, []string{"https://a.example"}) || got.OriginPolicy != policy {
				t.Errorf("after the refusal the workspace is %v, %v, want the origin https://a.example and the policy %s", got, err, policy)
			}
		})
	}
}

func TestUpdateWorkspace_SetsThePayoutApproval(t *testing.T) {
	f := newFixture(t)
	approval := func(cents *int64) *affiliatev1.UpdateWorkspaceRequest {
		return &affiliatev1.UpdateWorkspaceRequest{PayoutApproval: &affiliatev1.PayoutApproval{SecondPersonAboveCents: cents}}
	}
	notifications := 0
	for _, tc := range []struct {
		req  *affiliatev1.UpdateWorkspaceRequest
		path string
		want *int64
	}{
		{approval(new(int64(0))), "payout_approval.second_person_above_cents", new(int64(0))},
		{approval(new(int64(100_000))), "payout_approval", new(int64(100_000))},
		{approval(nil), "payout_approval.second_person_above_cents", nil},
		{approval(new(int64(5))), "payout_approval", new(int64(5))},
		{&affiliatev1.UpdateWorkspaceRequest{}, "payout_approval", nil},
	} {
		notifications++
		got, err := f.update(tc.req, tc.path)
		if err != nil {
			t.Fatal(err)
		}
		if cents := got.GetPayoutApproval().SecondPersonAboveCents; fmt.Sprint(pointed(cents)) != fmt.Sprint(pointed(tc.want)) {
			t.Errorf("UpdateWorkspace returned the limit %v, want %v", pointed(cents), pointed(tc.want))
		}
		f.WantCount(notifications, "notifications", `select count(*) from notifications where type = 'security.payout_approval_changed' and user_id = $1`, f.Owner)
	}
	if _, err := f.update(approval(new(int64(-1))), "payout_approval"); err == nil {
		t.Error("UpdateWorkspace accepted a negative limit")
	}

	asToken := server.WithPrincipal(t.Context(), server.Principal{
		Kind: server.ServiceToken, Workspace: f.Scope.Workspace, Mode: affiliate.ModeLive, Role: affiliate.RoleAdmin,
		Service: &account.ServiceToken{CreatedBy: f.Owner, AllowPayouts: true},
	})
	req := approval(new(int64(7)))
	req.UpdateMask = &fieldmaskpb.FieldMask{Paths: []string{"payout_approval"}}
	_, err := f.service.UpdateWorkspace(asToken, req)
	pgtest.RequireRefusal(t, err, affiliate.ReasonForbidden)
}

// pointed returns the value of a pointer, or nil.
func pointed(p *int64) any {
	if p == nil {
		return nil
	}
	return *p
}

func TestUpdateWorkspace_RedirectsOnlyToVerifiedMembers(t *testing.T) {
	f := newFixture(t)
	f.newMember(affiliate.RoleAdmin, pgtest.Row{"email": "unverified@shop.example"})
	f.NewMerchant("Former", pgtest.Row{"email": "former@shop.example", "email_verified_at": f.Now()})
	f.NewPartner("Pia", pgtest.Row{"email": "pia@blog.example", "email_verified_at": f.Now()})
	f.newShop().newTester("other@shop.example")
	for _, address := range []string{"unverified@shop.example", "former@shop.example", "pia@blog.example", "other@shop.example", "nobody@shop.example"} {
		_, err := f.update(&affiliatev1.UpdateWorkspaceRequest{Name: "New", TestMailRedirect: &address}, "name", "test_mail_redirect")
		var refusal *affiliate.Error
		if !errors.As(err, &refusal) || refusal.Reason != affiliate.ReasonValidation || len(refusal.Violations) != 1 || refusal.Violations[0].Field != "test_mail_redirect" {
			t.Errorf("%s: error %v, want VALIDATION_ERROR of test_mail_redirect", address, err)
		}
	}
	got, err := f.service.GetWorkspace(f.asOwner(), nil)
	if err != nil || got.TestMailRedirect != nil || got.Name == "New" {
		t.Errorf("refused updates have changed the workspace to %v, %v", got, err)
	}
	f.newTester("qa@shop.example")
	qa := "qa@shop.example"
	if _, err := f.update(&affiliatev1.UpdateWorkspaceRequest{TestMailRedirect: &qa}, "test_mail_redirect"); err != nil {
		t.Fatal(err)
	}
	// A redirect that does not change is not checked again.
	f.Exec(`update users set email_verified_at = null where email = $1`, qa)
	if _, err := f.update(&affiliatev1.UpdateWorkspaceRequest{Name: "New", TestMailRedirect: &qa}, "name", "test_mail_redirect"); err != nil {
		t.Errorf("an update with the same redirect returned %v", err)
	}
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	f := newFixture(t)
	mask := func(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }
	type update = affiliatev1.UpdateWorkspaceRequest
	for name, tc := range map[string]struct {
		req  proto.Message
		want []string
	}{
		"no mask, no field":              {&update{}, nil},
		"a field, no mask":               {&update{Name: "N"}, []string{"update_mask"}},
		"unknown field":                  {&update{UpdateMask: mask("version")}, []string{"update_mask"}},
		"the mask names itself":          {&update{UpdateMask: mask("update_mask")}, []string{"update_mask"}},
		"required fields cleared":        {&update{UpdateMask: mask("name", "currency", "timezone")}, []string{"name", "currency", "timezone"}},
		"a name with a link":             {&update{UpdateMask: mask("name"), Name: "Win at https://evil.example"}, []string{"name"}},
		"unknown currency":               {&update{UpdateMask: mask("currency"), Currency: "XXX"}, []string{"currency"}},
		"unknown time zone":              {&update{UpdateMask: mask("timezone"), Timezone: "Mars/Olympus"}, []string{"timezone"}},
		"local time zone":                {&update{UpdateMask: mask("timezone"), Timezone: "Local"}, []string{"timezone"}},
		"file name as time zone":         {&update{UpdateMask: mask("timezone"), Timezone: "../../etc/passwd"}, []string{"timezone"}},
		"second origin invalid":          {&update{UpdateMask: mask("allowed_origins"), AllowedOrigins: []string{"https://a.example", "a.example"}}, []string{"allowed_origins[1]"}},
		"address with a name":            {&update{UpdateMask: mask("test_mail_redirect"), TestMailRedirect: proto.String("QA <qa@a.example>")}, []string{"test_mail_redirect"}},
		"valid":                          {&update{UpdateMask: mask("timezone", "currency"), Timezone: "Europe/Berlin", Currency: "EUR"}, nil},
		"invite, invalid address":        {&affiliatev1.CreateInviteRequest{Email: "<a@b.example>"}, []string{"email"}},
		"invite":                         {&affiliatev1.CreateInviteRequest{Email: "a@b.example"}, nil},
		"period ends before it begins":   {&affiliatev1.ListAuditLogRequest{DateFrom: proto.String("2026-02-02"), DateTo: proto.String("2026-02-01")}, []string{"date_to"}},
		"an export's period":             {&affiliatev1.ExportAuditLogRequest{DateTo: proto.String("yesterday")}, []string{"date_to"}},
		"an export's time zone":          {&affiliatev1.ExportAuditLogRequest{Timezone: proto.String("Nowhere")}, []string{"timezone"}},
		"a list without a period":        {&affiliatev1.ListAuditLogRequest{}, nil},
		"a request that needs no checks": {&affiliatev1.GetApiKeysRequest{}, nil},
		"a key without expiry":           {&affiliatev1.CreateApiKeyRequest{Name: "N"}, nil},
		"a member's new role":            {&affiliatev1.UpdateMemberRequest{MemberId: "x"}, nil},
	} {
		var fields []string
		for _, v := range f.service.Check(tc.req) {
			fields = append(fields, v.Field)
		}
		if !slices.Equal(fields, tc.want) {
			t.Errorf("%s: violations of %v, want %v", name, fields, tc.want)
		}
	}
}

func TestUpdateWorkspace_InParallelKeepsAllChanges(t *testing.T) {
	f := newFixture(t)
	f.newTester("a@b.example")
	paths := []string{"name", "currency", "timezone", "test_mail_redirect"}
	errs := make(chan error, len(paths))
	for _, path := range paths {
		go func() {
			req := &affiliatev1.UpdateWorkspaceRequest{
				Name: "New", Currency: "CHF", Timezone: "Europe/Berlin", TestMailRedirect: proto.String("a@b.example"),
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}},
			}
			_, err := f.service.UpdateWorkspace(f.asOwner(), req)
			errs <- err
		}()
	}
	for range paths {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	got, err := f.service.GetWorkspace(f.asOwner(), nil)
	if err != nil || got.Name != "New" || got.Currency != "CHF" || got.Timezone != "Europe/Berlin" || got.GetTestMailRedirect() != "a@b.example" {
		t.Errorf("after four updates the workspace is %v, %v", got, err)
	}
	if n := f.Count(`select version from workspaces where id = $1`, f.Scope.Workspace); n != 1+len(paths) {
		t.Errorf("the version is %d, want %d", n, 1+len(paths))
	}
	if n := f.countAudit("workspace.update"); n != len(paths) {
		t.Errorf("%d audit records, want %d", n, len(paths))
	}
}

func TestMembers_OfOtherWorkspacesAreNotFound(t *testing.T) {
	f := newFixture(t)
	other := f.newShop()
	stranger := other.newMember(affiliate.RoleManager)
	_, err := f.service.UpdateMember(f.asOwner(), &affiliatev1.UpdateMemberRequest{MemberId: stranger.String(), Role: affiliatev1.Role_ROLE_ADMIN})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	_, err = f.service.RemoveMember(f.asOwner(), &affiliatev1.RemoveMemberRequest{MemberId: stranger.String()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	_, err = f.service.TransferOwnership(f.asOwner(), &affiliatev1.TransferOwnershipRequest{MemberId: stranger.String()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if role := f.roleOf(f.Owner); role != affiliate.RoleOwner {
		t.Errorf("the owner now has the role %q", role)
	}
	if role := other.roleOf(stranger); role != affiliate.RoleManager {
		t.Errorf("the member of the other workspace now has the role %q, want manager", role)
	}
}
