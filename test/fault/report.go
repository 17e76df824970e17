package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shownLines is the maximum number of violations of each kind that are printed. The
// history file contains the details of all violations.
const shownLines = 10

// report is the result of a storm.
type report struct {
	seed     uint64
	duration time.Duration // how long the faults lasted
	// settleTime is the time from the end of the load until all clicks and events were
	// processed.
	settleTime time.Duration
	verdict    *verdict
	sales      *salesVerdict
	storm      *storm
	// others contains violations that the comparison with the database does not find, for
	// example a failed ledger check or a panic.
	others []finding
}

func (r *report) findings() []finding {
	return slices.Concat(r.verdict.violations(), r.sales.violations(), r.others)
}

func (r *report) print(w io.Writer) {
	v := r.verdict
	line := func(name string, value any) { _, _ = fmt.Fprintf(w, "  %-34s %10v\n", name, value) }
	_, _ = fmt.Fprintf(w, "storm of %s, seed %d: %d faults, %d of them while another fault was active; settled within %s\n",
		r.duration.Round(time.Second), r.seed, r.faultCount(), r.storm.overlaps, r.settleTime.Round(100*time.Millisecond))
	_, _ = fmt.Fprintln(w, "requests")
	line("requested clicks", v.requests)
	line("attempts", v.attempts)
	for n, name := range outcomeNames {
		line("  "+name, v.outcomes[n])
	}
	line("acknowledged without the directory", v.withoutDirectory)
	line("acknowledged in a cut-off region", r.storm.cutOffClicks)
	line("records planted by the storm", v.planted)
	_, _ = fmt.Fprintln(w, "clicks")
	line("acknowledged, planted included", v.acknowledged)
	line("stored", v.rows)
	line("  of requests without a response", v.withoutResponse)
	line("  unique", v.unique)
	line("dead letters", v.deadLetters)
	line("missing", len(v.missing))
	line("duplicated", len(v.duplicated))
	line("unexplained", len(v.unexplained))
	if v.cacheFlushed {
		_, _ = fmt.Fprintln(w, "  unique clicks were not checked, because the cache was flushed")
	}
	r.sales.print(w, line)
	_, _ = fmt.Fprintln(w, "faults")
	for _, k := range kinds {
		text := strconv.Itoa(r.storm.completed[k])
		if missed := r.storm.notTriggered[k]; missed > 0 {
			text += fmt.Sprintf(" (%d skipped)", missed)
		}
		line(string(k), text)
	}
	_, _ = fmt.Fprintln(w, "processes")
	for _, c := range r.storm.system.collectors {
		line(c.name, c.summary())
	}
	line("core", r.storm.system.core.summary())
	line("gateway", r.storm.system.gateway.summary())
	if err := r.storm.system.smallDiskErr; err != nil {
		_, _ = fmt.Fprintf(w, "no disk of limited size: %v\n", err)
	}
	for _, f := range r.findings() {
		_, _ = fmt.Fprintf(w, "%s: %d\n", strings.ToUpper(f.name), len(f.lines))
		for n, text := range f.lines {
			if n == shownLines {
				_, _ = fmt.Fprintf(w, "    and %d more\n", len(f.lines)-n)
				break
			}
			_, _ = fmt.Fprintf(w, "    %s\n", text)
		}
	}
}

func (v *salesVerdict) print(w io.Writer, line func(string, any)) {
	_, _ = fmt.Fprintln(w, "conversions")
	line("sales", v.reported)
	line("reports", v.attempts)
	for _, n := range []outcome{acknowledged, refused, noResponse, unsent, unexpected} {
		line("  "+outcomeNames[n], v.outcomes[n])
	}
	line("acknowledged by a 409", v.repeated)
	line("stored", v.conversions)
	line("missing", len(v.missing))
	line("duplicated", len(v.duplicated))
	line("unexplained", len(v.unexplained))
	_, _ = fmt.Fprintln(w, "webhooks")
	line("events", v.events)
	line("deliveries", v.deliveries)
	line("arrivals", v.arrivals)
	line("  repeated", v.repetitions)
	line("  without a response (core killed)", v.senderKilled)
	line("missing", len(v.missingEvents))
	line("duplicated", len(v.duplicatedEvents))
	line("unexplained", len(v.unexplainedEvents))
	line("changed", len(v.changedEvents))
	line("forged", len(v.forgedEvents))
}

func (r *report) faultCount() int {
	n := 0
	for _, done := range r.storm.completed {
		n += done
	}
	return n
}
