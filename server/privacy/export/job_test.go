package export_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/privacy/export"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// small makes every export of a workspace a large one.
var small = export.Limits{Records: 250_000, Bytes: 50_000_000, DirectRecords: 10, DirectBytes: 1000}

func (f *fixture) wantProcessing(response *affiliatev1.Export, err error) {
	f.Helper()
	if err != nil || response.GetStatus() != affiliatev1.ExportStatus_EXPORT_STATUS_PROCESSING || response.GetDownloadUrl() != "" {
		f.Fatalf("the response is %v, %v, want processing", response, err)
	}
}

func (f *fixture) job() privacy.BuildExport {
	f.Helper()
	id, _ := affiliate.ParseID[privacy.ExportID](f.Texts(`select id::text from exports where subject_id = $1`, f.Scope.Workspace)[0])
	return privacy.BuildExport{Workspace: f.Scope.Workspace, Export: id}
}

// mailedLinks returns the links of the mails about complete bundles, by recipient.
func (f *fixture) mailedLinks() map[string]*affiliatev1.Export {
	f.Helper()
	links := map[string]*affiliatev1.Export{}
	for _, line := range f.Texts(`select id || ' ' || recipient || ' ' || encode(secret, 'hex') from mails where kind = 'export_ready' and secret is not null`) {
		fields := strings.Fields(line)
		id, _ := affiliate.ParseID[notification.MailID](fields[0])
		var sealed []byte
		if err := f.SQL.QueryRow(f.Context(), `select secret from mails where id = $1`, id).Scan(&sealed); err != nil {
			f.Fatal(err)
		}
		token, err := f.keys.OpenMailToken(id, sealed)
		if err != nil {
			f.Fatal(err)
		}
		url := publicURL + privacy.ExportPath + token
		links[fields[1]] = &affiliatev1.Export{DownloadUrl: &url}
	}
	return links
}

func (f *fixture) emailOf(user affiliate.UserID) string {
	f.Helper()
	return f.Texts(`select email from users where id = $1`, user)[0]
}

func TestExportMerchantAccount_LargeWorkspaceIsMadeByAJobAndMailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service = f.newService(f.DB, small)
	admin := f.NewMember(f.Scope.Workspace, affiliate.RoleAdmin)
	removed := f.NewMember(f.Scope.Workspace, affiliate.RoleAdmin)
	demoted := f.NewMember(f.Scope.Workspace, affiliate.RoleAdmin)
	f.wantProcessing(f.exportMerchant())
	for _, user := range []affiliate.UserID{admin, removed, demoted, f.Owner} {
		f.wantProcessing(f.service.ExportMerchantAccount(servertest.AsMember(t, f.Scope, user, affiliate.RoleAdmin), nil))
	}
	f.Exec(`delete from members where user_id = $1`, removed)
	f.Exec(`update members set role = 'viewer' where user_id = $1`, demoted)
	if n := f.CountJobs("build_export"); n != 1 {
		t.Errorf("%d jobs were inserted, want 1", n)
	}
	f.StartWorkers(f.workers())
	pgtest.Eventually(t, "the bundle is complete", func() bool { return f.Count(`select count(*) from exports where ready_at is not null`) == 1 })

	links := f.mailedLinks()
	if len(links) != 2 || links[f.emailOf(f.Owner)] == nil || links[f.emailOf(admin)] == nil {
		t.Fatalf("the links were mailed to %v, want to the owner and the admin", links)
	}
	bundle := f.text(links[f.emailOf(f.Owner)])
	c := parse(t, bundle)
	if len(c.records(t, "clicks")) != 3 || len(c.records(t, "participants")) != 3 {
		t.Error("the bundle does not contain the clicks and the participants of both modes")
	}
	object, _ := f.LastEvent(affiliate.EventGDPRExportReady)
	if want := affiliate.FormatTime(f.Now().Add(72 * time.Hour)); object["expires_at"] != want {
		t.Errorf("the event has the object %v, want the expiry %s", object, want)
	}
	f.WantCount(1, "notifications of the workspace", `select count(*) from notifications where feed_id = $1 and type = 'gdpr.export_ready'`, f.Scope.Workspace)

	// A later request gets a link at once, which works for 24 hours.
	later, err := f.exportMerchant()
	if err != nil || !later.GetExpiresAt().AsTime().Equal(f.Now().Add(24*time.Hour)) || f.text(later) != bundle {
		t.Errorf("a later request returned %v, %v, want a link to the same bundle", later, err)
	}
	f.clock.Advance(72*time.Hour - time.Millisecond)
	f.text(links[f.emailOf(admin)])
	if _, err := f.download(later, "gzip"); pgtest.ReasonOf(t, err) != affiliate.ReasonExportExpired {
		t.Errorf("the link of 24 hours returned %v after 72 hours, want EXPORT_EXPIRED", err)
	}
	f.clock.Advance(time.Millisecond)
	if _, err := f.download(links[f.emailOf(admin)], "gzip"); pgtest.ReasonOf(t, err) != affiliate.ReasonExportExpired {
		t.Errorf("the mailed link returned %v after 72 hours, want EXPORT_EXPIRED", err)
	}
}

