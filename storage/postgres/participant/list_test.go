package participant_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

var participantSorts = []participant.Sort{
	participant.ParticipantsByAge, participant.ParticipantsByName, participant.ParticipantsByClicks,
	participant.ParticipantsByConversions, participant.ParticipantsByRevenue, participant.ParticipantsByCommission,
}

func TestListParticipants_UsesIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	f.Crowd(f.Program, 5000)
	one, all := []affiliate.ProgramID{f.Program}, []affiliate.ProgramID{f.Program}
	for range 4 {
		program := f.NewProgram(f.Scope)
		f.Crowd(program, 1500)
		all = append(all, program)
	}
	group := f.NewGroup(f.Scope, f.Program, "Gold").ID
	f.Exec(`
		update participants set group_id = $1
		where id in (select id from participants where program_id = $2 order by id limit 400)`, group, f.Program)
	f.Exec(`
		insert into participant_invites (workspace_id, id, program_id, mode, email, digest, mail_digest, invited_by, created_at, expires_at, ended_at)
		select $1, gen_random_uuid(), $2, 'live', n || '@example.com', sha256(n::text::bytea), sha256((-n)::text::bytea), (select id from users limit 1), $3::timestamptz + n * interval '1 second', $3::timestamptz + interval '7 days',
			case when n % 10 > 0 then $3::timestamptz end
		from generate_series(1, 5000) n`, f.Scope.Workspace, f.Program, f.Now())
	f.Exec(`
		insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, currency, clicks)
		select workspace_id, gen_random_uuid(), mode, program_id, id, '', 1 from participants`)
	f.Exec(`
		insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
		select workspace_id, id, 'EUR', 0, 1 from participants`)
	f.VacuumAnalyze()

	// index contains the text that the plan must contain for the descending order, and
	// the text for the ascending order.
	index := map[participant.Sort][2]string{
		participant.ParticipantsByAge:         {"Scan using participants_by_age on", "Scan Backward using participants_by_age on"},
		participant.ParticipantsByName:        {"Scan Backward using participants_by_name on", "Scan using participants_by_name on"},
		participant.ParticipantsByClicks:      {"Scan using participant_totals_by_clicks on", "Scan using participant_totals_by_clicks_up on"},
		participant.ParticipantsByConversions: {"Scan using participant_totals_by_conversions on", "Scan using participant_totals_by_conversions_up on"},
		participant.ParticipantsByRevenue:     {"Scan using participant_totals_by_revenue on", "Scan using participant_totals_by_revenue_up on"},
		participant.ParticipantsByCommission:  {"Scan using participant_totals_by_commission on", "Scan using participant_totals_by_commission_up on"},
	}
	check := func(name string, plan string, want ...string) {
		t.Helper()
		tables := pgtest.ScansOf("participants", "participant_totals", "referral_codes", "stats_deltas", "ledger_balances")
		pgtest.CheckPlan(t, name, plan, want, append(tables, "Hash Join"))
	}
	list := func(filter participant.Filter, order participant.Order) string {
		t.Helper()
		sql, args := participants.ParticipantListSQL(f.Scope, one, filter, order)
		return f.Plan(sql, args)
	}
	for _, by := range participantSorts {
		for i, ascending := range []bool{false, true} {
			plan := list(participant.Filter{}, participant.Order{By: by, Ascending: ascending})
			check(fmt.Sprint(by, " ascending ", ascending), plan, index[by][i], "stats_deltas_by_participant", "ledger_balances_pkey")
			// Below the node Limit, the plan may sort only rows with equal keys, which is
			// an Incremental Sort.
			if _, below, _ := strings.Cut(pgtest.InOneLine(plan), "Limit"); strings.Contains(strings.ReplaceAll(below, "Incremental Sort", ""), "-> Sort") {
				t.Errorf("sort by %s, ascending %t: the plan sorts all rows for a page\n%s", by, ascending, plan)
			}
		}
	}
	newest := participant.Order{By: participant.ParticipantsByAge}
	check("a status", list(participant.Filter{Status: participant.Approved}, newest), "Limit", "Index Scan using participants_by_status on participants")
	check("a group", list(participant.Filter{Group: &group}, newest), "Limit", "Index Scan using participants_by_group on participants")
	external := participant.Filter{ExternalID: "customer-17"}
	check("an external id", list(external, newest), "Limit", "Index Scan using participants_external_id on participants")
	_, externalArgs := participants.ParticipantListSQL(f.Scope, one, external, newest)
	check("the number of an external id", f.Plan(participants.CountParticipantsSQL(one, external), externalArgs), "Index Scan using participants_external_id on participants")
	f.Exec(`
		update participants set tags = array['press', 'tag-' || right(id::text, 1)]
		where id in (select id from participants where program_id = $1 order by id limit 300)`, f.Program)
	f.VacuumAnalyze()
	tag := participant.Filter{Tag: "press"}
	check("a tag", list(tag, newest), "Limit", "Index Scan using participants_tagged on participants")
	_, tagArgs := participants.ParticipantListSQL(f.Scope, one, tag, newest)
	check("the number of a tag", f.Plan(participants.CountParticipantsSQL(one, tag), tagArgs), "Limit", "participants_tagged")
	f.CheckSearchPlan(func(db *postgres.DB) ([]affiliate.Hit, error) {
		return participants.Search(t.Context(), db, f.Scope, "pa", false)
	}, "participants_by_name", "participants_by_email")
	// A list of all programmes reads the same indexes, once for each programme, and sorts these rows.
	// It may join the few programmes in any way.
	merged := func(filter participant.Filter, order participant.Order, want string) {
		t.Helper()
		sql, args := participants.ParticipantListSQL(f.Scope, all, filter, order)
		pgtest.CheckPlan(t, fmt.Sprintf("all programmes, filter %+v, order %+v", filter, order), f.Plan(sql, args),
			[]string{want}, pgtest.ScansOf("participants", "participant_totals", "referral_codes", "stats_deltas", "ledger_balances"))
	}
	for _, by := range participantSorts {
		for i, ascending := range []bool{false, true} {
			merged(participant.Filter{}, participant.Order{By: by, Ascending: ascending}, index[by][i])
		}
	}
	merged(participant.Filter{Status: participant.Approved}, newest, "Limit -> Index Scan using participants_by_status on participants")
	merged(tag, newest, "Limit -> Index Scan using participants_tagged on participants")
	merged(participant.Filter{Search: "jane"}, newest, "Limit -> Index Scan using participants_by_age on participants")
	// An export of one programme reads an index in the order of the list. An export of all programmes
	// sorts only ids. Neither sorts rows with their stats.
	for _, by := range participantSorts {
		for _, ascending := range []bool{false, true} {
			for sorts, programs := range [][]affiliate.ProgramID{one, all} {
				sql, args := participants.ParticipantExportSQL(f.Scope, programs, participant.Filter{}, participant.Order{By: by, Ascending: ascending})
				plan, required := f.PlanWith(participants.ExportPlan, sql, args), []string{"stats_deltas_by_participant", "ledger_balances_pkey"}
				if len(programs) == 1 { // either direction of the index
					_, name, _ := strings.Cut(index[by][0], " using ")
					required = append(required, strings.TrimSuffix(name, " on"))
				}
				what := fmt.Sprintf("export of %d programmes by %s, ascending %t", len(programs), by, ascending)
				pgtest.CheckPlan(t, what, plan, required, pgtest.ScansOf("participants", "participant_totals", "stats_deltas", "ledger_balances"))
				whole := strings.Count(plan, "Sort\n") - strings.Count(plan, "Incremental Sort\n")
				if whole != sorts || strings.Count(plan, "Sort Key:") > 1 || !strings.HasPrefix(plan, "Nested Loop\n") {
					t.Errorf("%s: the plan sorts more than the ids\n%s", what, plan)
				}
			}
		}
	}
	_, tagArgs = participants.ParticipantListSQL(f.Scope, all, tag, newest)
	check("the number of a tag in all programmes", f.Plan(participants.CountParticipantsSQL(all, tag), tagArgs), "Limit", "participants_tagged")
	check("a search that matches all", list(participant.Filter{Search: "jane"}, newest), "Limit", "Index Scan using participants_by_age on participants")
	check("the size of a group", f.Plan(participants.CountInGroupSQL,
		pgx.NamedArgs{"workspace": f.Scope.Workspace, "program": f.Program, "group": group}), "Limit", "Index Only Scan using participants_by_group")
	invites := pgx.NamedArgs{"workspace": f.Scope.Workspace, "mode": f.Scope.Mode, "program": f.Program, "at": f.Now(), "limit": 20, "offset": 0}
	check("open invitations", f.Plan(participants.ListInvitesSQL, invites), "participant_invites_open")
	check("number of open invitations", f.Plan(participants.CountInvitesSQL, invites), "Limit", "participant_invites_")

	for prefix, indexes := range map[string][]string{
		"jane 7": {"participants_by_name", "participants_by_email", "referral_codes_by_program"},
		"0192aa": {"participants_by_name", "participants_by_email", "referral_codes_by_program", "participants_pkey"},
	} {
		for name, programs := range map[string][]affiliate.ProgramID{"one programme": one, "all programmes": all} {
			sql, args := participants.ParticipantSearchSQL(f.Scope, programs, participant.Filter{Search: prefix})
			check("search for "+prefix+" in "+name, f.Plan(sql, args), indexes...)
		}
	}
}

