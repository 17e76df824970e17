package fx_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/fx"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// rates is a file that the test writes, and the worker that loads it.
type rates struct {
	*testing.T
	path   string
	worker *fx.Worker
	log    bytes.Buffer
}

func newRates(t *testing.T, store fx.Store) *rates {
	t.Helper()
	r := &rates{T: t, path: filepath.Join(t.TempDir(), "rates.csv")}
	r.worker = fx.New(store, r.path, slog.New(slog.NewTextHandler(&r.log, nil)), func() time.Time { return noon })
	return r
}

func (r *rates) write(at time.Time, body string) {
	r.Helper()
	if err := os.WriteFile(r.path, []byte(body), 0o600); err != nil {
		r.Fatal(err)
	}
	if err := os.Chtimes(r.path, at, at); err != nil {
		r.Fatal(err)
	}
}

func (r *rates) work() error { return r.worker.Work(r.Context(), &river.Job[affiliate.LoadRates]{}) }

// countingStore counts the loads. It returns err from each of them.
type countingStore struct {
	loads int
	err   error
}

func (c *countingStore) LoadRates(_ context.Context, rates []affiliate.FXRate, _ time.Time) (affiliate.FXLoad, error) {
	c.loads++
	return affiliate.FXLoad{New: len(rates)}, c.err
}

func TestWorker_LoadsTheFileWhenItHasChanged(t *testing.T) {
	store := &countingStore{}
	r := newRates(t, store)
	for i, step := range []struct {
		change func()
		err    error
		fails  bool
		loads  int
	}{
		{func() {}, nil, true, 0}, // the file does not exist
		{func() { r.write(noon, "date,base,quote,rate\n2026-03-09,EUR,USD,x\n") }, nil, true, 0},
		{func() { r.write(noon, "date,base,quote,rate\n2026-03-09,EUR,USD,1\n") }, errors.New("no database"), true, 1},
		{func() {}, nil, false, 2},
		{func() {}, nil, false, 2},
		{func() { r.write(noon.Add(time.Second), "date,base,quote,rate\n2026-03-09,EUR,USD,2\n") }, nil, false, 3}, // same size, later time
		{func() { r.write(noon.Add(time.Second), "date,base,quote,rate\n2026-03-09,EUR,USD,2.5\n") }, nil, false, 4},
		{func() {}, nil, false, 4},
	} {
		step.change()
		store.err = step.err
		if err := r.work(); (err != nil) != step.fails || store.loads != step.loads {
			t.Errorf("step %d: %v, %d loads", i, err, store.loads)
		}
	}
	if n := strings.Count(r.log.String(), "\n"); n != 3 || !strings.Contains(r.log.String(), "new=1") {
		t.Errorf("%d lines:\n%s", n, &r.log)
	}
}

func TestWorker_LoadsNothingWithoutAPath(t *testing.T) {
	store := &countingStore{}
	worker := fx.New(store, "", slog.New(slog.DiscardHandler), time.Now)
	if err := worker.Work(t.Context(), &river.Job[affiliate.LoadRates]{}); err != nil || store.loads != 0 {
		t.Errorf("%v, %d loads", err, store.loads)
	}
}

func TestWorker_StoresRatesInTheDatabase(t *testing.T) {
	f := pgtest.Open(t, func() time.Time { return noon })
	r := newRates(t, f.Store)
	r.write(noon, "Date,USD,JPY\n2026-03-09,1.08,160\n2026-03-06,1.07,N/A\n")
	if err := r.work(); err != nil {
		t.Fatal(err)
	}
	r.write(noon.Add(time.Second), "date,base,quote,rate\n2026-03-09,EUR,USD,1.09\n2026-03-09,EUR,USD,1.1\n")
	if err := r.work(); err == nil || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), r.path) {
		t.Error(err)
	}
	got := strings.Join(f.Texts(`select base || ' ' || quote || ' ' || date || ' ' || rate from fx_rates order by date, quote`), "|")
	if got != "EUR USD 2026-03-06 1.07|EUR JPY 2026-03-09 160|EUR USD 2026-03-09 1.08" {
		t.Error(got)
	}
}
