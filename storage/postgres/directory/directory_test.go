package directory_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	directories "github.com/tributary-hq/tributary/storage/postgres/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// directoryProgram contains the columns of the programmes in the tests of the directory.
var directoryProgram = pgtest.Row{
	"website_url": "https://site.example/", "allowed_domains": []string{"shop.example", "*.shop.example"},
	"attribution_window_days": 14, "attribution_model": program.FirstClick,
}

// addCode stores one more referral code of a participant's default link.
func (f *fixture) addCode(p pgtest.Participant, code string) {
	f.Helper()
	f.Insert("referral_codes", pgtest.Row{
		"workspace_id": p.Scope.Workspace, "mode": p.Scope.Mode, "code": code, "program_id": p.Program, "participant_id": p.ID,
		"link_id": p.Link, "created_at": f.Now(),
	})
}

// targets returns the targets of a participant's codes, by code.
func (f *fixture) targets(p pgtest.Participant) map[string]participant.ReferralTarget {
	f.Helper()
	targets, err := directories.ParticipantReferralTargets(f.Context(), f.DB, p.Scope.Workspace, p.ID, f.Now())
	if err != nil {
		f.Fatal(err)
	}
	byCode := map[string]participant.ReferralTarget{}
	for _, target := range targets {
		byCode[target.Code] = target
	}
	return byCode
}

