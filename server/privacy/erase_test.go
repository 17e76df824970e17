package privacy_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/analytics"
	linkservice "github.com/tributary-hq/tributary/server/link"
	participantservice "github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/server/partner"
	privacyservice "github.com/tributary-hq/tributary/server/privacy"
	promocodeservice "github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

var (
	hashKeys = affiliate.HashKeys{[]byte("key of the tests")} // as in pgtest.ErasureKeys
	errCrash = errors.New("the process crashed")
)

const confirmation = "DELETE"

// fixture is a shop with the participants Ada and Ben, who have clicks and commissions, and the
// service under test.
type fixture struct {
	*pgtest.Shop

	clock     *pgtest.Clock
	service   *privacyservice.Service
	directory *directory
	dead      *deadLetters
	log       *log
	ada, ben  pgtest.Participant
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewRunningClock()
	f := &fixture{Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive), clock: clock, directory: &directory{}, dead: newDeadLetters(t), log: &log{}}
	f.ada = f.NewParticipant(f.Scope, f.Program, f.NewPartner("Ada"), pgtest.Row{"referral_code": "quokka-ada", "note": "quokka-note", "external_id": "quokka-external", "proposed_account_hint": "quokka-hint"})
	f.ben = f.NewParticipant(f.Scope, f.Program, f.NewPartner("Ben"), pgtest.Row{"referral_code": "wombat-ben", "note": "wombat-note", "external_id": "wombat-external", "proposed_account_hint": "wombat-hint"})
	for _, p := range []pgtest.Participant{f.ada, f.ben} {
		for range 3 {
			f.NewClick(p, func(c *click.Click) { c.SubID, c.ReferrerDomain = p.Code+"-sub", p.Code+".example" })
			f.NewCommission(p, func(c *commission.Commission) { code := p.Code + "-promo"; c.PromoCode = &code })
		}
		f.NewPromoCode(p, p.Code+"-promo")
		f.NewLedgerEntry(p, 500, func(e *ledger.ManualEntry) { e.Reason = p.Code + "-reason" })
	}
	f.service = f.serviceWith(f.DB)
	return f
}

func (f *fixture) serviceWith(db *postgres.DB) *privacyservice.Service {
	return privacyservice.New(privacyservice.Config{DB: db, Directory: f.directory, DeadLetters: f.dead, Analytics: analytics.New(f.DB, slog.New(slog.DiscardHandler), f.clock.Now), Log: f.log, HashKeys: hashKeys, Now: f.clock.Now})
}

// directory records the codes that it has to delete.
type directory struct {
	mu      sync.Mutex
	deleted []string
	fails   int // number of calls that fail
}

func (d *directory) DeleteCodes(_ context.Context, codes privacy.DirectoryCodes) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails > 0 {
		d.fails--
		return errCrash
	}
	d.deleted = append(d.deleted, codes.Codes...)
	return nil
}

// log is an erasure log in memory.
type log struct {
	entries []privacy.ErasureLogEntry
	err     error
}

func (l *log) Append(entry privacy.ErasureLogEntry) error {
	if l.err == nil {
		l.entries = append(l.entries, entry)
	}
	return l.err
}

func (f *fixture) eraseParticipant(p pgtest.Participant) error {
	f.Helper()
	ctx := servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
	text := confirmation
	_, err := f.service.EraseParticipant(ctx, &affiliatev1.EraseParticipantRequest{
		ProgramId: f.Program.String(), ParticipantId: p.ID.String(), Confirmation: &text,
	})
	return err
}

// erasure returns the id of the only erasure that has not finished.
func (f *fixture) erasure() privacy.ErasureID {
	f.Helper()
	var id privacy.ErasureID
	if err := f.SQL.QueryRow(f.Context(), `select id from erasures where finished_at is null`).Scan(&id); err != nil {
		f.Fatal(err)
	}
	return id
}

// finish runs both passes of the erasure.
func (f *fixture) finish(id privacy.ErasureID) {
	f.Helper()
	wait, err := f.service.Erase(f.Context(), id)
	if err != nil || wait == 0 {
		f.Fatalf("the first pass returns %v, %v, want a wait", wait, err)
	}
	f.clock.Advance(wait)
	if wait, err = f.service.Erase(f.Context(), id); err != nil || wait != 0 {
		f.Fatalf("the second pass returns %v, %v, want 0", wait, err)
	}
}

