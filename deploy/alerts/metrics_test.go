package alerts

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "write the lists of metrics in testdata")

// A process exports all its metrics from its start, counters with labels for each value of
// their labels. So rate() sees the first event, and an alert can distinguish 0 from a
// missing process. Dashboards and alerts use every metric, and name only metrics and labels
// that exist.
func TestMetrics(t *testing.T) {
	processes := scrapeProcesses(t)
	for name, families := range processes {
		t.Run(name, func(t *testing.T) { compareLists(t, strings.Split(name, " with "), list(families)) })
	}
	series := collectSeries(processes)
	series.addExporters(t)
	used := map[string]bool{}
	for _, q := range append(ruleQueries(t), dashboardQueries(t)...) {
		series.check(t, q, used)
	}
	for _, q := range runbookQueries(t) {
		series.check(t, q, map[string]bool{})
	}
	for metric := range series {
		if strings.HasPrefix(metric, "tributary_") && !used[histogramPart.ReplaceAllString(metric, "")] {
			t.Errorf("no rule and no dashboard uses the metric %s: use it, or remove it", metric)
		}
	}
}

// unlisted are label values that depend on the binary or the server.
var unlisted = map[string]bool{"version": true, "commit": true, "method": true}

// list describes the metrics of the service: name, type and labels with their values.
func list(families map[string]*dto.MetricFamily) string {
	var lines []string
	for name, family := range families {
		if !strings.HasPrefix(name, "tributary_") {
			continue // metrics of the Go runtime and of the process
		}
		parts := []string{name, strings.ToLower(family.GetType().String())}
		labels := labelValues(family)
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			values := "*"
			if !unlisted[label] {
				values = strings.Join(slices.Sorted(maps.Keys(labels[label])), "|")
			}
			parts = append(parts, label+"="+values)
		}
		lines = append(lines, strings.Join(parts, " ")+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func labelValues(family *dto.MetricFamily) map[string]map[string]bool {
	labels := map[string]map[string]bool{}
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			if labels[label.GetName()] == nil {
				labels[label.GetName()] = map[string]bool{}
			}
			labels[label.GetName()][label.GetValue()] = true
		}
	}
	return labels
}

// compareLists compares a list with the lists in testdata of the parts of a process.
func compareLists(t *testing.T, parts []string, got string) {
	t.Helper()
	want := map[string]bool{}
	for _, part := range parts {
		path := filepath.Join("testdata", part+".txt")
		if *update && len(parts) == 1 {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			want[line] = true
		}
	}
	for line := range strings.Lines(got) {
		if !want[line] {
			t.Errorf("the process exports, but testdata does not contain: %s", line)
		}
		delete(want, line)
	}
	for line := range want {
		t.Errorf("testdata contains, but the process does not export: %s", line)
	}
}

// seriesSet maps the name of a metric, as queries use it, to its labels and their values.
type seriesSet map[string]map[string]map[string]bool

// histogramPart matches the end of the series of a histogram. A histogram is used if one of
// its parts is used.
var histogramPart = regexp.MustCompile(`_(bucket|count|sum)$`)

// targetLabels are labels that Prometheus adds to each metric.
var targetLabels = []string{"job", "instance"}

func collectSeries(processes scrapes) seriesSet {
	set := seriesSet{"up": {}}
	for _, families := range processes {
		for name, family := range families {
			names := []string{name}
			if family.GetType() == dto.MetricType_HISTOGRAM {
				names = []string{name + "_bucket", name + "_count", name + "_sum"}
			}
			for _, name := range names {
				if set[name] == nil {
					set[name] = map[string]map[string]bool{}
				}
				for label, values := range labelValues(family) {
					if set[name][label] == nil {
						set[name][label] = map[string]bool{}
					}
					maps.Copy(set[name][label], values)
				}
				if strings.HasSuffix(name, "_bucket") {
					set[name]["le"] = nil
				}
			}
		}
	}
	// The durations of calls exist only for methods and codes that have occurred.
	for _, part := range []string{"_bucket", "_count", "_sum"} {
		maps.Copy(set["tributary_core_call_seconds"+part]["code"], set["tributary_core_calls_total"]["code"])
	}
	return set
}

