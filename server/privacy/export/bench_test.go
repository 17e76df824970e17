package export_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/privacy/export"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// BenchmarkExport makes and downloads the bundle of a participant with few and with almost
// the largest number of clicks. The heap must not grow with the number of records.
func BenchmarkExport(b *testing.B) {
	for name, clicks := range map[string]int{"10k": 10_000, "245k": 245_000} {
		b.Run(name, func(b *testing.B) {
			clock := pgtest.NewClock(time.Now().UTC().Truncate(time.Millisecond))
			f := &fixture{Shop: pgtest.Open(b, clock.Now).NewShop(affiliate.ModeTest), clock: clock, keys: servertest.Seal(b)}
			f.ada = f.Join("Ada")
			f.service = export.New(export.Config{
				DB: f.DB, Seal: f.keys, PublicURL: publicURL, Log: slog.New(slog.DiscardHandler), Now: clock.Now,
				Limits: export.Limits{Records: 250_000, Bytes: 500_000_000},
			})
			f.fillMany(f.ada, clicks)
			f.VacuumAnalyze("clicks")
			peak := watchHeap(b)
			for b.Loop() {
				link, err := f.exportParticipant(f.ada)
				if err != nil {
					b.Fatal(err)
				}
				if err := f.service.DownloadExport(requestOf(link), discardedDownload(b.Context())); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				f.deleteExports()
				b.StartTimer()
			}
			b.ReportMetric(float64(peak())/(1<<20), "peak-heap-MiB")
			b.ReportMetric(0, "B/op")
		})
	}
}

// watchHeap returns a function that returns the largest size of the heap until then.
func watchHeap(b *testing.B) func() uint64 {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var peak atomic.Uint64
	done := make(chan struct{})
	runtime.GC()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			peak.Store(max(peak.Load(), stats.HeapAlloc))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return func() uint64 {
		cancel()
		<-done
		return peak.Load()
	}
}
