package export_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/privacy/export"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestExportParticipant_ChecksTheTarget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	second := f.NewProgram(f.Scope)
	erased := f.NewParticipant(f.Scope, second, f.bob.Partner, pgtest.Row{"erased_at": f.Now()})
	unknown := affiliate.NewID[affiliate.ParticipantID](f.Now()).String()
	for _, tc := range []struct {
		name                 string
		program, participant string
		want                 affiliate.Reason
	}{
		{"a programme of another workspace", f.other.Program.String(), f.adaElsewhere.ID.String(), affiliate.ReasonExportForbidden},
		{"a programme of another workspace and an own participant", f.other.Program.String(), f.ada.ID.String(), affiliate.ReasonExportForbidden},
		{"a programme that does not exist", affiliate.NewID[affiliate.ProgramID](f.Now()).String(), unknown, affiliate.ReasonExportForbidden},
		{"a programme that is no UUID", "x", f.ada.ID.String(), affiliate.ReasonParticipantNotFound},
		{"a participant of another programme", second.String(), f.ada.ID.String(), affiliate.ReasonParticipantNotFound},
		{"a participant of another workspace", f.Program.String(), f.adaElsewhere.ID.String(), affiliate.ReasonParticipantNotFound},
		{"a participant of the other mode", f.live.Program.String(), f.adaLive.ID.String(), affiliate.ReasonParticipantNotFound},
		{"a participant that does not exist", f.Program.String(), unknown, affiliate.ReasonParticipantNotFound},
		{"a participant that is no UUID", f.Program.String(), "x", affiliate.ReasonParticipantNotFound},
		{"an erased participant", second.String(), erased.ID.String(), affiliate.ReasonParticipantErased},
	} {
		response, err := f.service.ExportParticipant(f.asOwner(), &affiliatev1.ExportParticipantRequest{ProgramId: tc.program, ParticipantId: tc.participant})
		if response != nil || pgtest.ReasonOf(t, err) != tc.want {
			t.Errorf("%s: the response is %v, %v, want %s", tc.name, response, err, tc.want)
		}
	}
	f.WantCount(0, "exports after refused requests", `select count(*) from exports`)
	f.WantCount(0, "audit entries after refused requests", `select count(*) from audit_log where action like '%.export'`)
}

func TestExport_RespondsWithALink(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	date := f.Now().Format(time.DateOnly)
	for _, tc := range []struct {
		name     string
		export   func() (*affiliatev1.Export, error)
		filename string
	}{
		{"partner", func() (*affiliatev1.Export, error) { return f.exportPartner(f.ada.Partner) }, "tributary-partner-" + date + ".json"},
		{"participant", func() (*affiliatev1.Export, error) { return f.exportParticipant(f.ada) }, "tributary-participant-" + date + ".json"},
		{"merchant", f.exportMerchant, "tributary-merchant-" + date + ".json"},
	} {
		got, err := tc.export()
		if err != nil {
			t.Fatal(tc.name, err)
		}
		token, ok := strings.CutPrefix(got.GetDownloadUrl(), publicURL+"/api/v1/exports/exp_")
		if got.GetFilename() != tc.filename || !ok || len(token) != 43 || got.GetStatus() != affiliatev1.ExportStatus_EXPORT_STATUS_UNSPECIFIED {
			t.Errorf("%s: the response is %v, want the file %s and a token of 256 bits", tc.name, got, tc.filename)
		}
		if want := f.Now().Add(24 * time.Hour); !got.GetExpiresAt().AsTime().Equal(want) {
			t.Errorf("%s: the link expires at %v, want %v", tc.name, got.GetExpiresAt().AsTime(), want)
		}
		f.WantCount(0, "tokens in clear text", `select count(*) from export_tokens where encode(digest, 'escape') like '%exp_%'`)
	}
	f.WantCount(1, "audit entries of the account", `select count(*) from account_audit_log where user_id = $1 and action = 'account.export'`, f.ada.Partner)
	f.WantCount(1, "audit entries of the participant", `select count(*) from audit_log where resource_id = $1 and action = 'participant.export' and mode = 'test' and actor = $2`,
		f.ada.ID, f.Owner.String())
	f.WantCount(1, "audit entries of the workspace", `select count(*) from audit_log where resource_id = $1 and action = 'workspace.export' and mode is null`, f.Scope.Workspace)
	f.WantCount(1, "notifications of the partner", `select count(*) from notifications where feed_id = $1 and type = 'gdpr.export_ready' and mode = 'both'`, f.ada.Partner)
	f.WantCount(2, "notifications of the workspace", `select count(*) from notifications where feed_id = $1 and type = 'gdpr.export_ready' and mode = 'both'`, f.Scope.Workspace)
	f.WantCount(2, "deliveries of the event", `select count(*) from webhook_deliveries where workspace_id = $1 and event_type = 'gdpr.export_ready'`, f.Scope.Workspace)
	object, _ := f.LastEvent(affiliate.EventGDPRExportReady)
	if subject, _ := object["subject"].(map[string]any); subject["type"] != "merchant" || subject["id"] != f.Scope.Workspace.String() ||
		object["expires_at"] != affiliate.FormatTime(f.Now().Add(24*time.Hour)) || len(object) != 2 {
		t.Errorf("the object of the event is %v", object)
	}
	f.WantCount(0, "mails with links, because the bundles are small", `select count(*) from mails where kind = 'export_ready'`)
}

