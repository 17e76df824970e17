package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// sales is a workspace with one programme and one approved participant.
type sales struct {
	*testing.T
	url         string
	store       *postgres.Store
	sql         *pgx.Conn // connected with the service's role
	scope       affiliate.Scope
	program     affiliate.ProgramID
	participant affiliate.ParticipantID
	link        affiliate.LinkID // the participant's default link
}

// salesDay is the time of most rows in the tests: noon of 10 March 2026. Some tests check
// that a statement reads only the partition of this day.
var salesDay = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func newSales(t *testing.T) *sales {
	t.Helper()
	url := pgtest.New(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	s := &sales{
		T: t, url: url, store: store, sql: asService(t, url),
		scope:       affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](salesDay), Mode: affiliate.ModeTest},
		program:     affiliate.NewID[affiliate.Program](salesDay),
		participant: affiliate.NewID[affiliate.Participant](salesDay),
		link:        affiliate.NewID[affiliate.Link](salesDay),
	}
	s.exec(`select ensure_click_partitions('2026-03-01', '2026-03-20')`)
	s.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'Shop', 'EUR', 'UTC', $2, $2)`, s.scope.Workspace, salesDay)
	s.exec(`
		insert into programs (workspace_id, id, mode, name, slug, status, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		values ($1, $2, $3, 'Spring', 'spring', 'active', '{}', 'EUR', 30, 'first_click', 'via', false, true,
			'{"commission_type":"percentage","rate_bps":3000,"hold_period_days":30,"auto_approval":true,"net_basis":"net_of_tax"}', 4, $4, $4)`,
		s.scope.Workspace, s.program, s.scope.Mode, salesDay)
	partner := affiliate.NewID[affiliate.User](salesDay)
	s.exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1, 'partner', 'pat@example.com', '', 'Pat', $2)`, partner, salesDay)
	s.exec(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
		values ($1, $2, $3, $4, $5, 'Pat', 'pat@example.com', 'approved', 'pat', '{}', $6, $6, $6)`,
		s.scope.Workspace, s.participant, s.program, s.scope.Mode, partner, salesDay)
	s.exec(`
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
		values ($1, $2, $3, $4, $5, 'pat', $6, true, $7, $7)`,
		s.scope.Workspace, s.link, s.program, s.participant, s.scope.Mode, affiliate.NewShortKey(), salesDay)
	return s
}

func (s *sales) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.sql.Exec(s.Context(), sql, args...); err != nil {
		s.Fatal(err)
	}
}

func (s *sales) count(from string, args ...any) (n int) {
	s.Helper()
	if err := s.sql.QueryRow(s.Context(), `select count(*) from `+from, args...).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// click stores a click that was received at the given instant and returns its id.
func (s *sales) click(receivedAt time.Time) affiliate.ClickID {
	s.Helper()
	id := affiliate.NewID[affiliate.Click](receivedAt)
	s.exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
		values ($1, $2, $3, $4, $5, $6, 'pat', $3, $7, $3, 'unknown', false)`,
		s.scope.Workspace, id, receivedAt, s.scope.Mode, s.program, s.participant, affiliate.WindowEnd(receivedAt, 30))
	return id
}

// record stores a purchase with the id of a click. If the click is not stored, the
// conversion waits for the click.
func (s *sales) record(external string, click affiliate.ClickID) error {
	s.Helper()
	r := s.report(external, click)
	if r.Inputs.FoundClick == nil {
		until := salesDay.Add(24 * time.Hour)
		r.AwaitUntil = &until
	}
	_, err := s.store.RecordConversion(s.Context(), r)
	return err
}

// decideAt returns a function Decide for a conversion. It decides in the same way as the
// service, at the given time.
func decideAt(c affiliate.Conversion, at time.Time) affiliate.Decide {
	return func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
		d := affiliate.Attribute(in)
		d.ID, d.Conversion, d.DecidedAt = affiliate.NewID[affiliate.Decision](at), c.ID, at
		if d.Earns == nil {
			return d, nil, nil
		}
		commission := affiliate.NewCommission(affiliate.NewID[affiliate.Commission](at), c, d, at)
		return d, &commission, nil
	}
}

