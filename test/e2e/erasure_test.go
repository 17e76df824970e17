package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/privacy/inventory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

var confirmed = object{"confirmation": "DELETE"}

func TestErasure_ChecksInOrder(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "live", nil)
	erase := f.participantPath() + "/erase"
	for name, body := range map[string]any{
		"no body":                 nil,
		"an empty object":         object{},
		"another text":            object{"confirmation": "delete"},
		"a space":                 object{"confirmation": "DELETE "},
		"a number":                object{"confirmation": 1},
		"a list":                  object{"confirmation": []string{"DELETE"}},
		"null":                    object{"confirmation": nil},
		"names that do not agree": object{"confirmation": "DELETE", "confirm": "no"},
	} {
		t.Run(name, func(t *testing.T) {
			f.merchant.post(t, erase, body).wantError(400, "CONFIRMATION_INVALID")
			f.merchant.post(t, "/api/v1/programs/no-id/partners/no-id/erase", body).wantError(400, "CONFIRMATION_INVALID")
		})
	}
	other := sys.newFixture(t, "live", nil)
	f.merchant.post(t, other.participantPath()+"/erase", confirmed).wantError(403, "ACCESS_DENIED")
	f.merchant.post(t, "/api/v1/programs/"+unknownID+"/partners/"+f.participant+"/erase", confirmed).wantError(403, "ACCESS_DENIED")
	f.merchant.post(t, "/api/v1/programs/no-id/partners/"+f.participant+"/erase", confirmed).wantError(404, "PARTICIPANT_NOT_FOUND")
	f.merchant.post(t, f.programPath()+"/partners/"+other.participant+"/erase", confirmed).wantError(404, "PARTICIPANT_NOT_FOUND")
	f.merchant.post(t, f.programPath()+"/partners/no-id/erase", confirmed).wantError(404, "PARTICIPANT_NOT_FOUND")
	f.merchant.inMode("test").post(t, erase, confirmed).wantError(404, "PARTICIPANT_NOT_FOUND")
	f.merchant.post(t, erase, object{"confirmation": "DELETE", "unknown": 1}).wantError(400, "VALIDATION_ERROR", "unknown")

	sys.exec(t, `
		insert into payout_batches (workspace_id, id, mode, status, program_ids, cutoff, created_by, created_at)
		values ($1, gen_random_uuid(), 'live', 'confirmed', '{}', now(), $2, now())`, f.merchant.workspace, f.merchant.id)
	sys.exec(t, `
		insert into payouts (workspace_id, id, batch_id, mode, program_id, participant_id, partner_id, amount_cents, currency, commission_count,
			adjustment_cents, status, method, created_at, updated_at)
		select b.workspace_id, gen_random_uuid(), b.id, 'live', $2, $3, $4, 1, 'USD', 0, 1, 'pending', 'manual', now(), now()
		from payout_batches b where b.workspace_id = $1`, f.merchant.workspace, f.program, f.participant, f.partner.id)
	for _, status := range []string{"pending", "processing"} {
		sys.exec(t, `update payouts set status = $2 where workspace_id = $1`, f.merchant.workspace, status)
		f.merchant.post(t, erase, confirmed).wantError(409, "ERASURE_BLOCKED_PAYOUT")
		f.partner.post(t, "/api/v1/partner/account/erase", confirmed).wantError(409, "ERASURE_BLOCKED_PAYOUT")
		f.merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantError(409, "ERASURE_BLOCKED_PAYOUT")
	}
	sys.exec(t, `update payouts set status = 'paid', paid_at = now() where workspace_id = $1`, f.merchant.workspace)

	sys.exec(t, `update workspaces set billing_active = true where id = $1`, f.merchant.workspace)
	f.merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantError(409, "BILLING_SUBSCRIPTION_ACTIVE")
	if n := sys.count(t, `select count(*) from erasures`); n != 0 {
		t.Fatalf("refused erasures have stored %d erasures, want 0", n)
	}

	f.merchant.post(t, erase, object{"confirmationPhrase": "DELETE"}).wantStatus(http.StatusOK).instant("erased_at")
	f.merchant.post(t, erase, object{"confirm": "DELETE"}).wantError(409, "ALREADY_ERASED")
	f.merchant.get(t, f.participantPath()).wantStatus(http.StatusOK).instant("erasedAt")
}

