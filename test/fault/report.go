package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shownLines bounds what is printed of one finding; the history has the rest.
const shownLines = 10

// report is what a storm came to.
type report struct {
	seed    uint64
	lasted  time.Duration // of faults
	settled time.Duration // from the end of the load until everything was stored
	verdict *verdict
	told    *toldVerdict
	storm   *storm
	// more are findings beside the comparison: books that disagree, panics.
	more []finding
}

func (r *report) findings() []finding {
	return slices.Concat(r.verdict.violations(), r.told.violations(), r.more)
}

func (r *report) print(w io.Writer) {
	v := r.verdict
	line := func(name string, value any) { _, _ = fmt.Fprintf(w, "  %-34s %10v\n", name, value) }
	_, _ = fmt.Fprintf(w, "storm of %s, seed %d: %d faults, %d of them while another lasted; settled within %s\n",
		r.lasted.Round(time.Second), r.seed, r.total(), r.storm.overlaps, r.settled.Round(100*time.Millisecond))
	_, _ = fmt.Fprintln(w, "requests")
	line("clicks asked for", v.requests)
	line("attempts", v.attempts)
	for n, name := range outcomeNames {
		line("  "+name, v.outcomes[n])
	}
	line("acknowledged without the directory", v.blind)
	line("records the storm put in itself", v.planted)
	_, _ = fmt.Fprintln(w, "clicks")
	line("acknowledged, planted included", v.acknowledged)
	line("stored", v.rows)
	line("  of requests without an answer", v.unanswered)
	line("  unique", v.unique)
	line("dead letters", v.letters)
	line("missing", len(v.missing))
	line("doubled", len(v.doubled))
	line("invented", len(v.invented))
	if v.forgot {
		_, _ = fmt.Fprintln(w, "  the cache was flushed: visitors may be unique again, which was not looked at")
	}
	r.told.print(w, line)
	_, _ = fmt.Fprintln(w, "faults")
	for _, k := range kinds {
		text := strconv.Itoa(r.storm.done[k])
		if missed := r.storm.missed[k]; missed > 0 {
			text += fmt.Sprintf(" (%d not reached)", missed)
		}
		line(string(k), text)
	}
	_, _ = fmt.Fprintln(w, "processes")
	for _, c := range r.storm.system.collectors {
		line(c.name, c.ends())
	}
	line("core", r.storm.system.core.ends())
	if err := r.storm.system.noDisk; err != nil {
		_, _ = fmt.Fprintf(w, "no small full disk here: %v\n", err)
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

func (v *toldVerdict) print(w io.Writer, line func(string, any)) {
	_, _ = fmt.Fprintln(w, "conversions")
	line("sales", v.reported)
	line("reports", v.attempts)
	for _, n := range []outcome{acknowledged, refused, lost, unsent, wrong} {
		line("  "+outcomeNames[n], v.outcomes[n])
	}
	line("acknowledged by a 409 only", v.repeated)
	line("stored", v.conversions)
	line("missing", len(v.missing))
	line("doubled", len(v.doubled))
	line("invented", len(v.invented))
	_, _ = fmt.Fprintln(w, "webhooks")
	line("events", v.events)
	line("deliveries", v.deliveries)
	line("arrivals", v.arrivals)
	line("  repetitions", v.repetitions)
	line("  whose sender was killed", v.unheard)
	line("missing", len(v.unarrived))
	line("doubled", len(v.twice))
	line("invented", len(v.unknown))
	line("changed", len(v.changed))
	line("forged", len(v.forged))
}

func (r *report) total() int {
	n := 0
	for _, done := range r.storm.done {
		n += done
	}
	return n
}
