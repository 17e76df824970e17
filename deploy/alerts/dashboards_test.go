package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type dashboard struct {
	UID, Title, Description string
	Tags                    []string
	Panels                  []panel
	Templating              struct {
		List []struct{ Name, Type, Query string }
	}
	file string
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               datasource
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
	Targets []struct {
		RefID, Expr, LegendFormat string
		Datasource                datasource
	}
}

type datasource struct{ Type, UID string }

func readDashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob("../dashboards/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []dashboard
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := dashboard{file: filepath.Base(file)}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

func dashboardQueries(t *testing.T) []query {
	t.Helper()
	var queries []query
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				queries = append(queries, query{d.file + ": " + p.Title, target.Expr})
			}
		}
	}
	return queries
}

// There is a dashboard for each role. Its panels do not overlap, and each has what a reader
// needs: a title, a description and a unit.
func TestDashboards_AreComplete(t *testing.T) {
	var roles []string
	chosen := datasource{"prometheus", "${datasource}"}
	for _, d := range readDashboards(t) {
		role := strings.TrimSuffix(d.file, ".json")
		roles = append(roles, role)
		if d.UID != "tributary-"+role || d.Title == "" || d.Description == "" || !slices.Contains(d.Tags, "tributary") {
			t.Errorf("%s has the uid %q, the title %q and the tags %q", d.file, d.UID, d.Title, d.Tags)
		}
		if list := d.Templating.List; len(list) != 1 || list[0].Name != "datasource" || list[0].Type != "datasource" || list[0].Query != "prometheus" {
			t.Errorf("%s: a reader cannot choose the data source: %v", d.file, list)
		}
		ids, grid := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			at := d.file + ": " + p.Title
			if p.Title == "" || p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: the panel %d has no title, or its id is not unique", at, p.ID)
			}
			ids[p.ID] = true
			g := p.GridPos
			if g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
				t.Errorf("%s: the position %+v is outside of the grid", at, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other, taken := grid[[2]int{x, y}]; taken {
						t.Fatalf("%s overlaps %s", at, other)
					}
					grid[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource != chosen || len(p.Targets) == 0 {
				t.Errorf("%s: a description, the unit, the data source or the queries are missing", at)
			}
			refs := map[string]bool{}
			for _, target := range p.Targets {
				if target.Datasource != chosen || target.RefID == "" || refs[target.RefID] || target.LegendFormat == "" {
					t.Errorf("%s: a query has no data source, no legend, or an id that is not unique: %+v", at, target)
				}
				refs[target.RefID] = true
			}
		}
	}
	if want := []string{"core", "edge", "money", "servers", "webhooks"}; !slices.Equal(roles, want) {
		t.Errorf("there are dashboards for %q, want %q", roles, want)
	}
}

// The dashboards show every metric with an alert, so that a reader who receives the alert
// sees its history. Exceptions are the recorded series, which only alerts need.
func TestDashboards_ShowWhatAlertsMeasure(t *testing.T) {
	shown := map[string]bool{}
	for _, q := range dashboardQueries(t) {
		for _, metric := range metricsOf(t, q) {
			shown[metric] = true
		}
	}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		for _, metric := range metricsOf(t, query{r.file + ": " + r.Alert, r.Expr}) {
			if !shown[metric] && !strings.Contains(metric, ":rate5m") && !strings.Contains(metric, ":ratio_rate") {
				t.Errorf("no dashboard shows %s, the metric of the alert %s", metric, r.Alert)
			}
		}
	}
}

// promtool parses the queries of dashboards and runbooks exactly as Prometheus does.
func TestQueries_AreValid(t *testing.T) {
	type recordingRule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	type group struct {
		Name  string          `yaml:"name"`
		Rules []recordingRule `yaml:"rules"`
	}
	var rules []recordingRule
	for i, q := range append(dashboardQueries(t), runbookQueries(t)...) {
		rules = append(rules, recordingRule{fmt.Sprintf("query:%d", i), dashboardVariables.Replace(q.expr)})
	}
	text, err := yaml.Marshal(map[string][]group{"groups": {{"dashboards", rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
