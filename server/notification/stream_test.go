package notification_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestStream_FormatOfEvents(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	owner := n.inSession(n.asOwner())
	s, ready := n.openReady(owner, "")
	if want := fmt.Sprintf("retry: 5000\nid: %s\nevent: ready\ndata: {\"type\":\"ready\",\"api_version\":\"v1\",\"unreadCount\":0}", ready.id); ready.text != want {
		t.Errorf("the first event is\n%s\nwant\n%s", ready.text, want)
	}
	if got := s.header.Get("x-accel-buffering"); !slices.Equal(got, []string{"no"}) {
		t.Errorf("the header X-Accel-Buffering is %q, want no", got)
	}
	resource := affiliate.NewID[affiliate.CommissionID](n.Now())
	id := n.notify("commission.created", func(c *notification.Notification) { c.Program, c.Resource = &n.Program, &resource.UUID })
	got := s.nextNotification()
	listed := n.reader(owner).list(&affiliatev1.ListNotificationsRequest{}).Data[0]
	want := fmt.Sprintf(`id: %d
event: notification
data: {"type":"notification.created","api_version":"v1","notification":{"id":"%s","category":"commissions","type":"commission.created","title":%q,"body":%q,`+
		`"severity":"info","resource":{"type":"commission","id":"%s","programId":"%s"},"actionUrl":%q,`+
		`"read":false,"readAt":null,"dismissedAt":null,"mode":"test","createdAt":"2026-05-06T07:08:09.001Z","facts":{"amount":%q,"program":%q}},"unreadCount":1}`,
		ready.seq()+1, id, listed.Title, listed.Body, resource, n.Program, listed.GetActionUrl(), listed.Facts["amount"], listed.Facts["program"])
	if got.text != want {
		t.Errorf("the notification is sent as\n%s\nwant\n%s", got.text, want)
	}
	n.reader(owner).mustRead(id)
	if got, want := s.next("unread_count").text, "event: unread_count\ndata: {\"type\":\"unread_count\",\"api_version\":\"v1\",\"unreadCount\":0}"; got != want {
		t.Errorf("after reading the stream sent\n%s\nwant\n%s", got, want)
	}
	n.Exec(`update sessions set revoked_at = $1`, n.Now())
	if got, want := s.next("reauth").text, "event: reauth\ndata: {\"type\":\"reauth\",\"api_version\":\"v1\"}"; got != want {
		t.Errorf("after logout the stream sent\n%s\nwant\n%s", got, want)
	}
	s.wantEnd()
}

func TestStream_SendsPings(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	notificationservice.SetPingInterval(n.service, 10*time.Millisecond)
	s, ready := n.openReady(n.inSession(n.asOwner()), "")
	for range 2 {
		if got := s.next(""); got.text != "id: "+ready.id+"\n: ping" {
			t.Errorf("the stream sent %q, want a comment with the id %s", got.text, ready.id)
		}
	}
	// The user does not see this notification, so only the next ping has its number.
	if _, err := n.service.UpdateNotificationPreferences(s.ctx, commissionsInFeed(false)); err != nil {
		t.Fatal(err)
	}
	n.notifyMany(1)
	want := strconv.FormatInt(ready.seq()+1, 10)
	pgtest.Eventually(n, "a ping has the number "+want, func() bool { return s.next("").id == want })
}

// A replay shows what has happened to its notifications since the client was connected.
func TestStream_ReplaysCurrentState(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	ctx := n.inSession(n.asOwner())
	owner := n.reader(ctx)
	s, ready := n.openReady(ctx, "")
	ids := n.notifyMany(4)
	s.wantNotifications(ready.seq(), ids...)
	s.close()
	owner.mustRead(ids[0])
	owner.mustDismiss(ids[2])
	// The first stream reads the notifications from the database, the second one shares
	// them with the first.
	for range 2 {
		replayed, _ := n.openReady(ctx, ready.id)
		var got []string
		for range 3 {
			e := replayed.nextNotification()
			got = append(got, fmt.Sprint(slices.Index(ids, e.data.Notification.ID), " read ", strings.Contains(e.text, `"read":true,"readAt":"2026`), " unread ", *e.data.UnreadCount))
		}
		if want := []string{"0 read true unread 0", "1 read false unread 1", "3 read false unread 2"}; !slices.Equal(got, want) {
			t.Errorf("the replay sent %q, want %q", got, want)
		}
	}
}