func TestExport_NeedsThePublicURL(t *testing.T) {
	t.Parallel()
	f := newEmptyFixture(t)
	f.service.PublicURL = ""
	if _, err := f.exportMerchant(); pgtest.ReasonOf(t, err) != affiliate.ReasonServiceUnavailable {
		t.Errorf("the error is %v, want SERVICE_UNAVAILABLE", err)
	}
}

func TestExport_ReturnsNewLinksToTheSameBundle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, err := f.exportPartner(f.ada.Partner)
	if err != nil {
		t.Fatal(err)
	}
	before := f.text(first)
	f.clock.Advance(time.Hour)
	f.NewClick(f.ada)
	second, err := f.exportPartner(f.ada.Partner)
	if err != nil || second.GetDownloadUrl() == first.GetDownloadUrl() {
		t.Fatalf("the second response is %v, %v, want another link", second, err)
	}
	if !second.GetExpiresAt().AsTime().Equal(first.GetExpiresAt().AsTime()) {
		t.Errorf("the second link expires at %v, want the time when the bundle expires, %v", second.GetExpiresAt().AsTime(), first.GetExpiresAt().AsTime())
	}
	if f.text(second) != before || f.text(first) != before {
		t.Error("the two links lead to different bundles")
	}
	f.WantCount(2, "audit entries", `select count(*) from account_audit_log where user_id = $1 and action = 'account.export'`, f.ada.Partner)

	f.clock.Advance(23*time.Hour - time.Millisecond)
	f.text(first)
	f.clock.Advance(time.Millisecond)
	for _, link := range []*affiliatev1.Export{first, second} {
		if _, err := f.download(link, "gzip"); pgtest.ReasonOf(t, err) != affiliate.ReasonExportExpired {
			t.Errorf("the download of an expired link returned %v, want EXPORT_EXPIRED", err)
		}
	}
	third, err := f.exportPartner(f.ada.Partner)
	if err != nil || f.text(third) == before {
		t.Errorf("the third response is %v, %v, want a new bundle", third, err)
	}
	if n, err := exports.DeleteExpiredExports(t.Context(), f.DB, f.Now(), 10); n != 1 || err != nil {
		t.Errorf("DeleteExpiredExports returned %d, %v, want 1", n, err)
	}
	f.text(third)
	f.WantCount(1, "bundles after the upkeep", `select count(*) from exports`)
	f.WantCount(1, "tokens after the upkeep", `select count(*) from export_tokens`)
}

func TestExport_ConcurrentRequestsShareOneBundle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const requests = 20
	var group sync.WaitGroup
	links, errs := make([]*affiliatev1.Export, requests), make([]error, requests)
	for i := range requests {
		group.Go(func() { links[i], errs[i] = f.exportParticipant(f.ada) })
	}
	group.Wait()
	texts, urls := map[string]bool{}, map[string]bool{}
	for i, link := range links {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		texts[f.text(link)], urls[link.GetDownloadUrl()] = true, true
	}
	if len(texts) != 1 || len(urls) != requests {
		t.Errorf("%d requests got %d links to %d bundles, want %d links to one bundle", requests, len(urls), len(texts), requests)
	}
	f.WantCount(1, "bundles", `select count(*) from exports`)
}

