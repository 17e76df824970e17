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

// directoryWorld is a workspace whose rows the tests insert directly, without the
// service.
type directoryWorld struct {
	*testing.T
	store *postgres.Store
	owner *pgx.Conn
	now   time.Time
	scope affiliate.Scope
}

func newDirectoryWorld(t *testing.T) *directoryWorld {
	t.Helper()
	w := &directoryWorld{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	url := pgtest.New(t)
	var err error
	if w.store, err = postgres.Open(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.owner, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.owner.Close(context.Background()) })
	w.scope = affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](w.now), Mode: affiliate.ModeLive}
	w.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'W', 'EUR', 'UTC', $2, $2)`, w.scope.Workspace, w.now)
	// Disable foreign keys, so that no users are needed.
	w.exec(`set session_replication_role = replica`)
	return w
}

func (w *directoryWorld) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.owner.Exec(w.Context(), sql, args...); err != nil {
		w.Fatal(err)
	}
}

func (w *directoryWorld) program(status affiliate.ProgramStatus) affiliate.ProgramID {
	w.Helper()
	id := affiliate.NewID[affiliate.Program](w.now)
	w.exec(`
		insert into programs (workspace_id, id, mode, name, slug, status, website_url, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		values ($1, $2, $3, 'P', $4, $5, 'https://site.example/', '{shop.example,*.shop.example}', 'EUR', 14, 'first_click', 'via', true, true, '{}', 1, $6, $6)`,
		w.scope.Workspace, id, w.scope.Mode, id.String(), status, w.now)
	return id
}

// link stores a link with its code. A nil destination means the programme's page.
func (w *directoryWorld) link(program affiliate.ProgramID, participant affiliate.ParticipantID, code string, destination *string) affiliate.LinkID {
	w.Helper()
	id := affiliate.NewID[affiliate.Link](w.now)
	w.exec(`
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)`,
		w.scope.Workspace, id, program, participant, w.scope.Mode, code, affiliate.NewShortKey(), destination, destination == nil, w.now)
	w.code(program, participant, id, code)
	return id
}

func (w *directoryWorld) code(program affiliate.ProgramID, participant affiliate.ParticipantID, link affiliate.LinkID, code string) {
	w.Helper()
	w.exec(`insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at) values ($1, $2, $3, $4, $5, $6, $7)`,
		w.scope.Workspace, w.scope.Mode, code, program, participant, link, w.now)
}

// promoCode stores a promo code with the given age and then applies the SQL change.
func (w *directoryWorld) promoCode(program affiliate.ProgramID, participant affiliate.ParticipantID, code string, age time.Duration, change string, args ...any) {
	w.Helper()
	id := affiliate.NewID[affiliate.PromoCode](w.now)
	w.exec(`
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active,
			sync_to_processor, sync_status, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, 'percentage', 1000, true, false, 'none', $7, $7)`,
		w.scope.Workspace, id, program, participant, w.scope.Mode, code, w.now.Add(-age))
	if change != "" {
		w.exec(`update promo_codes set `+change+` where workspace_id = $1 and id = $2`, append([]any{w.scope.Workspace, id}, args...)...)
	}
}

func (w *directoryWorld) targets(participant affiliate.ParticipantID) map[string]affiliate.ReferralTarget {
	w.Helper()
	targets, err := w.store.ParticipantReferralTargets(w.Context(), w.scope.Workspace, participant, w.now)
	if err != nil {
		w.Fatal(err)
	}
	byCode := map[string]affiliate.ReferralTarget{}
	for _, target := range targets {
		byCode[target.Code] = target
	}
	return byCode
}

func TestReferralTargets_ArePaged(t *testing.T) {
	w := newDirectoryWorld(t)
	active, paused := w.program(affiliate.ProgramActive), w.program(affiliate.ProgramPaused)
	shop := "https://shop.example/"
	var last affiliate.ParticipantID
	for _, code := range []string{"a", "c", "e"} {
		w.link(active, affiliate.NewID[affiliate.Participant](w.now), code, nil)
	}
	for _, code := range []string{"b", "d"} {
		last = affiliate.NewID[affiliate.Participant](w.now)
		w.link(paused, last, code, nil)
	}
	w.link(paused, last, "f", &shop)

	seen := map[string]affiliate.ReferralTarget{}
	var after affiliate.ReferralTarget
	for more := true; more; {
		page, err := w.store.ReferralTargetsAfter(t.Context(), after, w.now, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, after = range page {
			if _, twice := seen[after.Code]; twice {
				t.Errorf("%s came twice", after.Code)
			}
			seen[after.Code] = after
		}
		more = len(page) == 2
	}
	if len(seen) != 6 {
		t.Fatalf("%d of 6 codes", len(seen))
	}
	for code, target := range seen {
		if target.Scope != w.scope || target.WindowDays != 14 || target.Model != affiliate.FirstClick || target.Participant.IsZero() ||
			target.Active != (target.Program == active) || target.Link.ID.IsZero() || target.Link.Code != code || target.Discount != nil {
			t.Errorf("%s: %+v", code, target)
		}
	}
	ofProgram := 0
	for after := ""; ; ofProgram++ {
		page, err := w.store.ProgramReferralTargets(t.Context(), w.scope.Workspace, paused, w.now, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		if after = page[0].Code; !reflect.DeepEqual(seen[after], page[0]) || page[0].Program != paused {
			t.Errorf("target of the programme: %+v", page[0])
		}
	}
	if own := w.targets(last); ofProgram != 3 || len(own) != 2 || !reflect.DeepEqual(own["f"], seen["f"]) {
		t.Errorf("%d codes of the programme, want 3; codes of the participant: %v", ofProgram, own)
	}
	foreign := affiliate.NewID[affiliate.Workspace](w.now)
	if own, err := w.store.ParticipantReferralTargets(t.Context(), foreign, last, w.now); err != nil || len(own) != 0 {
		t.Errorf("from another workspace: %v, %v", own, err)
	}
	if page, err := w.store.ProgramReferralTargets(t.Context(), foreign, paused, w.now, "", 9); err != nil || len(page) != 0 {
		t.Errorf("from another workspace: %v, %v", page, err)
	}
}

func TestReferralTargets_TargetURLs(t *testing.T) {
	w := newDirectoryWorld(t)
	program, jane := w.program(affiliate.ProgramActive), affiliate.NewID[affiliate.Participant](w.now)
	own := w.link(program, jane, "jane", nil)
	w.code(program, jane, own, "janes-old-code")
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
		w.link(program, jane, code, &destination)
	}
	w.exec(`update links set sub_id = 's 1', utm_source = 'mail', utm_medium = 'm', utm_campaign = 'c', utm_term = 't', utm_content = 'x' where code = 'there'`)
	w.exec(`update links set deleted_at = $1 where code = 'deleted'`, w.now)
	targets := w.targets(jane)
	for code, want := range map[string]string{
		"jane": "https://site.example/?via=jane",
		"there": "https://shop.example:8443/p?color=red&via=there&sub_id=s+1&utm_source=mail&utm_medium=m&utm_campaign=c&utm_term=t&utm_content=x" +
			"#x",
		"subdomain": "https://A.B.shop.example/?via=subdomain",
		"elsewhere": "", "lookalike": "", "user": "", "hidden": "", "script": "",
	} {
		target := targets[code]
		if target.Link.TargetURL != want || !target.Active || target.Link.Code != code || len(target.Link.Key) != 10 {
			t.Errorf("%s: %+v", code, target)
		}
	}
	if targets["deleted"].Active || targets["deleted"].Link.ID.IsZero() {
		t.Errorf("deleted: %+v", targets["deleted"])
	}
	link := targets["there"].Link
	if link.SubID != "s 1" || link.UTM != (affiliate.UTM{Source: "mail", Medium: "m", Campaign: "c", Term: "t", Content: "x"}) {
		t.Errorf("%+v", link)
	}
	if alias := targets["janes-old-code"]; alias.Link != targets["jane"].Link || alias.Link.ID != own {
		t.Errorf("an alias: %+v", alias)
	}

	w.exec(`update programs set landing_url = 'https://landing.example/?a=b', allowed_domains = '{}'`)
	targets = w.targets(jane)
	if jane, there := targets["jane"].Link.TargetURL, targets["there"].Link.TargetURL; jane != "https://landing.example/?a=b&via=jane" || there != "" {
		t.Errorf("with another landing page and no allowed domains: %q, %q", jane, there)
	}
	w.exec(`update programs set landing_url = null, website_url = null`)
	if url := w.targets(jane)["jane"].Link.TargetURL; url != "" {
		t.Errorf("without any page: %q", url)
	}
}

func TestReferralTargets_OfferNewestUsablePromoCode(t *testing.T) {
	w := newDirectoryWorld(t)
	program := w.program(affiliate.ProgramActive)
	jane, bert := affiliate.NewID[affiliate.Participant](w.now), affiliate.NewID[affiliate.Participant](w.now)
	own := w.link(program, jane, "jane", nil)
	w.code(program, jane, own, "alias")
	w.link(program, bert, "bert", nil)
	if d := w.targets(jane)["jane"].Discount; d != nil {
		t.Errorf("without a promo code: %+v", d)
	}
	check := func(want affiliate.Discount) {
		t.Helper()
		for code, target := range w.targets(jane) {
			if target.Discount == nil || !reflect.DeepEqual(*target.Discount, want) {
				t.Errorf("%s offers %+v, want %+v", code, target.Discount, want)
			}
		}
	}
	end := w.now
	w.promoCode(program, jane, "old", 3*time.Hour, `expires_at = $3, max_redemptions = 2, redemptions = 1`, end)
	check(affiliate.Discount{PromoCode: "old", Type: affiliate.DiscountPercentage, Value: 1000, ExpiresAt: &end})
	w.promoCode(program, jane, "new", 2*time.Hour, `discount_type = 'fixed', discount_value = 500, currency = 'EUR'`)
	fixed := affiliate.Discount{PromoCode: "new", Type: affiliate.DiscountFixed, Value: 500, Currency: "EUR"}
	check(fixed)
	w.promoCode(program, jane, "off", time.Hour, `active = false`)
	w.promoCode(program, jane, "expired", time.Hour, `expires_at = $3`, w.now.Add(-time.Millisecond))
	w.promoCode(program, jane, "used up", time.Hour, `max_redemptions = 2, redemptions = 2`)
	w.promoCode(program, bert, "berts", 0, "")
	check(fixed)
	page, err := w.store.ReferralTargetsAfter(t.Context(), affiliate.ReferralTarget{}, w.now, 9)
	if err != nil || len(page) != 3 || page[0].Discount.PromoCode != "new" || page[1].Discount.PromoCode != "berts" || page[2].Discount.PromoCode != "new" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestPublicKeys_IncludeRevokedAndExpired(t *testing.T) {
	w := newDirectoryWorld(t)
	w.exec(`update workspaces set allowed_origins = '{https://shop.example,https://*.shop.example}', origin_policy = 'enforce' where id = $1`, w.scope.Workspace)
	other := affiliate.NewID[affiliate.Workspace](w.now)
	w.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'O', 'EUR', 'UTC', $2, $2)`, other, w.now)
	ended, rolled := w.now.Add(time.Hour), w.now.Add(2*time.Hour)
	type ends struct{ revoked, expires *time.Time }
	endsOf := map[string]ends{}
	key := func(workspace affiliate.WorkspaceID, of ends) {
		key := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest)
		digest := key.Digest()
		endsOf[key.Reveal()] = of
		w.exec(`insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at, revoked_at, expires_at)
			values ($1, $2, 'test', 'public', 'p', $3, $4, $5, $6, $7, $8, $9)`,
			workspace, affiliate.NewID[affiliate.APIKey](w.now), digest[:], key.Reveal(), key.Prefix(), key.Last4(), w.now, of.revoked, of.expires)
	}
	key(w.scope.Workspace, ends{revoked: &ended})
	key(w.scope.Workspace, ends{expires: &rolled})
	for range 3 {
		key(w.scope.Workspace, ends{})
	}
	key(other, ends{})
	secret := affiliate.NewKey(affiliate.SecretKey, affiliate.ModeTest)
	digest := secret.Digest()
	w.exec(`insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at) values ($1, $2, 'test', 'secret', 's', $3, '', '', $4)`,
		w.scope.Workspace, affiliate.NewID[affiliate.APIKey](w.now), digest[:], w.now)

	check := func(keys []affiliate.PublicKeyTarget, n int) {
		t.Helper()
		for _, key := range keys {
			of, known := endsOf[key.PublicText]
			mine := key.Scope.Workspace == w.scope.Workspace
			if !known || key.Kind != affiliate.PublicKey || key.Scope.Mode != affiliate.ModeTest || key.EnforceOrigins != mine ||
				mine && !slices.Equal(key.AllowedOrigins, []string{"https://shop.example", "https://*.shop.example"}) || !mine && len(key.AllowedOrigins) > 0 ||
				(of.revoked == nil) != (key.RevokedAt == nil) || (of.expires == nil) != (key.ExpiresAt == nil) ||
				key.Live(ended) != (of.revoked == nil) || key.Live(rolled) != (of == ends{}) {
				t.Errorf("%+v", key)
			}
		}
		if len(keys) != n {
			t.Errorf("%d of %d keys", len(keys), n)
		}
	}
	all, err := w.store.WorkspacePublicKeys(t.Context(), w.scope.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	check(all, 5)
	var paged []affiliate.PublicKeyTarget
	var after affiliate.APIKey
	for more := true; more; {
		page, err := w.store.PublicKeysAfter(t.Context(), after, 2)
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
	w := newDirectoryWorld(t)
	var last int64
	for range 3 {
		version, err := w.store.DirectoryVersion(t.Context())
		if err != nil || version <= last {
			t.Fatalf("%d after %d, %v", version, last, err)
		}
		last = version
	}
}

// The cost of a page depends on its size, not on the number of codes, links and promo
// codes that are stored.
func TestDirectoryStatements_UseIndexes(t *testing.T) {
	t.Parallel()
	w := newDirectoryWorld(t)
	large, small := w.program(affiliate.ProgramActive), w.program(affiliate.ProgramActive)
	fill := func(program affiliate.ProgramID, n int) {
		w.exec(`
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
			select $1, $3, code, $2, participant_id, id, $4 from made`, w.scope.Workspace, program, w.scope.Mode, w.now, n)
	}
	fill(large, 25_000)
	fill(small, 100)
	w.exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select gen_random_uuid(), 'W', 'EUR', 'UTC', $1, $1 from generate_series(1, 5000)`, w.now)
	w.exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at)
		select id, gen_random_uuid(), 'live', 'public', '', sha256(id::text::bytea), id::text, 'pk_live_', '', $1 from workspaces`, w.now)
	pgtest.VacuumAnalyze(t, w.owner)
	var participant affiliate.ParticipantID
	if err := w.owner.QueryRow(t.Context(), `select participant_id from links limit 1`).Scan(&participant); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		sql     string
		args    []any
		indexes []string
	}{
		"all codes": {
			postgres.DirectoryTargetsSQL,
			[]any{w.now, w.scope.Workspace, w.scope.Mode, "0", 1000},
			[]string{"referral_codes_pkey", "links_pkey", "promo_codes_by_participant"},
		},
		"a large programme's": {
			postgres.DirectoryProgramTargetsSQL,
			[]any{w.now, w.scope.Workspace, large, "0", 1000},
			[]string{"referral_codes_pkey", "links_pkey", "promo_codes_by_participant"},
		},
		"a small programme's": {
			postgres.DirectoryProgramTargetsSQL,
			[]any{w.now, w.scope.Workspace, small, "0", 1000},
			[]string{"referral_codes_by_program", "links_pkey", "promo_codes_by_participant"},
		},
		"a participant's": {
			postgres.DirectoryParticipantTargetsSQL,
			[]any{w.now, w.scope.Workspace, participant},
			[]string{"referral_codes_by_participant", "links_pkey", "promo_codes_by_participant"},
		},
		"all keys": {
			postgres.DirectoryKeysSQL,
			[]any{w.scope.Workspace, affiliate.APIKeyID{}, 10},
			[]string{"api_keys_pkey", "workspaces_pkey"},
		},
	} {
		rows, err := w.owner.Query(t.Context(), "explain "+tc.sql, tc.args...)
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
				t.Errorf("%s: the plan does not use %s:\n%s", name, index, plan)
			}
		}
		for _, table := range []string{"referral_codes", "links", "promo_codes", "api_keys", "workspaces"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s: the plan scans %s:\n%s", name, table, plan)
			}
		}
	}
}
