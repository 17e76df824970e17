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

	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// BenchmarkMarkUnique calls MarkUnique for 5,000 clicks at a time. Half of the visitors
// are new in each call. The benchmark reports the costs per visitor: the CPU time of this
// process and of Redis, and the memory of Redis.
func BenchmarkMarkUnique(b *testing.B) {
	const visitors = 5000
	client := connect(b, redistest.Start(b).URL)
	v := New(client)
	clicks := make([]*click.Click, visitors)
	for n := range clicks {
		clicks[n] = newClick(0)
	}
	setVisitors := func(round int) {
		for n := range clicks {
			clicks[n].IPHash = binary.BigEndian.AppendUint64(nil, uint64(round*visitors/2+n))
		}
	}
	setVisitors(0)
	v.MarkUnique(b.Context(), clicks)
	rounds, unknown := 0, 0
	redisBefore, memoryBefore := info(b, client, "used_cpu_user", "used_cpu_sys"), info(b, client, "used_memory")
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		rounds++
		setVisitors(rounds)
		b.StartTimer()
		start := cpuTime()
		unknown += v.MarkUnique(b.Context(), clicks)
		cpu += cpuTime() - start
	}
	total := float64(rounds * visitors)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/total, "ns/visitor")
	b.ReportMetric(float64(cpu.Nanoseconds())/total, "cpu-ns/visitor")
	b.ReportMetric((info(b, client, "used_cpu_user", "used_cpu_sys")-redisBefore)*1e9/total, "redis-ns/visitor")
	b.ReportMetric((info(b, client, "used_memory")-memoryBefore)*2/total, "bytes/new-visitor")
	b.ReportMetric(float64(unknown), "unknown")
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// info returns the sum of the named values in the reply to INFO.
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
