package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A change must reach the collector within a second, even if many other jobs are waiting.
// The test is not parallel, because other tests would slow down the machine.
func TestEdgeUpdate_DoesNotWaitForOtherJobs(t *testing.T) {
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	f.click(t)
	const waitingJobs = 20_000
	sys.exec(t, `
		insert into river.river_job (state, args, kind, queue, max_attempts, priority, scheduled_at)
		select 'available', '{"workspace":"00000000-0000-0000-0000-000000000000","mode":"test","endpoint":"00000000-0000-0000-0000-000000000000"}', 'cancel_deliveries', 'default', 25, 1, now()
		from generate_series(1, $1)`, waitingJobs)
	f.merchant.post(t, f.programPath()+"/pause", nil).wantStatus(http.StatusOK)
	eventually(t, time.Second, "the collector rejects clicks of a paused programme", func() error {
		if got := sys.click(t, f.publicKey, object{"referral_code": f.code}); got.status != http.StatusNotFound {
			return fmt.Errorf("a click returns %d, want 404", got.status)
		}
		return nil
	})
	if left := sys.count(t, `select count(*) from river.river_job where kind = 'cancel_deliveries' and state = 'available'`); left == 0 {
		t.Error("the other jobs finished before the change reached the collector, so the test proves nothing")
	}
}
