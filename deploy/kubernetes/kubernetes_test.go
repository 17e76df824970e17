// Package kubernetes tests the manifests of this folder. It builds them with kustomize and
// compares them strictly with the types of the Kubernetes API. There is no cluster in the
// test, so nothing is applied.
package kubernetes

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/tributary-hq/tributary/cmd/settings"
)

// cluster is the objects of a kustomization, by name.
type cluster struct {
	statefulSets map[string]*appsv1.StatefulSet
	jobs         map[string]*batchv1.Job
	services     map[string]*corev1.Service
	configMaps   map[string]*corev1.ConfigMap
	ingresses    map[string]*networkingv1.Ingress
	policies     map[string]*networkingv1.NetworkPolicy
	scalers      map[string]*autoscalingv2.HorizontalPodAutoscaler
	budgets      map[string]*policyv1.PodDisruptionBudget
}

// build builds a kustomization. A field that the API does not have is an error.
func build(t *testing.T, path string) cluster {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		t.Fatal(err)
	}
	var c cluster
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		name, id := resource.GetName(), resource.GetApiVersion()+" "+resource.GetKind()
		switch id {
		case "apps/v1 StatefulSet":
			add(t, &c.statefulSets, name, text)
		case "batch/v1 Job":
			add(t, &c.jobs, name, text)
		case "v1 Service":
			add(t, &c.services, name, text)
		case "v1 ConfigMap":
			add(t, &c.configMaps, name, text)
		case "networking.k8s.io/v1 Ingress":
			add(t, &c.ingresses, name, text)
		case "networking.k8s.io/v1 NetworkPolicy":
			add(t, &c.policies, name, text)
		case "autoscaling/v2 HorizontalPodAutoscaler":
			add(t, &c.scalers, name, text)
		case "policy/v1 PodDisruptionBudget":
			add(t, &c.budgets, name, text)
		default:
			t.Errorf("%s: the test does not know %s", path, id)
		}
	}
	return c
}

func add[T any](t *testing.T, objects *map[string]*T, name string, text []byte) {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(text, object); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if *objects == nil {
		*objects = map[string]*T{}
	}
	(*objects)[name] = object
}

// pods returns the templates of all pods, by the name of their workload.
func (c cluster) pods() map[string]corev1.PodTemplateSpec {
	pods := map[string]corev1.PodTemplateSpec{}
	for name, object := range c.statefulSets {
		pods[name] = object.Spec.Template
	}
	for name, object := range c.jobs {
		pods[name] = object.Spec.Template
	}
	return pods
}

func TestManifests(t *testing.T) {
	for path, want := range map[string][]string{"base": {"collector", "core", "migrate"}, "overlays/edge": {"collector"}} {
		t.Run(path, func(t *testing.T) {
			c := build(t, path)
			if got := slices.Sorted(maps.Keys(c.pods())); !slices.Equal(got, want) {
				t.Fatalf("the workloads are %v, want %v", got, want)
			}
			for name, pod := range c.pods() {
				checkPod(t, name, pod.Spec)
				if c.policies[name] == nil || !selects(c.policies[name].Spec.PodSelector, pod) || len(c.policies[name].Spec.PolicyTypes) != 2 {
					t.Errorf("%s: no network policy restricts both directions", name)
				}
				checkSettings(t, name, pod.Spec.Containers[0], c.configMaps)
			}
			c.checkServed(t)
		})
	}
}

// checkPod checks the restrictions of a pod, and that its secrets are files.
func checkPod(t *testing.T, name string, spec corev1.PodSpec) {
	t.Helper()
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks || spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Errorf("%s: service links and the token of the service account must be disabled", name)
	}
	if pod := spec.SecurityContext; pod == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot || pod.SeccompProfile == nil {
		t.Errorf("%s: the pod must not run as root, and must have a seccomp profile", name)
	}
	for _, container := range spec.Containers {
		security := container.SecurityContext
		if security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem ||
			security.AllowPrivilegeEscalation == nil || *security.AllowPrivilegeEscalation || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: the container is not restricted", name)
		}
		if container.Resources.Requests.Cpu().IsZero() || container.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: the container has no request for processor time or no limit of memory", name)
		}
		for _, variable := range container.Env {
			if variable.ValueFrom != nil {
				t.Errorf("%s: the variable %s must be a file, because the environment of a process is visible to others", name, variable.Name)
			}
		}
	}
}

