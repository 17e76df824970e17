package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// commissionFixture is a workspace with one programme. Tests add the commissions that
// they need.
type commissionFixture struct {
	t       *testing.T
	url     string
	store   *postgres.Store
	owner   *pgx.Conn
	now     time.Time
	scope   affiliate.Scope
	program affiliate.ProgramID
}

func newCommissionFixture(t *testing.T) *commissionFixture {
	t.Helper()
	f := &commissionFixture{t: t, url: pgtest.New(t), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	if f.store, err = postgres.Open(t.Context(), postgres.Config{URL: f.url}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.store.Close)
	if f.owner, err = pgx.Connect(t.Context(), f.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.owner.Close(context.Background()) })
	f.scope = affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](f.now), Mode: affiliate.ModeLive}
	f.program = affiliate.NewID[affiliate.Program](f.now)
	f.row("workspaces", map[string]any{"id": f.scope.Workspace, "name": "W", "currency": "EUR", "timezone": "UTC", "created_at": f.now, "updated_at": f.now})
	f.row("programs", map[string]any{
		"workspace_id": f.scope.Workspace, "id": f.program, "mode": "live", "name": "Prog", "slug": "prog", "status": "active",
		"allowed_domains": []string{}, "currency": "EUR", "attribution_window_days": 30, "attribution_model": "last_click",
		"link_param": "via", "auto_approve_partners": true, "is_public": true, "rules": "{}", "rules_version": 1,
		"created_at": f.now, "updated_at": f.now,
	})
	return f
}

func (f *commissionFixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.owner.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", strings.Fields(sql)[:3], err)
	}
}

// subscribeToEverything creates an endpoint that receives all events.
func (f *commissionFixture) subscribeToEverything() {
	f.exec(insertFullSubscription, f.scope.Workspace, f.scope.Mode, f.now)
}

// row inserts a row into a table.
func (f *commissionFixture) row(table string, values map[string]any) {
	f.t.Helper()
	var columns, places []string
	var args []any
	for column, value := range values {
		columns, args = append(columns, column), append(args, value)
		places = append(places, fmt.Sprintf("$%d", len(args)))
	}
	f.exec("insert into "+table+" ("+strings.Join(columns, ", ")+") values ("+strings.Join(places, ", ")+")", args...)
}

