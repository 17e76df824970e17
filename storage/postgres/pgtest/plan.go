package pgtest

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// CheckPlan checks that a query plan contains all required texts and no forbidden text. It
// puts the plan on one line first, so that a text can contain a node and its child node.
func CheckPlan(t testing.TB, what, plan string, required, forbidden []string) {
	t.Helper()
	flat := InOneLine(plan)
	for _, part := range required {
		if !strings.Contains(flat, part) {
			t.Errorf("%s: the plan does not contain %q\n%s", what, part, plan)
		}
	}
	for _, part := range forbidden {
		if strings.Contains(flat, part) {
			t.Errorf("%s: the plan contains %q\n%s", what, part, plan)
		}
	}
}

// ScansOf returns a text for each table. A plan that contains this text scans the whole
// table. The text for an empty name matches a scan of any table.
func ScansOf(tables ...string) []string {
	scans := make([]string, len(tables))
	for i, table := range tables {
		scans[i] = "Seq Scan on " + table
	}
	return scans
}

// InOneLine returns a query plan on one line.
func InOneLine(plan string) string { return strings.Join(strings.Fields(plan), " ") }

// AsService returns a connection that has the role of the service.
func AsService(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), "set role tributary_app"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ExecutedPlans runs a statement as the service, with a custom and with a generic plan. It returns the two
// plans by plan_cache_mode. The parameter args has the arguments as SQL literals with commas between them.
func (f *Fixture) ExecutedPlans(sql, args string) map[string]string {
	f.Helper()
	conn, plans := AsService(f, f.URL), map[string]string{}
	if _, err := conn.Exec(f.Context(), `prepare statement as `+sql); err != nil {
		f.Fatal(err)
	}
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		if _, err := conn.Exec(f.Context(), `set plan_cache_mode = `+mode); err != nil {
			f.Fatal(err)
		}
		rows, _ := conn.Query(f.Context(), `explain (analyze, buffers, costs off, timing off, summary off) execute statement(`+args+`)`)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			f.Fatal(err)
		}
		plans[mode] = strings.Join(lines, "\n")
	}
	return plans
}

// CheckReadsOnePartition checks that a plan reads only clicks of 10 March, with an
// index whose name begins with the given text.
func CheckReadsOnePartition(t testing.TB, what, plan, index string) {
	t.Helper()
	// A partition that Postgres excludes at run time is still in the plan, with the note
	// "never executed".
	var scans []string
	for line := range strings.Lines(plan) {
		if strings.Contains(line, " on clicks") && !strings.Contains(line, "never executed") {
			scans = append(scans, line)
		}
	}
	if len(scans) != 1 || !regexp.MustCompile(`Index (Only )?Scan using `+index+`\w* on clicks_20260310`).MatchString(scans[0]) {
		t.Errorf("%s: the plan does not read only clicks_20260310 with an index %s\n%s", what, index, plan)
	}
}

// PlansOf calls a function with another handle of the database, and returns the query plans of
// the statements that the function sends and that begin with select, insert, update, delete or
// with. The statements run before they are planned.
func (f *Fixture) PlansOf(call func(db *postgres.DB) error) (plans []string) {
	f.Helper()
	type statement struct {
		sql  string
		args []any
	}
	var sent []statement
	db := f.OpenHooked(func(sql string, args []any) error {
		if first, _, _ := strings.Cut(strings.TrimSpace(sql), " "); slices.Contains([]string{"select", "insert", "update", "delete", "with"}, strings.TrimSpace(first)) {
			sent = append(sent, statement{sql, args})
		}
		return nil
	})
	if err := call(db); err != nil {
		f.Fatal(err)
	}
	for _, s := range sent {
		plans = append(plans, f.Plan(s.sql, s.args...))
	}
	return plans
}

// CheckSearchPlan checks that the statement of a search over all kinds of records uses the given
// indexes and scans no table of records as a whole, even if the text is the beginning of all of them.
func (f *Fixture) CheckSearchPlan(find func(db *postgres.DB) ([]affiliate.Hit, error), indexes ...string) {
	f.Helper()
	plans := f.PlansOf(func(db *postgres.DB) error {
		_, err := find(db)
		return err
	})
	CheckPlan(f, "search", plans[0], indexes, append(ScansOf("participants", "links", "promo_codes", "commissions", "conversions", "payouts"), "Bitmap"))
}

// CheckPagePlan checks that the plan of a page or count uses the given index, scans no large table as a whole, and
// limits a count. If sorted is true, the plan must read the page in the order of the index.
func (f *Fixture) CheckPagePlan(what, sql string, args pgx.NamedArgs, index string, sorted bool) {
	f.Helper()
	plan := f.Plan(sql, args)
	CheckPlan(f, what, plan, []string{index}, ScansOf("links", "promo_codes", "participants", "stats_deltas"))
	if strings.Contains(sql, "count(*)") && !strings.Contains(plan, "Limit") {
		f.Errorf("%s: the plan of the count has no limit\n%s", what, plan)
	}
	// The page must be read in the order of the index. With a sort below the node Limit,
	// Postgres would read all matching rows.
	if _, below, ok := strings.Cut(plan, "Limit"); sorted && (!ok || strings.Contains(below, "Sort")) {
		f.Errorf("%s: the plan does not read the page in the order of the index\n%s", what, plan)
	}
}

// CheckStatsPlan checks that the plan contains all required texts and no scan of a
// table that grows with the number of partners or with their activity. The plan may scan
// other tables, because they are small.
func (f *Fixture) CheckStatsPlan(what, plan string, required ...string) {
	f.Helper()
	CheckPlan(f, what, plan, required,
		ScansOf("participants", "participant_totals", "links", "link_totals", "commissions", "stats_deltas"))
}
