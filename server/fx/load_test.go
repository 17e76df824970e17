package fx_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/server/fx"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// ratesFile is a file that the test writes, and the worker that loads it.
type ratesFile struct {
	*testing.T
	path   string
	worker *fx.Worker
	log    bytes.Buffer
}

func newRatesFile(t *testing.T, db *postgres.DB) *ratesFile {
	t.Helper()
	r := &ratesFile{T: t, path: filepath.Join(t.TempDir(), "rates.csv")}
	r.worker = fx.New(db, r.path, slog.New(slog.NewTextHandler(&r.log, nil)), func() time.Time { return noon })
	return r
}

// write writes body to the file and sets the modification time of the file.
func (r *ratesFile) write(modified time.Time, body string) {
	r.Helper()
	if err := os.WriteFile(r.path, []byte(body), 0o600); err != nil {
		r.Fatal(err)
	}
	if err := os.Chtimes(r.path, modified, modified); err != nil {
		r.Fatal(err)
	}
}

func (r *ratesFile) work() error {
	return r.worker.Work(r.Context(), &river.Job[attribution.LoadRates]{})
}

func TestWorker_LoadsTheFileWhenItHasChanged(t *testing.T) {
	f := pgtest.Open(t, func() time.Time { return noon })
	var loads int
	var failure error // of each load
	r := newRatesFile(t, f.OpenHooked(func(sql string, _ []any) error {
		if !strings.Contains(sql, "insert into fx_rates") {
			return nil
		}
		loads++
		return failure
	}))
	noChange := func() {}
	write := func(at time.Time, rate string) func() {
		return func() { r.write(at, "date,base,quote,rate\n2026-03-09,EUR,USD,"+rate+"\n") }
	}
	for _, step := range []struct {
		name      string
		change    func() // of the file
		failure   error  // of the database
		wantError bool
		wantLoads int    // in this and all earlier steps
		wantRate  string // in the database
	}{
		{"no file", noChange, nil, true, 0, ""},
		{"invalid rate", write(noon, "x"), nil, true, 0, ""},
		{"failing database", write(noon, "1"), errors.New("no database"), true, 1, ""},
		{"after the failure", noChange, nil, false, 2, "1"},
		{"unchanged", noChange, nil, false, 2, "1"},
		{"same size, later time", write(noon.Add(time.Second), "2"), nil, false, 3, "2"},
		{"other size, same time", write(noon.Add(time.Second), "2.5"), nil, false, 4, "2.5"},
		{"unchanged again", noChange, nil, false, 4, "2.5"},
	} {
		step.change()
		failure = step.failure
		if err := r.work(); (err != nil) != step.wantError || loads != step.wantLoads {
			t.Errorf("%s: Work returned the error %v after %d loads, want an error: %t, and %d loads", step.name, err, loads, step.wantError, step.wantLoads)
		}
		if rate := strings.Join(f.Texts(`select rate::text from fx_rates`), " "); rate != step.wantRate {
			t.Errorf("%s: the database has the rate %q, want %q", step.name, rate, step.wantRate)
		}
	}
	if log := r.log.String(); strings.Count(log, "\n") != 3 || strings.Count(log, "new=1") != 1 || strings.Count(log, "changed=1") != 2 {
		t.Errorf("Work logged\n%s\nwant three lines, for one new rate and two changes of it", log)
	}
}

func TestWorker_LoadsNothingWithoutAPath(t *testing.T) {
	// Without a database, a load would panic.
	worker := fx.New(nil, "", slog.New(slog.DiscardHandler), time.Now)
	if err := worker.Work(t.Context(), &river.Job[attribution.LoadRates]{}); err != nil {
		t.Errorf("Work returned the error %v, want none", err)
	}
}

func TestWorker_StoresRatesInTheDatabase(t *testing.T) {
	f := pgtest.Open(t, func() time.Time { return noon })
	r := newRatesFile(t, f.DB)
	r.write(noon, "Date,USD,JPY\n2026-03-09,1.08,160\n2026-03-06,1.07,N/A\n")
	if err := r.work(); err != nil {
		t.Fatal(err)
	}
	r.write(noon.Add(time.Second), "date,base,quote,rate\n2026-03-09,EUR,USD,1.09\n2026-03-09,EUR,USD,1.1\n")
	if err := r.work(); err == nil || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), r.path) {
		t.Errorf("Work returned the error %v, want line 3 of %s", err, r.path)
	}
	got := f.Texts(`select base || ' ' || quote || ' ' || date || ' ' || rate from fx_rates order by date, quote`)
	if want := []string{"EUR USD 2026-03-06 1.07", "EUR JPY 2026-03-09 160", "EUR USD 2026-03-09 1.08"}; !slices.Equal(got, want) {
		t.Errorf("the database has the rates %q, want %q", got, want)
	}
}
