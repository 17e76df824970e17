package workspace_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

const (
	observe = affiliatev1.OriginPolicy_ORIGIN_POLICY_OBSERVE
	enforce = affiliatev1.OriginPolicy_ORIGIN_POLICY_ENFORCE
)

func (w *world) update(req *affiliatev1.UpdateWorkspaceRequest, paths ...string) (*affiliatev1.Workspace, error) {
	w.t.Helper()
	req = proto.CloneOf(req)
	req.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
	if found := w.service.Check(req); found != nil {
		w.t.Fatalf("check: %v", found)
	}
	return w.service.UpdateWorkspace(w.asOwner(), req)
}

func TestUpdateWorkspace(t *testing.T) {
	w := newWorld(t)
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
			"both cleared", &req{},
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
			w.t = t
			w.exec(`update workspaces set name = 'Full', currency = 'USD', timezone = 'UTC', version = 1, updated_at = created_at,
				allowed_origins = '{https://a.example}', origin_policy = 'enforce', test_mail_redirect = 'mail@a.example'`)
			w.exec(`delete from river.river_job`)
			records := w.countAudit("workspace.update")
			before, err := w.service.GetWorkspace(w.asOwner(), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := proto.CloneOf(before)
			tc.change(want)
			changes := 0
			if !proto.Equal(want, before) {
				changes = 1
			}
			got, err := w.update(tc.req, tc.paths...)
			if err != nil {
				t.Fatal(err)
			}
			if later := got.UpdatedAt.AsTime().After(before.UpdatedAt.AsTime()); later != (changes == 1) {
				t.Errorf("updated at %v, before %v", got.UpdatedAt.AsTime(), before.UpdatedAt.AsTime())
			}
			want.UpdatedAt = got.UpdatedAt
			if !proto.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			if read, err := w.service.GetWorkspace(w.asOwner(), nil); err != nil || !proto.Equal(read, got) {
				t.Errorf("read %v, %v", read, err)
			}
			if n := w.countAudit("workspace.update") - records; n != changes {
				t.Errorf("%d audit records", n)
			}
			if n := w.count(`select version - 1 from workspaces`); n != changes {
				t.Errorf("%d versions", n)
			}
			if n := w.jobs(); n != tc.jobs {
				t.Errorf("%d jobs for the edge directory", n)
			}
		})
	}
}

func TestUpdateWorkspace_EnforceRequiresAnOrigin(t *testing.T) {
	w := newWorld(t)
	wantViolation := func(err error) {
		t.Helper()
		w.requireReason(err, affiliate.ReasonValidation)
		var refusal *affiliate.Error
		if !asError(err, &refusal) || len(refusal.Violations) != 1 || refusal.Violations[0].Field != "origin_policy" {
			t.Errorf("got %v", err)
		}
	}
	_, err := w.update(&affiliatev1.UpdateWorkspaceRequest{OriginPolicy: enforce}, "origin_policy")
	wantViolation(err)
	if _, err := w.update(&affiliatev1.UpdateWorkspaceRequest{OriginPolicy: enforce, AllowedOrigins: []string{"https://a.example"}}, "origin_policy", "allowed_origins"); err != nil {
		t.Fatal(err)
	}
	_, err = w.update(&affiliatev1.UpdateWorkspaceRequest{}, "allowed_origins")
	wantViolation(err)
	if got, err := w.service.GetWorkspace(w.asOwner(), nil); err != nil || !slices.Equal(got.AllowedOrigins, []string{"https://a.example"}) || got.OriginPolicy != enforce {
		t.Errorf("after the refusal: %v, %v", got, err)
	}
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	w := newWorld(t)
	mask := func(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }
	type update = affiliatev1.UpdateWorkspaceRequest
	for name, tc := range map[string]struct {
		req  proto.Message
		want []string
	}{
		"no mask, no field":            {&update{}, nil},
		"a field, no mask":             {&update{Name: "N"}, []string{"update_mask"}},
		"unknown field":                {&update{UpdateMask: mask("version")}, []string{"update_mask"}},
		"the mask itself":              {&update{UpdateMask: mask("update_mask")}, []string{"update_mask"}},
		"required cleared":             {&update{UpdateMask: mask("name", "currency", "timezone")}, []string{"name", "currency", "timezone"}},
		"unknown currency":             {&update{UpdateMask: mask("currency"), Currency: "XXX"}, []string{"currency"}},
		"unknown time zone":            {&update{UpdateMask: mask("timezone"), Timezone: "Mars/Olympus"}, []string{"timezone"}},
		"local time zone":              {&update{UpdateMask: mask("timezone"), Timezone: "Local"}, []string{"timezone"}},
		"file name as time zone":       {&update{UpdateMask: mask("timezone"), Timezone: "../../etc/passwd"}, []string{"timezone"}},
		"second origin invalid":        {&update{UpdateMask: mask("allowed_origins"), AllowedOrigins: []string{"https://a.example", "a.example"}}, []string{"allowed_origins[1]"}},
		"address with a name":          {&update{UpdateMask: mask("test_mail_redirect"), TestMailRedirect: proto.String("QA <qa@a.example>")}, []string{"test_mail_redirect"}},
		"valid":                        {&update{UpdateMask: mask("timezone", "currency"), Timezone: "Europe/Berlin", Currency: "EUR"}, nil},
		"invite, invalid address":      {&affiliatev1.CreateInviteRequest{Email: "<a@b.example>"}, []string{"email"}},
		"invite":                       {&affiliatev1.CreateInviteRequest{Email: "a@b.example"}, nil},
		"period ends before it begins": {&affiliatev1.ListAuditLogRequest{DateFrom: proto.String("2026-02-02"), DateTo: proto.String("2026-02-01")}, []string{"date_to"}},
		"an export's period":           {&affiliatev1.ExportAuditLogRequest{DateTo: proto.String("yesterday")}, []string{"date_to"}},
		"an export's time zone":        {&affiliatev1.ExportAuditLogRequest{Timezone: proto.String("Nowhere")}, []string{"timezone"}},
		"a list without a period":      {&affiliatev1.ListAuditLogRequest{}, nil},
		"a request without checks":     {&affiliatev1.GetApiKeysRequest{}, nil},
		"a key without expiry":         {&affiliatev1.CreateApiKeyRequest{Name: "N"}, nil},
		"a member's new role":          {&affiliatev1.UpdateMemberRequest{MemberId: "x"}, nil},
	} {
		var fields []string
		for _, v := range w.service.Check(tc.req) {
			fields = append(fields, v.Field)
		}
		if !slices.Equal(fields, tc.want) {
			t.Errorf("%s: %v, want %v", name, fields, tc.want)
		}
	}
}