// wantTraces checks in how many tables rows contain a text.
func (f *fixture) wantTraces(text string, want ...string) {
	f.Helper()
	tables := f.Texts(`
		select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p') and not c.relispartition and n.nspname = 'public' order by 1`)
	var found []string
	for _, table := range tables {
		if f.Count(`select count(*) from `+table+` r where strpos(lower(r::text), $1) > 0 or strpos(r::text, encode($1::text::bytea, 'hex')) > 0`, text) > 0 {
			found = append(found, table)
		}
	}
	if strings.Join(found, " ") != strings.Join(want, " ") {
		f.Errorf("%s is in the tables %v, want %v", text, found, want)
	}
}

// crashingDB returns the database for a service that crashes at each position of its only
// erasure: before a transaction begins, which is after the previous one has committed, and
// before it commits. Each crash happens once, so that the erasure makes progress.
func (f *fixture) crashingDB() *postgres.DB {
	f.Helper()
	crashed := map[string]bool{}
	return f.OpenHooked(func(sql string, _ []any) error {
		if sql != "begin" && sql != "commit" {
			return nil
		}
		position := sql + " " + f.Texts(`select step || ' ' || cursor from erasures`)[0]
		if crashed[position] {
			return nil
		}
		crashed[position] = true
		return errCrash
	})
}

func TestErase_FinishesAfterCrashesAtEveryPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.dead.add(t, 150, f.ada, f.ben)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.dead.fails = 2
	f.service, f.directory.fails = f.serviceWith(f.crashingDB()), 1
	crashes := 0
	for {
		wait, err := f.service.Erase(t.Context(), f.erasure())
		if err == nil && wait == 0 {
			break
		}
		f.clock.Advance(wait)
		if err != nil {
			crashes++
		}
		if crashes > 1000 {
			t.Fatalf("the erasure has not finished after %d crashes: %v", crashes, err)
		}
	}
	if crashes < 40 {
		t.Errorf("there were %d crashes, want two at each page", crashes)
	}
	f.wantTraces("quokka")
	f.dead.want(t, map[string]int{"quokka-ada": 0, "wombat-ben": 150})
	f.WantCount(0, "texts of finished erasures", `select count(*) from erasures where texts <> '{}' or finished_at is null`)
	f.WantCount(0, "participants of finished erasures", `select count(*) from erasure_participants`)
	if got := strings.Join(f.directory.deleted, " "); got != "quokka-ada" {
		t.Errorf("the directory has deleted %q, want the code of Ada", got)
	}
}

func TestErase_ChangesNothingOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const others = `
		select r from (
			select t::text as r from participants t where id = $1 union all select t::text from links t where participant_id = $1
			union all select t::text from referral_codes t where participant_id = $1 union all select t::text from promo_codes t where participant_id = $1
			union all select t::text from clicks t where participant_id = $1 union all select t::text from conversions t where participant_id = $1
			union all select t::text from commissions t where participant_id = $1 union all select t::text from ledger_entries t where participant_id = $1
			union all select t::text from ledger_balances t union all select t::text from commission_counts t
			union all select convert_from(body, 'UTF8') from events where subject_id = $1
		) as rows order by 1`
	before := f.Texts(others, f.ben.ID)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	if after := f.Texts(others, f.ben.ID); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("the erasure of Ada has changed the rows of Ben:\nbefore\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	f.WantCount(3, "commissions of Ada under the pseudonym", `select count(*) from commissions where participant_id = $1 and amount_cents = 200`, f.ada.ID)
	checks, err := checks.Run(t.Context(), f.DB, f.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range checks {
		if check.Violated > 0 && !strings.Contains(check.Name, "clock") {
			t.Errorf("%s: %v", check.Name, check.Violations)
		}
	}
}

// addAnalytics adds all clicks and conversions to the sums of the analytics, as a job does every
// two seconds.
func (f *fixture) addAnalytics() {
	f.Helper()
	if err := f.service.Analytics.AddAll(f.Context(), f.Scope.Workspace); err != nil {
		f.Fatal(err)
	}
}

// A request that was running during the erasure stores a click after the first pass.
func TestErase_SecondPassErasesWhatRunningRequestsHaveStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	id := f.erasure()
	wait, err := f.service.Erase(t.Context(), id)
	if err != nil || wait == 0 {
		t.Fatalf("the first pass returns %v, %v, want a wait", wait, err)
	}
	f.addAnalytics()
	f.wantTraces("quokka", "erasures")
	f.Exec(`update clicks set referral_code = 'quokka-late', sub_id = 'quokka-late' where participant_id = $1`, f.ada.ID)
	f.clock.Advance(wait)
	if wait, err := f.service.Erase(t.Context(), id); err != nil || wait != 0 {
		t.Fatalf("the second pass returns %v, %v, want 0", wait, err)
	}
	f.wantTraces("quokka")
}

