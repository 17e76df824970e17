package conversion_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// sales is a shop with one participant. The tests report sales of this participant.
type sales struct {
	*fixture
	participant pgtest.Participant
}

// newSales creates a shop. The rows in program replace columns of its programme.
func newSales(t *testing.T, changes ...pgtest.Row) *sales {
	t.Helper()
	f := newFixture(t, append([]pgtest.Row{{
		"name": "Spring", "attribution_model": program.FirstClick, "rules_version": 4,
		"rules": `{"commission_type":"percentage","rate_bps":3000,"hold_period_days":30,"auto_approval":true,"net_basis":"net_of_tax"}`,
	}}, changes...)...)
	return &sales{f, f.Join("Pat")}
}

// partitionClicks makes the clicks have a partition per day.
func (s *sales) partitionClicks() {
	s.Helper()
	s.Exec(`select ensure_click_partitions('2026-03-01', '2026-03-20')`)
}

// withDB returns the same shop with another handle of the database.
func (s *sales) withDB(db *postgres.DB) *sales {
	database, shop := *s.Fixture, *s.Shop
	database.DB, shop.Fixture = db, &database
	return &sales{&fixture{&pgtest.NoonShop{Shop: &shop, Clock: s.Clock}}, s.participant}
}

// click stores a click that was received at the given instant and returns its id.
func (s *sales) click(receivedAt time.Time) affiliate.ClickID {
	s.Helper()
	return s.NewClick(s.participant, receivedClick(receivedAt)).ID
}

// record stores a purchase with the id of a click. If the click is not stored, the
// conversion waits for the click.
func (s *sales) record(external string, click affiliate.ClickID) error {
	s.Helper()
	r := s.Report(external, click)
	if r.Inputs.FoundClick == nil {
		until := pgtest.Noon.Add(24 * time.Hour)
		r.AwaitUntil = &until
	}
	_, err := s.Record(r)
	return err
}

func TestFindClick_ReturnsInputsOfDecision(t *testing.T) {
	s := newSales(t)
	id := s.NewClick(s.participant).ID
	found, err := conversions.NewClicks(s.DB).Find(t.Context(), s.Scope.Workspace, id)
	if err != nil || found == nil {
		t.Fatalf("FindClick returned %v, %v, want the click", found, err)
	}
	e := found.Earner
	if found.Mode != affiliate.ModeLive || !found.ReceivedAt.Equal(pgtest.Noon) || !found.ExpiresAt.Equal(click.WindowEnd(pgtest.Noon, 30)) ||
		found.Link != s.participant.Link || e.Precedence != program.ClickFirst || e.WindowDays != 30 || e.Program != s.Program || e.ProgramName != "Spring" || e.ProgramStatus != program.Active || e.Currency != "EUR" ||
		e.Model != program.FirstClick || e.Rule.Version != 4 || *e.Rule.Rules.RateBps != 3000 || e.Rule.Rules.NetBasis != program.NetOfTax ||
		e.Participant != s.participant.ID || e.ParticipantStatus != participant.Approved || e.ParticipantErased || e.Partner.IsZero() {
		t.Errorf("FindClick returned %+v, want the stored click, programme and participant", found)
	}

	same, err := conversions.FindEarner(t.Context(), s.DB, s.Scope, s.Program, s.participant.ID)
	if err != nil || same == nil || same.Partner != e.Partner || same.Rule.Version != 4 {
		t.Errorf("FindEarner returned %+v, %v, want the earner of the click", same, err)
	}

	s.Exec(`update participants set erased_at = $1`, pgtest.Noon)
	if found, err = conversions.NewClicks(s.DB).Find(t.Context(), s.Scope.Workspace, id); err != nil || !found.ParticipantErased {
		t.Errorf("after the participant was erased, FindClick returned %+v, %v, want ParticipantErased", found, err)
	}
}