func TestStream_ReplaysAtMostThousandNotificationsOfOneDay(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	owner := n.inSession(n.asOwner())
	s, ready := n.openReady(owner, "")
	ids := n.notifyMany(notification.MaxReplay)
	last := s.wantNotifications(ready.seq(), ids...)
	s.close()

	replayed, _ := n.openReady(owner, ready.id)
	if got := replayed.wantNotifications(ready.seq(), ids...); got.id != last.id {
		t.Errorf("the replay ends with the id %s, want %s", got.id, last.id)
	}
	next := n.notifyMany(1)
	replayed.wantNotifications(last.seq(), next...)
	replayed.close()

	// wantResync opens a stream that cannot continue after the event. The stream sends
	// only notifications that are created after that.
	wantResync := func(name, after string) event {
		t.Helper()
		s, first := n.openReady(owner, after)
		if got := s.next("resync"); got.id != first.id || got.text != "id: "+got.id+"\nevent: resync\ndata: {\"type\":\"resync\",\"api_version\":\"v1\"}" {
			t.Errorf("%s: the stream sent\n%s\nwant resync with the id %s of ready", name, got.text, first.id)
		}
		last := s.wantNotifications(first.seq(), n.notifyMany(1)...)
		s.close()
		return last
	}
	last = wantResync("more than 1,000 notifications", ready.id)
	n.clock.Advance(notification.ReplayLife - time.Minute)
	owner = n.inSession(n.asOwner())
	s, _ = n.openReady(owner, last.id)
	young := s.wantNotifications(last.seq(), n.notifyMany(1)...)
	s.close()
	n.clock.Advance(2 * time.Minute)
	owner = n.inSession(n.asOwner())
	s, _ = n.openReady(owner, last.id) // continues after the notification that is too old
	s.wantNotifications(last.seq(), young.data.Notification.ID)
	s.close()
	last = wantResync("a notification of more than 24 hours ago", strconv.FormatInt(last.seq()-1, 10))

	n.clock.Advance(notification.ReplayLife + account.AccessTokenLife + time.Hour)
	owner = n.inSession(n.asOwner())
	n.notifyMany(1) // the feed is not streamed any more
	last = wantResync("a feed that was not streamed for a day", last.id)
	wantResync("a number that was not assigned yet", strconv.FormatInt(last.seq()+1000, 10))
}

func TestStream_CountsUnreadNotificationsAgain(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	ctx := n.inSession(n.asOwner())
	owner, manager := n.reader(ctx), n.reader(n.newReader(affiliate.RoleManager))
	s, ready := n.openReady(ctx, "")
	ids := n.notifyMany(5)
	s.wantNotifications(ready.seq(), ids...)

	owner.mustRead(ids[0])
	s.wantUnreadCount(4)
	owner.mustDismiss(ids[1])
	s.wantUnreadCount(3)
	manager.mustDismiss(ids[2])
	s.wantUnreadCount(2)
	if _, err := n.service.UpdateNotificationPreferences(ctx, commissionsInFeed(false)); err != nil {
		t.Fatal(err)
	}
	s.wantUnreadCount(0)
	// The notification is sent to the manager only.
	other, otherReady := n.openReady(n.inSession(manager.ctx), "")
	other.wantNotifications(otherReady.seq(), n.notifyMany(1)...)
	if _, err := n.service.UpdateNotificationPreferences(ctx, commissionsInFeed(true)); err != nil {
		t.Fatal(err)
	}
	s.wantUnreadCount(3)
	other.close()
	owner.readAll(everything)
	// If this stream reads the notification after the change of the preference, it sends it
	// too.
	s.wantUnreadCount(0, "notification")
	if got := s.wantNotifications(ready.seq(), n.notifyMany(1)...); *got.data.UnreadCount != 1 {
		t.Errorf("the next notification has the unread count %d, want 1", *got.data.UnreadCount)
	}
	manager.readAll(everything) // does not change the number of the owner
	manager.dismissRead(everything)
	s.wantUnreadCount(0)
}

// commissionsInFeed returns the change of a preference.
func commissionsInFeed(shown bool) *affiliatev1.UpdateNotificationPreferencesRequest {
	return &affiliatev1.UpdateNotificationPreferencesRequest{Categories: []*affiliatev1.CategoryPreferenceChange{{
		Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_COMMISSIONS, InApp: &shown,
	}}}
}

// A stream sends the notifications that the user sees in the feed, and no others.
func TestStream_SendsOnlyVisibleNotifications(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	finance := n.NewMember(n.Scope.Workspace, affiliate.RoleFinance)
	s, ready := n.openReady(n.inSession(n.as(finance, affiliate.RoleFinance)), "")
	jane := n.Join("Jane").Partner
	partner, partnerReady := n.openReady(n.inSession(servertest.AsPartner(t, jane, affiliate.ModeTest)), "")

	n.notify("participant.applied") // the role does not receive this category
	n.notify("security.role_changed", about(n.Owner))
	n.notify("commission.created", func(c *notification.Notification) { live := affiliate.ModeLive; c.Mode = &live })
	own := n.notify("security.role_changed", about(finance))
	shown := n.notify("payout.paid")
	s.wantNotifications(ready.seq(), own, shown)
	partner.wantNotifications(partnerReady.seq(), n.notifyPartner(jane, "payout.paid"))
}