func TestFindClick_ReturnsInputsOfDecision(t *testing.T) {
	s := newSales(t)
	id := s.click(salesDay)
	found, err := s.store.FindClick(t.Context(), s.scope.Workspace, id)
	if err != nil || found == nil {
		t.Fatalf("FindClick returned %v, %v, want the click", found, err)
	}
	e := found.Earner
	if found.Mode != affiliate.ModeTest || !found.ReceivedAt.Equal(salesDay) || !found.ExpiresAt.Equal(affiliate.WindowEnd(salesDay, 30)) ||
		found.Link != s.link || e.Precedence != affiliate.ClickFirst || e.WindowDays != 30 || e.Program != s.program || e.ProgramName != "Spring" || e.ProgramStatus != affiliate.ProgramActive || e.Currency != "EUR" ||
		e.Model != affiliate.FirstClick || e.Rule.Version != 4 || *e.Rule.Rules.RateBps != 3000 || e.Rule.Rules.NetBasis != affiliate.NetOfTax ||
		e.Participant != s.participant || e.ParticipantStatus != affiliate.ParticipantApproved || e.ParticipantErased || e.Partner.IsZero() {
		t.Errorf("FindClick returned %+v, want the stored click, programme and participant", found)
	}

	same, err := s.store.FindEarner(t.Context(), s.scope, s.program, s.participant)
	if err != nil || same == nil || same.Partner != e.Partner || same.Rule.Version != 4 {
		t.Errorf("FindEarner returned %+v, %v, want the earner of the click", same, err)
	}

	s.exec(`update participants set erased_at = $1`, salesDay)
	if found, err = s.store.FindClick(t.Context(), s.scope.Workspace, id); err != nil || !found.Earner.ParticipantErased {
		t.Errorf("after the participant was erased, FindClick returned %+v, %v, want ParticipantErased", found, err)
	}
}

func TestFindClick_ChecksWorkspaceModeAndProgramme(t *testing.T) {
	s := newSales(t)
	id := s.click(salesDay)
	otherWorkspace := affiliate.NewID[affiliate.Workspace](salesDay)
	for name, find := range map[string]func() (any, error){
		"another workspace's click": func() (any, error) { return nilOr(s.store.FindClick(t.Context(), otherWorkspace, id)) },
		"an unknown click": func() (any, error) {
			return nilOr(s.store.FindClick(t.Context(), s.scope.Workspace, affiliate.NewID[affiliate.Click](salesDay)))
		},
		"an id without a time": func() (any, error) {
			return nilOr(s.store.FindClick(t.Context(), s.scope.Workspace, affiliate.ClickID{UUID: uuid.New()}))
		},
		"another workspace's earner": func() (any, error) {
			return nilOr(s.store.FindEarner(t.Context(), affiliate.Scope{Workspace: otherWorkspace, Mode: s.scope.Mode}, s.program, s.participant))
		},
		"the other mode's earner": func() (any, error) {
			return nilOr(s.store.FindEarner(t.Context(), affiliate.Scope{Workspace: s.scope.Workspace, Mode: affiliate.ModeLive}, s.program, s.participant))
		},
		"another programme's earner": func() (any, error) {
			return nilOr(s.store.FindEarner(t.Context(), s.scope, affiliate.NewID[affiliate.Program](salesDay), s.participant))
		},
	} {
		if got, err := find(); got != nil || err != nil {
			t.Errorf("the look-up of %s returned %v, %v, want nil", name, got, err)
		}
	}
}

// nilOr returns found as an interface value, which is nil if found is nil.
func nilOr[T any](found *T, err error) (any, error) {
	if found == nil {
		return nil, err
	}
	return found, err
}