func (f *commissionFixture) count(sql string, args ...any) (n int) {
	f.t.Helper()
	if err := f.owner.QueryRow(f.t.Context(), sql, args...).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// participant creates a user and a participant with the given status.
func (f *commissionFixture) participant(status affiliate.ParticipantStatus, erased bool) (affiliate.ParticipantID, affiliate.UserID) {
	f.t.Helper()
	id, user := affiliate.NewID[affiliate.Participant](f.now), affiliate.NewID[affiliate.User](f.now)
	f.row("users", map[string]any{
		"id": user, "kind": "partner", "email": user.String() + "@example.com", "password_hash": "x", "name": "Paula", "created_at": f.now,
	})
	var erasedAt *time.Time
	if erased {
		erasedAt = &f.now
	}
	f.row("participants", map[string]any{
		"workspace_id": f.scope.Workspace, "id": id, "program_id": f.program, "mode": f.scope.Mode, "partner_id": user,
		"partner_name": "Paula", "partner_email": user.String() + "@example.com", "status": status,
		"referral_code": id.String(), "application_answers": "{}", "applied_at": f.now, "created_at": f.now, "updated_at": f.now, "erased_at": erasedAt,
	})
	return id, user
}

// commission stores a pending commission that is due for approval. change can modify the
// commission before it is stored.
func (f *commissionFixture) commission(participant affiliate.ParticipantID, partner affiliate.UserID, change func(*affiliate.Commission)) affiliate.Commission {
	f.t.Helper()
	rate := int64(2000)
	c := affiliate.Commission{
		ID: affiliate.NewID[affiliate.Commission](f.now), Scope: f.scope, Program: f.program, Participant: participant, Partner: partner,
		Conversion: affiliate.NewID[affiliate.Conversion](f.now), Decision: affiliate.NewID[affiliate.Decision](f.now),
		Status: affiliate.CommissionPending, Type: affiliate.Percentage, EventType: affiliate.Purchase, RateBps: &rate,
		AmountCents: 200, OriginalAmountCents: 200, Currency: "EUR", BaseAmountCents: 1000, SaleAmountCents: 1000, SaleCurrency: "EUR",
		ReviewReasons: []string{}, Dispute: affiliate.DisputeNone, AutoApproveAt: &f.now, HoldUntil: &f.now,
		Rule:    affiliate.RuleSnapshot{Version: 1, Rules: affiliate.DefaultRules()},
		Version: 1, CreatedAt: f.now.Add(-time.Hour), UpdatedAt: f.now.Add(-time.Hour),
	}
	c.ExternalTransactionID = c.ID.String()
	if change != nil {
		change(&c)
	}
	f.row("conversions", map[string]any{
		"workspace_id": c.Scope.Workspace, "id": c.Conversion, "mode": c.Scope.Mode, "external_transaction_id": c.ExternalTransactionID,
		"event_type": c.EventType, "amount_cents": 1000, "currency": "EUR", "tax_cents": 0, "shipping_cents": 0, "fee_cents": 0,
		"discount_cents": 0, "occurred_at": f.now, "created_at": f.now, "source": "api", "status": "recorded", "attributed": true,
		"reason_code": "CLICK_MATCHED", "decision_id": c.Decision, "product_ids": []string{}, "is_recurring": false, "fraud_score": 0,
		"fraud_signals": "[]", "version": 1,
	})
	f.row("attribution_decisions", map[string]any{
		"workspace_id": c.Scope.Workspace, "id": c.Decision, "conversion_id": c.Conversion, "mode": c.Scope.Mode, "attributed": true,
		"method": "click", "reason_code": "CLICK_MATCHED", "explanation": "A click.", "engine_version": "1", "trace": "{}",
		"clicked_at": f.now, "decided_at": f.now,
	})
	if err := f.store.InsertCommission(f.t.Context(), c, affiliate.System); err != nil {
		f.t.Fatal(err)
	}
	return c
}

func TestCommission_RoundTripsEveryField(t *testing.T) {
	f := newCommissionFixture(t)
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	at := func(n int) *time.Time { t := f.now.Add(time.Duration(n) * time.Minute); return &t }
	text := func(s string) *string { return &s }
	written := f.commission(participant, partner, func(c *affiliate.Commission) {
		click, by, index := affiliate.NewID[affiliate.Click](f.now), affiliate.NewID[affiliate.User](f.now), 3
		day := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
		c.Click, c.PromoCode, c.CustomerRef = &click, text("spring"), text("ref")
		c.FXRate, c.FXDate, c.RecurringIndex = text("1.0825"), &day, &index
		c.NeedsReview, c.ReviewReasons, c.Dispute = true, []string{"a", "b"}, affiliate.DisputeWon
		c.AmountCents = 150
		c.HoldUntil, c.AutoApproveAt = at(1), at(2)
		c.OverrideReason, c.OverrideBy = text("trusted"), &by
		c.RejectionReason, c.RejectionCode = text("odd"), text("fraud")
		c.ApprovedAt, c.ApprovedBy, c.RejectedAt, c.PaidAt, c.RefundedAt = at(3), text("system"), at(4), at(5), at(6)
		c.Payout = payoutRef(f.now)
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
	read, err := f.store.Commission(t.Context(), f.scope, f.program, written.ID)
	if err != nil {
		t.Fatal(err)
	}
	got := read.Commission
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
	if read.ProgramName != "Prog" || read.PartnerName != "Paula" || read.PartnerEmail != partner.String()+"@example.com" {
		t.Errorf("the names and the address are %q, %q and %q, want Prog, Paula and the partner's address", read.ProgramName, read.PartnerName, read.PartnerEmail)
	}
	if a := read.Attribution; a.Method == nil || *a.Method != "click" || a.ReasonCode != "CLICK_MATCHED" || a.Explanation != "A click." || a.ClickedAt == nil || a.ExpiresAt != nil {
		t.Errorf("the attribution is %+v, want the method click with a click time and no expiry", a)
	}
	if len(read.History) != 1 || read.History[0].From != nil || read.History[0].To != affiliate.CommissionPending || read.History[0].Actor != "system" {
		t.Errorf("the history is %+v, want one entry to pending by the system", read.History)
	}
}

// ApproveDue selects commissions with SQL conditions. These conditions must have the same
// result as Commission.DueForApproval for every combination of states.
func TestApproveDue_AgreesWithDueForApproval(t *testing.T) {
	t.Parallel()
	f := newCommissionFixture(t)
	before, later := f.now.Add(-time.Millisecond), f.now.Add(time.Millisecond)
	instants := []*time.Time{nil, &before, &f.now, &later}
	type participantState struct {
		status affiliate.ParticipantStatus
		erased bool
	}
	want := map[affiliate.CommissionID]bool{}
	total := 0
	for _, s := range []participantState{
		{affiliate.ParticipantApproved, false},
		{affiliate.ParticipantApproved, true},
		{affiliate.ParticipantPending, false},
		{affiliate.ParticipantRejected, false},
		{affiliate.ParticipantSuspended, false},
	} {
		participant, partner := f.participant(s.status, s.erased)
		for _, status := range []affiliate.CommissionStatus{
			affiliate.CommissionPending, affiliate.CommissionApproved, affiliate.CommissionRejected, affiliate.CommissionPaid, affiliate.CommissionRefunded,
		} {
			for _, due := range instants {
				for _, hold := range instants {
					for _, dispute := range []affiliate.DisputeStatus{affiliate.DisputeNone, affiliate.DisputeOpen, affiliate.DisputeWon} {
						for _, flagged := range []bool{false, true} {
							if status != affiliate.CommissionPending && (flagged || dispute != affiliate.DisputeNone) {
								continue // only the status matters
							}
							c := f.commission(participant, partner, func(c *affiliate.Commission) {
								c.Status, c.AutoApproveAt, c.HoldUntil, c.Dispute, c.NeedsReview = status, due, hold, dispute, flagged
							})
							total++
							if c.DueForApproval(f.now, s.status, s.erased) {
								want[c.ID] = true
							}
						}
					}
				}
			}
		}
	}
	sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(f.store), f.now, total)
	if err != nil || sweep.Approved != len(want) || sweep.Failed != 0 || len(want) == 0 {
		t.Fatalf("ApproveDue returned %+v, %v, want %d approved of %d", sweep, err, len(want), total)
	}
	rows, _ := f.owner.Query(t.Context(), `select commission_id from commission_history where seq = 2 and to_status = 'approved' and actor = 'system'`)
	approved, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
	if err != nil || len(approved) != len(want) {
		t.Fatalf("%d commissions have a history entry of the approval, %v, want %d", len(approved), err, len(want))
	}
	for _, id := range approved {
		if !want[id] {
			t.Errorf("commission %s was approved, but was not due", id)
		}
	}
	if n := f.count(`select count(*) from commissions where status = 'approved' and approved_by = 'system' and version = 2 and approved_at = $1 and updated_at = $1`, f.now); n != len(want) {
		t.Errorf("%d commissions are approved by the system in version 2, want %d", n, len(want))
	}
	if n := f.count(`select count(*) from events where type = 'commission.approved'`); n != len(want) {
		t.Errorf("%d events commission.approved were created, want %d", n, len(want))
	}
	if n := f.count(`select count(*) from audit_log`); n != 0 {
		t.Errorf("the audit log has %d entries of automatic approvals, want 0", n)
	}
	if sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(f.store), f.now, total); err != nil || sweep != (affiliate.CommissionSweep{}) {
		t.Errorf("a second sweep returned %+v, %v, want no approvals", sweep, err)
	}
}

func TestApproveDue_IsLimitedAndContinuesAfterFailures(t *testing.T) {
	f := newCommissionFixture(t)
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	for i := range 12 {
		c := f.commission(participant, partner, func(c *affiliate.Commission) {
			due := f.now.Add(time.Duration(i-12) * time.Second)
			c.AutoApproveAt = &due
		})
		if i < 4 {
			// The four oldest commissions cannot be approved, because a history entry
			// with their next version already exists.
			f.row("commission_history", map[string]any{
				"workspace_id": f.scope.Workspace, "commission_id": c.ID, "seq": 2, "at": f.now, "actor": "x", "to_status": "x", "amount_cents": 1,
			})
		}
	}
	for i, want := range []affiliate.CommissionSweep{{Approved: 3, Failed: 4}, {Approved: 3, Failed: 4}, {Approved: 2, Failed: 4}, {Failed: 4}} {
		got, err := commissionservice.ApproveDue(t.Context(), stores.Commission(f.store), f.now, 3)
		if err != nil || got.FirstFailure == nil {
			t.Fatalf("sweep %d returned %+v, %v, want a first failure", i, got, err)
		}
		if got.FirstFailure = nil; got != want {
			t.Errorf("sweep %d returned %+v, want %+v", i, got, want)
		}
	}
	if n := f.count(`select count(*) from commissions where status = 'pending'`); n != 4 {
		t.Errorf("%d commissions are still pending, want the 4 that fail", n)
	}
	if n := f.count(`select count(*) from events`); n != 8 {
		t.Errorf("%d events were created, want 8, because rolled back moves have no event", n)
	}
}

func TestApproveDue_ParallelSweepsApproveOnce(t *testing.T) {
	t.Parallel()
	f := newCommissionFixture(t)
	f.subscribeToEverything()
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	const rows, sweeps = 150, 6
	for range rows {
		f.commission(participant, partner, nil)
	}
	var group sync.WaitGroup
	var lock sync.Mutex
	approved := 0
	for range sweeps {
		group.Go(func() {
			sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(f.store), f.now, 1000)
			lock.Lock()
			defer lock.Unlock()
			approved += sweep.Approved
			if err != nil || sweep.Failed > 0 {
				t.Errorf("a sweep returned %+v, %v, want no failure", sweep, err)
			}
		})
	}
	group.Wait()
	if approved != rows {
		t.Errorf("the sweeps approved %d commissions in total, want %d", approved, rows)
	}
	for _, sql := range []string{
		`select count(*) from commissions where status = 'approved' and version = 2`,
		`select count(*) from commission_history where seq = 2`,
		`select count(*) from events where type = 'commission.approved'`,
		`select count(*) from webhook_deliveries`,
	} {
		if n := f.count(sql); n != rows {
			t.Errorf("%s = %d, want %d", sql, n, rows)
		}
	}
}

