// Package fx loads rates of exchange from the operator's files. A percentage of
// a sale in another currency than the programme's is converted by them.
//
// It guarantees that a file is loaded whole or not at all, that a rate which is
// loaded again stays one rate, and that what a file cannot mean is refused with
// its line. It does not fetch rates: what writes the file, and how often, is the
// operator's. It does not touch commissions that were computed by other rates.
package fx

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

const (
	// Every is how often the file is looked at.
	Every = time.Hour
	// timeout bounds one load; thirty years of daily rates take some seconds.
	timeout = 2 * time.Minute
)

// Store keeps the rates.
type Store interface {
	// LoadRates stores rates, in place of those of the same pair and date: all or
	// none. Each pair and date occurs once.
	LoadRates(ctx context.Context, rates []affiliate.FXRate, at time.Time) (affiliate.FXLoad, error)
}

// Read reads the rates of a file.
func Read(path string) ([]affiliate.FXRate, error) {
	rates, _, err := read(path)
	return rates, err
}

// stamp tells whether a file is still the same.
type stamp struct {
	modified time.Time
	size     int64
}

func stampOf(info os.FileInfo) stamp { return stamp{modified: info.ModTime(), size: info.Size()} }

func read(path string) (rates []affiliate.FXRate, of stamp, err error) {
	file, err := os.Open(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return nil, of, err
	}
	defer func() { _ = file.Close() }()
	// Of the open file: another may take its name meanwhile.
	info, err := file.Stat()
	if err != nil {
		return nil, of, err
	}
	if rates, err = Parse(file); err != nil {
		return nil, of, fmt.Errorf("%s: %w", path, err)
	}
	return rates, stampOf(info), nil
}

// Worker works affiliate.LoadRates.
type Worker struct {
	river.WorkerDefaults[affiliate.LoadRates]
	store Store
	path  string
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	loaded stamp // of the file as this process loaded it
}

// New makes the worker for the file at path; empty: there is none.
func New(store Store, path string, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{store: store, path: path, log: log, now: now}
}

// PeriodicJob is the job as a River client inserts it by itself, one at a time.
// It is tried once: the next run looks at the file again.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(Every), affiliate.LoadRates{}, true)
}

// Timeout bounds one run.
func (w *Worker) Timeout(*river.Job[affiliate.LoadRates]) time.Duration { return timeout }

// Work loads the file unless it is as this process has loaded it already.
func (w *Worker) Work(ctx context.Context, _ *river.Job[affiliate.LoadRates]) error {
	if w.path == "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	info, err := os.Stat(w.path)
	if err != nil {
		return fmt.Errorf("rates of exchange: %w", err)
	}
	if stampOf(info) == w.loaded {
		return nil
	}
	rates, loaded, err := read(w.path)
	if err != nil {
		return fmt.Errorf("rates of exchange: %w", err)
	}
	changed, err := w.store.LoadRates(ctx, rates, w.now().UTC().Truncate(time.Millisecond))
	if err != nil {
		return err
	}
	w.loaded = loaded
	w.log.LogAttrs(ctx, slog.LevelInfo, "rates of exchange loaded", slog.String("file", w.path),
		slog.Int("new", changed.New), slog.Int("changed", changed.Changed), slog.Int("same", changed.Same))
	return nil
}