// checkSettings checks that the program accepts its environment. Each secret is replaced by
// an example.
func checkSettings(t *testing.T, name string, container corev1.Container, configMaps map[string]*corev1.ConfigMap) {
	t.Helper()
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	secrets := map[string]string{
		"TRIBUTARY_DATABASE_URL": "postgres://tributary@db/tributary", "TRIBUTARY_REDIS_URL": "redis://user:password@redis:6379/0", "TRIBUTARY_HASH_KEY": key, "TRIBUTARY_JWT_KEYS": "k:" + key, "TRIBUTARY_ENCRYPTION_KEYS": "k:" + key,
	}
	var environ []string
	for _, source := range container.EnvFrom {
		config := configMaps[source.ConfigMapRef.Name]
		if config == nil {
			t.Fatalf("%s: there is no ConfigMap %s", name, source.ConfigMapRef.Name)
		}
		for variable, value := range config.Data {
			environ = append(environ, variable+"="+value)
		}
	}
	for _, variable := range container.Env {
		if variable.Name == "TRIBUTARY_ERASURE_LOG" {
			environ = append(environ, variable.Name+"="+variable.Value)
			continue
		}
		base, isFile := strings.CutSuffix(variable.Name, "_FILE")
		if !isFile || secrets[base] == "" || !strings.HasPrefix(variable.Value, container.VolumeMounts[0].MountPath+"/") {
			t.Errorf("%s: the variable %s is not the file of a secret", name, variable.Name)
		}
		environ = append(environ, base+"="+secrets[base])
	}
	var err error
	switch name {
	case "core":
		var cfg settings.Core
		cfg, err = settings.Parse[settings.Core](environ)
		if mount := container.VolumeMounts[1]; mount.ReadOnly || !strings.HasPrefix(cfg.ErasureLog, mount.MountPath+"/") {
			t.Errorf("the erasure log %q is not on a disk of the core", cfg.ErasureLog)
		}
	case "migrate":
		_, err = settings.Parse[settings.Database](environ)
	case "collector":
		_, err = settings.Parse[settings.Collector](environ)
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// A password in the address of Redis is not in a ConfigMap. A core does not have the password
// of the schema's owner, and a collector has none of Postgres.
func TestSecrets_BelongToTheProgramsThatNeedThem(t *testing.T) {
	for name, pod := range build(t, "base").pods() {
		var keys []string
		for _, item := range pod.Spec.Volumes[0].Secret.Items {
			keys = append(keys, item.Key)
		}
		want := map[string][]string{
			"core":    {"database-url", "redis-url", "jwt-keys", "encryption-keys", "hash-key"},
			"migrate": {"owner-database-url"}, "collector": {"hash-key", "redis-url"},
		}[name]
		if !slices.Equal(keys, want) {
			t.Errorf("%s has the secrets %q, want %q", name, keys, want)
		}
	}
	for name, config := range build(t, "base").configMaps {
		if config.Data["TRIBUTARY_REDIS_URL"] != "" {
			t.Errorf("%s contains the address of Redis", name)
		}
		// Every pod of a cluster-wide default could claim to be a proxy.
		if proxies := config.Data["TRIBUTARY_TRUSTED_PROXIES"]; proxies != "" {
			t.Errorf("%s trusts the proxies %s", name, proxies)
		}
	}
}

// The ingress accepts bodies as large as the programs do. The default of ingress-nginx is
// 1 MiB.
func TestIngresses_AcceptBodiesOfTheirPrograms(t *testing.T) {
	c := build(t, "base")
	for name, want := range map[string]string{"core": "4m", "collector": "64k"} {
		if got := c.ingresses[name].Annotations["nginx.ingress.kubernetes.io/proxy-body-size"]; got != want {
			t.Errorf("%s: the ingress accepts bodies of %q, want %s as in nginx.conf", name, got, want)
		}
	}
}

// checkServed checks the objects that belong to pods that serve requests.
func (c cluster) checkServed(t *testing.T) {
	t.Helper()
	for name, pod := range c.pods() {
		container := pod.Spec.Containers[0]
		if len(container.Ports) == 0 {
			continue
		}
		ports := map[string]bool{}
		for _, port := range container.Ports {
			ports[port.Name] = true
		}
		for path, handler := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe, "/servingz": container.ReadinessProbe} {
			if handler == nil || handler.HTTPGet.Path != path || handler.HTTPGet.Port.String() != "metrics" || !ports["metrics"] {
				t.Errorf("%s: no probe of the right kind uses %s on the metrics port", name, path)
			}
		}
		if container.Lifecycle == nil || container.Lifecycle.PreStop.Sleep.Seconds >= *pod.Spec.TerminationGracePeriodSeconds {
			t.Errorf("%s: the pod must wait before it stops, and for less than its grace period", name)
		}
		served := 0
		for _, service := range c.services {
			if !selects(metav1.LabelSelector{MatchLabels: service.Spec.Selector}, pod) {
				continue
			}
			served++
			for _, port := range service.Spec.Ports {
				if !ports[port.TargetPort.String()] {
					t.Errorf("%s: the service %s uses the unknown port %s", name, service.Name, port.TargetPort.String())
				}
			}
		}
		if served == 0 {
			t.Errorf("%s: no service selects the pods", name)
		}
		scraped := false
		for _, rule := range c.policies[name].Spec.Ingress {
			if rule.Ports[0].Port.String() == "metrics" {
				scraped = rule.From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] == "monitoring"
			}
			if port := rule.Ports[0].Port.String(); !ports[port] || len(rule.From) == 0 {
				t.Errorf("%s: the network policy permits connections to the port %s, or from everywhere", name, port)
			}
		}
		if !scraped {
			t.Errorf("%s: the network policy does not permit connections from Prometheus to the port metrics", name)
		}
		if c.budgets[name] == nil || !selects(*c.budgets[name].Spec.Selector, pod) {
			t.Errorf("%s: there is no PodDisruptionBudget", name)
		}
		scaler := c.scalers[name]
		if scaler == nil || scaler.Spec.ScaleTargetRef.Name != name || *scaler.Spec.MinReplicas < 2 ||
			scaler.Spec.ScaleTargetRef.Kind != "StatefulSet" || c.statefulSets[name] == nil {
			t.Errorf("%s: the autoscaler does not scale the workload to at least two pods", name)
		}
		for _, rule := range c.ingresses[name].Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				if service := c.services[path.Backend.Service.Name]; service == nil || service.Spec.Ports[0].Name != path.Backend.Service.Port.Name {
					t.Errorf("%s: the ingress for %s leads to no service", name, rule.Host)
				}
			}
			if !slices.Contains(c.ingresses[name].Spec.TLS[0].Hosts, rule.Host) {
				t.Errorf("%s: the ingress for %s has no TLS", name, rule.Host)
			}
		}
	}
}

