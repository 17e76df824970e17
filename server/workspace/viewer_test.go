package workspace_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestGetWorkspace_ViewersSeeTheRedirectMasked(t *testing.T) {
	w := newWorld(t)
	got, err := w.service.GetWorkspace(w.as(w.owner, affiliate.RoleViewer, affiliate.ModeTest), nil)
	if err != nil || got.TestMailRedirect != nil {
		t.Fatalf("without a redirect: %v, %v", got, err)
	}
	redirect := "quality@shop.example"
	if _, err := w.update(&affiliatev1.UpdateWorkspaceRequest{TestMailRedirect: &redirect}, "test_mail_redirect"); err != nil {
		t.Fatal(err)
	}
	for _, role := range affiliate.Roles() {
		want := redirect
		if role == affiliate.RoleViewer {
			want = "q***@shop.example"
		}
		got, err := w.service.GetWorkspace(w.as(w.owner, role, affiliate.ModeTest), nil)
		if err != nil || got.GetTestMailRedirect() != want {
			t.Errorf("%s: %v, %v", role, got, err)
		}
	}
}
