package privacy_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	erasures "github.com/tributary-hq/tributary/storage/postgres/privacy"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// addClickDays adds sums of clicks of a participant: rows for each of the last days.
func (f *fixture) addClickDays(p pgtest.Participant, days, rows int) {
	f.Helper()
	f.Exec(`
		insert into click_days (workspace_id, mode, program_id, participant_id, day, utm_source, others, clicks, unique_clicks, bot_clicks)
		select $1, $2, $3, $4, $5::date - d, 'source-' || n, false, 1, 1, 0 from generate_series(1, $6) d, generate_series(1, $7) n`,
		p.Scope.Workspace, p.Scope.Mode, p.Program, p.ID, f.Now(), days, rows)
}

func (f *fixture) eraseAccount(p pgtest.Participant) {
	f.Helper()
	_, err := f.service.ErasePartnerAccount(servertest.AsPartner(f, p.Partner, affiliate.ModeLive), &affiliatev1.ErasePartnerAccountRequest{})
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) eraseWorkspace() {
	f.Helper()
	_, err := f.service.EraseMerchantAccount(servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner), &affiliatev1.EraseMerchantAccountRequest{})
	if err != nil {
		f.Error(err)
	}
}

// The sums of a day can have more rows than a page.
func TestErase_ErasesTheSumsOfAllDays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addClickDays(f.ada, 3, 4500)
	f.addClickDays(f.ben, 3, 10)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	const withSource = `select count(*) from click_days where participant_id = $1 and utm_source is not null`
	f.WantCount(0, "sums of Ada with a campaign", withSource, f.ada.ID)
	f.WantCount(30, "sums of Ben with a campaign", withSource, f.ben.ID)
	f.WantCount(13500, "clicks of Ada", `select sum(clicks) from click_days where participant_id = $1`, f.ada.ID)
}

// The workspace can have more stored responses than a page.
func TestErase_ReadsAllStoredResponses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`
		insert into idempotency_keys (workspace_id, mode, method, key, fingerprint, response, created_at, expires_at)
		select $1, mode, '/m', lpad(n::text, 5, '0'), '\x00', convert_to(case when n % 500 = 0 then 'quokka-ada' else 'wombat-ben' end, 'UTF8'), $2, $2
		from generate_series(1, 2500) n, unnest(array['test', 'live']) mode`, f.Scope.Workspace, f.Now())
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	f.wantTraces("quokka")
	f.WantCount(4990, "responses about others", `select count(*) from idempotency_keys`)
}

// An export that is made while the job of an erasure is running contains data that the job has
// not reached yet.
func TestErase_DeletesExportsThatWereMadeBesideIt(t *testing.T) {
	t.Parallel()
	for name, erase := range map[string]func(f *fixture){
		"participant": func(f *fixture) {
			if err := f.eraseParticipant(f.ada); err != nil {
				f.Fatal(err)
			}
		},
		"account": func(f *fixture) { f.eraseAccount(f.ada) },
		"workspace": func(f *fixture) {
			f.eraseWorkspace()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			erase(f)
			if _, err := f.service.Erase(t.Context(), f.erasure()); err != nil {
				t.Fatal(err)
			}
			f.addExport("merchant", f.Scope.Workspace.UUID, pgtest.Row{"workspace_id": f.Scope.Workspace})
			f.addExport("partner", f.ben.Partner.UUID, pgtest.Row{"partner_id": f.ben.Partner})
			f.clock.Advance(time.Hour)
			if _, err := f.service.Erase(t.Context(), f.erasure()); err != nil {
				t.Fatal(err)
			}
			f.WantCount(0, "exports of the workspace", `select count(*) from exports where kind = 'merchant'`)
			f.WantCount(1, "exports of Ben", `select count(*) from exports where kind = 'partner'`)
			f.WantCount(1, "finished erasures", `select count(*) from erasures where finished_at is not null`)
		})
	}
}

func (f *fixture) addExport(kind string, subject uuid.UUID, owner pgtest.Row) {
	f.Helper()
	f.Insert("exports", pgtest.Row{
		"id": uuid.New(), "kind": kind, "subject_id": subject, "request_mode": "live", "queued": false, "lease_until": f.Now(), "lease": uuid.New(),
		"progress": "{}", "created_at": f.Now(), "ready_at": f.Now(), "expires_at": f.Now(),
	}, owner)
}