// In every order, the pages together must contain each row once. Among rows with equal
// keys, the newest must come first.
func TestListParticipants_ReturnsEachRowOnceInOrder(t *testing.T) {
	f := newFixture(t)
	// Many participants have the same name, numbers or time.
	for i := range 40 {
		if i%4 == 0 {
			f.Clock.Advance(time.Second)
		}
		p := f.Join([]string{"anna", "Berta", "BERTA", "Äsop"}[i%4], pgtest.Row{"status": participant.Pending})
		f.Exec(`
			update participant_totals set clicks = $2::integer, conversions = $2 + 1, revenue_cents = $2 + 2, commission_cents = $2 + 3
			where participant_id = $1`, p.ID, i%3)
	}
	keys := map[participant.Sort]func(a, b participant.Detail) int{
		participant.ParticipantsByAge: func(a, b participant.Detail) int { return a.CreatedAt.Compare(b.CreatedAt) },
		participant.ParticipantsByName: func(a, b participant.Detail) int {
			return strings.Compare(strings.ToLower(a.PartnerName), strings.ToLower(b.PartnerName))
		},
		participant.ParticipantsByClicks:      func(a, b participant.Detail) int { return cmp.Compare(a.Clicks, b.Clicks) },
		participant.ParticipantsByConversions: func(a, b participant.Detail) int { return cmp.Compare(a.Conversions, b.Conversions) },
		participant.ParticipantsByRevenue:     func(a, b participant.Detail) int { return cmp.Compare(a.RevenueCents, b.RevenueCents) },
		participant.ParticipantsByCommission: func(a, b participant.Detail) int {
			return cmp.Compare(a.CommissionCents, b.CommissionCents)
		},
	}
	for _, by := range participantSorts {
		for _, ascending := range []bool{false, true} {
			var got []participant.Detail
			for number := 1; number <= 6; number++ {
				page, total, err := participants.List(t.Context(), f.DB, f.Scope, f.Program, participant.Filter{},
					participant.Order{By: by, Ascending: ascending}, affiliate.Page{Number: number, Size: 7})
				if err != nil || total != 40 {
					t.Fatalf("sort by %s: the total is %d, %v, want 40", by, total, err)
				}
				got = append(got, page...)
			}
			want := slices.Clone(got)
			slices.SortStableFunc(want, func(a, b participant.Detail) int {
				key := keys[by](a, b)
				if !ascending {
					key = -key
				}
				return cmp.Or(key, b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID.String(), a.ID.String()))
			})
			for i := range got {
				if got[i].ID != want[i].ID {
					t.Fatalf("sort by %s, ascending %t: row %d is participant %s, want %s", by, ascending, i, got[i].ID, want[i].ID)
				}
			}
			slices.SortFunc(want, func(a, b participant.Detail) int { return strings.Compare(a.ID.String(), b.ID.String()) })
			if n := len(slices.CompactFunc(want, func(a, b participant.Detail) bool { return a.ID == b.ID })); n != 40 {
				t.Errorf("sort by %s, ascending %t: the pages contain %d participants, want 40", by, ascending, n)
			}
		}
	}
}

