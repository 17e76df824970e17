package export

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// bundles stores a complete export of each subject, with pieces, a token and a recipient.
func storeBundles(f *pgtest.Fixture, at time.Time, chunks int, subjects ...privacy.ExportSubject) {
	f.Helper()
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		for _, subject := range subjects {
			e := privacy.NewExport(subject, affiliate.ModeTest, false, at)
			e.Lease, e.LeaseUntil = uuid.New(), at
			if inserted, err := InsertExport(f.Context(), tx, e); err != nil || !inserted {
				return fmt.Errorf("InsertExport returned %t, %w", inserted, err)
			}
			e.Progress.Chunks = chunks
			if saved, err := SaveProgress(f.Context(), tx, e, slices.Repeat([][]byte{{1, 2, 3}}, chunks)); err != nil || !saved {
				return fmt.Errorf("SaveProgress returned %t, %w", saved, err)
			}
			if err := AddRecipient(f.Context(), tx, e.ID, affiliate.NewID[affiliate.UserID](at), at); err != nil {
				return err
			}
			e = e.Complete(at)
			if _, err := CompleteExport(f.Context(), tx, e); err != nil {
				return err
			}
			token, _, digest := e.NewToken(at, false)
			if err := InsertToken(f.Context(), tx, token, digest); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

// Each deletion removes the bundles that contain data of its subject, with everything that
// belongs to them, and no others.
func TestDeleteExports(t *testing.T) {
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	shop, other := f.NewShop(affiliate.ModeTest), f.NewShop(affiliate.ModeTest)
	live := shop.InOtherMode()
	ada, bob := f.NewPartner("Ada"), f.NewPartner("Bob")
	join := func(s *pgtest.Shop, partner affiliate.UserID) pgtest.Participant {
		return f.NewParticipant(s.Scope, s.Program, partner)
	}
	adaTest, adaLive, bobTest, bobOther := join(shop, ada), join(live, ada), join(shop, bob), join(other, bob)
	of := func(p pgtest.Participant) privacy.ExportSubject {
		return privacy.ParticipantSubject(p.Scope, p.Program, p.ID, p.Partner)
	}
	subjects := map[string]privacy.ExportSubject{
		"ada": privacy.PartnerSubject(ada), "bob": privacy.PartnerSubject(bob), "shop": privacy.WorkspaceSubject(shop.Scope.Workspace),
		"other": privacy.WorkspaceSubject(other.Scope.Workspace), "ada/test": of(adaTest), "ada/live": of(adaLive), "bob/test": of(bobTest), "bob/other": of(bobOther),
	}
	cleo := f.NewPartner("Cleo") // is only invited to other, and the erasure has replaced the address
	f.Insert("participant_invites", pgtest.Row{
		"workspace_id": other.Scope.Workspace, "id": uuid.New(), "mode": "test", "program_id": other.Program, "email": privacy.Pseudonym(cleo.UUID), "digest": []byte("digest"), "mail_digest": []byte("mailed digest"), "invited_by": other.Owner,
		"created_at": f.Now(), "expires_at": f.Now(),
	})
	for _, tc := range []struct {
		name   string
		delete func(tx *postgres.Tx) error
		remain string
	}{
		{"with a participant", func(tx *postgres.Tx) error {
			return DeleteExportsWithParticipant(t.Context(), tx, shop.Scope.Workspace, adaTest.ID)
		}, "ada/live bob bob/other bob/test other"},
		{"with a partner", func(tx *postgres.Tx) error { return DeleteExportsWithPartner(t.Context(), tx, ada) }, "bob bob/other bob/test other"},
		{"with an invited partner", func(tx *postgres.Tx) error { return DeleteExportsWithPartner(t.Context(), tx, cleo) }, "ada ada/live ada/test bob bob/other bob/test shop"},
		{"of a workspace", func(tx *postgres.Tx) error { return DeleteExportsOfWorkspace(t.Context(), tx, shop.Scope.Workspace) }, "ada bob bob/other other"},
		{"with sales of a workspace", func(tx *postgres.Tx) error { return DeleteExportsWithSales(t.Context(), tx, shop.Scope.Workspace) }, "ada bob bob/other other"},
		{"of test data", func(tx *postgres.Tx) error { return DeleteTestExports(t.Context(), tx, shop.Scope.Workspace) }, "ada ada/live bob bob/other other"},
		{
			"with nobody", func(tx *postgres.Tx) error {
				return DeleteExportsWithPartner(t.Context(), tx, affiliate.NewID[affiliate.UserID](f.Now()))
			},
			"ada ada/live ada/test bob bob/other bob/test other shop",
		},
	} {
		for _, table := range []string{"export_chunks", "export_tokens", "export_recipients", "exports"} {
			f.Exec(`delete from ` + table)
		}
		for _, subject := range subjects {
			storeBundles(f, f.Now(), 2, subject)
		}
		err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error { return tc.delete(tx) })
		if err != nil {
			t.Fatal(tc.name, err)
		}
		var remain []string
		for name, subject := range subjects {
			if f.Count(`select count(*) from exports where subject_id = $1`, subject.SubjectID) == 1 {
				remain = append(remain, name)
			}
		}
		slices.Sort(remain)
		if got := strings.Join(remain, " "); got != tc.remain {
			t.Errorf("%s: the bundles %q remain, want %q", tc.name, got, tc.remain)
		}
		n := len(remain)
		f.WantCount(2*n, tc.name+": pieces", `select count(*) from export_chunks`)
		f.WantCount(n, tc.name+": tokens", `select count(*) from export_tokens`)
		f.WantCount(n, tc.name+": recipients", `select count(*) from export_recipients`)
	}
}

func TestDeleteExpiredExports_TakesLargeBundlesInSteps(t *testing.T) {
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	db := f.DB
	now := f.Now()
	for i := range 5 {
		storeBundles(f, now.Add(-privacy.ExportLife), maxChunks*i+1, privacy.PartnerSubject(affiliate.NewID[affiliate.UserID](now)))
	}
	storeBundles(f, now, 1, privacy.PartnerSubject(affiliate.NewID[affiliate.UserID](now)))
	if n, err := DeleteExpiredExports(t.Context(), db, now, 3); n != 3 || err != nil {
		t.Errorf("DeleteExpiredExports returned %d, %v, want 3", n, err)
	}
	if n, err := DeleteExpiredExports(t.Context(), db, now, 3); n != 2 || err != nil {
		t.Errorf("DeleteExpiredExports returned %d, %v, want 2", n, err)
	}
	f.WantCount(1, "exports", `select count(*) from exports`)
	f.WantCount(1, "pieces", `select count(*) from export_chunks`)
	f.WantCount(1, "tokens", `select count(*) from export_tokens`)
}

func TestDeleteAbandonedExports(t *testing.T) {
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	db, now := f.DB, f.Now()
	storeBundles(f, now.Add(-time.Hour), 1, privacy.PartnerSubject(affiliate.NewID[affiliate.UserID](now)))
	for _, age := range []time.Duration{privacy.AbandonedExportLife + time.Second, time.Hour} {
		err := db.InTx(t.Context(), func(tx *postgres.Tx) error {
			e := privacy.NewExport(privacy.PartnerSubject(affiliate.NewID[affiliate.UserID](now)), affiliate.ModeLive, false, now.Add(-age))
			_, err := InsertExport(t.Context(), tx, e)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := DeleteAbandonedExports(t.Context(), db, now.Add(-privacy.AbandonedExportLife), 10); n != 1 || err != nil {
		t.Errorf("DeleteAbandonedExports returned %d, %v, want 1", n, err)
	}
	f.WantCount(2, "exports", `select count(*) from exports`)
}
