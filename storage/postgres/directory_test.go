package postgres_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestReferralTargetsSayWhatTheEdgeNeeds(t *testing.T) {
	w := newProgramWorld(t)
	active, paused := w.program(affiliate.ProgramActive), w.program(affiliate.ProgramPaused)
	w.crowd(active, 3)
	w.crowd(paused, 2)
	// A code of one participant's link, beside its own.
	link := affiliate.NewID[affiliate.Link](w.now)
	w.exec(`insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select workspace_id, mode, 'summer', program_id, participant_id, $2, created_at from referral_codes where program_id = $1 limit 1`, paused.ID, link)

	seen := map[string]affiliate.ReferralTarget{}
	var after affiliate.ReferralTarget
	for {
		page, err := w.store.ReferralTargetsAfter(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, after = range page {
			if _, twice := seen[after.Code]; twice {
				t.Errorf("%s came twice", after.Code)
			}
			seen[after.Code] = after
		}
		if len(page) < 2 {
			break
		}
	}
	if len(seen) != 6 {
		t.Fatalf("%d of 6 codes", len(seen))
	}
	for code, target := range seen {
		if target.Scope != w.scope || target.WindowDays != 14 || target.Model != affiliate.FirstClick || target.Participant.IsZero() ||
			target.Active != (target.Program == active.ID) || target.Link.ID.IsZero() != (code != "summer") {
			t.Errorf("%s: %+v", code, target)
		}
	}
	if seen["summer"].Link != link {
		t.Errorf("link %v", seen["summer"].Link)
	}

	ofProgram := 0
	for after := ""; ; {
		page, err := w.store.ProgramReferralTargets(t.Context(), w.scope.Workspace, paused.ID, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		if after = page[0].Code; seen[after] != page[0] || page[0].Program != paused.ID {
			t.Errorf("of the programme: %+v", page[0])
		}
		ofProgram++
	}
	own, err := w.store.ParticipantReferralTargets(t.Context(), w.scope.Workspace, seen["summer"].Participant)
	if err != nil || ofProgram != 3 || len(own) != 2 {
		t.Errorf("%d codes of the programme, %d of the participant, %v", ofProgram, len(own), err)
	}
	foreign := affiliate.NewID[affiliate.Workspace](w.now)
	if own, err := w.store.ParticipantReferralTargets(t.Context(), foreign, seen["summer"].Participant); err != nil || len(own) != 0 {
		t.Errorf("another workspace's: %v, %v", own, err)
	}
	if page, err := w.store.ProgramReferralTargets(t.Context(), foreign, paused.ID, "", 9); err != nil || len(page) != 0 {
		t.Errorf("another workspace's: %v, %v", page, err)
	}
}

func TestPublicKeysAreReadWithTheirEnd(t *testing.T) {
	w := newProgramWorld(t)
	ended := w.now.Add(time.Hour)
	texts := map[string]*time.Time{}
	for i := range 5 {
		key := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest)
		digest := key.Digest()
		var revoked *time.Time
		if i == 0 {
			revoked = &ended
		}
		texts[key.Reveal()] = revoked
		w.exec(`insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at, revoked_at)
			values ($1, $2, 'test', 'public', 'p', $3, $4, $5, $6, $7, $8)`,
			w.scope.Workspace, affiliate.NewID[affiliate.APIKey](w.now), digest[:], key.Reveal(), key.Prefix(), key.Last4(), w.now, revoked)
	}
	secret := affiliate.NewKey(affiliate.SecretKey, affiliate.ModeTest)
	digest := secret.Digest()
	w.exec(`insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at) values ($1, $2, 'test', 'secret', 's', $3, '', '', $4)`,
		w.scope.Workspace, affiliate.NewID[affiliate.APIKey](w.now), digest[:], w.now)

	check := func(keys []affiliate.APIKey) {
		t.Helper()
		for _, key := range keys {
			revoked, known := texts[key.PublicText]
			if !known || key.Kind != affiliate.PublicKey || key.Scope != (affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeTest}) ||
				(revoked == nil) != (key.RevokedAt == nil) || key.Live(ended) != (revoked == nil) {
				t.Errorf("%+v", key)
			}
		}
		if len(keys) != 5 {
			t.Errorf("%d of 5 keys", len(keys))
		}
	}
	all, err := w.store.WorkspacePublicKeys(t.Context(), w.scope.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	check(all)
	var paged []affiliate.APIKey
	var after affiliate.APIKey
	for {
		page, err := w.store.PublicKeysAfter(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if paged = append(paged, page...); len(page) < 2 {
			break
		}
		after = page[1]
	}
	check(paged)
}

func TestDirectoryVersionsGrow(t *testing.T) {
	w := newProgramWorld(t)
	var last int64
	for range 3 {
		version, err := w.store.DirectoryVersion(t.Context())
		if err != nil || version <= last {
			t.Fatalf("%d after %d, %v", version, last, err)
		}
		last = version
	}
}