// addExporters adds the metrics of the exporters of Postgres, Redis and the machine that the
// rules and dashboards use. The test in test/operations/monitoring runs the exporters, so
// it fails if the list is wrong.
func (set seriesSet) addExporters(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "exporters.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // name, type and labels
		set[fields[0]] = map[string]map[string]bool{}
		for _, field := range fields[2:] {
			label, _, _ := strings.Cut(field, "=")
			set[fields[0]][label] = nil
		}
	}
}

// query is an expression of a rule or a dashboard. Where says where it stands.
type query struct{ where, expr string }

// dashboardVariables replaces the variables of Grafana.
var dashboardVariables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")

// metricsOf returns the metrics that a query selects.
func metricsOf(t *testing.T, q query) []string {
	t.Helper()
	parsed, err := metricsql.Parse(dashboardVariables.Replace(q.expr))
	if err != nil {
		t.Fatalf("%s: %v: %s", q.where, err, q.expr)
	}
	var metrics []string
	metricsql.VisitAll(parsed, func(e metricsql.Expr) {
		if selector, ok := e.(*metricsql.MetricExpr); ok {
			for _, filters := range selector.LabelFilterss {
				metrics = append(metrics, filters[0].Value)
			}
		}
	})
	return metrics
}

// check checks that the metrics and labels of a query exist, and adds the metrics to used.
func (set seriesSet) check(t *testing.T, q query, used map[string]bool) {
	t.Helper()
	parsed, err := metricsql.Parse(dashboardVariables.Replace(q.expr))
	if err != nil {
		t.Errorf("%s: %v: %s", q.where, err, q.expr)
		return
	}
	labels := map[string]bool{}
	for _, label := range targetLabels {
		labels[label] = true
	}
	metricsql.VisitAll(parsed, func(e metricsql.Expr) {
		selector, ok := e.(*metricsql.MetricExpr)
		if !ok {
			return
		}
		for _, filters := range selector.LabelFilterss {
			if len(filters) == 0 || filters[0].Label != "__name__" || filters[0].IsRegexp {
				t.Errorf("%s: a selector names no metric: %s", q.where, q.expr)
				continue
			}
			metric := filters[0].Value
			used[histogramPart.ReplaceAllString(metric, "")] = true
			if strings.HasPrefix(metric, "tributary:") {
				if !recorded(t)[metric] {
					t.Errorf("%s: no rule records %s", q.where, metric)
				}
				continue
			}
			if set[metric] == nil {
				t.Errorf("%s: no process exports the metric %s", q.where, metric)
				continue
			}
			for label := range set[metric] {
				labels[label] = true
			}
			for _, filter := range filters[1:] {
				set.checkFilter(t, q, metric, filter)
			}
		}
	})
	metricsql.VisitAll(parsed, func(e metricsql.Expr) {
		if aggregation, ok := e.(*metricsql.AggrFuncExpr); ok {
			for _, label := range aggregation.Modifier.Args {
				if !labels[label] {
					t.Errorf("%s: the query groups by %s, but its metrics have no such label: %s", q.where, label, q.expr)
				}
			}
		}
	})
}

// plainAlternatives matches a regular expression that consists of plain texts.
var plainAlternatives = regexp.MustCompile(`^[\w.|]+$`)

// checkFilter checks that a label exists and that each value of a matcher can occur.
func (set seriesSet) checkFilter(t *testing.T, q query, metric string, filter metricsql.LabelFilter) {
	t.Helper()
	if slices.Contains(targetLabels, filter.Label) {
		return
	}
	values, ok := set[metric][filter.Label]
	if !ok {
		t.Errorf("%s: the metric %s has no label %s", q.where, metric, filter.Label)
		return
	}
	if values == nil || unlisted[filter.Label] || strings.Contains(filter.Value, "$") {
		return
	}
	patterns := []string{filter.Value}
	if !filter.IsRegexp {
		patterns[0] = regexp.QuoteMeta(filter.Value)
	} else if alternatives := strings.ReplaceAll(filter.Value, ".*", ""); plainAlternatives.MatchString(alternatives) {
		patterns = strings.Split(filter.Value, "|")
	}
	for _, pattern := range patterns {
		matches := regexp.MustCompile("^(?:" + pattern + ")$").MatchString
		if !slices.ContainsFunc(slices.Collect(maps.Keys(values)), matches) {
			t.Errorf("%s: %s=%q matches no value of the metric %s", q.where, filter.Label, pattern, metric)
		}
	}
}
