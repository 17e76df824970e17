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

// BenchmarkAppend has 64 goroutines append batches of one click. x-bare is how many
// times as many are durable in a second as with a write and an fsync for each, which
// is measured in turns with it.
func BenchmarkAppend(b *testing.B) {
	const goroutines, each, bareWrites = 64, 200, 300
	batch := bytes.Repeat([]byte("c"), 300)
	header := makeHeader(batch, 1, time.Now())
	record := append(header[:], batch...)
	var bare, grouped time.Duration
	var appends, fsyncs int
	for b.Loop() {
		bare += writeAndSync(b, record, bareWrites)
		files := newShakyDisk(b.TempDir())
		j := open(b, Config{}, files)
		began := time.Now()
		var group sync.WaitGroup
		var failed atomic.Pointer[error]
		for range goroutines {
			group.Go(func() {
				for range each {
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
		appends += goroutines * each
		fsyncs += files.syncs
		must(b, j.Close())
	}
	rate := float64(appends) / grouped.Seconds()
	b.ReportMetric(rate, "appends/s")
	b.ReportMetric(rate/(float64(appends/(goroutines*each)*bareWrites)/bare.Seconds()), "x-bare")
	b.ReportMetric(float64(appends)/float64(fsyncs), "appends/fsync")
}

// writeAndSync is how long it takes to make n records durable one by one.
func writeAndSync(b *testing.B, record []byte, n int) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	must(b, err)
	defer f.Close()
	began := time.Now()
	for range n {
		_, err := f.Write(record)
		must(b, err)
		must(b, f.Sync())
	}
	return time.Since(began)
}
