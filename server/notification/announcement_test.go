package notification_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) announce(ctx context.Context, program, title, body string) (*affiliatev1.Announcement, error) {
	return f.service.CreateAnnouncement(ctx, &affiliatev1.CreateAnnouncementRequest{ProgramId: program, Title: title, Body: body})
}

func TestAnnouncement_ReachesApprovedParticipants(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jane := f.Join("Jane")
	for _, status := range []participant.Status{participant.Pending, participant.Rejected, participant.Suspended} {
		f.Join(string(status), pgtest.Row{"status": status})
	}
	stranger := f.NewParticipant(f.Scope, f.NewProgram(f.Scope), f.NewPartner("John"))
	got, err := f.announce(f.asOwner(), f.Program.String(), "{program} <b>", "Two\nlines")
	if err != nil {
		t.Fatal(err)
	}
	servertest.WantFields(t, "the announcement", got, &affiliatev1.Announcement{
		ProgramId: f.Program.String(), Title: "{program} <b>", Body: "Two\nlines", Recipients: ptr(int64(1)), CreatedAt: server.Timestamp(f.Now()),
		CreatedBy: ptr(f.Owner.String()), CreatedByName: ptr(f.Texts(`select name from users where id = $1`, f.Owner)[0]),
	})
	list, err := f.service.ListAnnouncements(f.asOwner(), &affiliatev1.ListAnnouncementsRequest{ProgramId: f.Program.String()})
	if err != nil || list.GetTotal() != 1 || !proto.Equal(list.GetData()[0], got) {
		t.Errorf("ListAnnouncements returned %v, error %v, want the announcement", list, err)
	}
	partner := f.reader(servertest.AsPartner(t, jane.Partner, affiliate.ModeTest))
	feed := partner.list(&affiliatev1.ListNotificationsRequest{})
	if len(feed.Data) != 1 {
		t.Fatalf("the feed of the participant has %d notifications, want 1", len(feed.Data))
	}
	servertest.WantFields(t, "the notification", feed.Data[0], &affiliatev1.Notification{
		Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_PROGRAMME_NEWS, Type: "program.announcement",
		Title: "{program} <b>", Body: "Two\nlines", Mode: affiliatev1.Mode_MODE_TEST,
		Resource: &affiliatev1.NotificationResource{Type: "announcement", Id: got.Id, ProgramId: ptr(f.Program.String())},
	})
	partner.mustRead(feed.Data[0].Id)
	partner.wantUnread("after reading the announcement", 0)
	f.reader(servertest.AsPartner(t, stranger.Partner, affiliate.ModeTest)).wantFeed("a participant of another programme")
	f.reader(f.asOwner()).wantFeed("the workspace")
	if n := f.AuditActions("program", f.Program.String()); len(n) != 1 || n[0] != "program.announce" {
		t.Errorf("the audit log has the actions %v, want program.announce", n)
	}
	f.WantCount(1, "notifications that wait to be distributed", `select coalesce(sum(cardinality(ids)), 0)::int from notification_arrivals`)
}

