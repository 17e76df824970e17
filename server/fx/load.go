// Package fx loads exchange rates from the operator's files. The service uses them to
// compute a percentage of a sale whose currency is not the programme's.
//
// It guarantees that a file is loaded completely or not at all, that loading a rate
// again does not store it twice, and that a line which cannot be understood is reported
// with its number. It does not fetch rates: the operator decides what writes the file
// and how often. It does not change commissions that were computed with older rates.
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
	// loadInterval is the time between two checks of the file.
	loadInterval = time.Hour
	// timeout limits one load. A file with thirty years of daily rates takes seconds.
	timeout = 2 * time.Minute
)

// Store is the part of the database that stores the rates.
type Store interface {
	// LoadRates stores all rates or none. A rate replaces the stored rate of the same
	// currency pair and date. No pair and date may occur twice in rates.
	LoadRates(ctx context.Context, rates []affiliate.FXRate, at time.Time) (affiliate.FXLoad, error)
}

// Read parses the file at path and returns its rates.
func Read(path string) ([]affiliate.FXRate, error) {
	rates, _, err := read(path)
	return rates, err
}

// fileVersion identifies the content of a file: if it is equal, the file has not changed.
type fileVersion struct {
	modified time.Time
	size     int64
}

func versionOf(info os.FileInfo) fileVersion {
	return fileVersion{modified: info.ModTime(), size: info.Size()}
}

func read(path string) (rates []affiliate.FXRate, version fileVersion, err error) {
	file, err := os.Open(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return nil, version, err
	}
	defer func() { _ = file.Close() }()
	// Stat the open file, because the file at path can be replaced while it is read.
	info, err := file.Stat()
	if err != nil {
		return nil, version, err
	}
	if rates, err = Parse(file); err != nil {
		return nil, version, fmt.Errorf("%s: %w", path, err)
	}
	return rates, versionOf(info), nil
}

// Worker runs the job affiliate.LoadRates.
type Worker struct {
	river.WorkerDefaults[affiliate.LoadRates]
	store Store
	path  string
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	loaded fileVersion // the version that this process loaded last
}

// New returns a Worker that loads the file at path. With an empty path it does nothing.
func New(store Store, path string, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{store: store, path: path, log: log, now: now}
}

// PeriodicJob returns the job that a River client inserts every hour. Only one runs at
// a time. A failed job is not retried, because the next one checks the file again.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(loadInterval), affiliate.LoadRates{}, true)
}

// Timeout returns the time limit of one run.
func (w *Worker) Timeout(*river.Job[affiliate.LoadRates]) time.Duration { return timeout }

// Work loads the file unless this process has loaded the same version before.
func (w *Worker) Work(ctx context.Context, _ *river.Job[affiliate.LoadRates]) error {
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
	changed, err := w.store.LoadRates(ctx, rates, w.now().UTC().Truncate(time.Millisecond))
	if err != nil {
		return err
	}
	w.loaded = loaded
	w.log.LogAttrs(ctx, slog.LevelInfo, "exchange rates loaded", slog.String("file", w.path),
		slog.Int("new", changed.New), slog.Int("changed", changed.Changed), slog.Int("same", changed.Same))
	return nil
}