// The custom and the generic plans of both look-ups must read only one partition of
// clicks, with an index of this partition.
func TestFindClick_ReadsOnePartitionByIndex(t *testing.T) {
	s := newSales(t)
	for day := range 5 {
		s.exec(`
			insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
			select $1, gen_random_uuid(), $2::timestamptz + n * interval '1 millisecond', 'test', $3, $4, 'pat', $2, $2, $2, 'unknown', false
			from generate_series(1, 2000) as n`,
			s.scope.Workspace, salesDay.AddDate(0, 0, day-2), s.program, s.participant)
	}
	s.manyParticipants(2000)
	id := s.click(salesDay)
	pgtest.VacuumAnalyze(t, s.asOwner())
	s.exec(`prepare one as ` + postgres.SelectClicksSQL)
	s.exec(`prepare awaited as ` + postgres.StoredAwaitedSQL)
	at := salesDay.Format(time.RFC3339Nano)
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		s.exec(`set plan_cache_mode = ` + mode)
		for name, execute := range map[string]string{
			"one":     fmt.Sprintf("one('{0}', '{%s}', '{%s}', '{%s}', '%s', '%s')", s.scope.Workspace, id, at, at, at),
			"awaited": fmt.Sprintf("awaited('{%s}', '{%s}', '{%s}')", s.scope.Workspace, id, at),
		} {
			plan := s.explain(execute)
			// A partition that Postgres excludes at run time is still in the plan, with
			// the note "never executed".
			var scans []string
			for _, line := range plan {
				if strings.Contains(line, " on clicks") && !strings.Contains(line, "never executed") {
					scans = append(scans, line)
				}
			}
			if len(scans) != 1 || !regexp.MustCompile(`Index (Only )?Scan using clicks_20260310_\w+ on clicks_20260310`).MatchString(scans[0]) {
				t.Errorf("%s, %s: the plan does not read only clicks_20260310 with an index\n%s", mode, name, strings.Join(plan, "\n"))
			}
			for _, key := range []string{"programs", "participants"} {
				// The plan may use any index whose first column is id.
				probe := regexp.MustCompile(`Index Scan using ` + key + `_\w+ on ` + key + ` .*\n\s+Index Cond: .*\bid = `)
				if name == "one" && !probe.MatchString(strings.Join(plan, "\n")) {
					t.Errorf("%s: the plan does not read %s by id with an index\n%s", mode, key, strings.Join(plan, "\n"))
				}
			}
		}
	}
}

// manyParticipants adds n programmes and n participants, so that the use of an index is
// cheaper than a scan of the table.
func (s *sales) manyParticipants(n int) {
	s.Helper()
	s.exec(`
		insert into programs (workspace_id, id, mode, name, slug, status, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		select workspace_id, gen_random_uuid(), mode, name, slug || n, status, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at
		from programs, generate_series(1, $2) as n where id = $1`, s.program, n)
	s.exec(`
		with people as (
			insert into users (id, kind, email, password_hash, name, created_at)
			select gen_random_uuid(), 'partner', n || '@example.com', '', 'Pat', $4 from generate_series(1, $5) as n
			returning id)
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, $3, id, 'Pat', id::text, 'approved', id::text, '{}', $4, $4, $4 from people`,
		s.scope.Workspace, s.program, s.scope.Mode, salesDay, n)
}

// asOwner returns a connection of the database owner.
func (s *sales) asOwner() *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.url)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// explain runs a prepared statement and returns the lines of its plan.
func (s *sales) explain(execute string) []string {
	s.Helper()
	rows, err := s.sql.Query(s.Context(), `explain (analyze, costs off, timing off, summary off) execute `+execute)
	if err != nil {
		s.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Fatal(err)
	}
	return lines
}