func TestAnnouncement_ReachesThousandsOfParticipants(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', 'p' || n || '@example.com', '', 'p', now() from generate_series(1, 2500) n`)
	f.ExecWithoutForeignKeys(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, $3, id, name, email, 'approved', id::text, '{}', now(), now(), now() from users where kind = 'partner'`,
		f.Scope.Workspace, f.Program, f.Scope.Mode)
	got, err := f.announce(f.asOwner(), f.Program.String(), "News", "Text")
	if err != nil || got.GetRecipients() != 2500 {
		t.Fatalf("the announcement has %d recipients, %v, want 2500", got.GetRecipients(), err)
	}
	f.WantCount(2500, "notifications", `select count(distinct feed_id) from notifications where type = 'program.announcement'`)
	f.WantCount(2500, "notifications that wait to be distributed", `select count(distinct feed) from notification_arrivals, unnest(feed_ids) feed`)
	f.WantCount(200, "notifications in the largest arrival", `select max(cardinality(ids)) from notification_arrivals`)
}

func TestAnnouncement_IsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewShop(affiliate.ModeTest)
	for name, tc := range map[string]struct {
		program string
		status  program.Status
		want    affiliate.Reason
	}{
		"a paused programme":               {f.NewProgram(f.Scope, pgtest.Row{"status": program.Paused}).String(), program.Paused, affiliate.ReasonProgramStateInvalid},
		"a draft":                          {f.NewProgram(f.Scope, pgtest.Row{"status": program.Draft}).String(), program.Draft, affiliate.ReasonProgramStateInvalid},
		"an archived programme":            {f.NewProgram(f.Scope, pgtest.Row{"status": program.Archived}).String(), program.Archived, affiliate.ReasonProgramStateInvalid},
		"a programme of another workspace": {other.Program.String(), "", affiliate.ReasonNotFound},
		"a programme of the other mode":    {f.InOtherMode().Program.String(), "", affiliate.ReasonNotFound},
		"an id that is not a UUID":         {"x", "", affiliate.ReasonNotFound},
	} {
		if _, err := f.announce(f.asOwner(), tc.program, "News", "Text"); pgtest.ReasonOf(t, err) != tc.want {
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		}
	}
	f.WantCount(0, "announcements", `select count(*) from announcements`)
}

func TestAnnouncement_IsLimitedToFiveADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	second := f.NewProgram(f.Scope).String()
	start := f.Now()
	for i := range 5 {
		if _, err := f.announce(f.asOwner(), f.Program.String(), "News", strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Hour)
	}
	_, err := f.announce(f.asOwner(), f.Program.String(), "News", "The sixth")
	var refusal *affiliate.Error
	if want := strconv.Itoa(19 * 3600); !errors.As(err, &refusal) || refusal.Reason != affiliate.ReasonRateLimitExceeded || refusal.Metadata["retry_after"] != want {
		t.Errorf("the sixth announcement returned %#v, want RATE_LIMIT_EXCEEDED with retry_after %s", err, want)
	}
	if _, err := f.announce(f.asOwner(), second, "News", "Another programme"); err != nil {
		t.Errorf("the announcement of another programme returned %v", err)
	}
	f.clock.Set(start.Add(24 * time.Hour))
	if _, err := f.announce(f.asOwner(), f.Program.String(), "News", "The next day"); err != nil {
		t.Errorf("after the retry_after, the announcement returned %v", err)
	}
}

// Concurrent announcements do not exceed the limit. Each response is about its own announcement.
func TestAnnouncement_ConcurrentCallsRespectTheLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	results := make(chan error, 8)
	ids := make(chan string, cap(results))
	for i := range cap(results) {
		go func() {
			got, err := f.announce(f.asOwner(), f.Program.String(), strconv.Itoa(i), "Text")
			if err == nil && got.GetTitle() != strconv.Itoa(i) {
				t.Errorf("the response has the title %q, want %d", got.GetTitle(), i)
			}
			ids <- got.GetId()
			results <- err
		}()
	}
	refused := 0
	for range cap(results) {
		if err := <-results; err != nil {
			refused++
			if pgtest.ReasonOf(t, err) != affiliate.ReasonRateLimitExceeded {
				t.Errorf("error %v, want RATE_LIMIT_EXCEEDED", err)
			}
		}
	}
	if refused != 3 {
		t.Errorf("%d of 8 announcements were refused, want 3", refused)
	}
	distinct := map[string]bool{}
	for range cap(ids) {
		distinct[<-ids] = true
	}
	if len(distinct) != 6 { // with the empty id of those that were refused
		t.Errorf("the responses have the ids %v, want five", distinct)
	}
}

func TestAnnouncement_Lengths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		title, body int
		valid       bool
	}{{1, 1, true}, {120, 5000, true}, {0, 1, false}, {1, 0, false}, {121, 1, false}, {1, 5001, false}} {
		err := (&affiliatev1.CreateAnnouncementRequest{Title: strings.Repeat("é", tc.title), Body: strings.Repeat("é", tc.body)}).ValidateAll()
		if (err == nil) != tc.valid {
			t.Errorf("a title of %d and a body of %d characters: error %v, want valid: %t", tc.title, tc.body, err, tc.valid)
		}
	}
}

// The title is the subject of a mail, which must not look empty.
func TestAnnouncement_HasVisibleText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, text := range []struct{ title, body string }{{"\ufeff", "Text"}, {"\u202e \u200b", "Text"}, {"News", "\u2060"}} {
		_, err := f.announce(f.asOwner(), f.Program.String(), text.title, text.body)
		if pgtest.ReasonOf(t, err) != affiliate.ReasonValidation {
			t.Errorf("title %q and body %q: error %v, want VALIDATION_ERROR", text.title, text.body, err)
		}
	}
	f.WantCount(0, "announcements", `select count(*) from announcements`)
}

func TestAnnouncement_OncePerIdempotencyKey(t *testing.T) {
	f := newFixture(t)
	f.Join("Anna")
	announce := func(key, title string) (*affiliatev1.Announcement, bool, error) {
		f.clock.Advance(time.Second)
		ctx, transport := servertest.WithTransport(f.asOwner(), key)
		a, err := f.announce(ctx, f.Program.String(), title, "Body")
		return a, transport.Replayed(), err
	}
	first, replayed, err := announce("k-1", "News")
	if err != nil || replayed || first.GetRecipients() != 1 {
		t.Fatalf("the first request returned %v, %v, replayed %t", first, err, replayed)
	}
	f.Join("Ben")
	// Repetitions do not count for the limit of five a day.
	for range 6 {
		again, replayed, err := announce("k-1", "News")
		if err != nil || !replayed || !proto.Equal(again, first) {
			t.Fatalf("the repeated request returned %v, %v, replayed %t; want the first response %v", again, err, replayed, first)
		}
	}
	_, _, err = announce("k-1", "Other news")
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	f.WantCount(1, "announcements", `select count(*) from announcements`)
	if _, replayed, err := announce("k-2", "News"); err != nil || replayed {
		t.Errorf("another key: the request returned %v, replayed %t", err, replayed)
	}
}

func TestListAnnouncements_PagesNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewProgram(f.Scope)
	f.Exec(`insert into announcements (id, workspace_id, program_id, mode, title, body, created_by, created_at)
		select gen_random_uuid(), $1, p, $2, n::text, 'Text', gen_random_uuid(), $3::timestamptz - n * interval '1 day'
		from unnest($4::uuid[]) p, generate_series(1, 5) n`, f.Scope.Workspace, f.Scope.Mode, f.Now(), []affiliate.ProgramID{f.Program, other})
	list, err := f.service.ListAnnouncements(f.asOwner(), &affiliatev1.ListAnnouncementsRequest{
		ProgramId: f.Program.String(), Page: ptr(int32(2)), PageSize: ptr(int32(2)),
	})
	if err != nil || list.GetTotal() != 5 || len(list.GetData()) != 2 || list.Data[0].GetTitle() != "3" || list.Data[1].GetTitle() != "4" {
		t.Fatalf("ListAnnouncements returned %v, error %v, want 3 and 4 of 5", list, err)
	}
	if first := list.Data[0]; first.Recipients != nil || first.CreatedByName != nil {
		t.Errorf("the announcement is %v, want no recipients and no name, because they are not known", first)
	}
	for name, ctx := range map[string]context.Context{
		"other mode":      servertest.AsMember(t, affiliate.Scope{Workspace: f.Scope.Workspace, Mode: f.Scope.Mode.Other()}, f.Owner, affiliate.RoleOwner),
		"other workspace": servertest.AsMember(t, affiliate.Scope{Workspace: f.NewWorkspace(), Mode: f.Scope.Mode}, f.Owner, affiliate.RoleOwner),
	} {
		_, err := f.service.ListAnnouncements(ctx, &affiliatev1.ListAnnouncementsRequest{ProgramId: f.Program.String()})
		if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonNotFound {
			t.Errorf("%s: ListAnnouncements returned %q, want NOT_FOUND", name, reason)
		}
	}
}
