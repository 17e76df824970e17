package fx_test

import (
	"bytes"
	"context"
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
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// ratesFile is a file that the test writes, and the worker that loads it.
type ratesFile struct {
	*testing.T
	path   string
	worker *fx.Worker
	log    bytes.Buffer
}

func newRatesFile(t *testing.T, store fx.Store) *ratesFile {
	t.Helper()
	r := &ratesFile{T: t, path: filepath.Join(t.TempDir(), "rates.csv")}
	r.worker = fx.New(store, r.path, slog.New(slog.NewTextHandler(&r.log, nil)), func() time.Time { return noon })
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

// countingStore counts the calls of LoadRates. Each call returns err.
type countingStore struct {
	loads int
	err   error
}

func (c *countingStore) LoadRates(_ context.Context, rates []attribution.FXRate, _ time.Time) (attribution.FXLoad, error) {
	c.loads++
	return attribution.FXLoad{New: len(rates)}, c.err
}

func TestWorker_LoadsTheFileWhenItHasChanged(t *testing.T) {
	store := &countingStore{}
	r := newRatesFile(t, store)
	noChange := func() {}
	write := func(at time.Time, rate string) func() {
		return func() { r.write(at, "date,base,quote,rate\n2026-03-09,EUR,USD,"+rate+"\n") }
	}
	for _, step := range []struct {
		name      string
		change    func() // of the file
		err       error  // of the store
		wantError bool
		wantLoads int // in this and all earlier steps
	}{
		{"no file", noChange, nil, true, 0},
		{"invalid rate", write(noon, "x"), nil, true, 0},
		{"failing store", write(noon, "1"), errors.New("no database"), true, 1},
		{"after the failure", noChange, nil, false, 2},
		{"unchanged", noChange, nil, false, 2},
		{"same size, later time", write(noon.Add(time.Second), "2"), nil, false, 3},
		{"other size, same time", write(noon.Add(time.Second), "2.5"), nil, false, 4},
		{"unchanged again", noChange, nil, false, 4},
	} {
		step.change()
		store.err = step.err
		if err := r.work(); (err != nil) != step.wantError || store.loads != step.wantLoads {
			t.Errorf("%s: Work returned the error %v after %d loads, want an error: %t, and %d loads", step.name, err, store.loads, step.wantError, step.wantLoads)
		}
	}
	if log := r.log.String(); strings.Count(log, "\n") != 3 || !strings.Contains(log, "new=1") {
		t.Errorf("Work logged\n%s\nwant three lines with new=1", log)
	}
}

func TestWorker_LoadsNothingWithoutAPath(t *testing.T) {
	store := &countingStore{}
	worker := fx.New(store, "", slog.New(slog.DiscardHandler), time.Now)
	if err := worker.Work(t.Context(), &river.Job[attribution.LoadRates]{}); err != nil || store.loads != 0 {
		t.Errorf("Work returned the error %v after %d loads, want no error and no load", err, store.loads)
	}
}

func TestWorker_StoresRatesInTheDatabase(t *testing.T) {
	f := pgtest.Open(t, func() time.Time { return noon })
	r := newRatesFile(t, f.Store)
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
