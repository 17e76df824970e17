package conversion_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

// wantNotifications checks the types of the notifications in a feed.
func (f *fixture) wantNotifications(name string, feed notification.FeedID, want ...string) {
	f.Helper()
	if got := f.Texts(`select type from notifications where feed_id = $1 order by type`, feed); !slices.Equal(got, want) {
		f.Errorf("%s: the notifications are %q, want %q", name, got, want)
	}
}

// Each cause has one notification. A reattribution creates a new commission, but no
// second notification about the conversion.
func TestNotifications_AboutReattributedConversion(t *testing.T) {
	f := newFixture(t)
	other := f.Join("Olga")
	r := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	shop := notification.WorkspaceFeed(f.Scope.Workspace)
	f.wantNotifications("the shop after the report", shop, "commission.created", "conversion.created")
	f.wantNotifications("the partner after the report", notification.PartnerFeed(f.pat.Partner), "commission.created")
	f.mustReattribute(r.GetId(), other)
	f.wantNotifications("the shop", shop, "commission.created", "commission.created", "conversion.created")
	f.wantNotifications("the former partner", notification.PartnerFeed(f.pat.Partner), "commission.created", "commission.rejected")
	f.wantNotifications("the new partner", notification.PartnerFeed(other.Partner), "commission.created")
}

func TestNotifications_AboutLateAttribution(t *testing.T) {
	f := newFixture(t)
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	f.mustReport(purchase("order-1", click.ID))
	shop := notification.WorkspaceFeed(f.Scope.Workspace)
	f.wantNotifications("the shop before the click is stored", shop, "conversion.created")
	job := f.storeLate(click)
	for range 2 {
		f.attribute(job)
	}
	f.wantNotifications("the shop", shop, "commission.created", "conversion.created")
	f.wantNotifications("the partner", notification.PartnerFeed(f.pat.Partner), "commission.created")
}