func TestUpdateWorkspace_InParallelKeepsAllChanges(t *testing.T) {
	w := newWorld(t)
	paths := []string{"name", "currency", "timezone", "test_mail_redirect"}
	errs := make(chan error, len(paths))
	for _, path := range paths {
		go func() {
			req := &affiliatev1.UpdateWorkspaceRequest{
				Name: "New", Currency: "EUR", Timezone: "Europe/Berlin", TestMailRedirect: proto.String("a@b.example"),
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}},
			}
			_, err := w.service.UpdateWorkspace(w.asOwner(), req)
			errs <- err
		}()
	}
	for range paths {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	got, err := w.service.GetWorkspace(w.asOwner(), nil)
	if err != nil || got.Name != "New" || got.Currency != "EUR" || got.Timezone != "Europe/Berlin" || got.GetTestMailRedirect() != "a@b.example" {
		t.Errorf("%v, %v", got, err)
	}
	if n := w.count(`select version from workspaces where id = $1`, w.id); n != 1+len(paths) {
		t.Errorf("version %d", n)
	}
	if n := w.countAudit("workspace.update"); n != len(paths) {
		t.Errorf("%d audit records", n)
	}
}

func TestMembers_OfOtherWorkspacesAreNotFound(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(time.Minute)
	mine, owner := w.id, w.owner
	other := w.newWorkspace()
	w.id = other
	stranger := w.newMember(affiliate.RoleManager, "stranger@shop.example")
	w.id = mine
	_, err := w.service.UpdateMember(w.asOwner(), &affiliatev1.UpdateMemberRequest{MemberId: stranger.String(), Role: affiliatev1.Role_ROLE_ADMIN})
	w.requireReason(err, affiliate.ReasonNotFound)
	_, err = w.service.RemoveMember(w.asOwner(), &affiliatev1.RemoveMemberRequest{MemberId: stranger.String()})
	w.requireReason(err, affiliate.ReasonNotFound)
	_, err = w.service.TransferOwnership(w.asOwner(), &affiliatev1.TransferOwnershipRequest{MemberId: stranger.String()})
	w.requireReason(err, affiliate.ReasonNotFound)
	if w.roleOf(owner) != affiliate.RoleOwner {
		t.Error("the owner lost the workspace")
	}
	w.id = other
	if w.roleOf(stranger) != affiliate.RoleManager {
		t.Error("a member of another workspace was changed")
	}
}