// The total of a search counts at most affiliate.MaxSearchTotal+1 matches. The pages must
// still contain different rows.
func TestListParticipants_SearchTotalIsLimited(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	f.Crowd(f.Program, affiliate.MaxSearchTotal+500)
	f.Exec(`analyze`)
	seen := map[affiliate.ParticipantID]bool{}
	for number := 1; number <= 3; number++ {
		page, total, err := participants.List(t.Context(), f.DB, f.Scope, f.Program, participant.Filter{Search: "JANE", HideEmails: true},
			participant.Order{By: participant.ParticipantsByAge}, affiliate.Page{Number: number, Size: 100})
		if err != nil || total != affiliate.MaxSearchTotal+1 || len(page) != 100 {
			t.Fatalf("page %d has %d rows and the total is %d, %v, want 100 and %d", number, len(page), total, err, affiliate.MaxSearchTotal+1)
		}
		for _, found := range page {
			seen[found.ID] = true
		}
	}
	if len(seen) != 300 {
		t.Errorf("three pages of 100 rows have %d different rows, want 300", len(seen))
	}
}

// A search with many matches in one programme must not read the whole of another programme, which has few or none.
func TestListAll_SearchReadsProgrammesWithFewMatchesByIndex(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	f.Crowd(f.Program, affiliate.MaxSearchTotal+500)
	few, none := f.NewProgram(f.Scope), f.NewProgram(f.Scope)
	for _, program := range []affiliate.ProgramID{few, none} {
		f.Crowd(program, 3000)
	}
	f.ExecWithoutForeignKeys(`update participants set partner_name = 'Zoe', partner_email = 'zoe-' || id where program_id = any($1)`, []affiliate.ProgramID{few, none})
	// These are the newest, and the most clicked.
	f.Exec(`update participants set partner_name = 'Jane', created_at = now() + interval '1 year' where id in (select id from participants where program_id = $1 limit 3)`, few)
	f.Exec(`update participant_totals set clicks = 1000000 where participant_id in (select id from participants where partner_name = 'Jane')`)
	f.VacuumAnalyze()
	var large any
	db := f.OpenHooked(func(sql string, args []any) error {
		if strings.Contains(sql, "@large") {
			large = args[1].(pgx.NamedArgs)["large"]
		}
		return nil
	})
	filter, newest := participant.Filter{Search: "JANE", HideEmails: true}, participant.Order{By: participant.ParticipantsByAge}
	for _, by := range []participant.Sort{participant.ParticipantsByAge, participant.ParticipantsByClicks} {
		page, total, err := participants.ListAll(t.Context(), db, f.Scope, nil, filter, participant.Order{By: by}, affiliate.Page{Number: 1, Size: 20})
		if err != nil || len(page) != 20 || total <= affiliate.MaxSearchTotal {
			t.Fatalf("sort by %s: ListAll returned %d rows and the total %d, %v, want 20 and more than %d", by, len(page), total, err, affiliate.MaxSearchTotal)
		}
		for i, found := range page {
			if (found.Program == few) != (i < 3) || found.Program == none {
				t.Errorf("sort by %s: row %d is of programme %s, want the three of %s first", by, i, found.Program, few)
			}
		}
		if programs, ok := large.([]affiliate.ProgramID); !ok || !slices.Equal(programs, []affiliate.ProgramID{f.Program}) {
			t.Errorf("sort by %s: the search checks each row of the programmes %v, want only %s", by, large, f.Program)
		}
	}
	plans := f.PlansOf(func(db *postgres.DB) error {
		_, _, err := participants.ListAll(t.Context(), db, f.Scope, nil, filter, newest, affiliate.Page{Number: 1, Size: 20})
		return err
	})
	pgtest.CheckPlan(t, "the page", plans[len(plans)-1], []string{"Limit -> Index Scan using participants_by_age on participants", "participants_pkey"}, pgtest.ScansOf("participants"))
}