func TestErasure_OfAccountsEndsAccess(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "live", nil)

	f.partner.post(t, "/api/v1/partner/account/erase", confirmed).wantStatus(http.StatusOK)
	f.partner.get(t, "/api/v1/partner/profile").wantError(401, "UNAUTHORIZED")
	f.partner.post(t, "/api/v1/partner/account/erase", object{}).wantError(400, "CONFIRMATION_INVALID")
	f.partner.post(t, "/api/v1/partner/account/erase", confirmed).wantError(409, "ALREADY_ERASED")
	f.partner.post(t, "/api/v1/merchant/account/erase", confirmed).wantError(401, "UNAUTHORIZED")
	sys.client().post(t, "/api/v1/auth/partner/refresh", object{"refreshToken": f.partner.refresh}).wantError(401, "REFRESH_TOKEN_INVALID")
	sys.client().post(t, "/api/v1/auth/partner/login", object{"email": f.partner.email, "password": password}).wantError(401, "INVALID_CREDENTIALS")
	// The code is taken, and the address is free.
	again := sys.account("partner", f.partner.email, sys.client().post(t, "/api/v1/auth/partner/register", object{
		"email": f.partner.email, "password": password, "name": "Pia Partner",
	}).wantStatus(http.StatusCreated))
	again.post(t, f.applyPath(), object{"referralCode": f.code}).wantError(409, "REFERRAL_CODE_TAKEN")
	eventually(t, 5*time.Second, "the collector rejects the code", func() error {
		if got := sys.click(t, f.publicKey, object{"referral_code": f.code}); got.status != http.StatusNotFound {
			return fmt.Errorf("it returns %d %s", got.status, got.body)
		}
		return nil
	})
	eventually(t, waitTimeout, "the code is erased", func() error {
		if n := sys.count(t, `select count(*) from referral_codes where code = $1`, f.code); n != 0 {
			return errors.New("it is still stored")
		}
		return nil
	})
	again.post(t, f.applyPath(), object{"referralCode": f.code}).wantError(409, "REFERRAL_CODE_TAKEN")

	f.merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantStatus(http.StatusOK)
	f.merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantError(409, "ALREADY_ERASED")
	f.merchant.get(t, "/api/v1/workspace").wantError(401, "UNAUTHORIZED")
	f.report(t, purchase("")).wantError(401, "INVALID_API_KEY")
	eventually(t, 5*time.Second, "the collector rejects the key", func() error {
		if got := sys.click(t, f.publicKey, object{"referral_code": f.code}); got.status != http.StatusUnauthorized {
			return fmt.Errorf("it returns %d %s", got.status, got.body)
		}
		return nil
	})
	// The tombstones of the sessions are deleted, and the tokens have expired.
	sys.clock.advance(21 * time.Minute)
	f.merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantError(401, "UNAUTHORIZED")
}