func TestRecordConversion_StoresEverythingOrNothing(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	found, err := s.store.FindClick(t.Context(), s.scope.Workspace, click)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.record("order-1", click); err != nil {
		t.Fatal(err)
	}
	before := s.rowCounts()
	if want := []int{1, 1, 1, 1, 2, 0, 1}; !slices.Equal(before, want) {
		t.Fatalf("the numbers of rows per table are %v, want %v", before, want)
	}

	if err := s.record("order-1", click); !errors.Is(err, affiliate.Refuse(affiliate.ReasonConversionDuplicate)) {
		t.Errorf("a duplicate returned %v, want the reason %s", err, affiliate.ReasonConversionDuplicate)
	}
	if err := s.record("order-1", affiliate.NewID[affiliate.Click](salesDay)); !errors.Is(err, affiliate.Refuse(affiliate.ReasonConversionDuplicate)) {
		t.Errorf("a duplicate with an unknown click returned %v, want the reason %s", err, affiliate.ReasonConversionDuplicate)
	}
	// The schema rejects the commission of this conversion, so no row may be stored.
	c := affiliate.Conversion{
		ID: affiliate.NewID[affiliate.Conversion](salesDay), Scope: s.scope, ExternalTransactionID: "order-2", EventType: affiliate.Purchase,
		OccurredAt: salesDay, CreatedAt: salesDay, Source: affiliate.SourceAPI, Status: affiliate.ConversionRecorded, Click: &click, Version: 1,
	}
	in := affiliate.AttributionInputs{Mode: s.scope.Mode, EventType: c.EventType, OccurredAt: salesDay, Click: &click, FoundClick: found}
	decideInvalid := func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
		d, commission, err := decideAt(c, salesDay)(in)
		commission.AmountCents = commission.OriginalAmountCents + 1
		return d, commission, err
	}
	if _, err := s.store.RecordConversion(t.Context(), affiliate.Report{Conversion: c, Inputs: in, Decide: decideInvalid}); err == nil {
		t.Error("an invalid commission was stored")
	}
	if after := s.rowCounts(); !slices.Equal(after, before) {
		t.Errorf("after the failures, the numbers of rows per table are %v, want %v", after, before)
	}
}

// rowCounts returns the number of rows in each table that a conversion can change.
func (s *sales) rowCounts() (counts []int) {
	s.Helper()
	for _, table := range []string{"conversions", "attribution_decisions", "commissions", "commission_history", "events", "awaited_clicks", "stats_deltas"} {
		counts = append(counts, s.count(table))
	}
	return counts
}

func TestApplyLateAttribution_SupersedesDecisionInForce(t *testing.T) {
	s := newSales(t)
	click := affiliate.NewID[affiliate.Click](salesDay.Add(-time.Hour))
	if err := s.record("order-1", click); err != nil {
		t.Fatal(err)
	}
	waiting, err := s.store.WaitingConversions(t.Context(), s.scope.Workspace, click, 10)
	if err != nil || len(waiting) != 1 {
		t.Fatalf("AwaitedConversions returned %v, %v, want one conversion", waiting, err)
	}
	awaiting := waiting[0]
	if awaiting.Scope != s.scope || awaiting.ExternalTransactionID != "order-1" || awaiting.Sale.Paid != (affiliate.Money{Cents: 100, Currency: "EUR"}) ||
		*awaiting.Click != click || awaiting.Attributed || !awaiting.OccurredAt.Equal(salesDay) || awaiting.Version != 1 {
		t.Errorf("the waiting conversion is %+v, want version 1 of order-1 over 1 EUR, not attributed, with click %s", awaiting, click)
	}
	in := affiliate.AttributionInputs{Mode: s.scope.Mode, Click: &click}
	attribute := func(supersedes func(inForce affiliate.DecisionID) affiliate.DecisionID) error {
		return s.store.InTx(t.Context(), func(tx *postgres.Tx) error {
			stored, in, err := tx.LockAwaited(t.Context(), awaiting.Conversion, in)
			if err != nil {
				return err
			}
			stored.Decision = supersedes(stored.Decision)
			d, commission, err := decideAt(awaiting.Conversion, salesDay)(in)
			if err != nil {
				return err
			}
			late, err := stored.AttributeLate(in, d, commission)
			if err != nil {
				return err
			}
			return tx.ApplyLateAttribution(t.Context(), late)
		})
	}
	var inForce affiliate.DecisionID
	if err := attribute(func(found affiliate.DecisionID) affiliate.DecisionID { inForce = found; return found }); err != nil || inForce != awaiting.Decision {
		t.Errorf("the decision in force was %v, %v, want %v", inForce, err, awaiting.Decision)
	}
	if err := attribute(func(affiliate.DecisionID) affiliate.DecisionID { return awaiting.Decision }); err == nil {
		t.Error("a decision that was not in force was superseded")
	}
	if n := s.count(`attribution_decisions`); n != 2 {
		t.Errorf("%d decisions are stored, want 2", n)
	}
}

