package privacy_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// addPayout stores a payout and returns its id.
func (f *fixture) addPayout(p pgtest.Participant, status payout.Status, paidAt *time.Time) affiliate.PayoutID {
	f.Helper()
	id := affiliate.NewID[affiliate.PayoutID](f.Now())
	f.ExecWithoutForeignKeys(`
		insert into payouts (workspace_id, id, batch_id, mode, program_id, participant_id, partner_id, amount_cents, currency, commission_count,
			adjustment_cents, status, method, initiated_at, paid_at, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, $7, 500, 'USD', 1, 0, $8, 'manual', $9, $10, $9, $9)`,
		f.Scope.Workspace, id, uuid.New(), f.Scope.Mode, f.Program, p.ID, p.Partner, status, f.Now(), paidAt)
	return id
}

func (f *fixture) retainPayees(years int) {
	f.Helper()
	f.Exec(`update workspaces set retain_payee_years = $2 where id = $1`, f.Scope.Workspace, years)
}

func (f *fixture) wantPayee(when string, id affiliate.PayoutID, want string) {
	f.Helper()
	items, _, err := payouts.List(f.Context(), f.DB, f.Scope, payout.Filter{}, affiliate.Page{Number: 1, Size: 100})
	if err != nil {
		f.Fatal(err)
	}
	detail, err := payouts.GetDetail(f.Context(), f.DB, f.Scope, id)
	if err != nil {
		f.Fatal(err)
	}
	for _, item := range items {
		if item.ID == id && (item.PartnerName != want || detail.PartnerName != want) {
			f.Errorf("%s the payout has the name %q in the list and %q alone, want %q", when, item.PartnerName, detail.PartnerName, want)
		}
	}
}

// deletePayeeNames runs the part of the hourly job that deletes names.
func (f *fixture) deletePayeeNames(now time.Time, want int64) {
	f.Helper()
	if n, err := payouts.DeletePayeeNames(f.Context(), f.DB, now, 10); err != nil || n != want {
		f.Errorf("DeletePayeeNames at %v changed %d payouts (%v), want %d", now, n, err, want)
	}
}

func TestErase_KeepsTheNameOnPaidPayouts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.retainPayees(10)
	recent, old := f.Now().AddDate(-9, 0, 0), f.Now().AddDate(-10, 0, -1)
	paid, expired := f.addPayout(f.ada, payout.Paid, &recent), f.addPayout(f.ada, payout.Paid, &old)
	failed, bens := f.addPayout(f.ada, payout.Failed, nil), f.addPayout(f.ben, payout.Paid, &recent)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	pseudonym := privacy.Pseudonym(f.ada.Partner.UUID)
	f.wantPayee("after the erasure", paid, "Ada")
	f.wantPayee("after the erasure", expired, pseudonym)
	f.wantPayee("after the erasure", failed, pseudonym)
	f.wantPayee("after the erasure of Ada", bens, "Ben")
	f.WantCount(1, "payouts with a name of their own", `select count(*) from payouts where payee_name is not null`)
	f.WantCount(0, "participants with the name", `select count(*) from participants where partner_name = 'Ada'`)

	end := recent.AddDate(10, 0, 0)
	f.deletePayeeNames(end.Add(-time.Second), 0)
	f.deletePayeeNames(end, 1)
	f.wantPayee("after ten years", paid, pseudonym)
}

// The clock of the process that marked the payout as paid can be ahead.
func TestErase_KeepsNoNameWithoutRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := f.Now().Add(time.Second)
	paid := f.addPayout(f.ada, payout.Paid, &at)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.wantPayee("after the erasure", paid, privacy.Pseudonym(f.ada.Partner.UUID))
}

// A name ends early if the merchant lowers the number of years, and with the workspace.
func TestPayeeNames_EndWithTheSettingAndTheWorkspace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.retainPayees(10)
	recent, older := f.Now().AddDate(-1, 0, 0), f.Now().AddDate(-6, 0, 0)
	kept, deleted := f.addPayout(f.ada, payout.Paid, &recent), f.addPayout(f.ada, payout.Paid, &older)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.retainPayees(5)
	f.deletePayeeNames(f.Now(), 1)
	f.wantPayee("with five years", kept, "Ada")
	f.wantPayee("with five years", deleted, privacy.Pseudonym(f.ada.Partner.UUID))
	f.finish(f.erasure())

	f.eraseWorkspace()
	f.finish(f.erasure())
	f.WantCount(0, "names after the erasure of the workspace", `select count(*) from payouts where payee_name is not null`)
}

// The payouts of test mode are no payments, so no law demands their names.
func TestErase_KeepsNoNameInTestMode(t *testing.T) {
	t.Parallel()
	live := newFixture(t)
	f := &fixture{Shop: live.NewShop(affiliate.ModeTest), clock: live.clock, directory: &directory{}, dead: live.dead, log: &log{}}
	f.service = f.serviceWith(f.DB)
	f.retainPayees(10)
	ada, at := f.NewParticipant(f.Scope, f.Program, f.NewPartner("Ada")), f.Now()
	paid := f.addPayout(ada, payout.Paid, &at)
	if err := f.eraseParticipant(ada); err != nil {
		t.Fatal(err)
	}
	f.wantPayee("after the erasure", paid, privacy.Pseudonym(ada.Partner.UUID))
}
