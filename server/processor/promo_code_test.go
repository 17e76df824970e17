package processor_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	promocodes "github.com/tributary-hq/tributary/storage/postgres/promocode"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// newSyncedCode stores a promo code of Ada that shall exist at Stripe.
func (f *fixture) newSyncedCode(code string, change ...func(*promocode.PromoCode)) promocode.PromoCode {
	f.Helper()
	synced := func(c *promocode.PromoCode) { c.Sync, c.SyncStatus = true, promocode.SyncPending }
	return f.NewPromoCode(f.ada, code, append([]func(*promocode.PromoCode){synced}, change...)...)
}

func (f *fixture) sync(code promocode.PromoCode) error {
	return f.service.SyncPromoCode(f.Context(), code.SyncJob())
}

func (f *fixture) mustSync(code promocode.PromoCode) {
	f.Helper()
	if err := f.sync(code); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) patchCode(code promocode.PromoCode, patch promocode.Patch) {
	f.Helper()
	f.clock.Advance(time.Second)
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		stored, err := promocodes.Lock(f.Context(), tx, f.Scope, f.Program, code.ID)
		if err != nil {
			return err
		}
		return promocodes.Update(f.Context(), tx, stored.Patch(patch))
	})
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) syncStatus(code promocode.PromoCode) string {
	f.Helper()
	return f.Texts(`select sync_status from promo_codes where id = $1`, code.ID)[0]
}

// promotionCodes returns the promotion codes at Stripe that were created from a promo code,
// oldest first, as lines of text.
func (f *fixture) promotionCodes(code promocode.PromoCode) []string {
	f.Helper()
	var lines []string
	for _, id := range f.Texts(`select promotion_code_id from processor_promo_codes where promo_code_id = $1 order by created_at`, code.ID) {
		promotion, found := f.stripe.Object(id)
		if !found {
			f.Fatalf("promotion code %s is not at Stripe", id)
		}
		lines = append(lines, fmt.Sprintf("%v active %v, at most %v", promotion["code"], promotion["active"], promotion["max_redemptions"]))
	}
	return lines
}

func TestSyncPromoCode_FollowsThePromoCode(t *testing.T) {
	f := newFixture(t)
	f.connect()
	code := f.newSyncedCode("spring-20", func(c *promocode.PromoCode) { c.MaxRedemptions, c.Redemptions = new(int64(10)), 0 })
	f.Exec(`update promo_codes set redemptions = 4 where id = $1`, code.ID)
	want := func(step, status string, lines ...string) {
		t.Helper()
		f.mustSync(code)
		f.mustSync(code) // a repeated job changes nothing
		if got := f.syncStatus(code); got != status {
			t.Errorf("%s: status %s, want %s", step, got, status)
		}
		if got := f.promotionCodes(code); !slices.Equal(got, lines) {
			t.Errorf("%s: promotion codes %q, want %q", step, got, lines)
		}
	}
	first := "SPRING-20 active true, at most 6"
	ended := "SPRING-20 active false, at most 6"
	want("created", "synced", first)
	f.patchCode(code, promocode.Patch{MaxRedemptions: affiliate.Set(int64(20))})
	want("a new limit", "synced", ended, "SPRING-20 active true, at most 16")
	f.patchCode(code, promocode.Patch{Active: affiliate.Set(false)})
	want("deactivated", "synced", ended, "SPRING-20 active false, at most 16")
	f.patchCode(code, promocode.Patch{Active: affiliate.Set(true), MaxRedemptions: affiliate.Clear[int64]()})
	want("activated again", "synced", ended, "SPRING-20 active false, at most 16", "SPRING-20 active true, at most <nil>")
	f.patchCode(code, promocode.Patch{Sync: affiliate.Set(false)})
	want("not synced any more", "none", ended, "SPRING-20 active false, at most 16", "SPRING-20 active false, at most <nil>")

	// Old ids still lead to the promo code.
	id := f.Texts(`select promotion_code_id from processor_promo_codes where promo_code_id = $1 order by created_at limit 1`, code.ID)[0]
	f.stripe.Delete(id)
	f.put(stripeserver.NewSession("cs_a", object{
		"created": f.ago(0), "amount_total": 4_900, "currency": "eur", "payment_intent": "pi_a", "discounts": []any{object{"promotion_code": id}},
	}))
	wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
	wantSales(t, f, "pi_a purchase 4900 EUR PROMO_CODE_MATCHED pending 1470")

	f.patchCode(code, promocode.Patch{Sync: affiliate.Set(true)})
	f.mustSync(code)
	f.Exec(`delete from promo_codes where id = $1`, code.ID)
	f.mustSync(code)
	if active := f.Count(`select count(*) from processor_promo_codes where active`); active != 0 {
		t.Errorf("%d promotion codes of a deleted promo code are active", active)
	}
}

