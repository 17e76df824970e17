package notification_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

var hashKeys = affiliate.HashKeys{[]byte("the key of the tests, 32 bytes..")}

// fixture is a shop in test mode, with the service under test.
type fixture struct {
	*pgtest.Shop
	service *notificationservice.Service
	clock   *pgtest.Clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest)
	log := slog.New(slog.DiscardHandler)
	return &fixture{shop, notificationservice.New(notificationservice.Config{
		DB: shop.DB, Hub: notificationservice.NewHub(shop.DB, nil, log, clock.Now),
		Log: log, Apps: notification.Apps{Console: "https://app.example"}, HashKeys: hashKeys, Now: clock.Now,
	}), clock}
}

func (f *fixture) as(user affiliate.UserID, role affiliate.Role) context.Context {
	return servertest.AsMember(f, f.Scope, user, role)
}

func (f *fixture) asOwner() context.Context { return f.as(f.Owner, affiliate.RoleOwner) }

// newReader adds a member and returns the context of its calls.
func (f *fixture) newReader(role affiliate.Role) context.Context {
	f.Helper()
	return f.as(f.NewMember(f.Scope.Workspace, role), role)
}

func inMode(ctx context.Context, mode affiliate.Mode) context.Context {
	p := server.PrincipalFrom(ctx)
	p.Mode = mode
	return server.WithPrincipal(ctx, p)
}

// notify stores a notification for the workspace, one millisecond after the previous one.
// The functions in change modify it before it is stored. notify returns the id.
func (f *fixture) notify(kind notification.Type, change ...func(*notification.Notification)) string {
	f.Helper()
	f.clock.Advance(time.Millisecond)
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(f.Scope.Workspace), kind, &f.Scope.Mode, f.Now())
	n.Workspace = &f.Scope.Workspace
	return f.store(n, change)
}

// notifyPartner stores a notification for a partner.
func (f *fixture) notifyPartner(partner affiliate.UserID, kind notification.Type, change ...func(*notification.Notification)) string {
	f.Helper()
	f.clock.Advance(time.Millisecond)
	return f.store(notification.NewNotification(affiliate.Partner, notification.PartnerFeed(partner), kind, &f.Scope.Mode, f.Now()), change)
}

func (f *fixture) store(n notification.Notification, change []func(*notification.Notification)) string {
	f.Helper()
	n.Facts = map[string]string{"amount": "10.00 EUR", "event": "purchase"}
	for _, fn := range change {
		fn(&n)
	}
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return tx.Notify(f.Context(), n) }); err != nil {
		f.Fatal(err)
	}
	return n.ID.String()
}

func about(user affiliate.UserID) func(*notification.Notification) {
	return func(n *notification.Notification) { n.User = &user }
}

// reader is a caller with the routes of its kind of account.
type reader struct {
	f       *fixture
	ctx     context.Context
	partner bool
	headers metadata.MD // of the last response
}

func (f *fixture) reader(ctx context.Context) *reader {
	return &reader{f: f, ctx: ctx, partner: server.PrincipalFrom(ctx).Kind == server.PartnerToken}
}

// SetHeader, SendHeader, SetTrailer and Method make reader a grpc.ServerTransportStream,
// which receives the headers of the response.
func (r *reader) SetHeader(md metadata.MD) error {
	r.headers = metadata.Join(r.headers, md)
	return nil
}
func (*reader) SendHeader(metadata.MD) error { return nil }
func (*reader) SetTrailer(metadata.MD) error { return nil }
func (*reader) Method() string               { return "" }

// callContext returns the context of the next call.
func (r *reader) callContext() context.Context {
	r.headers = nil
	return grpc.NewContextWithServerTransportStream(r.ctx, r)
}

func (r *reader) list(req *affiliatev1.ListNotificationsRequest) *affiliatev1.ListNotificationsResponse {
	r.f.Helper()
	call := r.f.service.ListNotifications
	if r.partner {
		call = r.f.service.ListPartnerNotifications
	}
	got, err := call(r.callContext(), req)
	if err != nil {
		r.f.Fatal(err)
	}
	return got
}

func (r *reader) count() int64 {
	r.f.Helper()
	call := r.f.service.CountUnreadNotifications
	if r.partner {
		call = r.f.service.CountPartnerUnreadNotifications
	}
	got, err := call(r.callContext(), &affiliatev1.CountUnreadNotificationsRequest{})
	if err != nil {
		r.f.Fatal(err)
	}
	return got.Count
}

