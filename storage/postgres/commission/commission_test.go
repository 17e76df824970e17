package commission_test

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCommission_RoundTripsEveryField(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Paula")
	at := func(n int) *time.Time { return new(f.Now().Add(time.Duration(n) * time.Minute)) }
	written := f.NewDue(p, func(c *commission.Commission) {
		c.Click, c.PromoCode, c.CustomerRef = new(affiliate.NewID[affiliate.ClickID](f.Now())), new("spring"), new("ref")
		c.FXRate, c.FXDate, c.RecurringIndex = new("1.0825"), new(time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)), new(3)
		c.NeedsReview, c.ReviewReasons, c.Dispute = true, []string{"a", "b"}, commission.DisputeWon
		c.AmountCents = 150
		c.HoldUntil, c.AutoApproveAt = at(1), at(2)
		c.OverrideReason, c.OverrideBy = new("trusted"), new(affiliate.NewID[affiliate.ActorID](f.Now()))
		c.RejectionReason, c.RejectionCode = new("odd"), new("fraud")
		c.ApprovedAt, c.ApprovedBy, c.RejectedAt, c.PaidAt, c.RefundedAt = at(3), new("system"), at(4), at(5), at(6)
		c.Payout = new(affiliate.NewID[affiliate.PayoutID](f.Now()))
		c.Version = 7
	})
	// Check that every field is set. Otherwise the test would not detect a field that is
	// neither written nor read.
	v := reflect.ValueOf(written)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "FlatCents" {
			t.Errorf("the test does not set the field %s", name)
		}
	}
	stored, err := commissions.Get(t.Context(), f.DB, f.Scope, f.Program, written.ID)
	if err != nil {
		t.Fatal(err)
	}
	got := stored.Commission
	gv := reflect.ValueOf(&got).Elem()
	for i := range gv.NumField() {
		switch at := gv.Field(i).Interface().(type) {
		case time.Time:
			gv.Field(i).Set(reflect.ValueOf(at.UTC()))
		case *time.Time:
			utc := at.UTC()
			gv.Field(i).Set(reflect.ValueOf(&utc))
		}
		if want := v.Field(i).Interface(); !reflect.DeepEqual(gv.Field(i).Interface(), want) {
			t.Errorf("the field %s is %v, want %v", gv.Type().Field(i).Name, gv.Field(i).Interface(), want)
		}
	}
	if stored.ProgramName != "P" || stored.PartnerName != "Paula" || stored.PartnerEmail != "jane-"+p.Partner.String()+"@example.com" {
		t.Errorf("the names and the e-mail address are %q, %q and %q, want P, Paula and the partner's e-mail address", stored.ProgramName, stored.PartnerName, stored.PartnerEmail)
	}
	if a := stored.Attribution; a.Method == nil || *a.Method != "click" || a.ReasonCode != "CLICK_MATCHED" || a.Explanation != "A click." || a.ClickedAt == nil || a.ExpiresAt != nil {
		t.Errorf("the attribution is %+v, want the method click with a click time and no expiry", a)
	}
	if len(stored.History) != 1 || stored.History[0].From != nil || stored.History[0].To != commission.Pending || stored.History[0].Actor != "system" {
		t.Errorf("the history is %+v, want one entry: the system set the status pending", stored.History)
	}
}

// ApproveDue selects commissions with SQL conditions. These conditions must have the same
// result as Commission.DueForApproval for every combination of states.
func TestApproveDue_AgreesWithDueForApproval(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	instants := []*time.Time{nil, new(f.Now().Add(-time.Millisecond)), new(f.Now()), new(f.Now().Add(time.Millisecond))}
	type participantState struct {
		status participant.Status
		erased bool
	}
	want := map[string]bool{}
	total := 0
	for _, s := range []participantState{
		{participant.Approved, false},
		{participant.Approved, true},
		{participant.Pending, false},
		{participant.Rejected, false},
		{participant.Suspended, false},
	} {
		p := f.Join("Paula", pgtest.Row{"status": s.status})
		if s.erased {
			f.Exec(`update participants set erased_at = $2 where id = $1`, p.ID, f.Now())
		}
		for _, status := range []commission.Status{
			commission.Pending, commission.Approved, commission.Rejected, commission.Paid, commission.Refunded,
		} {
			for _, due := range instants {
				for _, hold := range instants {
					for _, dispute := range []commission.DisputeStatus{commission.DisputeNone, commission.DisputeOpen, commission.DisputeWon} {
						for _, flagged := range []bool{false, true} {
							if status != commission.Pending && (flagged || dispute != commission.DisputeNone) {
								continue // only the status matters
							}
							c := f.NewDue(p, func(c *commission.Commission) {
								c.Status, c.AutoApproveAt, c.HoldUntil, c.Dispute, c.NeedsReview = status, due, hold, dispute, flagged
							})
							total++
							if c.DueForApproval(f.Now(), s.status, s.erased) {
								want[c.ID.String()] = true
							}
						}
					}
				}
			}
		}
	}
	sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now(), total)
	if err != nil || sweep.Approved != len(want) || sweep.Failed != 0 || len(want) == 0 {
		t.Fatalf("ApproveDue returned %+v, %v, want %d approved of %d", sweep, err, len(want), total)
	}
	approved := f.Texts(`select commission_id::text from commission_history where seq = 2 and to_status = 'approved' and actor = 'system'`)
	if len(approved) != len(want) {
		t.Fatalf("%d commissions have a history entry of the approval, want %d", len(approved), len(want))
	}
	for _, id := range approved {
		if !want[id] {
			t.Errorf("commission %s was approved, but was not due", id)
		}
	}
	if n := f.Count(`select count(*) from commissions where status = 'approved' and approved_by = 'system' and version = 2 and approved_at = $1 and updated_at = $1`, f.Now()); n != len(want) {
		t.Errorf("%d commissions are approved by the system in version 2, want %d", n, len(want))
	}
	if n := f.Count(`select count(*) from events where type = 'commission.approved' and convert_from(body, 'utf8')::jsonb #>> '{data,object,version}' = '2'`); n != len(want) {
		t.Errorf("%d events commission.approved of version 2 were created, want %d", n, len(want))
	}
	if n := f.Count(`select count(*) from audit_log`); n != 0 {
		t.Errorf("the audit log has %d entries of automatic approvals, want 0", n)
	}
	if sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now(), total); err != nil || sweep != (commission.ApprovalCounts{}) {
		t.Errorf("a second call of ApproveDue returned %+v, %v, want no approvals", sweep, err)
	}
}