// Test data can be deleted during the erasure of an account. The other participants are still
// processed in both passes.
func TestErase_OfAnAccountContinuesIfAParticipantIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	test, cleo := f.InOtherMode(), f.NewPartner("Cleo")
	f.NewParticipant(test.Scope, test.Program, cleo, pgtest.Row{"referral_code": "numbat-test"})
	live := f.NewParticipant(f.Scope, f.Program, cleo, pgtest.Row{"referral_code": "numbat-live"})
	f.NewClick(live)
	f.eraseAccount(live)
	id := f.erasure()
	for f.Count(`select step from erasures`) < 25 { // the steps of the participant in test mode have run
		page, err := erasures.Advance(t.Context(), f.DB, id, privacy.ErasurePage{}, f.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		if letters := page.DeadLetters; letters != nil {
			if _, err = erasures.Advance(t.Context(), f.DB, id, page, f.clock.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if page.Delete != nil {
			if _, err = erasures.Advance(t.Context(), f.DB, id, page, f.clock.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.ExecWithoutForeignKeys(`delete from participants where mode = 'test'`)
	f.finish(id)
	f.wantTraces("numbat")
}

// The second pass of a workspace also finds what other jobs have added to rows that the first
// pass has erased, and data of visitors of participants that were erased before.
func TestErase_OfAWorkspaceErasesRowsAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`update clicks set country = 'NL', browser = 'Firefox'`)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	f.Exec(`delete from erasures`)
	f.WantCount(6, "clicks with a country", `select count(*) from clicks where country is not null`)
	f.eraseWorkspace()
	id := f.erasure()
	wait, err := f.service.Erase(t.Context(), id)
	if err != nil || wait == 0 {
		t.Fatalf("the first pass returns %v, %v, want a wait", wait, err)
	}
	f.WantCount(0, "clicks with a country or browser", `select count(*) from clicks where num_nonnulls(country, browser) > 0`)
	f.Exec(`update conversions set processor = '{"customer_id": "cus_quokka"}', sub_id = 'quokka'`)
	f.Exec(`update commissions set customer_ref = 'ref-quokka', promo_code = 'quokka'`)
	f.clock.Advance(wait)
	if wait, err = f.service.Erase(t.Context(), id); err != nil || wait != 0 {
		t.Fatalf("the second pass returns %v, %v, want 0", wait, err)
	}
	f.wantTraces("quokka")
	late := f.UnstoredClick(f.ben, func(c *click.Click) { c.Country, c.Browser, c.OS = "NL", "Firefox", "Linux" })
	if err := clicks.Store(t.Context(), f.DB, []click.Click{late}); err != nil {
		t.Fatal(err)
	}
	f.WantCount(1, "late clicks without data of the visitor", `select count(*) from clicks where id = $1 and num_nonnulls(country, browser, os, device, region) = 0`, late.ID)
}

// A buyer can use a promo code of one participant and the link of another one, who earns the
// commission. The sale then names the code.
func TestErase_ErasesPromoCodesInSalesOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	code := "quokka-ada-promo"
	f.NewCommission(f.ben, func(c *commission.Commission) { c.PromoCode = &code })
	f.Exec(`update conversions set promo_code = 'quokka-ada-promo' from commissions m where m.conversion_id = conversions.id and m.promo_code = 'quokka-ada-promo'`)
	f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.PromoCode = &code })
	f.Exec(`update conversions set promo_code = 'wombat-ben-promo', sub_id = 'wombat-sub' where participant_id = $1 and promo_code is null`, f.ben.ID)
	f.Exec(`update participants set partner_name = 'wombat-ben-promo' where id = $1`, f.ada.ID) // a name that is a code of somebody else
	f.WantCount(1, "commissions of Ben with the code", `select count(*) from commissions where participant_id = $1 and promo_code = $2`, f.ben.ID, code)
	f.WantCount(5, "conversions with the code", `select count(*) from conversions where promo_code = $1`, code)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	f.wantTraces("quokka")
	f.WantCount(3, "conversions with the code of Ben", `select count(*) from conversions where promo_code = 'wombat-ben-promo' and sub_id = 'wombat-sub'`)
	f.WantCount(1, "commissions of Ben with the pseudonym", `select count(*) from commissions where participant_id = $1 and promo_code = $2`, f.ben.ID, privacy.Pseudonym(f.ada.Partner.UUID))
}