// A failure is visible at once and does not block the API. Another attempt succeeds.
func TestSyncPromoCode_Failures(t *testing.T) {
	for name, fault := range map[string]stripeserver.Fault{
		"error of Stripe":       {Method: "POST", Path: "/v1/coupons", Status: 500, Times: 10},
		"too many requests":     {Method: "POST", Path: "/v1/promotion_codes", Status: 429, Times: 10},
		"half a response":       {Method: "POST", Path: "/v1/coupons", Half: true, Times: 10},
		"permission is missing": {Method: "POST", Path: "/v1/coupons", Status: 403, Times: 10},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.connect()
			code := f.newSyncedCode("spring")
			f.stripe.Fail(fault)
			if err := f.sync(code); err == nil {
				t.Error("the sync succeeded")
			}
			if got := f.syncStatus(code); got != "failed" {
				t.Errorf("status %s, want failed", got)
			}
			for range 10 { // use up the faults
				if f.sync(code) == nil {
					break
				}
			}
			if got := f.syncStatus(code); got != "synced" {
				t.Errorf("status %s after another attempt, want synced", got)
			}
			if got := f.promotionCodes(code); len(got) != 1 {
				t.Errorf("promotion codes %q, want one", got)
			}
		})
	}
}

// The response with the id of a new promotion code is lost. The next attempt must not create
// a second one.
func TestSyncPromoCode_LostResponse(t *testing.T) {
	f := newFixture(t)
	f.connect()
	code := f.newSyncedCode("spring")
	f.stripe.Fail(stripeserver.Fault{Method: "POST", Path: "/v1/promotion_codes", Status: 500, AfterEffect: true})
	if err := f.sync(code); err == nil {
		t.Fatal("the sync succeeded")
	}
	f.mustSync(code)
	if got := f.promotionCodes(code); len(got) != 1 || f.syncStatus(code) != "synced" {
		t.Errorf("promotion codes %q, status %s; want one, synced", got, f.syncStatus(code))
	}
}

// A code that waits for a connection is created when an account is connected.
func TestSyncPromoCode_WaitsForConnection(t *testing.T) {
	f := newFixture(t)
	code, local := f.newSyncedCode("spring"), f.NewPromoCode(f.ada, "local")
	f.mustSync(code)
	if got := f.syncStatus(code); got != "pending" {
		t.Errorf("status %s without a connection, want pending", got)
	}
	const weakKey = "rk_test_weak0123456789"
	f.stripe.Deny(weakKey, "rak_coupon_write")
	_, err := f.service.ConnectProcessor(f.asOwner(), &affiliatev1.ConnectProcessorRequest{Processor: "stripe", RestrictedKey: weakKey})
	if refusal, ok := err.(*affiliate.Error); !ok || refusal.Reason != affiliate.ReasonProcessorPermissionMissing || refusal.Metadata[processor.MissingPermissions] != "coupon_write" { //nolint:errorlint // a refusal is never wrapped
		t.Fatalf("a key without the permission for coupons: %v", err)
	}
	f.connect()
	before := f.CountJobs("sync_promo_code")
	if err := f.service.SyncPromoCodes(f.Context(), processor.SyncPromoCodes{Workspace: f.Scope.Workspace, Mode: f.Scope.Mode}); err != nil {
		t.Fatal(err)
	}
	if inserted := f.CountJobs("sync_promo_code") - before; inserted != 1 {
		t.Errorf("%d jobs, want one", inserted)
	}
	f.mustSync(code)
	f.mustSync(local)
	if f.syncStatus(code) != "synced" || len(f.promotionCodes(local)) != 0 {
		t.Errorf("status %s and promotion codes %q of the local code", f.syncStatus(code), f.promotionCodes(local))
	}
}