func TestFindClick_ChecksWorkspaceModeAndProgramme(t *testing.T) {
	s := newSales(t)
	id := s.click(pgtest.Noon)
	otherWorkspace := affiliate.NewID[affiliate.WorkspaceID](pgtest.Noon)
	for name, find := range map[string]func() (any, error){
		"another workspace's click": func() (any, error) { return nilOr(conversions.NewClicks(s.DB).Find(t.Context(), otherWorkspace, id)) },
		"an unknown click": func() (any, error) {
			return nilOr(conversions.NewClicks(s.DB).Find(t.Context(), s.Scope.Workspace, affiliate.NewID[affiliate.ClickID](pgtest.Noon)))
		},
		"an id without a time": func() (any, error) {
			return nilOr(conversions.NewClicks(s.DB).Find(t.Context(), s.Scope.Workspace, affiliate.ClickID{UUID: uuid.New()}))
		},
		"another workspace's earner": func() (any, error) {
			return nilOr(conversions.FindEarner(t.Context(), s.DB, affiliate.Scope{Workspace: otherWorkspace, Mode: s.Scope.Mode}, s.Program, s.participant.ID))
		},
		"the other mode's earner": func() (any, error) {
			return nilOr(conversions.FindEarner(t.Context(), s.DB, affiliate.Scope{Workspace: s.Scope.Workspace, Mode: s.Scope.Mode.Other()}, s.Program, s.participant.ID))
		},
		"another programme's earner": func() (any, error) {
			return nilOr(conversions.FindEarner(t.Context(), s.DB, s.Scope, affiliate.NewID[affiliate.ProgramID](pgtest.Noon), s.participant.ID))
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

// Two statements look up clicks by their ids. The custom and the generic plans of both
// statements must read only one partition of clicks, with an index of this partition.
func TestFindClick_ReadsOnePartitionByIndex(t *testing.T) {
	s := newSales(t)
	s.partitionClicks()
	for day := range 5 {
		s.ExecWithoutForeignKeys(`
			insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
			select $1, gen_random_uuid(), $2::timestamptz + n * interval '1 millisecond', $5, $3, $4, gen_random_uuid(), 'pat', $2, $2, $2, 'unknown', false
			from generate_series(1, 2000) as n`,
			s.Scope.Workspace, pgtest.Noon.AddDate(0, 0, day-2), s.Program, s.participant.ID, s.Scope.Mode)
	}
	s.CopyProgram(2000)
	s.JoinMany(2000)
	id := s.click(pgtest.Noon)
	s.VacuumAnalyze()
	at := pgtest.Noon.Format(time.RFC3339Nano)
	for mode, plan := range s.ExecutedPlans(conversions.SelectClicksSQL, fmt.Sprintf("'{0}', '{%s}', '{%s}', '{%s}', '%s', '%s'", s.Scope.Workspace, id, at, at, at)) {
		pgtest.CheckReadsOnePartition(t, mode, plan, "clicks_20260310_")
		for _, key := range []string{"programs", "participants"} {
			// The plan may use any index whose first column is id.
			probe := regexp.MustCompile(`Index Scan using ` + key + `_\w+ on ` + key + ` .*\n\s+Index Cond: .*\bid = `)
			if !probe.MatchString(plan) {
				t.Errorf("%s: the plan does not read %s by id with an index\n%s", mode, key, plan)
			}
		}
	}
}

func TestRecord_StoresEverythingOrNothing(t *testing.T) {
	s := newSales(t)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	if err := s.record("order-1", click); err != nil {
		t.Fatal(err)
	}
	before := s.rowCounts()
	if want := []int{1, 1, 1, 1, 2, 0, 2}; !slices.Equal(before, want) {
		t.Fatalf("the numbers of rows per table are %v, want %v", before, want)
	}

	if err := s.record("order-1", click); !errors.Is(err, affiliate.Refuse(affiliate.ReasonConversionDuplicate)) {
		t.Errorf("a duplicate returned %v, want the reason %s", err, affiliate.ReasonConversionDuplicate)
	}
	if err := s.record("order-1", affiliate.NewID[affiliate.ClickID](pgtest.Noon)); !errors.Is(err, affiliate.Refuse(affiliate.ReasonConversionDuplicate)) {
		t.Errorf("a duplicate with an unknown click returned %v, want the reason %s", err, affiliate.ReasonConversionDuplicate)
	}
	// The schema rejects the commission of this conversion, so no row may be stored.
	invalid := s.Report("order-2", click)
	decide := invalid.Decide
	invalid.Decide = func(in attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
		d, commission, err := decide(in)
		commission.AmountCents = commission.OriginalAmountCents + 1
		return d, commission, err
	}
	if _, err := s.Record(invalid); err == nil {
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
		counts = append(counts, s.Count(`select count(*) from `+table))
	}
	return counts
}

func TestApplyLateAttribution_SupersedesDecisionInForce(t *testing.T) {
	s := newSales(t)
	click := affiliate.NewID[affiliate.ClickID](pgtest.Noon.Add(-time.Hour))
	if err := s.record("order-1", click); err != nil {
		t.Fatal(err)
	}
	waiting, err := conversions.WaitingConversions(t.Context(), s.DB, s.Scope.Workspace, click, 10)
	if err != nil || len(waiting) != 1 {
		t.Fatalf("WaitingConversions returned %v, %v, want one conversion", waiting, err)
	}
	awaiting := waiting[0]
	if awaiting.Scope != s.Scope || awaiting.ExternalTransactionID != "order-1" || awaiting.Money != (affiliate.Money{Cents: 100, Currency: "EUR"}) ||
		*awaiting.Click != click || awaiting.Attributed || !awaiting.OccurredAt.Equal(pgtest.Noon) || awaiting.Version != 1 {
		t.Errorf("the waiting conversion is %+v, want version 1 of order-1 over 1 EUR, not attributed, with click %s", awaiting, click)
	}
	in := attribution.Inputs{Mode: s.Scope.Mode, Click: &click}
	attribute := func(supersedes func(inForce affiliate.DecisionID) affiliate.DecisionID) error {
		return s.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
			stored, in, err := conversions.LockAwaited(t.Context(), tx, awaiting.Conversion, in)
			if err != nil {
				return err
			}
			stored.Decision = supersedes(stored.Decision)
			d, commission, err := pgtest.DecideAt(awaiting.Conversion, pgtest.Noon)(in)
			if err != nil {
				return err
			}
			late, err := stored.AttributeLate(in, d, commission)
			if err != nil {
				return err
			}
			return conversions.ApplyLateAttribution(t.Context(), tx, late)
		})
	}
	var inForce affiliate.DecisionID
	if err := attribute(func(found affiliate.DecisionID) affiliate.DecisionID { inForce = found; return found }); err != nil || inForce != awaiting.Decision {
		t.Errorf("the decision in force was %v, %v, want %v", inForce, err, awaiting.Decision)
	}
	if err := attribute(func(affiliate.DecisionID) affiliate.DecisionID { return awaiting.Decision }); err == nil {
		t.Error("a decision that was not in force was superseded")
	}
	if n := s.Count(`select count(*) from attribution_decisions`); n != 2 {
		t.Errorf("%d decisions are stored, want 2", n)
	}
}

func TestStoreClicks_EnqueuesOneJobPerAwaitedClick(t *testing.T) {
	s := newSales(t)
	awaited := []affiliate.ClickID{affiliate.NewID[affiliate.ClickID](pgtest.Noon), affiliate.NewID[affiliate.ClickID](pgtest.Noon)}
	for i, click := range []affiliate.ClickID{awaited[0], awaited[0], awaited[1]} {
		if err := s.record(fmt.Sprint("order-", i), click); err != nil {
			t.Fatal(err)
		}
	}
	var batch []click.Click
	otherWorkspace := affiliate.NewID[affiliate.WorkspaceID](pgtest.Noon)
	for _, id := range append(awaited, affiliate.NewID[affiliate.ClickID](pgtest.Noon)) {
		for _, workspace := range []affiliate.WorkspaceID{s.Scope.Workspace, otherWorkspace} {
			batch = append(batch, s.UnstoredClick(s.participant, func(c *click.Click) { c.ID, c.Workspace = id, workspace }))
		}
	}
	if err := clicks.Store(t.Context(), s.DB, batch); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(`select count(*) from river.river_job where kind = 'attribute_awaited' and args->>'workspace' = $1`, s.Scope.Workspace.String()); n != 2 {
		t.Errorf("%d jobs were enqueued for the workspace, want 2", n)
	}
	if n := s.Count(`select count(*) from river.river_job where kind = 'attribute_awaited'`); n != 2 {
		t.Errorf("%d jobs were enqueued in total, want 2", n)
	}
}

func TestArrivedClicks_ReadsAllPages(t *testing.T) {
	s := newSales(t)
	arrived := map[affiliate.ClickID]bool{}
	for i := range 25 {
		// Every fifth click is stored. Two conversions wait for one of these clicks.
		clickID := affiliate.NewID[affiliate.ClickID](pgtest.Noon.Add(-time.Duration(i) * time.Hour))
		if err := s.record(fmt.Sprint("order-", i), clickID); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			if err := s.record("order-again", clickID); err != nil {
				t.Fatal(err)
			}
		}
		if i%5 == 0 {
			receivedAt, _ := clickID.Time()
			s.NewClick(s.participant, receivedClick(receivedAt), func(c *click.Click) { c.ID = clickID })
			arrived[clickID] = true
		}
	}
	var cursor click.AwaitedClick
	for pages := 1; ; pages++ {
		found, next, err := conversions.ArrivedClicks(t.Context(), s.DB, cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, late := range found {
			if late.Workspace != s.Scope.Workspace || !arrived[late.Click] {
				t.Errorf("ArrivedClicks returned %+v, which has not arrived", late)
			}
			delete(arrived, late.Click)
		}
		if cursor = next; cursor == (click.AwaitedClick{}) {
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
		if err := s.record(fmt.Sprint("order-", i), affiliate.NewID[affiliate.ClickID](pgtest.Noon)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		at      time.Time
		dropped int64
	}{{pgtest.Noon.Add(24*time.Hour - time.Millisecond), 0}, {pgtest.Noon.Add(24 * time.Hour), 3}, {pgtest.Noon.Add(24 * time.Hour), 2}} {
		if n, err := conversions.DropExpiredAwaited(t.Context(), s.DB, step.at, 3); err != nil || n != step.dropped {
			t.Errorf("DropExpiredAwaited dropped %d rows, %v, want %d", n, err, step.dropped)
		}
	}
}

// receivedClick returns a function that changes a click, so that it was received at the
// given instant.
func receivedClick(at time.Time) func(*click.Click) {
	return func(c *click.Click) {
		c.ID = affiliate.NewID[affiliate.ClickID](at)
		c.ClickedAt, c.ReceivedAt, c.CreatedAt, c.ExpiresAt = at, at, at, click.WindowEnd(at, 30)
	}
}

// The arrived clicks that conversions wait for are found in the partitions of their days.
func TestArrivedClicks_ReadOnePartition(t *testing.T) {
	s := pgtest.OpenNoonShop(t)
	s.Exec(`select ensure_click_partitions('2026-03-01', '2026-03-20')`)
	p := s.Join("Pat")
	for day := range 5 {
		s.ExecWithoutForeignKeys(`
			insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
			select $1, gen_random_uuid(), $2::timestamptz + n * interval '1 millisecond', $5, $3, $4, gen_random_uuid(), 'pat', $2, $2, $2, 'unknown', false
			from generate_series(1, 2000) as n`,
			s.Scope.Workspace, pgtest.Noon.AddDate(0, 0, day-2), s.Program, p.ID, s.Scope.Mode)
	}
	id := s.NewClick(p).ID
	s.VacuumAnalyze()
	for mode, plan := range s.ExecutedPlans(conversions.StoredAwaitedSQL, fmt.Sprintf("'{%s}', '{%s}', '{%s}'", s.Scope.Workspace, id, pgtest.Noon.Format(time.RFC3339Nano))) {
		pgtest.CheckReadsOnePartition(t, mode, plan, "clicks_20260310_")
	}
}
