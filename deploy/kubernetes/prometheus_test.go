package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tributary-hq/tributary/tools/servers"
)

// target is a target of Prometheus, as `promtool check service-discovery` prints it. Labels is
// empty if the relabelling has removed the target.
type target struct {
	Labels map[string]string `json:"labels"`
}

// Prometheus scrapes the metrics port of each pod that serves requests, and no other port. The
// alerts and dashboards use the names of the jobs.
//
// The promtool of Debian cannot discover pods. So the test replaces the discovery by a list of
// the ports of the manifests, with the labels that the discovery gives them.
func TestPrometheus_FindsPods(t *testing.T) {
	text, err := os.ReadFile("../prometheus/kubernetes.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Scrapes []map[string]any `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	scrape := config.Scrapes[0]
	checkDiscovery(t, scrape["kubernetes_sd_configs"])
	delete(scrape, "kubernetes_sd_configs")
	scrape["static_configs"] = discovered(build(t, "base"))

	found := map[string]string{}
	for _, target := range relabelled(t, config, scrape["job_name"].(string)) {
		if len(target.Labels) > 0 {
			found[target.Labels["__address__"]+" "+target.Labels["instance"]] = target.Labels["job"]
		}
	}
	if want := map[string]string{"10.0.0.1:9100 core-0": "tributary-core", "10.0.0.1:9103 collector-0": "tributary-collector"}; !maps.Equal(found, want) {
		t.Errorf("the targets are %v, want %v", found, want)
	}
}

// checkDiscovery checks the part that the test replaces.
func checkDiscovery(t *testing.T, part any) {
	t.Helper()
	text, err := yaml.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	var discovery []struct {
		Role       string
		Namespaces struct{ Names []string }
	}
	if err := yaml.UnmarshalStrict(text, &discovery); err != nil {
		t.Fatal(err)
	}
	if len(discovery) != 1 || discovery[0].Role != "pod" || !slices.Equal(discovery[0].Namespaces.Names, []string{"tributary"}) {
		t.Errorf("the discovery is %v, want the pods of the namespace tributary", discovery)
	}
}

// discovered returns a target for each port of the first pod of each workload.
func discovered(c cluster) []map[string]any {
	var targets []map[string]any
	for name, pod := range c.pods() {
		for _, port := range pod.Spec.Containers[0].Ports {
			labels := map[string]string{
				"__meta_kubernetes_pod_name": name + "-0", "__meta_kubernetes_pod_phase": "Running",
				"__meta_kubernetes_pod_container_port_name": port.Name,
			}
			for label, value := range pod.Labels {
				labels["__meta_kubernetes_pod_label_"+notInLabel.ReplaceAllString(label, "_")] = value
			}
			targets = append(targets, map[string]any{"targets": []string{fmt.Sprintf("10.0.0.1:%d", port.ContainerPort)}, "labels": labels})
		}
	}
	return targets
}

var notInLabel = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// relabelled returns the targets of a job after the relabelling.
func relabelled(t *testing.T, config any, job string) []target {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		if err := servers.Install(t.Context(), "prometheus"); err != nil {
			t.Fatal(err)
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", file).CombinedOutput(); err != nil {
		t.Fatalf("promtool check config: %v\n%s", err, out)
	}
	// promtool collects targets for the whole time.
	out, err := exec.CommandContext(t.Context(), "promtool", "check", "service-discovery", "--timeout=5s", file, job).Output()
	if err != nil {
		t.Fatalf("promtool check service-discovery: %v\n%s", err, out)
	}
	var targets []target
	if err := json.Unmarshal(out, &targets); err != nil {
		t.Fatalf("promtool printed %s: %v", out, err)
	}
	return targets
}