func TestStoreClicks_OfErasedParticipantKeepsNoPersonalData(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	late := func(p pgtest.Participant) click.Click {
		return f.UnstoredClick(p, func(c *click.Click) {
			c.SubID, c.IPHash, c.IPPrefix = p.Code+"-sub", []byte(p.Code), "192.0.2.0/24"
		})
	}
	ada, ben := late(f.ada), late(f.ben)
	for range 2 { // the second time, the clicks exist
		if err := clicks.Store(t.Context(), f.DB, []click.Click{ada, ben}); err != nil {
			t.Fatal(err)
		}
	}
	f.addAnalytics()
	f.wantTraces("quokka")
	f.WantCount(1, "late clicks of Ben", `select count(*) from clicks where id = $1 and sub_id = 'wombat-ben-sub' and ip_hash is not null`, ben.ID)
	f.WantCount(1, "late clicks of Ada without a network", `select count(*) from clicks where id = $1 and ip_prefix is null`, ada.ID)
}

// The account of the partner stays after the erasure of a participation. Its later changes do
// not reach the erased participant.
func TestErase_LaterChangesOfTheAccountDoNotReachTheParticipant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	rename := &affiliatev1.UpdatePartnerProfileRequest{Name: "Ada Numbat", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}}
	caller := servertest.AsPartner(t, f.ada.Partner, affiliate.ModeLive)
	if _, err := partner.New(partner.Config{DB: f.DB, Now: f.Now}).UpdatePartnerProfile(caller, rename); err != nil {
		t.Fatal(err)
	}
	err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		return accounts.ChangeEmail(t.Context(), tx, f.ada.Partner, "ada@numbat.example", f.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	f.WantCount(1, "accounts with the new values", `select count(*) from users where name = 'Ada Numbat' and email = 'ada@numbat.example'`)
	f.WantCount(0, "participants with a new value", `select count(*) from participants where participants::text ~* 'numbat'`)
}

// useErasedCodes requests a link and a promo code of Ben with the codes that Ada had.
func (f *fixture) useErasedCodes(db *postgres.DB) (link, promoCode error) {
	f.Helper()
	owner := servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
	_, link = linkservice.New(db, "", f.Now).CreateLink(owner, &affiliatev1.CreateLinkRequest{
		ProgramId: f.Program.String(), ParticipantId: f.ben.ID.String(), Code: ptr("quokka-ada"), DestinationUrl: "https://shop.example/",
	})
	_, promoCode = promocodeservice.New(db, f.Now).CreatePromoCode(owner, &affiliatev1.CreatePromoCodeRequest{
		ProgramId: f.Program.String(), ParticipantId: f.ben.ID.String(), Code: "quokka-ada-promo",
		DiscountType: affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE, DiscountValue: ptr(10.0),
	})
	return link, promoCode
}

