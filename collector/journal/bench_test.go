package journal

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkAppend measures 64 goroutines that append batches of one click. It also
// measures a loop that writes and syncs each batch separately. The metric x-bare is the
// rate of the journal divided by the rate of that loop.
func BenchmarkAppend(b *testing.B) {
	const goroutines, appendsEach, bareWrites = 64, 200, 300
	batch := bytes.Repeat([]byte("c"), 300)
	header := makeHeader(batch, 1, time.Now())
	record := append(header[:], batch...)
	var bare, grouped time.Duration
	var appends, fsyncs int
	for b.Loop() {
		bare += writeAndSync(b, record, bareWrites)
		files := newFaultyDisk(b.TempDir())
		j := open(b, Config{}, files)
		began := time.Now()
		var group sync.WaitGroup
		var failed atomic.Pointer[error]
		for range goroutines {
			group.Go(func() {
				for range appendsEach {
					if err := j.Append(context.Background(), batch, 1); err != nil {
						failed.Store(&err)
					}
				}
			})
		}
		group.Wait()
		grouped += time.Since(began)
		if err := failed.Load(); err != nil {
			b.Fatal(*err)
		}
		appends += goroutines * appendsEach
		fsyncs += files.syncs
		requireNoError(b, j.Close())
	}
	rate := float64(appends) / grouped.Seconds()
	b.ReportMetric(rate, "appends/s")
	b.ReportMetric(rate/(float64(appends/(goroutines*appendsEach)*bareWrites)/bare.Seconds()), "x-bare")
	b.ReportMetric(float64(appends)/float64(fsyncs), "appends/fsync")
}

// writeAndSync returns the time to write and fsync n records one by one.
func writeAndSync(b *testing.B, record []byte, n int) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	requireNoError(b, err)
	defer f.Close()
	began := time.Now()
	for range n {
		_, err := f.Write(record)
		requireNoError(b, err)
		requireNoError(b, f.Sync())
	}
	return time.Since(began)
}
