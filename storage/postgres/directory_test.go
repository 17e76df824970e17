package postgres_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// directoryFixture is a workspace whose rows the tests insert directly, without the
// service.
type directoryFixture struct {
	*testing.T
	store *postgres.Store
	owner *pgx.Conn
	now   time.Time
	scope affiliate.Scope
}

func newDirectoryFixture(t *testing.T) *directoryFixture {
	t.Helper()
	f := &directoryFixture{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	url := pgtest.New(t)
	var err error
	if f.store, err = postgres.Open(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.store.Close)
	if f.owner, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.owner.Close(context.Background()) })
	f.scope = affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](f.now), Mode: affiliate.ModeLive}
	f.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'W', 'EUR', 'UTC', $2, $2)`, f.scope.Workspace, f.now)
	// Disable foreign keys, so that no users are needed.
	f.exec(`set session_replication_role = replica`)
	return f
}

func (f *directoryFixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.owner.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

func (f *directoryFixture) program(status affiliate.ProgramStatus) affiliate.ProgramID {
	f.Helper()
	id := affiliate.NewID[affiliate.Program](f.now)
	f.exec(`
		insert into programs (workspace_id, id, mode, name, slug, status, website_url, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		values ($1, $2, $3, 'P', $4, $5, 'https://site.example/', '{shop.example,*.shop.example}', 'EUR', 14, 'first_click', 'via', true, true, '{}', 1, $6, $6)`,
		f.scope.Workspace, id, f.scope.Mode, id.String(), status, f.now)
	return id
}

// link stores a link with its code. If destination is nil, the link leads to the page of
// the programme.
func (f *directoryFixture) link(program affiliate.ProgramID, participant affiliate.ParticipantID, code string, destination *string) affiliate.LinkID {
	f.Helper()
	id := affiliate.NewID[affiliate.Link](f.now)
	f.exec(`
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)`,
		f.scope.Workspace, id, program, participant, f.scope.Mode, code, affiliate.NewShortKey(), destination, destination == nil, f.now)
	f.code(program, participant, id, code)
	return id
}

// code stores a referral code of a link.
func (f *directoryFixture) code(program affiliate.ProgramID, participant affiliate.ParticipantID, link affiliate.LinkID, code string) {
	f.Helper()
	f.exec(`insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at) values ($1, $2, $3, $4, $5, $6, $7)`,
		f.scope.Workspace, f.scope.Mode, code, program, participant, link, f.now)
}

// promoCode stores a promo code with the given age. change is the set clause of an update
// of this promo code. Its arguments start at $3.
func (f *directoryFixture) promoCode(program affiliate.ProgramID, participant affiliate.ParticipantID, code string, age time.Duration, change string, args ...any) {
	f.Helper()
	id := affiliate.NewID[affiliate.PromoCode](f.now)
	f.exec(`
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active,
			sync_to_processor, sync_status, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, 'percentage', 1000, true, false, 'none', $7, $7)`,
		f.scope.Workspace, id, program, participant, f.scope.Mode, code, f.now.Add(-age))
	if change != "" {
		f.exec(`update promo_codes set `+change+` where workspace_id = $1 and id = $2`, append([]any{f.scope.Workspace, id}, args...)...)
	}
}

// targets returns the targets of a participant's codes, by code.
func (f *directoryFixture) targets(participant affiliate.ParticipantID) map[string]affiliate.ReferralTarget {
	f.Helper()
	targets, err := f.store.ParticipantReferralTargets(f.Context(), f.scope.Workspace, participant, f.now)
	if err != nil {
		f.Fatal(err)
	}
	byCode := map[string]affiliate.ReferralTarget{}
	for _, target := range targets {
		byCode[target.Code] = target
	}
	return byCode
}

func TestReferralTargets_ArePaged(t *testing.T) {
	f := newDirectoryFixture(t)
	active, paused := f.program(affiliate.ProgramActive), f.program(affiliate.ProgramPaused)
	shop := "https://shop.example/"
	var last affiliate.ParticipantID
	for _, code := range []string{"a", "c", "e"} {
		f.link(active, affiliate.NewID[affiliate.Participant](f.now), code, nil)
	}
	for _, code := range []string{"b", "d"} {
		last = affiliate.NewID[affiliate.Participant](f.now)
		f.link(paused, last, code, nil)
	}
	f.link(paused, last, "f", &shop)

	seen := map[string]affiliate.ReferralTarget{}
	var after affiliate.ReferralTarget
	for more := true; more; {
		page, err := f.store.ReferralTargetsAfter(t.Context(), after, f.now, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, after = range page {
			if _, twice := seen[after.Code]; twice {
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
		if target.Scope != f.scope || target.WindowDays != 14 || target.Model != affiliate.FirstClick || target.Participant.IsZero() ||
			target.Active != (target.Program == active) || target.Link.ID.IsZero() || target.Link.Code != code || target.Discount != nil {
			t.Errorf("the target of code %s is %+v, want the stored link without a discount", code, target)
		}
	}
	ofProgram := 0
	for after := ""; ; ofProgram++ {
		page, err := f.store.ProgramReferralTargets(t.Context(), f.scope.Workspace, paused, f.now, after, 1)
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
	if own := f.targets(last); ofProgram != 3 || len(own) != 2 || !reflect.DeepEqual(own["f"], seen["f"]) {
		t.Errorf("the programme has %d codes, want 3; the participant has the codes %v, want 2", ofProgram, own)
	}
	foreign := affiliate.NewID[affiliate.Workspace](f.now)
	if own, err := f.store.ParticipantReferralTargets(t.Context(), foreign, last, f.now); err != nil || len(own) != 0 {
		t.Errorf("ParticipantReferralTargets of another workspace returned %v, %v, want none", own, err)
	}
	if page, err := f.store.ProgramReferralTargets(t.Context(), foreign, paused, f.now, "", 9); err != nil || len(page) != 0 {
		t.Errorf("ProgramReferralTargets of another workspace returned %v, %v, want none", page, err)
	}
}

func TestReferralTargets_TargetURLs(t *testing.T) {
	f := newDirectoryFixture(t)
	program, jane := f.program(affiliate.ProgramActive), affiliate.NewID[affiliate.Participant](f.now)
	own := f.link(program, jane, "jane", nil)
	f.code(program, jane, own, "janes-old-code")
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
		f.link(program, jane, code, &destination)
	}
	f.exec(`update links set sub_id = 's 1', utm_source = 'mail', utm_medium = 'm', utm_campaign = 'c', utm_term = 't', utm_content = 'x' where code = 'there'`)
	f.exec(`update links set deleted_at = $1 where code = 'deleted'`, f.now)
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
	if link.SubID != "s 1" || link.UTM != (affiliate.UTM{Source: "mail", Medium: "m", Campaign: "c", Term: "t", Content: "x"}) {
		t.Errorf("the link has the sub id %q and the UTM parameters %+v, want the stored values", link.SubID, link.UTM)
	}
	if alias := targets["janes-old-code"]; alias.Link != targets["jane"].Link || alias.Link.ID != own {
		t.Errorf("the target of an old code is %+v, want the link of the current code", alias)
	}

	f.exec(`update programs set landing_url = 'https://landing.example/?a=b', allowed_domains = '{}'`)
	targets = f.targets(jane)
	if jane, there := targets["jane"].Link.TargetURL, targets["there"].Link.TargetURL; jane != "https://landing.example/?a=b&via=jane" || there != "" {
		t.Errorf("with another landing page and no allowed domains, the URLs are %q and %q, want the landing page and none", jane, there)
	}
	f.exec(`update programs set landing_url = null, website_url = null`)
	if url := f.targets(jane)["jane"].Link.TargetURL; url != "" {
		t.Errorf("without any page of the programme, the URL is %q, want none", url)
	}
}

func TestReferralTargets_OfferNewestUsablePromoCode(t *testing.T) {
	f := newDirectoryFixture(t)
	program := f.program(affiliate.ProgramActive)
	jane, bert := affiliate.NewID[affiliate.Participant](f.now), affiliate.NewID[affiliate.Participant](f.now)
	own := f.link(program, jane, "jane", nil)
	f.code(program, jane, own, "alias")
	f.link(program, bert, "bert", nil)
	if d := f.targets(jane)["jane"].Discount; d != nil {
		t.Errorf("without a promo code, the discount is %+v, want none", d)
	}
	check := func(want affiliate.Discount) {
		t.Helper()
		for code, target := range f.targets(jane) {
			if target.Discount == nil || !reflect.DeepEqual(*target.Discount, want) {
				t.Errorf("the discount of code %s is %+v, want %+v", code, target.Discount, want)
			}
		}
	}
	end := f.now
	f.promoCode(program, jane, "old", 3*time.Hour, `expires_at = $3, max_redemptions = 2, redemptions = 1`, end)
	check(affiliate.Discount{PromoCode: "old", Type: affiliate.DiscountPercentage, Value: 1000, ExpiresAt: &end})
	f.promoCode(program, jane, "new", 2*time.Hour, `discount_type = 'fixed', discount_value = 500, currency = 'EUR'`)
	fixed := affiliate.Discount{PromoCode: "new", Type: affiliate.DiscountFixed, Value: 500, Currency: "EUR"}
	check(fixed)
	f.promoCode(program, jane, "off", time.Hour, `active = false`)
	f.promoCode(program, jane, "expired", time.Hour, `expires_at = $3`, f.now.Add(-time.Millisecond))
	f.promoCode(program, jane, "used up", time.Hour, `max_redemptions = 2, redemptions = 2`)
	f.promoCode(program, bert, "berts", 0, "")
	check(fixed)
	page, err := f.store.ReferralTargetsAfter(t.Context(), affiliate.ReferralTarget{}, f.now, 9)
	if err != nil || len(page) != 3 || page[0].Discount.PromoCode != "new" || page[1].Discount.PromoCode != "berts" || page[2].Discount.PromoCode != "new" {
		t.Errorf("ReferralTargetsAfter returned %+v, %v, want the promo codes new, berts and new", page, err)
	}
}

func TestPublicKeys_IncludeRevokedAndExpired(t *testing.T) {
	f := newDirectoryFixture(t)
	f.exec(`update workspaces set allowed_origins = '{https://shop.example,https://*.shop.example}', origin_policy = 'enforce' where id = $1`, f.scope.Workspace)
	other := affiliate.NewID[affiliate.Workspace](f.now)
	f.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'O', 'EUR', 'UTC', $2, $2)`, other, f.now)
	ended, rolled := f.now.Add(time.Hour), f.now.Add(2*time.Hour)
	// ends contains the times after which a key is not valid. nil means never.
	type ends struct{ revoked, expires *time.Time }
	endsOf := map[string]ends{}
	insertKey := func(workspace affiliate.WorkspaceID, of ends) {
		key := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest)
		digest := key.Digest()
		endsOf[key.Reveal()] = of
		f.exec(`insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at, revoked_at, expires_at)
			values ($1, $2, 'test', 'public', 'p', $3, $4, $5, $6, $7, $8, $9)`,
			workspace, affiliate.NewID[affiliate.APIKey](f.now), digest[:], key.Reveal(), key.Prefix(), key.Last4(), f.now, of.revoked, of.expires)
	}
	insertKey(f.scope.Workspace, ends{revoked: &ended})
	insertKey(f.scope.Workspace, ends{expires: &rolled})
	for range 3 {
		insertKey(f.scope.Workspace, ends{})
	}
	insertKey(other, ends{})
	secret := affiliate.NewKey(affiliate.SecretKey, affiliate.ModeTest)
	digest := secret.Digest()
	f.exec(`insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at) values ($1, $2, 'test', 'secret', 's', $3, '', '', $4)`,
		f.scope.Workspace, affiliate.NewID[affiliate.APIKey](f.now), digest[:], f.now)

	check := func(keys []affiliate.PublicKeyTarget, n int) {
		t.Helper()
		for _, key := range keys {
			of, known := endsOf[key.PublicText]
			inWorkspace := key.Scope.Workspace == f.scope.Workspace
			if !known || key.Kind != affiliate.PublicKey || key.Scope.Mode != affiliate.ModeTest || key.EnforceOrigins != inWorkspace ||
				inWorkspace && !slices.Equal(key.AllowedOrigins, []string{"https://shop.example", "https://*.shop.example"}) || !inWorkspace && len(key.AllowedOrigins) > 0 ||
				(of.revoked == nil) != (key.RevokedAt == nil) || (of.expires == nil) != (key.ExpiresAt == nil) ||
				key.Live(ended) != (of.revoked == nil) || key.Live(rolled) != (of == ends{}) {
				t.Errorf("the key is %+v, want the stored key with %+v and the origins of its workspace", key, of)
			}
		}
		if len(keys) != n {
			t.Errorf("got %d keys, want %d", len(keys), n)
		}
	}
	all, err := f.store.WorkspacePublicKeys(t.Context(), f.scope.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	check(all, 5)
	var paged []affiliate.PublicKeyTarget
	var after affiliate.APIKey
	for more := true; more; {
		page, err := f.store.PublicKeysAfter(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if paged, more = append(paged, page...), len(page) == 2; more {
			after = page[1].APIKey
		}
	}
	check(paged, 6)
}

func TestDirectoryVersion_Increases(t *testing.T) {
	f := newDirectoryFixture(t)
	var last int64
	for range 3 {
		version, err := f.store.DirectoryVersion(t.Context())
		if err != nil || version <= last {
			t.Fatalf("DirectoryVersion returned %d, %v, want more than %d", version, err, last)
		}
		last = version
	}
}

// The cost of a page must depend only on the size of the page, and not on the number of
// stored codes, links and promo codes.
func TestDirectoryStatements_UseIndexes(t *testing.T) {
	t.Parallel()
	f := newDirectoryFixture(t)
	large, small := f.program(affiliate.ProgramActive), f.program(affiliate.ProgramActive)
	fill := func(program affiliate.ProgramID, n int) {
		f.exec(`
			with made as (
				insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
				select $1, gen_random_uuid(), $2, gen_random_uuid(), $3, gen_random_uuid()::text, substr(md5(random()::text), 1, 10), true, $4, $4
				from generate_series(1, $5::int)
				on conflict (short_key) do nothing
				returning id, participant_id, code
			), offered as (
				insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active,
					sync_to_processor, sync_status, created_at, updated_at)
				select $1, gen_random_uuid(), $2, participant_id, $3, code, 'percentage', 1000, true, false, 'none', $4, $4 from made
			)
			insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
			select $1, $3, code, $2, participant_id, id, $4 from made`, f.scope.Workspace, program, f.scope.Mode, f.now, n)
	}
	fill(large, 25_000)
	fill(small, 100)
	f.exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select gen_random_uuid(), 'W', 'EUR', 'UTC', $1, $1 from generate_series(1, 5000)`, f.now)
	f.exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at)
		select id, gen_random_uuid(), 'live', 'public', '', sha256(id::text::bytea), id::text, 'pk_live_', '', $1 from workspaces`, f.now)
	pgtest.VacuumAnalyze(t, f.owner)
	var participant affiliate.ParticipantID
	if err := f.owner.QueryRow(t.Context(), `select participant_id from links limit 1`).Scan(&participant); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		sql     string
		args    []any
		indexes []string
	}{
		"all codes": {
			postgres.DirectoryTargetsSQL,
			[]any{f.now, f.scope.Workspace, f.scope.Mode, "0", 1000},
			[]string{"referral_codes_pkey", "links_pkey", "promo_codes_by_participant"},
		},
		"codes of a large programme": {
			postgres.DirectoryProgramTargetsSQL,
			[]any{f.now, f.scope.Workspace, large, "0", 1000},
			[]string{"referral_codes_pkey", "links_pkey", "promo_codes_by_participant"},
		},
		"codes of a small programme": {
			postgres.DirectoryProgramTargetsSQL,
			[]any{f.now, f.scope.Workspace, small, "0", 1000},
			[]string{"referral_codes_by_program", "links_pkey", "promo_codes_by_participant"},
		},
		"codes of a participant": {
			postgres.DirectoryParticipantTargetsSQL,
			[]any{f.now, f.scope.Workspace, participant},
			[]string{"referral_codes_by_participant", "links_pkey", "promo_codes_by_participant"},
		},
		"all keys": {
			postgres.DirectoryKeysSQL,
			[]any{f.scope.Workspace, affiliate.APIKeyID{}, 10},
			[]string{"api_keys_pkey", "workspaces_pkey"},
		},
	} {
		rows, err := f.owner.Query(t.Context(), "explain "+tc.sql, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		for _, index := range tc.indexes {
			if !strings.Contains(plan, index) {
				t.Errorf("%s: the plan does not use the index %s\n%s", name, index, plan)
			}
		}
		for _, table := range []string{"referral_codes", "links", "promo_codes", "api_keys", "workspaces"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s: the plan scans the whole table %s\n%s", name, table, plan)
			}
		}
	}
}