// deleteExports deletes all exports and what they have written, so that the next bundle is the same.
func (f *fixture) deleteExports() {
	f.Helper()
	for _, table := range []string{"export_tokens", "export_chunks", "export_recipients", "exports"} {
		f.Exec(`delete from ` + table)
	}
	f.Exec(`delete from audit_log where action like '%.export'`)
	f.Exec(`delete from account_audit_log where action like '%.export'`)
	f.Exec(`delete from notifications where type = 'gdpr.export_ready'`)
}

func TestExport_SizesAtTheirBounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tc := range []struct {
		name   string
		export func() (*affiliatev1.Export, error)
	}{
		{"partner", func() (*affiliatev1.Export, error) { return f.exportPartner(f.ada.Partner) }},
		{"participant", func() (*affiliatev1.Export, error) { return f.exportParticipant(f.ada) }},
		{"merchant", f.exportMerchant},
	} {
		f.service = f.newService(f.DB)
		link, err := tc.export()
		if err != nil {
			t.Fatal(err)
		}
		bytes := int64(len(f.text(link)))
		records, err := strconv.ParseInt(f.Texts(`select progress ->> 'records' from exports`)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			records, bytes int64
			fits           bool
		}{{records, bytes, true}, {records - 1, bytes, false}, {1, bytes, false}, {records, bytes - 1, false}} {
			f.deleteExports()
			limits := export.Limits{Records: c.records, Bytes: c.bytes, DirectRecords: c.records, DirectBytes: c.bytes}
			f.service = f.newService(f.DB, limits)
			response, err := tc.export()
			switch {
			case c.fits:
				if err != nil || response.GetDownloadUrl() == "" {
					t.Errorf("%s with the limits %+v: the response is %v, %v, want a link", tc.name, c, response, err)
				}
			case tc.name == "merchant":
				if err != nil || response.GetStatus() != affiliatev1.ExportStatus_EXPORT_STATUS_PROCESSING || response.GetDownloadUrl() != "" {
					t.Errorf("%s with the limits %+v: the response is %v, %v, want processing", tc.name, c, response, err)
				}
			default:
				if pgtest.ReasonOf(t, err) != affiliate.ReasonExportTooLarge {
					t.Errorf("%s with the limits %+v: the response is %v, %v, want EXPORT_TOO_LARGE", tc.name, c, response, err)
				}
				f.WantCount(0, tc.name+": bundles after a refused export", `select count(*) from exports`)
			}
		}
		f.deleteExports()
	}
	if l := export.DefaultLimits; l != (export.Limits{Records: 250_000, Bytes: 50_000_000, DirectRecords: 10_000, DirectBytes: 5_000_000}) {
		t.Errorf("the limits of the service are %+v", l)
	}
}

// erase marks a participant as erased and deletes the bundles, as an erasure does.
func (f *fixture) erase(p pgtest.Participant) {
	f.Helper()
	f.inTx(func(tx *postgres.Tx) error {
		if _, err := tx.Exec(f.Context(), `update participants set erased_at = $3 where workspace_id = $1 and mode = $4 and id = $2`, p.Scope.Workspace, p.ID, f.Now(), p.Scope.Mode); err != nil {
			return err
		}
		return exports.DeleteExportsWithParticipant(f.Context(), tx, p.Scope.Workspace, p.ID)
	})
}

func TestExport_ErasureRevokesLinks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	links := map[string]*affiliatev1.Export{}
	for name, request := range map[string]func() (*affiliatev1.Export, error){
		"ada": func() (*affiliatev1.Export, error) { return f.exportParticipant(f.ada) }, "ada's account": func() (*affiliatev1.Export, error) { return f.exportPartner(f.ada.Partner) },
		"workspace": f.exportMerchant, "bob": func() (*affiliatev1.Export, error) { return f.exportParticipant(f.bob) },
	} {
		var err error
		if links[name], err = request(); err != nil {
			t.Fatal(err)
		}
	}
	f.erase(f.ada)
	for name, link := range links {
		_, err := f.download(link, "gzip")
		if want := affiliate.ReasonExportExpired; name != "bob" && pgtest.ReasonOf(t, err) != want || name == "bob" && err != nil {
			t.Errorf("the download of %s returned %v", name, err)
		}
	}
	f.WantCount(1, "bundles", `select count(*) from exports`)
	if _, err := f.exportParticipant(f.ada); pgtest.ReasonOf(t, err) != affiliate.ReasonParticipantErased {
		t.Errorf("an export after the erasure returned %v, want PARTICIPANT_ERASED", err)
	}
}