// The erasure of a participant makes the job of a large workspace begin again, because it may
// have stored data of the participant. The link is still mailed.
func TestBuildExport_BeginsAgainAfterAnErasure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`update participants set note = 'quokka-note' where id = $1`, f.ada.ID)
	f.fillMany(f.bob, 6_000)
	var once sync.Once
	db := f.OpenHooked(func(sql string, _ []any) error {
		if !strings.Contains(sql, saveProgress) || f.Count(`select count(*) from export_chunks`) == 0 {
			return nil
		}
		once.Do(func() {
			f.Exec(`update participants set note = null where id = $1`, f.ada.ID)
			f.erase(f.ada) // from here on, the other worker can begin the new job
		})
		return nil
	})
	f.service = f.newService(db, small)
	f.wantProcessing(f.exportMerchant())
	f.StartWorkers(f.workers())
	pgtest.Eventually(t, "the link is mailed", func() bool { return len(f.mailedLinks()) == 1 })
	bundle := f.text(f.mailedLinks()[f.emailOf(f.Owner)])
	if len(parse(t, bundle).records(t, "participants")) != 3 || strings.Contains(bundle, "quokka-note") {
		t.Error("the bundle does not have all participants, or it has the erased note")
	}
	if n := f.CountJobs("build_export"); n != 2 {
		t.Errorf("%d jobs were inserted, want 2", n)
	}
}

func (f *fixture) workers() *river.Config {
	workers := river.NewWorkers()
	f.service.AddWorkers(workers)
	return &river.Config{Queues: map[string]river.QueueConfig{privacy.ExportQueue: {MaxWorkers: 2}}, Workers: workers, FetchPollInterval: 50 * time.Millisecond, FetchCooldown: 20 * time.Millisecond}
}