func TestStoreClicks_EnqueuesOneJobPerAwaitedClick(t *testing.T) {
	s := newSales(t)
	awaited := []affiliate.ClickID{affiliate.NewID[affiliate.Click](salesDay), affiliate.NewID[affiliate.Click](salesDay)}
	for i, click := range []affiliate.ClickID{awaited[0], awaited[0], awaited[1]} {
		if err := s.record(fmt.Sprint("order-", i), click); err != nil {
			t.Fatal(err)
		}
	}
	var batch []affiliate.Click
	otherWorkspace := affiliate.NewID[affiliate.Workspace](salesDay)
	for _, id := range append(awaited, affiliate.NewID[affiliate.Click](salesDay)) {
		for _, workspace := range []affiliate.WorkspaceID{s.scope.Workspace, otherWorkspace} {
			batch = append(batch, affiliate.Click{
				ID: id, Scope: affiliate.Scope{Workspace: workspace, Mode: s.scope.Mode}, Program: s.program, Participant: s.participant,
				ReferralCode: "pat", ClickedAt: salesDay, ReceivedAt: salesDay, ExpiresAt: salesDay, CreatedAt: salesDay, Consent: affiliate.ConsentUnknown,
			})
		}
	}
	if err := s.store.StoreClicks(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if n := s.count(`river.river_job where kind = 'attribute_awaited' and args->>'workspace' = $1`, s.scope.Workspace.String()); n != 2 {
		t.Errorf("%d jobs were enqueued for the workspace, want 2", n)
	}
	if n := s.count(`river.river_job where kind = 'attribute_awaited'`); n != 2 {
		t.Errorf("%d jobs were enqueued in total, want 2", n)
	}
}

func TestArrivedClicks_ReadsAllPages(t *testing.T) {
	s := newSales(t)
	arrived := map[affiliate.ClickID]bool{}
	for i := range 25 {
		// Every fifth click is stored. Two conversions wait for one of these clicks.
		click := affiliate.NewID[affiliate.Click](salesDay.Add(-time.Duration(i) * time.Hour))
		if err := s.record(fmt.Sprint("order-", i), click); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			if err := s.record("order-again", click); err != nil {
				t.Fatal(err)
			}
		}
		if i%5 == 0 {
			receivedAt, _ := click.Time()
			s.exec(`
				insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
				values ($1, $2, $3, 'test', $4, $5, 'pat', $3, $3, $3, 'unknown', false)`, s.scope.Workspace, click, receivedAt, s.program, s.participant)
			arrived[click] = true
		}
	}
	var cursor affiliate.AwaitedClick
	for pages := 1; ; pages++ {
		found, next, err := s.store.ArrivedClicks(t.Context(), cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, late := range found {
			if late.Workspace != s.scope.Workspace || !arrived[late.Click] {
				t.Errorf("ArrivedClicks returned %+v, which has not arrived", late)
			}
			delete(arrived, late.Click)
		}
		if cursor = next; cursor == (affiliate.AwaitedClick{}) {
			if pages != 3 {
				t.Errorf("the clicks were on %d pages, want 3", pages)
			}
			break
		}
	}
	if len(arrived) > 0 {
		t.Errorf("%d arrived clicks were not found", len(arrived))
	}
}

func TestDropExpiredAwaited_RespectsLimit(t *testing.T) {
	s := newSales(t)
	for i := range 5 {
		if err := s.record(fmt.Sprint("order-", i), affiliate.NewID[affiliate.Click](salesDay)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		at      time.Time
		dropped int64
	}{{salesDay.Add(24*time.Hour - time.Millisecond), 0}, {salesDay.Add(24 * time.Hour), 3}, {salesDay.Add(24 * time.Hour), 2}} {
		if n, err := s.store.DropExpiredAwaited(t.Context(), step.at, 3); err != nil || n != step.dropped {
			t.Errorf("DropExpiredAwaited dropped %d rows, %v, want %d", n, err, step.dropped)
		}
	}
}