// Parts of the statements that store the progress of a bundle and then its pieces.
const (
	saveProgress = "update exports set progress"
	savePiece    = "insert into export_chunks"
)

// onceBefore returns a hook that calls a function before the first statement that contains a
// text.
func onceBefore(text string, fn func()) pgtest.Hook {
	var once sync.Once
	return func(sql string, _ []any) error {
		if strings.Contains(sql, text) {
			once.Do(fn)
		}
		return nil
	}
}

// killedBefore returns the hook of a process that ends before the n-th statement that contains
// a text.
func killedBefore(n int, text string) pgtest.Hook {
	found := 0
	return func(sql string, _ []any) error {
		if strings.Contains(sql, text) {
			found++
		}
		if found >= n {
			return errors.New("the process has ended")
		}
		return nil
	}
}

// failingPieces is the hook of a database that cannot store pieces.
func failingPieces(sql string, _ []any) error {
	if strings.Contains(sql, savePiece) {
		return errors.New("the disk is full")
	}
	return nil
}

func TestExport_ErasureStopsABundleThatIsBeingMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service = f.newService(f.OpenHooked(onceBefore(saveProgress, func() { f.erase(f.ada) })))
	if response, err := f.exportParticipant(f.ada); pgtest.ReasonOf(t, err) != affiliate.ReasonParticipantErased {
		t.Errorf("the response is %v, %v, want PARTICIPANT_ERASED", response, err)
	}
	f.WantCount(0, "bundles", `select count(*) from exports`)
	f.WantCount(0, "pieces", `select count(*) from export_chunks`)
}

// A request for the bundle of a workspace that is erased while the bundle is made does not make
// it again.
func TestExport_ErasureOfTheWorkspaceStopsItsBundle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service = f.newService(f.OpenHooked(onceBefore(saveProgress, func() {
		f.Exec(`update workspaces set erased_at = now() where id = $1`, f.Scope.Workspace)
		f.Exec(`delete from export_chunks`)
		f.Exec(`delete from exports`)
	})))
	if response, err := f.exportMerchant(); pgtest.ReasonOf(t, err) != affiliate.ReasonUnauthorized {
		t.Errorf("the response is %v, %v, want UNAUTHORIZED", response, err)
	}
	f.WantCount(0, "bundles", `select count(*) from exports`)
}

// A request continues an export whose process has crashed, and waits while its lease lasts.
func TestExport_ContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service = f.newService(f.OpenHooked(killedBefore(1, saveProgress)))
	if response, err := f.exportPartner(f.ada.Partner); err == nil {
		t.Errorf("the response of a process that has crashed is %v", response)
	}
	f.WantCount(1, "exports that are being made", `select count(*) from exports where ready_at is null`)
	f.service = f.newService(f.DB)
	ctx, cancel := context.WithTimeout(servertest.AsPartner(t, f.ada.Partner, affiliate.ModeLive), 300*time.Millisecond)
	defer cancel()
	if _, err := f.service.ExportPartnerAccount(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request while the lease lasts returned %v, want that it waits", err)
	}
	f.clock.Advance(30*time.Second + time.Millisecond)
	if _, err := f.exportPartner(f.ada.Partner); err != nil {
		t.Errorf("the request after the lease returned %v", err)
	}
	f.WantCount(1, "exports", `select count(*) from exports`)
}

// A request that fails ends its lease, so that the next request does not wait.
func TestExport_AFailureEndsTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service = f.newService(f.OpenHooked(failingPieces))
	if _, err := f.exportParticipant(f.ada); err == nil || errors.As(err, new(*affiliate.Error)) {
		t.Fatalf("the error is %v, want the failure of the database", err)
	}
	f.service = f.newService(f.DB)
	if _, err := f.exportParticipant(f.ada); err != nil {
		t.Errorf("the next request returned %v", err)
	}
}
