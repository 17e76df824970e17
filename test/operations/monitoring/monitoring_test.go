//go:build operations

// Package monitoring runs Prometheus with the sample configuration in deploy/prometheus on
// the programs of the service.
package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/tools/servers"
)

const deploy = "../../../deploy"

// prometheus is a running Prometheus.
type prometheus struct {
	s       *system
	address string
}

// startPrometheus starts Prometheus with the sample configuration. It replaces the targets
// and scrapes each second.
func startPrometheus(s *system) *prometheus {
	s.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		if err := servers.Install(s.Context(), "prometheus"); err != nil {
			s.Fatalf("Prometheus is missing (Debian: apt-get install prometheus): %v", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(deploy, "prometheus/prometheus.yml"))
	if err != nil {
		s.Fatal(err)
	}
	config := strings.ReplaceAll(string(text), "15s", "1s")
	for name, address := range s.metrics {
		targets := regexp.MustCompile(`\[` + name + `-1\.internal:[^\]]*\]`)
		if !targets.MatchString(config) {
			s.Fatalf("the sample configuration has no targets for %s", name)
		}
		config = targets.ReplaceAllString(config, "["+address+"]")
	}
	rules, err := filepath.Abs(filepath.Join(deploy, "alerts"))
	if err != nil {
		s.Fatal(err)
	}
	config = strings.ReplaceAll(config, "../alerts", rules)
	free, err := servers.FreeAddresses(1)
	if err != nil {
		s.Fatal(err)
	}
	p := &prometheus{s, free[0]}
	running := process.StartCommand(s, os.Environ(), "prometheus", "prometheus", "--config.file="+s.write("prometheus.yml", config),
		"--web.listen-address="+p.address, "--storage.tsdb.path="+filepath.Join(s.dir, "data"), "--log.level=warn")
	running.AwaitReady(s, "http://"+p.address+"/-/ready")
	return p
}

// call reads a path of the HTTP API.
func (p *prometheus) call(path string, out any) error {
	request, err := http.NewRequestWithContext(p.s.Context(), http.MethodGet, "http://"+p.address+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var body struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return err
	}
	if body.Status != "success" {
		return fmt.Errorf("%s: %s", path, body.Error)
	}
	return json.Unmarshal(body.Data, out)
}

type sample struct {
	Metric map[string]string
	Value  [2]any
}

func (p *prometheus) query(expr string) ([]sample, error) {
	var data struct{ Result []sample }
	err := p.call("query?query="+url.QueryEscape(expr), &data)
	return data.Result, err
}

// filter matches the condition with which a panel hides series that are 0.
var filter = regexp.MustCompile(` > 0$`)

// emptyPanels are panels whose series exist only after a failure.
var emptyPanels = map[string]bool{"core.json: Methods with server errors": true}

// Prometheus evaluates all rules without an error, and no alert fires. Each query of each
// dashboard returns data. An alert is pending after a program has stopped.
func TestPrometheus(t *testing.T) {
	s := newSystem(t)
	opened, code := s.openShop()
	p := startPrometheus(s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sold := make(chan struct{})
	go func() {
		defer close(sold)
		if err := sell(ctx, opened, code); err != nil {
			t.Error(err)
		}
	}()

	for _, busy := range []string{
		`rate(tributary_collector_clicks_accepted_total[10s])`, `rate(tributary_ingest_clicks_stored_total[10s])`,
		`rate(tributary_conversions_total{mode="live", outcome="CLICK_MATCHED"}[10s])`, `rate(tributary_events_total{mode="live", type="commission.created"}[10s])`,
		`rate(tributary_gateway_request_seconds_count{class="2xx"}[10s])`, `rate(tributary_core_calls_total{code="OK"}[10s])`,
	} {
		process.Await(s, busy, func() error {
			found, err := p.query(busy + " > 0")
			if err == nil && len(found) == 0 {
				err = fmt.Errorf("no samples above 0")
			}
			return err
		})
	}
	time.Sleep(5 * time.Second) // rate() needs several samples
	checkDashboards(p)
	checkRules(p)
	stop()
	<-sold

	s.collector.Stop(t)
	process.Await(s, "the alert about a stopped collector is pending", func() error {
		found, err := p.query(`ALERTS{alertname="TargetDown", alertstate="pending", job="tributary-collector", severity="page"}`)
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d alerts are pending", len(found))
		}
		return err
	})
}

// checkDashboards checks that each query returns at least one series.
func checkDashboards(p *prometheus) {
	p.s.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "dashboards/*.json"))
	if err != nil {
		p.s.Fatal(err)
	}
	queries := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			p.s.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			p.s.Fatal(err)
		}
		for _, panel := range dashboard.Panels {
			name := filepath.Base(file) + ": " + panel.Title
			for _, target := range panel.Targets {
				queries++
				expr := filter.ReplaceAllString(strings.NewReplacer("$__rate_interval", "30s").Replace(target.Expr), "")
				found, err := p.query(expr)
				if err != nil || len(found) == 0 && !emptyPanels[name] {
					p.s.Errorf("%s: the query returns no data, %v: %s", name, err, expr)
				}
			}
		}
	}
	if queries < 50 {
		p.s.Errorf("the dashboards have only %d queries", queries)
	}
	p.s.Logf("%d queries of %d dashboards return data", queries, len(files))
}

// checkRules checks that the rules were evaluated without errors and that no alert fires.
func checkRules(p *prometheus) {
	p.s.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	if err := p.call("rules", &data); err != nil {
		p.s.Fatal(err)
	}
	rules := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			rules++
			if rule.Health != "ok" || rule.State == "firing" {
				p.s.Errorf("the rule %s has the health %s %q and the state %s", rule.Name, rule.Health, rule.LastError, rule.State)
			}
		}
	}
	if rules < 30 {
		p.s.Errorf("Prometheus has only %d rules", rules)
	}
	p.s.Logf("%d rules were evaluated", rules)
}