func TestReferralTargets_ArePaged(t *testing.T) {
	f := newFixture(t, directoryProgram)
	paused := f.NewProgram(f.Scope, directoryProgram)
	var last pgtest.Participant
	for _, code := range []string{"a", "c", "e"} {
		f.Join("Jane", pgtest.Row{"referral_code": code})
	}
	for _, code := range []string{"b", "d"} {
		last = f.NewParticipant(f.Scope, paused, f.NewPartner("Jane"), pgtest.Row{"referral_code": code})
	}
	f.NewLink(last, "f")
	f.Exec(`update programs set status = 'paused' where id = $1`, paused)

	seen := map[string]participant.ReferralTarget{}
	var after participant.ReferralTarget
	for more := true; more; {
		page, err := directories.ReferralTargetsAfter(t.Context(), f.DB, after, f.Now(), 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, after = range page {
			if _, found := seen[after.Code]; found {
				t.Errorf("the pages contain the code %s twice", after.Code)
			}
			seen[after.Code] = after
		}
		more = len(page) == 2
	}
	if len(seen) != 6 {
		t.Fatalf("the pages contain %d codes, want 6", len(seen))
	}
	for code, target := range seen {
		if target.Scope != f.Scope || target.WindowDays != 14 || target.Model != program.FirstClick || target.Participant.IsZero() ||
			target.Active != (target.Program == f.Program) || target.Link.ID.IsZero() || target.Link.Code != code || target.Discount != nil {
			t.Errorf("the target of code %s is %+v, want the stored link without a discount", code, target)
		}
	}
	programCodes := 0
	for after := ""; ; programCodes++ {
		page, err := directories.ProgramReferralTargets(t.Context(), f.DB, f.Scope.Workspace, paused, f.Now(), after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		if after = page[0].Code; !reflect.DeepEqual(seen[after], page[0]) || page[0].Program != paused {
			t.Errorf("ProgramReferralTargets returned %+v, want %+v", page[0], seen[after])
		}
	}
	if own := f.targets(last); programCodes != 3 || len(own) != 2 || !reflect.DeepEqual(own["f"], seen["f"]) {
		t.Errorf("the programme has %d codes, want 3; the participant has the codes %v, want 2", programCodes, own)
	}
	foreign := affiliate.NewID[affiliate.WorkspaceID](f.Now())
	if own, err := directories.ParticipantReferralTargets(t.Context(), f.DB, foreign, last.ID, f.Now()); err != nil || len(own) != 0 {
		t.Errorf("ParticipantReferralTargets of another workspace returned %v, %v, want none", own, err)
	}
	if page, err := directories.ProgramReferralTargets(t.Context(), f.DB, foreign, paused, f.Now(), "", 9); err != nil || len(page) != 0 {
		t.Errorf("ProgramReferralTargets of another workspace returned %v, %v, want none", page, err)
	}
}

func TestReferralTargets_TargetURLs(t *testing.T) {
	f := newFixture(t, directoryProgram)
	jane := f.Join("Jane", pgtest.Row{"referral_code": "jane"})
	f.addCode(jane, "janes-old-code")
	for code, destination := range map[string]string{
		"there":     "https://shop.example:8443/p?via=mallory&color=red#x",
		"subdomain": "https://A.B.shop.example/",
		"elsewhere": "https://evil.example/",
		"lookalike": "https://evilshop.example/",
		"user":      "https://shop.example@evil.example/",
		"hidden":    `https://evil.example\@shop.example/`,
		"script":    "javascript://shop.example/%0aalert(1)",
		"deleted":   "https://shop.example/",
	} {
		f.NewLink(jane, code, func(l *link.Link) {
			if code == "there" {
				l.SubID, l.UTM = "s 1", click.UTM{Source: "mail", Medium: "m", Campaign: "c", Term: "t", Content: "x"}
			}
		})
		// CreateLink rejects most of these destinations.
		f.Exec(`update links set destination_url = $2 where code = $1`, code, destination)
	}
	f.Exec(`update links set deleted_at = $1 where code = 'deleted'`, f.Now())
	targets := f.targets(jane)
	for code, want := range map[string]string{
		"jane": "https://site.example/?via=jane",
		"there": "https://shop.example:8443/p?color=red&via=there&sub_id=s+1&utm_source=mail&utm_medium=m&utm_campaign=c&utm_term=t&utm_content=x" +
			"#x",
		"subdomain": "https://A.B.shop.example/?via=subdomain",
		"elsewhere": "", "lookalike": "", "user": "", "hidden": "", "script": "",
	} {
		target := targets[code]
		if target.Link.TargetURL != want || !target.Active || target.Link.Code != code || len(target.Link.Key) != 10 {
			t.Errorf("the target of code %s is %+v, want an active link with the URL %q", code, target, want)
		}
	}
	if targets["deleted"].Active || targets["deleted"].Link.ID.IsZero() {
		t.Errorf("the target of a deleted link is %+v, want an inactive target with a link id", targets["deleted"])
	}
	link := targets["there"].Link
	if link.SubID != "s 1" || link.UTM != (click.UTM{Source: "mail", Medium: "m", Campaign: "c", Term: "t", Content: "x"}) {
		t.Errorf("the link has the sub id %q and the UTM parameters %+v, want the stored values", link.SubID, link.UTM)
	}
	if alias := targets["janes-old-code"]; alias.Link != targets["jane"].Link || alias.Link.ID != jane.Link {
		t.Errorf("the target of an old code is %+v, want the link of the current code", alias)
	}

	f.Exec(`update programs set landing_url = 'https://landing.example/?a=b', website_url = 'https://shop.example', allowed_domains = '{}'`)
	targets = f.targets(jane)
	if jane, there, elsewhere := targets["jane"].Link.TargetURL, targets["there"].Link.TargetURL, targets["elsewhere"].Link.TargetURL; jane != "https://landing.example/?a=b&via=jane" ||
		there == "" || targets["subdomain"].Link.TargetURL == "" || elsewhere != "" {
		t.Errorf("without allowed domains, the URLs are %q, %q and %q, want those of the hosts of the programme's pages", jane, there, elsewhere)
	}
	f.Exec(`update programs set website_url = 'https://other.example'`)
	if there := f.targets(jane)["there"].Link.TargetURL; there != "" {
		t.Errorf("with another website and no allowed domains, the URL is %q, want none", there)
	}
	f.Exec(`update programs set landing_url = null, website_url = null`)
	if url := f.targets(jane)["jane"].Link.TargetURL; url != "" {
		t.Errorf("without any page of the programme, the URL is %q, want none", url)
	}
}

func TestReferralTargets_OfferNewestUsablePromoCode(t *testing.T) {
	f := newFixture(t, directoryProgram)
	jane, bert := f.Join("Jane", pgtest.Row{"referral_code": "jane"}), f.Join("Bert", pgtest.Row{"referral_code": "bert"})
	f.addCode(jane, "alias")
	if d := f.targets(jane)["jane"].Discount; d != nil {
		t.Errorf("without a promo code, the discount is %+v, want none", d)
	}
	check := func(want participant.Discount) {
		t.Helper()
		for code, target := range f.targets(jane) {
			if target.Discount == nil || !reflect.DeepEqual(*target.Discount, want) {
				t.Errorf("the discount of code %s is %+v, want %+v", code, target.Discount, want)
			}
		}
	}
	end, past := f.Now(), f.Now().Add(-time.Millisecond)
	f.NewPromoCode(jane, "old", func(c *promocode.PromoCode) {
		c.CreatedAt, c.ExpiresAt, c.MaxRedemptions = f.Now().Add(-3*time.Hour), &end, new(int64(2))
	})
	f.Exec(`update promo_codes set redemptions = 1 where code = 'old'`)
	check(participant.Discount{PromoCode: "old", Type: promocode.DiscountPercentage, Value: 1000, ExpiresAt: &end})
	f.NewPromoCode(jane, "new", func(c *promocode.PromoCode) {
		c.CreatedAt, c.DiscountType, c.DiscountValue, c.Currency = f.Now().Add(-2*time.Hour), promocode.DiscountFixed, 500, new("EUR")
	})
	fixed := participant.Discount{PromoCode: "new", Type: promocode.DiscountFixed, Value: 500, Currency: "EUR"}
	check(fixed)
	f.NewPromoCode(jane, "off")
	f.Exec(`update promo_codes set active = false where code = 'off'`)
	f.NewPromoCode(jane, "expired", func(c *promocode.PromoCode) { c.ExpiresAt = &past })
	f.NewPromoCode(jane, "used up", func(c *promocode.PromoCode) { c.MaxRedemptions = new(int64(2)) })
	f.Exec(`update promo_codes set redemptions = 2 where code = 'used up'`)
	f.NewPromoCode(bert, "berts")
	check(fixed)
	page, err := directories.ReferralTargetsAfter(t.Context(), f.DB, participant.ReferralTarget{}, f.Now(), 9)
	if err != nil || len(page) != 3 || page[0].Discount.PromoCode != "new" || page[1].Discount.PromoCode != "berts" || page[2].Discount.PromoCode != "new" {
		t.Errorf("ReferralTargetsAfter returned %+v, %v, want the promo codes new, berts and new", page, err)
	}
}

func TestPublicKeys_IncludeRevokedAndExpired(t *testing.T) {
	f := newFixture(t, directoryProgram)
	f.Exec(`update workspaces set allowed_origins = '{https://shop.example,https://*.shop.example}', origin_policy = 'enforce' where id = $1`, f.Scope.Workspace)
	other := f.NewWorkspace()
	revokedAt, expiresAt := f.Now().Add(time.Hour), f.Now().Add(2*time.Hour)
	// keyEnd contains the times at which a key was revoked and at which it expires. nil
	// means never.
	type keyEnd struct{ revoked, expires *time.Time }
	endsOf := map[string]keyEnd{}
	insertKey := func(workspace affiliate.WorkspaceID, end keyEnd) {
		key := account.NewKey(account.PublicKey, affiliate.ModeTest)
		digest := key.Digest()
		endsOf[key.Reveal()] = end
		f.Insert("api_keys", pgtest.Row{
			"workspace_id": workspace, "id": affiliate.NewID[affiliate.APIKeyID](f.Now()), "mode": "test", "kind": "public", "name": "p",
			"digest": digest[:], "public_text": key.Reveal(), "prefix": key.Prefix(), "last4": key.Last4(), "created_at": f.Now(),
			"revoked_at": end.revoked, "expires_at": end.expires,
		})
	}
	insertKey(f.Scope.Workspace, keyEnd{revoked: &revokedAt})
	insertKey(f.Scope.Workspace, keyEnd{expires: &expiresAt})
	for range 3 {
		insertKey(f.Scope.Workspace, keyEnd{})
	}
	insertKey(other, keyEnd{})
	secret := account.NewKey(account.SecretKey, affiliate.ModeTest)
	digest := secret.Digest()
	f.Exec(`insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at) values ($1, $2, 'test', 'secret', 's', $3, '', '', $4)`,
		f.Scope.Workspace, affiliate.NewID[affiliate.APIKeyID](f.Now()), digest[:], f.Now())

	check := func(keys []account.PublicKeyTarget, n int) {
		t.Helper()
		for _, key := range keys {
			end, known := endsOf[key.PublicText]
			inWorkspace := key.Workspace == f.Scope.Workspace
			if !known || key.Kind != account.PublicKey || key.Mode != affiliate.ModeTest || key.EnforceOrigins != inWorkspace ||
				inWorkspace && !slices.Equal(key.AllowedOrigins, []string{"https://shop.example", "https://*.shop.example"}) || !inWorkspace && len(key.AllowedOrigins) > 0 ||
				(end.revoked == nil) != (key.RevokedAt == nil) || (end.expires == nil) != (key.ExpiresAt == nil) ||
				key.Active(revokedAt) != (end.revoked == nil) || key.Active(expiresAt) != (end == keyEnd{}) {
				t.Errorf("the key is %+v, want the stored key with %+v and the origins of its workspace", key, end)
			}
		}
		if len(keys) != n {
			t.Errorf("got %d keys, want %d", len(keys), n)
		}
	}
	all, err := directories.WorkspacePublicKeys(t.Context(), f.DB, f.Scope.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	check(all, 5)
	var paged []account.PublicKeyTarget
	var after account.APIKey
	for more := true; more; {
		page, err := directories.PublicKeysAfter(t.Context(), f.DB, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if paged, more = append(paged, page...), len(page) == 2; more {
			after = page[1].APIKey
		}
	}
	check(paged, 6)

	for policy, want := range map[string][2]bool{"observe": {}, "enforce": {true, false}, "enforce_strict": {true, true}} {
		f.Exec(`update workspaces set origin_policy = $2 where id = $1`, f.Scope.Workspace, policy)
		keys, err := directories.WorkspacePublicKeys(t.Context(), f.DB, f.Scope.Workspace)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if got := [2]bool{key.EnforceOrigins, key.RequireOrigin}; got != want {
				t.Errorf("with the policy %s, EnforceOrigins and RequireOrigin are %v, want %v", policy, got, want)
			}
		}
	}
}

func TestDirectoryVersion_Increases(t *testing.T) {
	f := newFixture(t, directoryProgram)
	var last int64
	for range 3 {
		version, err := directories.Version(t.Context(), f.DB)
		if err != nil || version <= last {
			t.Fatalf("DirectoryVersion returned %d, %v, want more than %d", version, err, last)
		}
		last = version
	}
}

// The cost of a page must depend only on the size of the page, and not on the number of
// stored codes, links and promo codes.
func TestDirectoryStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t, directoryProgram)
	large, small := f.Program, f.NewProgram(f.Scope)
	fill := func(program affiliate.ProgramID, n int) {
		f.ExecWithoutForeignKeys(`
			with made as (
				insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
				select $1, gen_random_uuid(), $2, gen_random_uuid(), $3, gen_random_uuid()::text, substr(md5(random()::text), 1, 10), true, $4, $4
				from generate_series(1, $5::int)
				on conflict (short_key) do nothing
				returning id, participant_id, code
			), joined as (
				insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
					application_answers, applied_at, created_at, updated_at)
				select $1, participant_id, $2, $3, participant_id, 'P', code, 'approved', code, '{}', $4, $4, $4 from made
			), offered as (
				insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active,
					sync_to_processor, sync_status, created_at, updated_at)
				select $1, gen_random_uuid(), $2, participant_id, $3, code, 'percentage', 1000, true, false, 'none', $4, $4 from made
			)
			insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
			select $1, $3, code, $2, participant_id, id, $4 from made`, f.Scope.Workspace, program, f.Scope.Mode, f.Now(), n)
	}
	fill(large, 5_000)
	fill(small, 100)
	f.Exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select gen_random_uuid(), 'W', 'EUR', 'UTC', $1, $1 from generate_series(1, 5000)`, f.Now())
	f.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at)
		select id, gen_random_uuid(), 'live', 'public', '', sha256(id::text::bytea), id::text, 'pk_live_', '', $1 from workspaces`, f.Now())
	f.VacuumAnalyze()
	var participant affiliate.ParticipantID
	if err := f.SQL.QueryRow(t.Context(), `select participant_id from links limit 1`).Scan(&participant); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		sql     string
		args    []any
		indexes []string
	}{
		"all codes": {
			directories.DirectoryTargetsSQL,
			[]any{f.Now(), f.Scope.Workspace, f.Scope.Mode, "0", 1000},
			[]string{"referral_codes_pkey", "participants_pkey", "links_pkey", "promo_codes_by_participant"},
		},
		"codes of a large programme": {
			directories.DirectoryProgramTargetsSQL,
			[]any{f.Now(), f.Scope.Workspace, large, "0", 1000},
			[]string{"referral_codes_pkey", "participants_pkey", "links_pkey", "promo_codes_by_participant"},
		},
		"codes of a small programme": {
			directories.DirectoryProgramTargetsSQL,
			[]any{f.Now(), f.Scope.Workspace, small, "0", 1000},
			[]string{"referral_codes_by_program", "participants_pkey", "links_pkey", "promo_codes_by_participant"},
		},
		"codes of a participant": {
			directories.DirectoryParticipantTargetsSQL,
			[]any{f.Now(), f.Scope.Workspace, participant},
			[]string{"referral_codes_by_participant", "participants_pkey", "links_pkey", "promo_codes_by_participant"},
		},
		"all keys": {
			directories.DirectoryKeysSQL,
			[]any{f.Scope.Workspace, affiliate.APIKeyID{}, 10},
			[]string{"api_keys_pkey", "workspaces_pkey"},
		},
	} {
		pgtest.CheckPlan(t, name, f.Plan(tc.sql, tc.args...), tc.indexes, pgtest.ScansOf("referral_codes", "participants", "links", "promo_codes", "api_keys", "workspaces"))
	}
}