func TestErase_CodesStayTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"after the response", "after the job"} {
		link, code := f.useErasedCodes(f.DB)
		if pgtest.ReasonOf(t, link) != affiliate.ReasonReferralCodeTaken {
			t.Errorf("%s, a link with the code returns %v", state, link)
		}
		if pgtest.ReasonOf(t, code) != affiliate.ReasonPromoCodeTaken {
			t.Errorf("%s, a promo code with the code returns %v", state, code)
		}
		_, invitation := participantservice.New(participantservice.Config{
			DB: f.DB, Now: f.Now, Invitations: server.Invitations{Limiter: servertest.Unlimited{}},
		}).InviteParticipant(servertest.AsMember(t, f.Scope, f.Owner, affiliate.RoleOwner), &affiliatev1.InviteParticipantRequest{
			ProgramId: f.Program.String(), Email: "cleo@example.com", ReferralCode: ptr("quokka-ada"),
		})
		if pgtest.ReasonOf(t, invitation) != affiliate.ReasonReferralCodeTaken {
			t.Errorf("%s, an invitation with the code returns %v", state, invitation)
		}
		if state == "after the response" {
			f.finish(f.erasure())
		}
	}
}

// After a rotation of the hash key, the codes that were erased before stay taken, and the erasure
// of an account deletes the digests of the earlier key.
func TestErase_KnowsDigestsOfEarlierHashKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keyB := []byte("the next key of the tests")
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	create := func(keys affiliate.HashKeys) (link, promoCode error) {
		t.Helper()
		db, err := postgres.Open(t.Context(), postgres.Config{URL: f.URL, ErasureKeys: privacy.NewErasureKeys(keys)})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		return f.useErasedCodes(db)
	}
	both := affiliate.HashKeys{keyB, hashKeys.First()}
	if link, code := create(both); pgtest.ReasonOf(t, link) != affiliate.ReasonReferralCodeTaken || pgtest.ReasonOf(t, code) != affiliate.ReasonPromoCodeTaken {
		t.Errorf("the erased codes are not taken: %v, %v", link, code)
	}
	if link, code := create(affiliate.HashKeys{keyB}); link != nil || code != nil {
		t.Errorf("without their key, the erased codes are taken: %v, %v", link, code)
	}

	var email string
	if err := f.SQL.QueryRow(t.Context(), `select email from users where id = $1`, f.ben.Partner).Scan(&email); err != nil {
		t.Fatal(err)
	}
	f.Insert("mail_suppressions", pgtest.Row{"digest": notification.MailDigest(hashKeys, email).First(), "reason": "bounced", "created_at": f.Now()})
	f.Insert("login_failures", pgtest.Row{
		"id": affiliate.NewID[affiliate.LoginAttemptID](f.Now()), "subject": account.LoginSubject(hashKeys, affiliate.Partner, email).First(), "bucket": []byte("bucket"), "failed_at": f.Now(),
	})
	f.Insert("former_emails", pgtest.Row{"user_id": f.ben.Partner, "digest": fraud.FormerEmailDigests(hashKeys, "old@ben.example").First(), "created_at": f.Now()})
	f.service.HashKeys = both
	f.eraseAccount(f.ben)
	f.WantCount(0, "digests of addresses", `select (select count(*) from mail_suppressions) + (select count(*) from login_failures) + (select count(*) from former_emails)`)
}

func ptr[T any](value T) *T { return &value }

func TestErase_LogsWhatTheCallCouldNotLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.log.err = errors.New("no space left on device")
	if err := f.eraseParticipant(f.ada); !errors.Is(err, f.log.err) {
		t.Fatalf("the call returns %v, want the error of the log", err)
	}
	if err := f.eraseParticipant(f.ada); pgtest.ReasonOf(t, err) != affiliate.ReasonAlreadyErased {
		t.Fatalf("the repeated call returns %v, want ALREADY_ERASED", err)
	}
	if _, err := f.service.Erase(t.Context(), f.erasure()); !errors.Is(err, f.log.err) {
		t.Fatalf("the job returns %v, want the error of the log", err)
	}
	f.log.err = nil
	f.finish(f.erasure())
	if len(f.log.entries) != 1 || f.log.entries[0].Subject != f.ada.ID.String() || f.log.entries[0].Kind != "participant" {
		t.Errorf("the log contains %v, want one entry about Ada", f.log.entries)
	}
}

func TestResume_EnqueuesErasuresWhoseJobIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.eraseParticipant(f.ada); err != nil {
		t.Fatal(err)
	}
	resume := func(want int, description string) {
		t.Helper()
		if err := f.service.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.WantCount(want, description, `select count(*) from river.river_job where kind = 'erase_data' and state = 'available'`)
	}
	f.Exec(`delete from river.river_job`)
	resume(0, "jobs that are enqueued at once")
	f.clock.Advance(2 * time.Hour)
	resume(1, "jobs after two hours")
	resume(1, "jobs while the job waits")
	f.Exec(`update river.river_job set state = 'discarded', finalized_at = now() where kind = 'erase_data'`)
	resume(1, "jobs after the last attempt of the job has failed")
}

// A backup is older than the erasures of a participant, a partner and the workspace. After its
// restore, the log is replayed.
func TestReplay_ErasesAgainAfterRestore(t *testing.T) {
	t.Parallel()
	for name, erase := range map[string]func(t *testing.T, f *fixture) error{
		"participant": func(_ *testing.T, f *fixture) error { return f.eraseParticipant(f.ada) },
		"partner": func(t *testing.T, f *fixture) error {
			t.Helper()
			_, err := f.service.ErasePartnerAccount(servertest.AsPartner(t, f.ada.Partner, affiliate.ModeLive), &affiliatev1.ErasePartnerAccountRequest{})
			return err
		},
		"workspace": func(t *testing.T, f *fixture) error {
			t.Helper()
			_, err := f.service.EraseMerchantAccount(servertest.AsMember(t, f.Scope, f.Owner, affiliate.RoleOwner), &affiliatev1.EraseMerchantAccountRequest{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			backup := filepath.Join(t.TempDir(), "backup")
			run(t, "pg_dump", "--format=custom", "--file="+backup, f.URL)
			if err := erase(t, f); err != nil {
				t.Fatal(err)
			}
			restored := restore(t, backup, f.clock.Now)
			after := &fixture{Shop: &pgtest.Shop{Fixture: restored, Scope: f.Scope, Program: f.Program, Owner: f.Owner}, clock: f.clock, directory: &directory{}, dead: f.dead, log: &log{}}
			after.service = after.serviceWith(restored.DB)
			after.WantCount(1, "participants in the backup", `select count(*) from participants where note = 'quokka-note'`)
			for _, want := range []bool{true, false} { // the second time, nothing is left to do
				_, replayed, err := after.service.Replay(t.Context(), f.log.entries[0])
				if err != nil || replayed != want {
					t.Fatalf("the replay returns %t, %v, want %t", replayed, err, want)
				}
			}
			after.finish(after.erasure())
			after.wantTraces("quokka")
			if len(after.log.entries) != 0 {
				t.Errorf("the replay has logged %v, want nothing", after.log.entries)
			}
		})
	}
}

func run(t *testing.T, command string, args ...string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), command, args...).CombinedOutput(); err != nil { //nolint:gosec // the arguments are of this test
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
}

func TestFileLog_KeepsEntriesAfterTornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "erasures")
	entry := func(subject string) privacy.ErasureLogEntry {
		return privacy.ErasureLogEntry{At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Kind: "partner", Subject: subject}
	}
	var wait sync.WaitGroup
	for range 4 { // several processes append to the file
		file, err := privacyservice.OpenLog(path)
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			for range 25 {
				if err := file.Append(entry("019ca954-0400-7000-8000-000000000001")); err != nil {
					t.Error(err)
				}
			}
		})
		defer func() { _ = file.Close() }()
	}
	wait.Wait()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"at":"2026-03-01T12:00:00Z","kind":"par`); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	last, err := privacyservice.OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = last.Close() }()
	if err := last.Append(entry("019ca954-0400-7000-8000-000000000002")); err != nil {
		t.Fatal(err)
	}
	content, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	entries, invalid, err := privacyservice.ReadLog(content)
	if err != nil || len(entries) != 101 || invalid != 1 || entries[100] != entry("019ca954-0400-7000-8000-000000000002") {
		t.Errorf("ReadLog returns %d entries, %d invalid lines, %v, want 101 entries and 1 invalid line", len(entries), invalid, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the file is %v, want 0600", info.Mode())
	}
}
