package check_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/check"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// checkStore returns fixed results.
type checkStore struct {
	results []affiliate.CheckResult
	err     error
}

func (s checkStore) CheckAccounts(context.Context, func() time.Time) ([]affiliate.CheckResult, error) {
	return s.results, s.err
}

func (checkStore) StoreCheckResults(context.Context, []affiliate.CheckResult, time.Time) error {
	return nil
}

func (checkStore) LatestChecks(context.Context) ([]affiliate.LatestCheck, error) { return nil, nil }

// run runs the job and returns its log.
func run(t *testing.T, store check.Store) (log string, err error) {
	t.Helper()
	var b bytes.Buffer
	err = check.New(store, slog.New(slog.NewTextHandler(&b, nil)), time.Now).Work(t.Context(), &river.Job[affiliate.CheckAccounts]{})
	return b.String(), err
}

var failedChecks = []affiliate.CheckResult{
	{Name: "balances", Compares: "entries and balances", Compared: 7, Violated: 3, Violations: []string{"one is two", "two is one"}},
	{Name: "refunds", Compares: "refunds and totals", Compared: 5},
	{Name: "clock", Compares: "clocks", Compared: 1, Violated: 1, Violations: []string{"late"}},
}

func TestWork_LogsOneErrorPerFailedCheck(t *testing.T) {
	log, err := run(t, checkStore{results: failedChecks})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) != 2 || strings.Count(log, "a consistency check failed") != 2 {
		t.Fatalf("Work logged\n%s\nwant two lines about failed checks", log)
	}
	for _, want := range []string{"level=ERROR", "check=balances", "compared=7", "violated=3", `first="one is two"`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("the first line is %s, want it to contain %s", lines[0], want)
		}
	}
}

func TestWork_LogsOneInfoLineWithoutViolations(t *testing.T) {
	f := pgtest.Open(t, time.Now).NewShop(affiliate.ModeTest)
	f.NewCommission(f.Join("Pat"))
	log, err := run(t, f.Store)
	if err != nil {
		t.Fatal(err)
	}
	if want := `level=INFO msg="all consistency checks passed"`; strings.Count(log, "\n") != 1 || !strings.Contains(log, want) {
		t.Errorf("Work logged\n%s\nwant one line with %s", log, want)
	}
}

func TestWork_FailsIfChecksCannotRun(t *testing.T) {
	broken := errors.New("no database")
	if log, err := run(t, checkStore{err: broken}); !errors.Is(err, broken) || log != "" {
		t.Errorf("Work returned the error %v and logged %q, want %v and no log", err, log, broken)
	}
}

func TestPrint(t *testing.T) {
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
