package check_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/check"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// run runs the job and returns its log. now is the clock of the process.
func run(t *testing.T, db *postgres.DB, now func() time.Time) (log string, err error) {
	t.Helper()
	var b bytes.Buffer
	err = check.New(db, slog.New(slog.NewTextHandler(&b, nil)), now).Work(t.Context(), &river.Job[affiliate.CheckBooks]{})
	return b.String(), err
}

func TestWork_LogsOneErrorPerFailedCheck(t *testing.T) {
	clock := pgtest.NewRunningClock()
	f := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest)
	pat := f.Join("Pat")
	correct := f.NewCommission(pat)
	f.NewCommission(pat)
	f.NewCommission(pat)
	f.Exec(`update commission_history set amount_cents = 299 where commission_id <> $1`, correct.ID)
	clock.Advance(time.Hour) // the clock of the process is not that of the database
	log, err := run(t, f.DB, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) != 2 || strings.Count(log, "a consistency check failed") != 2 {
		t.Fatalf("Work logged\n%s\nwant two lines about failed checks", log)
	}
	for i, wanted := range [][]string{
		{"level=ERROR", "check=commission_history", "compared=3", "violated=2", `first="workspace `, "299"},
		{"level=ERROR", "check=clock", "compared=1", "violated=1"},
	} {
		for _, want := range wanted {
			if !strings.Contains(lines[i], want) {
				t.Errorf("line %d is %s, want it to contain %s", i+1, lines[i], want)
			}
		}
	}
}

func TestWork_LogsOneInfoLineWithoutViolations(t *testing.T) {
	f := pgtest.Open(t, time.Now).NewShop(affiliate.ModeTest)
	f.NewCommission(f.Join("Pat"))
	log, err := run(t, f.DB, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if want := `level=INFO msg="all consistency checks passed"`; strings.Count(log, "\n") != 1 || !strings.Contains(log, want) {
		t.Errorf("Work logged\n%s\nwant one line with %s", log, want)
	}
}

func TestWork_FailsIfChecksCannotRun(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	broken := f.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "statement_timeout', $1") { // the first statement of the checks
			return errors.New("no database")
		}
		return nil
	})
	if log, err := run(t, broken, time.Now); err == nil || log != "" {
		t.Errorf("Work returned the error %v and logged %q, want an error and no log", err, log)
	}
	f.WantCount(0, "stored results", `select count(*) from check_results`)
}

// The results of the checks before the failure are logged and stored.
func TestWork_KeepsTheResultsBeforeAFailure(t *testing.T) {
	f := pgtest.Open(t, time.Now).NewShop(affiliate.ModeTest)
	f.NewCommission(f.Join("Pat"))
	f.Exec(`update commission_history set amount_cents = 299`)
	broken := f.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "from analytics_cohorts") {
			return errors.New("no database")
		}
		return nil
	})
	if log, err := run(t, broken, time.Now); err == nil || strings.Count(log, "\n") != 1 || !strings.Contains(log, "check=commission_history") {
		t.Errorf("Work returned the error %v and logged %q, want an error and the failed check commission_history", err, log)
	}
	f.WantCount(1, "stored violations", `select count(*) from check_results where name = 'commission_history' and violated = 1`)
	f.WantCount(0, "results of checks that did not run", `select count(*) from check_results where name in ('analytics_cohorts', 'clock')`)
}

func TestPrint(t *testing.T) {
	failedChecks := []affiliate.CheckResult{
		{Name: "balances", Compares: "entries and balances", Compared: 7, Violated: 3, Violations: []string{"one is two", "two is one"}},
		{Name: "refunds", Compares: "refunds and totals", Compared: 5},
		{Name: "clock", Compares: "clocks", Compared: 1, Violated: 1, Violations: []string{"late"}},
	}
	var b bytes.Buffer
	if err := check.Print(&b, failedChecks); err != nil {
		t.Fatal(err)
	}
	want := `VIOLATED  balances: entries and balances: 7 compared, 3 violated
    one is two
    two is one
    and 1 more
ok        refunds: refunds and totals: 5 compared, 0 violated
VIOLATED  clock: clocks: 1 compared, 1 violated
    late
`
	if b.String() != want {
		t.Errorf("Print wrote\n%s\nwant\n%s", &b, want)
	}
	if got := check.Violated(failedChecks); got != 2 {
		t.Errorf("Violated returned %d, want 2", got)
	}
}