func TestApproveDue_SkipsLockedCommissions(t *testing.T) {
	f := newCommissionFixture(t)
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	locked := f.commission(participant, partner, nil)
	f.commission(participant, partner, nil)
	tx, err := f.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select from commissions where id = $1 for update`, locked.ID); err != nil {
		t.Fatal(err)
	}
	sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(f.store), f.now, 10)
	if err != nil || sweep.Approved != 1 || sweep.Skipped != 1 {
		t.Errorf("with one locked commission, a sweep returned %+v, %v, want one approved and one skipped", sweep, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(f.store), f.now, 10); err != nil || sweep.Approved != 1 {
		t.Errorf("after the lock was released, a sweep returned %+v, %v, want one approved", sweep, err)
	}
}

func TestProgramScope_FindsProgrammeOfAnyWorkspace(t *testing.T) {
	f := newCommissionFixture(t)
	if scope, err := f.store.ProgramScope(t.Context(), f.program); err != nil || scope != f.scope {
		t.Errorf("ProgramScope returned %v, %v, want %v", scope, err, f.scope)
	}
	if _, err := f.store.ProgramScope(t.Context(), affiliate.NewID[affiliate.Program](f.now)); !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		t.Errorf("ProgramScope of an unknown programme returned %v, want the reason %s", err, affiliate.ReasonNotFound)
	}
}

// payoutRef returns a pointer to a new payout id.
func payoutRef(at time.Time) *affiliate.PayoutID {
	id := affiliate.NewID[affiliate.Payout](at)
	return &id
}