func TestApproveDue_IsLimitedAndContinuesAfterFailures(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Paula")
	for i := range 12 {
		c := f.NewDue(p, func(c *commission.Commission) {
			c.AutoApproveAt = new(f.Now().Add(time.Duration(i-12) * time.Second))
		})
		if i < 4 {
			// The four oldest commissions cannot be approved, because a history entry
			// with their next version already exists.
			f.Insert("commission_history", pgtest.Row{
				"workspace_id": f.Scope.Workspace, "commission_id": c.ID, "seq": 2, "at": f.Now(), "actor": "x", "to_status": "x", "amount_cents": 1,
			})
		}
	}
	for i, want := range []commission.ApprovalCounts{{Approved: 3, Failed: 4}, {Approved: 3, Failed: 4}, {Approved: 2, Failed: 4}, {Failed: 4}} {
		got, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now(), 3)
		if err != nil || got.FirstFailure == nil {
			t.Fatalf("call %d of ApproveDue returned %+v, %v, want a first failure", i, got, err)
		}
		if got.FirstFailure = nil; got != want {
			t.Errorf("call %d of ApproveDue returned %+v, want %+v", i, got, want)
		}
	}
	if n := f.Count(`select count(*) from commissions where status = 'pending'`); n != 4 {
		t.Errorf("%d commissions are still pending, want the 4 that fail", n)
	}
	if n := f.Count(`select count(*) from events where type = 'commission.approved'`); n != 8 {
		t.Errorf("%d events commission.approved were created, want 8, one for each approved commission", n)
	}
}

func TestApproveDue_ParallelCallsApproveOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.NewEndpoint(f.Scope)
	p := f.Join("Paula")
	const rows, calls = 150, 6
	for range rows {
		f.NewDue(p)
	}
	var group sync.WaitGroup
	var lock sync.Mutex
	approved := 0
	for range calls {
		group.Go(func() {
			sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now(), 1000)
			lock.Lock()
			defer lock.Unlock()
			approved += sweep.Approved
			if err != nil || sweep.Failed > 0 {
				t.Errorf("a call of ApproveDue returned %+v, %v, want no failure", sweep, err)
			}
		})
	}
	group.Wait()
	if approved != rows {
		t.Errorf("the calls of ApproveDue approved %d commissions in total, want %d", approved, rows)
	}
	for _, sql := range []string{
		`select count(*) from commissions where status = 'approved' and version = 2`,
		`select count(*) from commission_history where seq = 2`,
		`select count(*) from events where type = 'commission.approved'`,
		`select count(*) from webhook_deliveries where event_type = 'commission.approved'`,
	} {
		if n := f.Count(sql); n != rows {
			t.Errorf("%s = %d, want %d", sql, n, rows)
		}
	}
}

func TestApproveDue_SkipsLockedCommissions(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Paula")
	locked := f.NewDue(p)
	f.NewDue(p)
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select from commissions where id = $1 for update`, locked.ID); err != nil {
		t.Fatal(err)
	}
	sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now(), 10)
	if err != nil || sweep.Approved != 1 || sweep.Skipped != 1 {
		t.Errorf("with one locked commission, ApproveDue returned %+v, %v, want one approved and one skipped", sweep, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now(), 10); err != nil || sweep.Approved != 1 {
		t.Errorf("after the lock was released, ApproveDue returned %+v, %v, want one approved", sweep, err)
	}
}

func TestProgramScope(t *testing.T) {
	f := newFixture(t)
	if scope, err := commissions.ProgramScope(t.Context(), f.DB, f.Program); err != nil || scope != f.Scope {
		t.Errorf("ProgramScope returned %v, %v, want %v", scope, err, f.Scope)
	}
	if _, err := commissions.ProgramScope(t.Context(), f.DB, affiliate.NewID[affiliate.ProgramID](f.Now())); !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		t.Errorf("ProgramScope of an unknown programme returned %v, want the reason %s", err, affiliate.ReasonNotFound)
	}
}
