// Package fx loads exchange rates from a file of the operator. The rates are needed if a
// commission is a percentage of a sale and the sale and the programme have different
// currencies.
//
// The package guarantees that a file is loaded completely or not at all. If the file
// contains an invalid line, the error contains the line number. If a rate is loaded
// again, it replaces the stored rate.
//
// The package does not download rates. The operator must update the file. New rates do
// not change commissions that were computed before.
package fx

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

const (
	// loadInterval is the time between two checks of the file.
	loadInterval = time.Hour
	// timeout is the longest time that one load may take. A file with thirty years of
	// daily rates takes a few seconds.
	timeout = 2 * time.Minute
)

// Read parses the file at path and returns its rates.
func Read(path string) ([]attribution.FXRate, error) {
	rates, _, err := read(path)
	return rates, err
}

// fileVersion identifies a version of a file. If two checks of the file find the same
// fileVersion, the file is treated as unchanged.
type fileVersion struct {
	modified time.Time
	size     int64
}

func versionOf(info os.FileInfo) fileVersion {
	return fileVersion{modified: info.ModTime(), size: info.Size()}
}

func read(path string) (rates []attribution.FXRate, version fileVersion, err error) {
	file, err := os.Open(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return nil, version, err
	}
	defer func() { _ = file.Close() }()
	// This must be the version of the open file and not of the file at path, because the
	// operator can replace the file at path at any time.
	info, err := file.Stat()
	if err != nil {
		return nil, version, err
	}
	if rates, err = Parse(file); err != nil {
		return nil, version, fmt.Errorf("%s: %w", path, err)
	}
	return rates, versionOf(info), nil
}

// Worker runs the job attribution.LoadRates.
type Worker struct {
	river.WorkerDefaults[attribution.LoadRates]
	db   *postgres.DB
	path string
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex
	loaded fileVersion // the file version that this process has loaded
}

// New returns a Worker that loads the file at path. If path is empty, the job does
// nothing. now is the clock.
func New(db *postgres.DB, path string, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{db: db, path: path, log: log, now: now}
}

// PeriodicJob returns the job that a River client inserts every hour. At most one job
// runs at a time. A failed job is not retried, because the next job checks the file
// again.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(loadInterval), attribution.LoadRates{}, true)
}

// Timeout returns the time limit of one run.
func (w *Worker) Timeout(*river.Job[attribution.LoadRates]) time.Duration { return timeout }

// Work loads the file unless this process has already loaded the same version of the
// file.
func (w *Worker) Work(ctx context.Context, _ *river.Job[attribution.LoadRates]) error {
	if w.path == "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	info, err := os.Stat(w.path)
	if err != nil {
		return fmt.Errorf("exchange rates: %w", err)
	}
	if versionOf(info) == w.loaded {
		return nil
	}
	rates, loaded, err := read(w.path)
	if err != nil {
		return fmt.Errorf("exchange rates: %w", err)
	}
	changed, err := Load(ctx, w.db, rates, w.now().UTC().Truncate(time.Millisecond))
	if err != nil {
		return err
	}
	w.loaded = loaded
	w.log.LogAttrs(ctx, slog.LevelInfo, "exchange rates loaded", slog.String("file", w.path),
		slog.Int("new", changed.New), slog.Int("changed", changed.Changed), slog.Int("same", changed.Same))
	return nil
}

// Load stores exchange rates. They replace stored rates of the same currency pair and date.
// It stores either all rates or none. rates must not contain a currency pair and date twice.
// Conversions that were decided with the old rates do not change.
func Load(ctx context.Context, db *postgres.DB, rates []attribution.FXRate, at time.Time) (loaded attribution.FXLoad, err error) {
	// All callers lock the rows in the same order, so that they cannot deadlock.
	rates = slices.SortedFunc(slices.Values(rates), func(a, b attribution.FXRate) int {
		return cmp.Or(cmp.Compare(a.Base, b.Base), cmp.Compare(a.Quote, b.Quote), a.Date.Compare(b.Date))
	})
	err = db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		loaded, err = conversions.PutRates(ctx, tx, rates, at)
		return err
	})
	return loaded, err
}