// selects reports whether a selector with labels selects the pods of a template.
func selects(selector metav1.LabelSelector, pod corev1.PodTemplateSpec) bool {
	for name, value := range selector.MatchLabels {
		if pod.Labels[name] != value {
			return false
		}
	}
	return len(selector.MatchLabels) > 0
}

// The network policy of the core must not permit connections to addresses to which webhooks
// must not be sent (docs/operations/webhooks.md).
func TestCore_CannotReachPrivateAddresses(t *testing.T) {
	var permitted []networkingv1.IPBlock
	for _, rule := range build(t, "base").policies["core"].Spec.Egress {
		for _, peer := range rule.To {
			if peer.IPBlock != nil {
				permitted = append(permitted, *peer.IPBlock)
			}
		}
	}
	isPermitted := func(address string) bool {
		contains := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(address)) }
		return slices.ContainsFunc(permitted, func(block networkingv1.IPBlock) bool {
			return contains(block.CIDR) && !slices.ContainsFunc(block.Except, contains)
		})
	}
	for _, address := range []string{"1.1.1.1", "203.0.114.1", "2606:4700::1111"} {
		if !isPermitted(address) {
			t.Errorf("the public address %s cannot be reached", address)
		}
	}
	for _, address := range []string{
		"0.0.0.1", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.20.0.1", "192.0.0.8", "192.168.1.1", "198.18.0.1", "224.0.0.1", "255.255.255.255",
		"::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "fc00::1", "fe80::1", "ff02::1", "2001::1", "2001:db8::1", "2002:a00:1::1",
	} {
		if isPermitted(address) {
			t.Errorf("the address %s can be reached", address)
		}
	}
}

// Kubernetes defines variables for each service unless enableServiceLinks is false. The
// programs must accept them all the same.
func TestSettings_AcceptServiceLinks(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, name := range []string{"TRIBUTARY_CORE_SERVICE_HOST", "TRIBUTARY_CORE_PORT_9090_TCP_ADDR"} {
		environ := []string{"TRIBUTARY_REDIS_URL=redis://redis:6379", "TRIBUTARY_HASH_KEY=" + key, fmt.Sprintf("%s=10.0.0.1", name)}
		if _, err := settings.Parse[settings.Collector](environ); err != nil {
			t.Error(err)
		}
	}
}
