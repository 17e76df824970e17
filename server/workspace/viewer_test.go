package workspace_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestAViewerSeesTheRedirectMasked(t *testing.T) {
	w := newWorld(t)
	got, err := w.service.GetWorkspace(w.as(w.owner, affiliate.RoleViewer, affiliate.ModeTest), nil)
	if err != nil || got.TestMailRedirect != nil {
		t.Fatalf("without a redirect: %v, %v", got, err)
	}
	redirect := "quality@shop.example"
	if _, err := w.store.UpdateWorkspace(t.Context(), w.id, affiliate.WorkspacePatch{TestMailRedirect: affiliate.Set(redirect)},
		w.now, affiliate.Actor{User: &w.owner}); err != nil {
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
