package account_test

import (
	"strings"
	"testing"
	"time"

	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

func TestDeleteOldDevices_DeletesOldestFirst(t *testing.T) {
	f := newFixture(t)
	now, user := f.Now(), f.NewPartner("Jane")
	f.Exec(`
		insert into user_devices (user_id, device, seen_at)
		select $1, int4send(n), $2::timestamptz - n * interval '1 hour' from generate_series(1, 20000) n`, user, now)
	f.Exec(`analyze user_devices`)
	plan := f.Plan(accounts.DeleteOldDevicesSQL, now.AddDate(0, 0, -90), 1000)
	if !strings.Contains(plan, "user_devices_by_age") || !strings.Contains(plan, "Tid Scan") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("the plan does not use the index user_devices_by_age only\n%s", plan)
	}
	if n, err := accounts.DeleteOldDevices(t.Context(), f.DB, now.Add(-19_000*time.Hour), 600); err != nil || n != 600 {
		t.Fatalf("deleted %d devices, %v, want 600", n, err)
	}
	f.WantCount(0, "of the 600 oldest devices remain", `select count(*) from user_devices where seen_at < $1`, now.Add(-19_400*time.Hour))
	f.WantCount(19_400, "devices remain", `select count(*) from user_devices`)
}
