package workspace_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestUpdateWorkspace_ClosesTheBooks(t *testing.T) {
	f := newFixture(t)
	closeBooks := func(text string) (*affiliatev1.Workspace, error) {
		t.Helper()
		f.clock.Advance(time.Second)
		return f.update(&affiliatev1.UpdateWorkspaceRequest{BooksClosedUntil: &text}, "books_closed_until")
	}
	// The time zone that the same request sets applies to the date.
	got, err := f.update(&affiliatev1.UpdateWorkspaceRequest{Timezone: "Europe/Berlin", BooksClosedUntil: proto.String("2026-03-31")}, "timezone", "books_closed_until")
	want := "2026-03-31T22:00:00.000Z"
	if err != nil || affiliate.FormatTime(got.GetBooksClosedUntil().AsTime()) != want {
		t.Fatalf("UpdateWorkspace returned %v, %v, want the books closed until %s", got, err, want)
	}
	if line, want := f.lastChange("workspace.update"), `{"timezone": "UTC", "books_closed_until": null} → {"timezone": "Europe/Berlin", "books_closed_until": "2026-03-31T22:00:00.000Z"}`; line != want {
		t.Errorf("the audit record is %s, want %s", line, want)
	}
	if _, err := closeBooks("2026-03-31"); err != nil {
		t.Errorf("closing the same day again returned %v", err)
	}
	for _, text := range []string{"2026-03-30", "2026-03-31T21:59:59.999Z"} {
		_, err := closeBooks(text)
		if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonPeriodClosed); metadata["books_closed_until"] != want {
			t.Errorf("%s: the error has the metadata %v, want %s", text, metadata, want)
		}
	}
	for _, text := range []string{"2026-05-06", "2026-05-06T08:00:00Z", "yesterday"} {
		_, err := closeBooks(text)
		pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "books_closed_until")
	}
	if got, err := closeBooks("2026-05-05"); err != nil || affiliate.FormatTime(got.GetBooksClosedUntil().AsTime()) != "2026-05-05T22:00:00.000Z" {
		t.Errorf("closing a later day returned %v, %v", got, err)
	}
	if n := f.countAudit("workspace.update"); n != 2 {
		t.Errorf("%d audit records, want 2: the other calls have changed nothing", n)
	}
	// Other settings can still be changed.
	if got, err := f.update(&affiliatev1.UpdateWorkspaceRequest{Name: "New"}, "name"); err != nil || got.GetBooksClosedUntil() == nil {
		t.Errorf("a change of the name returned %v, %v", got, err)
	}
}

func TestUpdateWorkspace_BooksCannotBeOpenedAgain(t *testing.T) {
	f := newFixture(t)
	found := f.service.Check(&affiliatev1.UpdateWorkspaceRequest{UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"books_closed_until"}}})
	if len(found) != 1 || found[0].Field != "books_closed_until" || found[0].Message != affiliate.IsRequired {
		t.Errorf("a request that clears the field has the violations %v, want one", found)
	}
}