// fillMany creates clicks of a participant, so that a bundle has several pieces.
func (f *fixture) fillMany(p pgtest.Participant, clicks int) {
	f.Helper()
	f.Exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot, landing_url)
		select $1, encode(substring(int8send((extract(epoch from at) * 1000)::bigint) from 3) || '\x7000'::bytea || '\x8000'::bytea || int8send(n)::bytea, 'hex')::varchar(32)::uuid,
			at, $2, $3, $4, gen_random_uuid(), 'many', at, at, at, 'granted', false, 'https://shop.example/' || md5(n::text) || md5((n + 1)::text) || md5((n + 2)::text)
		from generate_series(1, $5::int) n, lateral (select $6::timestamptz - n * interval '1 second' as at) t`,
		p.Scope.Workspace, p.Scope.Mode, p.Program, p.ID, clicks, f.Now())
}

// A job that is killed in the middle is continued from the last piece. The bundle is the same
// as without the interruption.
func TestBuildExport_ContinuesAfterAKill(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fillMany(f.ada, 5000)
	f.service = f.newService(f.DB, small)
	f.wantProcessing(f.exportMerchant())
	killed := f.newService(f.OpenHooked(killedBefore(3, saveProgress)), small)
	if _, err := killed.Continue(t.Context(), f.job(), time.Minute); err == nil {
		t.Error("the process has ended before the kill")
	}
	stored := f.Count(`select count(*) from export_chunks`)
	if stored != 2 {
		t.Fatalf("%d pieces are stored before the kill, want 2", stored)
	}
	// The lease of the killed process has not ended.
	if wait, err := f.service.Continue(t.Context(), f.job(), time.Minute); wait == 0 || err != nil {
		t.Errorf("Continue returned %v, %v while the lease lasts, want a wait", wait, err)
	}
	f.clock.Advance(31 * time.Second)
	// A request replaces the lost job.
	jobs := f.CountJobs("build_export")
	f.wantProcessing(f.exportMerchant())
	if n := f.CountJobs("build_export"); n != jobs+1 {
		t.Errorf("the request after the lease inserted %d jobs, want 1", n-jobs)
	}
	if wait, err := f.service.Continue(t.Context(), f.job(), time.Minute); wait != 0 || err != nil {
		t.Fatalf("Continue returned %v, %v", wait, err)
	}
	f.wantManyClicks(5003)
	// A job that runs again has no effect.
	if wait, err := f.service.Continue(t.Context(), f.job(), time.Minute); wait != 0 || err != nil {
		t.Errorf("a repeated job returned %v, %v", wait, err)
	}
	f.WantCount(1, "mails", `select count(*) from mails where kind = 'export_ready'`)
}

// wantManyClicks checks that the mailed bundle has each click once.
func (f *fixture) wantManyClicks(want int) {
	f.Helper()
	c := parse(f.TB, f.text(f.mailedLinks()[f.emailOf(f.Owner)]))
	ids := map[any]bool{}
	records := c.records(f.TB, "clicks")
	for _, record := range records {
		ids[record["id"]] = true
	}
	if len(records) != want || len(ids) != want {
		f.Errorf("the bundle has %d clicks with %d ids, want %d", len(records), len(ids), want)
	}
}

// A job whose time is over stores the progress and inserts the next job.
func TestBuildExport_IsCutIntoJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fillMany(f.ada, 5000)
	f.service = f.newService(f.DB, small)
	f.wantProcessing(f.exportMerchant())
	for jobs := 1; f.Count(`select count(*) from exports where ready_at is null`) > 0; jobs++ {
		if jobs > 10 {
			t.Fatal("the bundle is not complete after ten jobs")
		}
		if n := f.CountJobs("build_export"); n != jobs {
			t.Fatalf("%d jobs were inserted, want %d", n, jobs)
		}
		if wait, err := f.service.Continue(t.Context(), f.job(), -time.Second); wait != 0 || err != nil {
			t.Fatalf("Continue returned %v, %v", wait, err)
		}
	}
	if n := f.CountJobs("build_export"); n < 3 {
		t.Errorf("the bundle was made by %d jobs, want at least 3", n)
	}
	f.wantManyClicks(5003)
}

func TestBuildExport_AFailureIsContinued(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service = f.newService(f.DB, small)
	f.wantProcessing(f.exportMerchant())
	failing := f.newService(f.OpenHooked(failingPieces), small)
	if _, err := failing.Continue(t.Context(), f.job(), time.Minute); err == nil || errors.As(err, new(*affiliate.Error)) {
		t.Fatalf("Continue returned %v, want the failure of the database", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.service.Continue(ctx, f.job(), time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("Continue returned %v after the process stopped, want %v", err, context.Canceled)
	}
	if wait, err := f.service.Continue(t.Context(), f.job(), time.Minute); wait != 0 || err != nil {
		t.Errorf("the next attempt returned %v, %v", wait, err)
	}
	f.WantCount(1, "complete bundles", `select count(*) from exports where ready_at is not null`)
}