// A stream that sends new notifications late does not send those of a category that the
// user had disabled before they were created.
func TestStream_LateStreamAppliesNewPreferences(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	late, lateReady := n.openReady(n.inSession(n.asOwner()), "")
	other, ready := n.openReady(n.inSession(n.newReader(affiliate.RoleAdmin)), "")
	first := n.notify("payout.paid")
	other.wantNotifications(ready.seq(), first)
	if _, err := n.service.UpdateNotificationPreferences(late.ctx, commissionsInFeed(false)); err != nil {
		t.Fatal(err)
	}
	hidden, last := n.notify("commission.created"), n.notify("payout.paid")
	other.wantNotifications(ready.seq()+1, hidden, last)
	late.wantNotifications(lateReady.seq(), first, last)
}

// A client that does not read delays no other stream. Later it gets all notifications, or
// resync if there are too many.
func TestStream_OfSlowClientDelaysNoOther(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	slowCtx, fastCtx := n.inSession(n.asOwner()), n.inSession(n.asOwner())
	for name, tc := range map[string]struct {
		batches int
		resync  bool
	}{"replayed": {2, false}, "resync": {6, true}} {
		slow, slowReady := n.openReady(slowCtx, "")
		fast, ready := n.openReady(fastCtx, "")
		var ids []string
		last := ready
		for range tc.batches {
			batch := n.notifyMany(300)
			last = fast.wantNotifications(last.seq(), batch...)
			ids = append(ids, batch...)
		}
		if tc.resync {
			// The first part was written before the client stopped.
			slow.wantNotifications(slowReady.seq(), ids[:300]...)
			if got := slow.next("resync", "unread_count"); got.id != last.id {
				t.Errorf("%s: resync has the id %s, want %s", name, got.id, last.id)
			}
		} else {
			slow.wantNotifications(slowReady.seq(), ids...)
		}
		next := n.notifyMany(1)
		slow.wantNotifications(last.seq(), next...)
		fast.wantNotifications(last.seq(), next...)
		slow.close()
		fast.close()
	}
}

func wantTooMany(t *testing.T, s *stream) {
	t.Helper()
	select {
	case got := <-s.events:
		t.Fatalf("the stream was opened and sent\n%s", got.text)
	case err := <-s.ended:
		var refusal *affiliate.Error
		if !errors.As(err, &refusal) || refusal.Reason != affiliate.ReasonRateLimitExceeded || refusal.Metadata["retry_after"] != "5" {
			t.Fatalf("the stream ended with the error %v, want %s with retry_after = 5", err, affiliate.ReasonRateLimitExceeded)
		}
	case <-time.After(waitTimeout):
		t.Fatal("the stream was not refused")
	}
}

// A stream counts while its process stores that the stream is open. The streams of a
// crashed process count for a minute.
func TestStream_OfCrashedProcessCountsForOneMinute(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	owner := n.inSession(n.asOwner())
	n.openReady(owner, "")
	for range notification.MaxStreams - 1 {
		n.Insert("notification_streams", pgtest.Row{"id": affiliate.NewID[notification.StreamID](n.Now()), "user_id": n.Owner, "seen_at": n.Now()})
	}
	wantTooMany(t, n.open(owner, ""))
	n.openReady(n.inSession(n.newReader(affiliate.RoleAdmin)), "") // another user
	n.clock.Advance(59 * time.Second)
	if err := notificationservice.SeeStreams(t.Context(), n.hub); err != nil {
		t.Fatal(err)
	}
	wantTooMany(t, n.open(owner, ""))
	n.clock.Advance(2 * time.Second)
	for range notification.MaxStreams - 1 {
		n.openReady(owner, "")
	}
	wantTooMany(t, n.open(owner, ""))
}

func TestStream_SendsWhatOtherProcessesCommitWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := newFixture(t)
	first, second := f.newNode(server.URL), f.newNode(server.URL)
	s, ready := second.openReady(f.inSession(f.asOwner()), "")
	last := s.wantNotifications(ready.seq(), first.notifyMany(3)...)
	server.Kill9()
	last = s.wantNotifications(last.seq(), first.notifyMany(3)...)
	first.reader(f.asOwner()).readAll(everything)
	s.wantUnreadCount(0)
	server.Restart()
	s.wantNotifications(last.seq(), first.notifyMany(3)...)
}