// Somebody can accept an invitation while the workspace is erased. The erasure waits and erases
// the account too.
func TestEraseWorkspace_ErasesMembersWhoJoinAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Insert("member_invites", pgtest.Row{
		"id": uuid.New(), "workspace_id": f.Scope.Workspace, "email": "quokka@shop.example", "role": "viewer", "digest": []byte("digest"),
		"mail_digest": []byte("mailed digest"), "invited_by": f.Owner, "created_at": f.Now(), "expires_at": f.Now().Add(time.Hour),
	})
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	joined := uuid.New()
	for _, statement := range []string{
		`select from member_invites for update`,
		`insert into users (id, kind, email, password_hash, name, created_at) values ('` + joined.String() + `', 'merchant', 'quokka@shop.example', 'x', 'Quokka', now())`,
		`insert into members (workspace_id, user_id, role, created_at) select id, '` + joined.String() + `', 'viewer', now() from workspaces where id = '` + f.Scope.Workspace.String() + `'`,
		`update member_invites set ended_at = now()`,
	} {
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var erasing sync.WaitGroup
	erasing.Go(f.eraseWorkspace)
	pgtest.Eventually(t, "the erasure waits for the new member", func() bool {
		return f.CountLockWaits() > 0
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	erasing.Wait()
	f.finish(f.erasure())
	f.WantCount(0, "members", `select count(*) from members where workspace_id = $1`, f.Scope.Workspace)
	f.WantCount(0, "accounts with the address", `select count(*) from users where email like 'quokka%' or name = 'Quokka'`)
}

// A request that was authenticated before the erasure changes nothing of an erased workspace.
func TestLockWorkspace_RefusesErasedWorkspaces(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.eraseWorkspace()
	err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error { return postgres.LockWorkspace(t.Context(), tx, f.Scope.Workspace) })
	if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
		t.Errorf("LockWorkspace returns %v, want NOT_FOUND", err)
	}
	err = f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		_, err := accounts.LockSettings(t.Context(), tx, f.Scope.Workspace)
		return err
	})
	if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
		t.Errorf("LockSettings returns %v, want NOT_FOUND", err)
	}
	err = f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		_, err := programs.LockSlugs(t.Context(), tx, f.Scope.Workspace)
		return err
	})
	if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
		t.Errorf("LockSlugs returns %v, want NOT_FOUND", err)
	}
}

// A text of a participant can be a part of other words in a record. Only records with the text
// as a field are about the participant.
func TestErase_DeletesOnlyItsDeadLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`update participants set partner_name = 'Max', partner_email = 'jörg numbat-müller, ' || repeat('x', 50) where id = $1`, f.ada.ID)
	records := map[string]*edgev1.Click{
		"other": {WorkspaceId: f.Scope.Workspace.UUID[:], ReferralCode: "wombat-ben", LandingUrl: "https://shop.example/MaxiCosi?quokka-ada-and-more"},
		"name":  {WorkspaceId: f.Scope.Workspace.UUID[:], SubId: "Jörg Numbat-Müller, " + strings.Repeat("x", 50)},
		"code":  {WorkspaceId: f.Scope.Workspace.UUID[:], ReferralCode: "Quokka-ADA"},
		"id":    {WorkspaceId: f.Scope.Workspace.UUID[:], ParticipantId: f.ada.ID.UUID[:], ReferralCode: "x"},
	}
	for name, click := range records {
		record, err := proto.Marshal(click)
		if err != nil {
			t.Fatal(err)
		}
		f.Insert("click_dead_letters", pgtest.Row{"id": affiliate.NewID[affiliate.ClickID](f.Now()), "reason": name, "record": record, "created_at": f.Now()})
	}
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	if got := strings.Join(f.Texts(`select reason from click_dead_letters`), " "); got != "other" {
		t.Errorf("the records %q remain, want other", got)
	}
}
