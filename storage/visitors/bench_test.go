package visitors

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// BenchmarkMarkUnique asks for 5,000 visitors at a time, half of them new, and says
// what one of them costs: processor time here and in Redis, and memory there.
func BenchmarkMarkUnique(b *testing.B) {
	const visitors = 5000
	client := connect(b, redistest.Start(b).URL)
	v := New(client)
	clicks := make([]*affiliate.Click, visitors)
	for n := range clicks {
		clicks[n] = click(0)
	}
	next := func(round int) {
		for n := range clicks {
			clicks[n].IPHash = binary.BigEndian.AppendUint64(nil, uint64(round*visitors/2+n))
		}
	}
	next(0)
	v.MarkUnique(b.Context(), clicks)
	rounds, unknown := 0, 0
	redisBefore, memoryBefore := info(b, client, "used_cpu_user", "used_cpu_sys"), info(b, client, "used_memory")
	var here time.Duration
	for b.Loop() {
		b.StopTimer()
		rounds++
		next(rounds)
		b.StartTimer()
		began := processor()
		unknown += v.MarkUnique(b.Context(), clicks)
		here += processor() - began
	}
	asked := float64(rounds * visitors)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/asked, "ns/visitor")
	b.ReportMetric(float64(here.Nanoseconds())/asked, "here-ns/visitor")
	b.ReportMetric((info(b, client, "used_cpu_user", "used_cpu_sys")-redisBefore)*1e9/asked, "redis-ns/visitor")
	b.ReportMetric((info(b, client, "used_memory")-memoryBefore)*2/asked, "bytes/new")
	b.ReportMetric(float64(unknown), "unknown")
}

// processor is the processor time of this process so far.
func processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// info sums what INFO says under names.
func info(b *testing.B, client redis.UniversalClient, names ...string) (sum float64) {
	b.Helper()
	text, err := client.Info(b.Context(), "cpu", "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if slices.Contains(names, name) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