func (r *reader) read(id string) (*affiliatev1.Notification, error) {
	call := r.f.service.ReadNotification
	if r.partner {
		call = r.f.service.ReadPartnerNotification
	}
	return call(r.callContext(), &affiliatev1.ReadNotificationRequest{NotificationId: id})
}

func (r *reader) dismiss(id string) (*affiliatev1.Notification, error) {
	call := r.f.service.DismissNotification
	if r.partner {
		call = r.f.service.DismissPartnerNotification
	}
	return call(r.callContext(), &affiliatev1.DismissNotificationRequest{NotificationId: id})
}

func (r *reader) mustRead(id string) *affiliatev1.Notification {
	r.f.Helper()
	got, err := r.read(id)
	if err != nil {
		r.f.Fatal(err)
	}
	return got
}

func (r *reader) mustDismiss(id string) *affiliatev1.Notification {
	r.f.Helper()
	got, err := r.dismiss(id)
	if err != nil {
		r.f.Fatal(err)
	}
	return got
}

func (r *reader) readAll(req *affiliatev1.SelectNotificationsRequest) int64 {
	r.f.Helper()
	call := r.f.service.ReadAllNotifications
	if r.partner {
		call = r.f.service.ReadAllPartnerNotifications
	}
	got, err := call(r.callContext(), req)
	if err != nil {
		r.f.Fatal(err)
	}
	return got.Updated
}

func (r *reader) dismissRead(req *affiliatev1.SelectNotificationsRequest) int64 {
	r.f.Helper()
	call := r.f.service.DismissReadNotifications
	if r.partner {
		call = r.f.service.DismissReadPartnerNotifications
	}
	got, err := call(r.callContext(), req)
	if err != nil {
		r.f.Fatal(err)
	}
	return got.Updated
}

// everything selects all notifications for readAll and dismissRead.
var everything = &affiliatev1.SelectNotificationsRequest{}

// wantFeed checks the ids of the feed, from the newest to the oldest, and the total.
func (r *reader) wantFeed(name string, want ...string) {
	r.f.Helper()
	got := r.list(&affiliatev1.ListNotificationsRequest{})
	var ids []string
	for _, n := range got.Data {
		ids = append(ids, n.Id)
	}
	if !slices.Equal(ids, want) || got.Total != int64(len(want)) {
		r.f.Errorf("%s: the feed contains %d notifications %s, want %d: %s", name, got.Total, ids, len(want), want)
	}
}

// wantUnread checks the number of unread notifications, and that the filter unread
// selects as many.
func (r *reader) wantUnread(name string, want int64) {
	r.f.Helper()
	unread := true
	listed := r.list(&affiliatev1.ListNotificationsRequest{Unread: &unread})
	if got := r.count(); got != want || listed.Total != want || int64(len(listed.Data)) != min(want, 20) {
		r.f.Errorf("%s: unread-count is %d, and the list of unread notifications has %d rows and the total %d; want %d", name, got, len(listed.Data), listed.Total, want)
	}
	for _, n := range listed.Data {
		if n.Read || n.ReadAt != nil {
			r.f.Errorf("%s: the list of unread notifications contains %v", name, n)
		}
	}
}

// typesOf returns the sorted types of the notifications in the feed.
func (r *reader) typesOf() string {
	r.f.Helper()
	var types []string
	for _, n := range r.list(&affiliatev1.ListNotificationsRequest{PageSize: ptr(int32(100))}).Data {
		types = append(types, n.Type)
	}
	slices.Sort(types)
	return strings.Join(types, " ")
}

// fill inserts the given number of notifications about commissions into the feed of the
// workspace, one for each second before now.
func (f *fixture) fill(count int) {
	f.Helper()
	f.Exec(`
		insert into notifications (feed_id, mode, category, day, id, type, workspace_id, facts)
		select $1, $2, 'commissions', (at at time zone 'UTC')::date,
			encode(substring(int8send((extract(epoch from at) * 1000)::bigint) from 3) || '\x7000800000000000'::bytea || substring(int4send(n) from 3), 'hex')::uuid,
			'commission.created', $1, '{"amount": "1.00 EUR"}'
		from (select n, $3::timestamptz - n * interval '1 second' as at from generate_series(1, $4::int) n) s`,
		f.Scope.Workspace, f.Scope.Mode, f.Now(), count)
}

func ptr[T any](value T) *T { return &value }

// suppress holds back mails to an address.
func (f *fixture) suppress(email string) {
	f.Helper()
	f.Insert("mail_suppressions", pgtest.Row{"digest": notification.MailDigest(hashKeys, email).First(), "reason": "bounced", "created_at": f.Now()})
}
