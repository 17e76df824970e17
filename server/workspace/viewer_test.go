package workspace_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// The redirect is the email address that receives all e-mail of test mode.
func TestGetWorkspace_ViewersSeeTheRedirectMasked(t *testing.T) {
	f := newFixture(t)
	got, err := f.service.GetWorkspace(f.as(f.Owner, affiliate.RoleViewer), nil)
	if err != nil || got.TestMailRedirect != nil {
		t.Fatalf("GetWorkspace returned %v, %v, want no redirect", got, err)
	}
	redirect := "quality@shop.example"
	f.newTester(redirect)
	if _, err := f.update(&affiliatev1.UpdateWorkspaceRequest{TestMailRedirect: &redirect}, "test_mail_redirect"); err != nil {
		t.Fatal(err)
	}
	for _, role := range affiliate.Roles() {
		want := redirect
		if role == affiliate.RoleViewer {
			want = "q***@shop.example"
		}
		got, err := f.service.GetWorkspace(f.as(f.Owner, role), nil)
		if err != nil || got.GetTestMailRedirect() != want {
			t.Errorf("a member with the role %s gets the redirect %q, %v, want %q", role, got.GetTestMailRedirect(), err, want)
		}
	}
}