// aLife lets a partner with distinctive values do everything that leaves data: apply, share
// links, get clicks and sales, be reviewed and paid. It returns the partner's values, without
// name and address, and the buyer's.
func (f fixture) aLife(t *testing.T) (partner, buyer map[string]string) {
	t.Helper()
	partner = map[string]string{
		"code": f.code, "second code": uniqueName("quokkacode"), "sub id": uniqueName("quokkasub"), "utm": uniqueName("quokkautm"),
		"promo code": uniqueName("quokkapromo"), "note": uniqueName("quokkanote"), "tag": uniqueName("quokkatag"),
		"reason": uniqueName("quokkareason"), "referrer": uniqueName("quokkareferrer") + ".example", "company": uniqueName("Quokka Ltd"),
	}
	buyer = map[string]string{
		"external id": uniqueName("wombatorder"), "customer": uniqueName("wombatcustomer"), "address": uniqueName("wombat") + "@wombat.example",
		"metadata": uniqueName("wombatmeta"), "product": uniqueName("wombatproduct"), "subscription": uniqueName("wombatsub"),
	}
	f.partner.patch(t, "/api/v1/partner/profile", object{"companyName": partner["company"]}).wantStatus(http.StatusOK)
	f.partner.post(t, "/api/v1/partner/links", object{
		"programId": f.program, "code": partner["second code"], "destinationUrl": "https://shop.example/x", "subId": partner["sub id"], "utm": object{"source": partner["utm"]},
	}).wantStatus(http.StatusCreated)
	f.merchant.post(t, f.programPath()+"/promo-codes", object{
		"participantId": f.participant, "code": partner["promo code"], "discountType": "percentage", "discountValue": 10,
	}).wantStatus(http.StatusCreated)
	f.merchant.patch(t, f.participantPath(), object{"note": partner["note"], "tags": []string{partner["tag"]}}).wantStatus(http.StatusOK)
	var click string
	eventually(t, waitTimeout, "the collector accepts a click", func() error {
		got := f.sys.click(t, f.publicKey, object{
			"referral_code": partner["second code"], "sub_id": partner["sub id"], "referrer": "https://" + partner["referrer"] + "/page",
			"landing_url": "https://shop.example/?utm_source=" + partner["utm"],
		})
		if got.status != http.StatusCreated {
			return fmt.Errorf("it returns %d %s", got.status, got.body)
		}
		click = got.text("click_id")
		return nil
	})
	sale := purchase(click)
	maps.Copy(sale, object{
		"external_transaction_id": buyer["external id"], "promo_code": partner["promo code"], "customer_id": buyer["customer"],
		"customer_email": buyer["address"], "metadata": object{"note": buyer["metadata"]}, "product_ids": []string{buyer["product"]},
		"subscription_id": buyer["subscription"],
	})
	key := f.sys.client().withCredential(f.secretKey).withHeader("Idempotency-Key", uniqueName("key"))
	commission := key.post(t, "/api/v1/conversions", sale).wantStatus(http.StatusCreated).text("commission.id")
	f.merchant.patch(t, f.commissionPath(commission)+"/reject", object{"reason": partner["reason"]}).wantStatus(http.StatusOK)
	promoSale := purchase("")
	delete(promoSale, "click_id")
	promoSale["promo_code"] = partner["promo code"]
	f.report(t, promoSale).wantStatus(http.StatusCreated)
	f.merchant.post(t, f.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 500, "reason": partner["reason"]}).wantStatus(http.StatusCreated)
	f.merchant.patch(t, f.participantPath()+"/suspend", object{"reason": partner["reason"]}).wantStatus(http.StatusOK)
	f.merchant.patch(t, f.participantPath()+"/reinstate", nil).wantStatus(http.StatusOK)
	return partner, buyer
}

// finishErasures makes the second pass of all erasures due, and waits until they have
// finished.
func (sys *system) finishErasures(t *testing.T) {
	t.Helper()
	eventually(t, 2*waitTimeout, "the first pass of the erasures has ended", func() error {
		if n := sys.count(t, `select count(*) from river.river_job where kind = 'erase_data' and state not in ('scheduled', 'completed')`); n != 0 {
			return fmt.Errorf("%d jobs have not paused", n)
		}
		return nil
	})
	sys.clock.advance(2 * time.Minute)
	sys.exec(t, `update river.river_job set scheduled_at = now() - interval '1 second' where kind = 'erase_data' and state = 'scheduled'`)
	eventually(t, 2*waitTimeout, "the erasures have finished", func() error {
		if n := sys.count(t, `select count(*) from erasures where finished_at is null`); n != 0 {
			return fmt.Errorf("%d have not", n)
		}
		return nil
	})
}

// wantNoTraces checks that no table, no key of Redis, no file of the folder and no log line
// contains one of the values.
func (sys *system) wantNoTraces(t *testing.T, redisURL, folder string, values map[string]string, allowed ...string) {
	t.Helper()
	eventually(t, 30*time.Second, "no erased value is left", func() error {
		contents := sys.dump(t)
		for _, table := range allowed {
			delete(contents, table)
		}
		maps.Copy(contents, dumpRedis(t, redisURL))
		maps.Copy(contents, dumpFolder(t, folder))
		contents["the log"] = sys.logs.String()
		if found := traces(contents, values); len(found) > 0 {
			return errors.New(strings.Join(found, "\n"))
		}
		return nil
	})
}

