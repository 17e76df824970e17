package notification_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// fixture is a shop in test mode. reader is its owner.
type fixture struct {
	*pgtest.Shop
	clock  *pgtest.Clock
	reader notification.Reader
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest)
	return &fixture{shop, clock, notification.Reader{
		User: shop.Owner, Kind: affiliate.Merchant, Feed: notification.WorkspaceFeed(shop.Scope.Workspace), Role: affiliate.RoleOwner, Mode: affiliate.ModeTest,
	}}
}

// notify stores a notification for the workspace.
func (f *fixture) notify(kind notification.Type) notification.Notification {
	f.Helper()
	n := notification.NewNotification(affiliate.Merchant, f.reader.Feed, kind, &f.Scope.Mode, f.Now())
	n.Workspace = &f.Scope.Workspace
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return tx.Notify(f.Context(), n) }); err != nil {
		f.Fatal(err)
	}
	return n
}

// fill inserts notifications into the feed of the workspace, half of them about
// conversions and half about commissions. They are distributed over the last 180 days.
func (f *fixture) fill(count int) {
	f.Helper()
	f.Exec(`
		insert into notifications (feed_id, mode, category, day, id, type, workspace_id, program_id, resource_id, facts)
		select $1, $2, case n % 2 when 0 then 'conversions' else 'commissions' end, (at at time zone 'UTC')::date,
			encode(substring(int8send((extract(epoch from at) * 1000)::bigint) from 3) || '\x7000800000000000'::bytea || substring(int4send(n) from 3), 'hex')::uuid,
			case n % 2 when 0 then 'conversion.created' else 'commission.created' end, $1, $5, gen_random_uuid(), '{"amount": "1.00 EUR", "event": "purchase"}'
		from (select n, $3::timestamptz - n * (interval '179 days' / $4::int) as at from generate_series(1, $4::int) n) s`,
		f.reader.Feed, f.Scope.Mode, f.Now(), count, f.Program)
}

// plan returns the query plan of a statement with named arguments. It runs the statement
// setSQL first, which changes planner settings.
func (f *fixture) plan(setSQL, sql string, args map[string]any) string {
	f.Helper()
	rewritten, values, err := pgx.NamedArgs(args).RewriteQuery(f.Context(), nil, sql, nil)
	if err != nil {
		f.Fatal(err)
	}
	return f.PlanWith(setSQL, strings.TrimSpace(rewritten), values...)
}
