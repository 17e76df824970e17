package notification_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// mailFixture is a shop with a Distributor and a DigestWorker.
type mailFixture struct {
	*fixture
	distributor *notificationservice.Distributor
	digests     *server.Worker[notification.SendDigests]
}

func newMailFixture(t *testing.T, mode affiliate.Mode) *mailFixture {
	t.Helper()
	f := newFixture(t)
	if mode != f.Scope.Mode {
		f.Shop = f.InOtherMode()
	}
	m := &mailFixture{fixture: f}
	m.distributor = m.newDistributor(f.DB)
	m.digests = m.newDigestWorker()
	return m
}

func (f *mailFixture) newDistributor(db *postgres.DB) *notificationservice.Distributor {
	return notificationservice.NewDistributor(db, func(...notification.FeedID) {}, slog.New(slog.DiscardHandler), f.clock.Now)
}

func (f *mailFixture) newDigestWorker() *server.Worker[notification.SendDigests] {
	return notificationservice.NewDigestWorker(f.DB, f.clock.Now)
}

// distribute distributes all arrivals.
func (f *mailFixture) distribute() {
	f.Helper()
	f.distributeWith(f.distributor)
}

func (f *mailFixture) distributeWith(d *notificationservice.Distributor) {
	f.Helper()
	for more := true; more; {
		var err error
		if more, err = d.Distribute(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// sendDigests sends the digests that are due.
func (f *mailFixture) sendDigests() {
	f.Helper()
	if err := f.digests.Work(f.Context(), nil); err != nil {
		f.Fatal(err)
	}
}

// endHour moves the clock to the end of the hour in which notifications are gathered, and
// sends the digests that are due.
func (f *mailFixture) endHour() {
	f.Helper()
	f.clock.Advance(notification.GatherTime)
	f.sendDigests()
}

// mailText describes a mail, as newMails does.
func mailText(kind notification.Type, to affiliate.UserID, notifications ...string) string {
	return fmt.Sprintf("%s to %s: %s", kind, to, strings.Join(notifications, " "))
}

// newMails returns descriptions of the mails that were created since its last call, in
// the order of their creation: the type of the mail, the recipient and the notifications.
func (f *mailFixture) newMails() []string {
	f.Helper()
	return f.Texts(`
		with taken as (delete from mails returning *)
		select type || ' to ' || user_id || ': ' ||
			(select string_agg(id, ' ' order by n) from jsonb_array_elements_text(facts -> 'notifications') with ordinality as e (id, n))
			|| coalesce(' and ' || (facts ->> 'more') || ' more', '')
		from taken order by id`)
}

// wantMails checks which mails were created since the last call. Their order does not
// matter.
func (f *mailFixture) wantMails(when string, want ...string) {
	f.Helper()
	got := f.newMails()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.Errorf("%s: got the mails\n\t%s\nwant\n\t%s", when, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// chooseMail enables or disables the mails of a category, for the user of ctx.
func (f *mailFixture) chooseMail(ctx context.Context, category notification.Category, on bool) {
	f.Helper()
	if _, err := f.update(ctx, change(category, &on, nil)); err != nil {
		f.Fatal(err)
	}
}

// in stores a notification under another workspace and mode.
func in(scope affiliate.Scope) func(*notification.Notification) {
	return func(n *notification.Notification) { n.Workspace, n.Mode = &scope.Workspace, &scope.Mode }
}