func TestErasure_LeavesNoTraces(t *testing.T) {
	t.Parallel()
	const name, email = "Quintessa Quokkatron", "quintessa@quokkatron.example"
	for kind, erase := range map[string]func(t *testing.T, f fixture){
		"participant": func(t *testing.T, f fixture) {
			t.Helper()
			f.merchant.post(t, f.participantPath()+"/erase", confirmed).wantStatus(http.StatusOK)
		},
		"partner": func(t *testing.T, f fixture) {
			t.Helper()
			f.partner.post(t, "/api/v1/partner/account/erase", confirmed).wantStatus(http.StatusOK)
		},
		"workspace": func(t *testing.T, f fixture) {
			t.Helper()
			f.eraseBuyer(t, object{"email": uniqueName("buyer") + "@example.com"}) // its rows must go too
			f.merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantStatus(http.StatusOK)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			folder, redisURL := t.TempDir(), redistest.New(t)
			log := filepath.Join(folder, "erasures")
			sys := start(t, setup{redis: redisURL, env: map[string]string{"TRIBUTARY_ERASURE_LOG": log, "TRIBUTARY_JOURNAL_DIR": filepath.Join(folder, "journal")}})
			partner := sys.account("partner", email, sys.client().post(t, "/api/v1/auth/partner/register", object{
				"email": email, "password": password, "name": name,
			}).wantStatus(http.StatusCreated)).inMode("test")
			merchant := sys.newMerchant(t).inMode("test")
			f := sys.newFixtureFor(t, merchant, partner, object{"name": "Quokka Programme"})
			values, buyer := f.aLife(t)
			f.loseClicks(t, redisURL, values["code"])
			eventually(t, waitTimeout, "the click is stored", func() error {
				if sys.count(t, `select count(*) from clicks`) == 0 {
					return errors.New("there is none")
				}
				return nil
			})
			money := sys.money(t)

			erase(t, f)
			sys.finishErasures(t)
			var allowed []string
			switch kind {
			case "participant": // the account of the partner stays
				allowed = []string{"public.users", "public.email_tokens", "public.mails"}
				delete(values, "company")
				if n := sys.count(t, `select count(*) from mails where workspace_id is not null and recipient = $1`, email); n != 0 {
					t.Errorf("%d mails of the workspace to the partner are left", n)
				}
			case "workspace": // the account of the partner stays
				maps.Copy(values, buyer)
				values["programme"], values["merchant"] = "Quokka Programme", merchant.email
				allowed = []string{"public.users", "public.email_tokens"}
				sys.wantNoTraces(t, redisURL, folder, map[string]string{"merchant": merchant.email, "member": "Mara Merchant"})
			}
			if kind != "workspace" {
				values["name"], values["address"] = name, email
			}
			sys.wantNoTraces(t, redisURL, folder, values, allowed...)
			switch kind {
			case "participant":
				sys.wantInventory(t, inventory.ParticipantErasure, []string{"participant_id"}, map[string]string{"participant_id": f.participant})
			case "partner":
				sys.wantInventory(t, inventory.AccountErasure, []string{"feed_id", "user_id", "participant_id"},
					map[string]string{"participant_id": f.participant, "user_id": partner.id, "feed_id": partner.id})
			case "workspace":
				sys.wantInventory(t, inventory.WorkspaceErasure, []string{"feed_id", "user_id", "workspace_id"},
					map[string]string{"workspace_id": merchant.workspace, "user_id": merchant.id, "feed_id": merchant.workspace})
			}
			if after := sys.money(t); after != money {
				t.Errorf("the erasure has changed the money:\nbefore %s\nafter  %s", money, after)
			}
			if content, err := os.ReadFile(log); err != nil || !strings.Contains(string(content), `"kind":"`+kind+`"`) {
				t.Errorf("the erasure log contains %q, %v", content, err)
			}
		})
	}
}

// money returns the sums of conversions, commissions and the ledger, and the totals, as one
// text.
func (sys *system) money(t *testing.T) string {
	t.Helper()
	var all []string
	for _, sum := range []string{
		`select coalesce(sum(amount_cents), 0) from conversions`,
		`select coalesce(sum(amount_cents), 0) from commissions`,
		`select coalesce(sum(amount_cents), 0) from ledger_entries`,
		`select coalesce(sum(balance_cents), 0) from ledger_balances`,
		`select coalesce(sum(n), 0) from commission_counts`,
		`select count(*) from commissions where status = 'rejected'`,
		`select count(*) from clicks`,
		`select coalesce((select sum(clicks) from participant_totals), 0) + coalesce((select sum(clicks) from stats_deltas), 0)`,
	} {
		all = append(all, strconv.Itoa(sys.count(t, sum)))
	}
	return strings.Join(all, " ")
}
