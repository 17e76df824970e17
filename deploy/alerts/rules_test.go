package alerts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tributary-hq/tributary/tools/servers"
)

// rule is a rule of Prometheus: an alert, or a recording rule.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
	file                     string
}

type ruleFile struct {
	Groups []struct{ Rules []rule }
}

// ruleFiles are the rule files. The files that end with _test.yaml are tests for promtool.
func ruleFiles(t *testing.T) (rules, tests []string) {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.yaml") {
			tests = append(tests, file)
		} else {
			rules = append(rules, file)
		}
	}
	return rules, tests
}

func readRules(t *testing.T) []rule {
	t.Helper()
	files, _ := ruleFiles(t)
	var all []rule
	for _, file := range files {
		var content ruleFile
		readYAML(t, file, &content)
		for _, group := range content.Groups {
			for _, r := range group.Rules {
				r.file = file
				all = append(all, r)
			}
		}
	}
	if len(all) < 30 {
		t.Fatalf("there are only %d rules", len(all))
	}
	return all
}

func readYAML(t *testing.T, file string, content any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, content); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func ruleQueries(t *testing.T) []query {
	t.Helper()
	var queries []query
	for _, r := range readRules(t) {
		queries = append(queries, query{r.file + ": " + r.Alert + r.Record, r.Expr})
	}
	return queries
}

// recorded returns the names of the recording rules.
func recorded(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, r := range readRules(t) {
		if r.Record != "" {
			names[r.Record] = true
		}
	}
	return names
}

var installPrometheus = sync.OnceValue(func() error {
	if _, err := exec.LookPath("promtool"); err == nil {
		return nil
	}
	return servers.Install(context.Background(), "prometheus")
})

// promtool runs promtool. It installs Debian's package if the command is missing.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if err := installPrometheus(); err != nil {
		t.Fatalf("promtool is missing (Debian: apt-get install prometheus): %v", err)
	}
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRules_AreValid(t *testing.T) {
	rules, _ := ruleFiles(t)
	promtool(t, append([]string{"check", "rules"}, rules...)...)
}

// The sample configurations load each rule file. The configuration for Kubernetes is checked
// with promtool by the test of the manifests, in deploy/kubernetes.
func TestPrometheusConfiguration(t *testing.T) {
	promtool(t, "check", "config", "../prometheus/prometheus.yml")
	promtool(t, "check", "config", "../prometheus/compose.yml")
	exporters := []string{"tributary-postgres", "tributary-redis", "tributary-node"}
	for file, wantJobs := range map[string][]string{
		"../prometheus/compose.yml":    append([]string{"tributary-core", "tributary-landing", "tributary-collector"}, exporters...),
		"../prometheus/prometheus.yml": append([]string{"tributary-core", "tributary-gateway", "tributary-landing", "tributary-collector"}, exporters...),
		"../prometheus/kubernetes.yml": append([]string{"tributary"}, exporters...),
	} {
		var config struct {
			RuleFiles []string `yaml:"rule_files"`
			Scrapes   []struct {
				Job string `yaml:"job_name"`
			} `yaml:"scrape_configs"`
		}
		readYAML(t, file, &config)
		var loaded []string
		for _, path := range config.RuleFiles {
			loaded = append(loaded, filepath.Base(path))
		}
		rules, _ := ruleFiles(t)
		slices.Sort(loaded)
		if !slices.Equal(loaded, rules) {
			t.Errorf("%s loads %q, want %q", file, loaded, rules)
		}
		var jobs []string
		for _, scrape := range config.Scrapes {
			jobs = append(jobs, scrape.Job)
		}
		if !slices.Equal(jobs, wantJobs) {
			t.Errorf("%s has the jobs %q, want %q", file, jobs, wantJobs)
		}
	}
}

func TestRules_FireAsTheirTestsSay(t *testing.T) {
	_, tests := ruleFiles(t)
	promtool(t, append([]string{"test", "rules"}, tests...)...)
}

// testFile is a file of tests for promtool. Each test lists all alerts that fire.
type testFile struct {
	Tests []struct {
		Name  string
		Exprs []struct {
			Expr    string
			Samples []struct{ Labels string } `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
		Alerts []any `yaml:"alert_rule_test"` // of tests of the annotations
	}
}

var alertLabels = regexp.MustCompile(`alertname="(\w+)".*severity="(\w+)"`)

// Each alert has a test in which it fires. In the healthy system, none fires.
func TestRules_HaveTests(t *testing.T) {
	fires := map[string]bool{}
	healthy := 0
	_, tests := ruleFiles(t)
	for _, file := range tests {
		var content testFile
		readYAML(t, file, &content)
		for _, test := range content.Tests {
			if test.Name == "" || len(test.Exprs)+len(test.Alerts) == 0 {
				t.Errorf("%s: a test has no name, or checks nothing", file)
			}
			for _, expr := range test.Exprs {
				if strings.HasPrefix(expr.Expr, "ALERTS") && expr.Expr != `ALERTS{alertstate="firing"}` {
					t.Errorf("%s: %s: the test must list all alerts that fire", file, test.Name)
				}
				if test.Name == "healthy" && len(expr.Samples) == 0 {
					healthy++
				}
				for _, sample := range expr.Samples {
					if match := alertLabels.FindStringSubmatch(sample.Labels); match != nil {
						fires[match[1]+" "+match[2]] = true
					}
				}
			}
		}
	}
	if healthy < len(tests) {
		t.Errorf("%d of %d test files check that no alert fires in a healthy system", healthy, len(tests))
	}
	for _, r := range readRules(t) {
		if r.Alert != "" && !fires[r.Alert+" "+r.Labels["severity"]] {
			t.Errorf("%s: no test in which the alert %s with the severity %s fires", r.file, r.Alert, r.Labels["severity"])
		}
	}
}