func TestStream_EndsWithProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	redis := redistest.New(t)
	first, second := f.newNode(redis), f.newNode(redis)
	owner := f.inSession(f.asOwner())
	s, ready := first.openReady(owner, "")
	ids := second.notifyMany(3)
	last := s.wantNotifications(ready.seq(), ids...)
	first.stop()
	s.wantEnd()
	f.WantCount(0, "streams of the stopped process", `select count(*) from notification_streams`)
	ids = second.notifyMany(2)
	s, _ = second.openReady(owner, last.id)
	s.wantNotifications(last.seq(), ids...)
}

func TestStream_Metrics(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	owner := n.inSession(n.asOwner())
	s, ready := n.openReady(owner, "")
	for range notification.MaxStreams - 1 {
		n.openReady(owner, "") // does not receive the notifications
	}
	wantTooMany(t, n.open(owner, ""))
	ids := n.notifyMany(3)
	s.wantNotifications(ready.seq(), ids...)
	n.wantMetric("streams_open", 5)
	n.wantMetric("streams_refused_total", 1)
	n.wantMetric("stream_delay_seconds", 3)
	s.close()
	n.wantMetric("streams_open", 4)
	s, _ = n.openReady(owner, ready.id)
	s.wantNotifications(ready.seq(), ids...) // are not counted again
	s.close()
	n.wantMetric("streams_open", 4)
	s, _ = n.openReady(owner, "1")
	s.next("resync")
	n.wantMetric("stream_resyncs_total", 1)
	n.wantMetric("stream_delay_seconds", 3)

	// A notification cannot be distributed while a transaction locks its feed.
	tx, err := n.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select from notification_feeds for update`); err != nil {
		t.Fatal(err)
	}
	n.wantMetric("undistributed_seconds", 0)
	n.notifyMany(1)
	n.clock.Advance(90 * time.Second)
	n.wantMetric("undistributed_seconds", 90)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.wantMetric("undistributed_seconds", 0)
}

// The ticket must not be found in the database, and a stream that is reopened with the
// same ticket replaces the former one, also in another process.
func TestStream_ReopenedWithTicketReplacesFormer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	redis := redistest.New(t)
	first, second := f.newNode(redis), f.newNode(redis)
	owner := f.inSession(f.asOwner())
	created, err := first.service.CreateStreamTicket(owner, &affiliatev1.CreateStreamTicketRequest{})
	if err != nil {
		t.Fatal(err)
	}
	stored := f.Texts(`select row_to_json(t)::text from notification_stream_tickets t`)
	if len(stored) != 1 || strings.Contains(stored[0], created.Ticket) || strings.Contains(stored[0], strings.TrimPrefix(created.Ticket, "tkt_")) {
		t.Errorf("the table of tickets contains %q, want one row without the ticket", stored)
	}
	withTicket := func(ctx context.Context) context.Context { return inTicket(ctx, created.Ticket) }
	s, ready := first.openReady(withTicket(owner), "")
	again, _ := second.openReady(withTicket(owner), ready.id)
	s.wantEnd()
	f.WantCount(1, "open streams", `select count(*) from notification_streams`)
	again.wantNotifications(ready.seq(), first.notifyMany(2)...)
}

// A refused stream changes nothing: its ticket does not count as used, and the stream that
// the ticket opened earlier stays open.
func TestStream_RefusedTicketStaysUnused(t *testing.T) {
	t.Parallel()
	n := newFixture(t).newNode(redistest.New(t))
	owner := n.inSession(n.asOwner())
	newTicket := func() context.Context {
		created, err := n.service.CreateStreamTicket(owner, &affiliatev1.CreateStreamTicketRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return inTicket(owner, created.Ticket)
	}
	used, unused := newTicket(), newTicket()
	s, ready := n.openReady(used, "")
	// The streams of other processes.
	for range notification.MaxStreams {
		n.Insert("notification_streams", pgtest.Row{"id": affiliate.NewID[notification.StreamID](n.Now()), "user_id": n.Owner, "seen_at": n.Now()})
	}
	wantTooMany(t, n.open(unused, ""))
	wantTooMany(t, n.open(used, ready.id))
	n.WantCount(1, "used tickets", `select count(*) from notification_stream_tickets where opened_at is not null`)
	s.wantNotifications(ready.seq(), n.notifyMany(1)...)

	n.Exec(`delete from notification_streams where ticket is null`)
	again, _ := n.openReady(used, ready.id)
	s.wantEnd()
	n.openReady(unused, "")
	n.WantCount(2, "used tickets", `select count(*) from notification_stream_tickets where opened_at is not null`)
	again.close()
}
