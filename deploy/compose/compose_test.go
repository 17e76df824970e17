// Package compose tests the compose file of this folder without running it. The test of
// the containers in test/operations runs it.
package compose

import (
	"encoding/base64"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/tributary-hq/tributary/cmd/settings"
)

// load returns the project with the services of all profiles.
func load(t *testing.T, environment types.Mapping) *types.Project {
	t.Helper()
	environment["VERSION"] = "v1.0.0"
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml"}}, Environment: environment,
	}, loader.WithProfiles([]string{"landing", "metrics"}))
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// environ returns the environment of a service, with examples instead of the secrets.
func environ(service types.ServiceConfig) []string {
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	secrets := map[string]string{"TRIBUTARY_HASH_KEY_FILE": key, "TRIBUTARY_JWT_KEYS_FILE": "k:" + key, "TRIBUTARY_ENCRYPTION_KEYS_FILE": "k:" + key}
	var lines []string
	for name, value := range service.Environment {
		if secret, ok := secrets[name]; ok {
			lines = append(lines, strings.TrimSuffix(name, "_FILE")+"="+secret)
		} else {
			lines = append(lines, name+"="+*value)
		}
	}
	return lines
}

func TestPrograms_AcceptTheirSettings(t *testing.T) {
	for name, environment := range map[string]types.Mapping{
		"defaults": {},
		"mail":     {"SMTP_URL": "smtp://u:p@mail.example.com:587?tls=starttls", "MAIL_FROM": "Acme <no-reply@example.com>", "REGISTRATION_MERCHANT": "open"},
	} {
		t.Run(name, func(t *testing.T) {
			services := load(t, environment).Services
			core, err := settings.Parse[settings.Core](environ(services["core"]))
			if err != nil {
				t.Fatal(err)
			}
			want := "closed"
			if value := environment["REGISTRATION_MERCHANT"]; value != "" {
				want = value
			}
			if string(core.MerchantRegistration) != want || core.SMTPURL != environment["SMTP_URL"] {
				t.Errorf("the registration is %q, want %q; mail is sent to %q", core.MerchantRegistration, want, core.SMTPURL)
			}
			if _, err := settings.Parse[settings.Collector](environ(services["collector"])); err != nil {
				t.Error(err)
			}
			if _, err := settings.Parse[settings.Landing](environ(services["landing"])); err != nil {
				t.Error(err)
			}
		})
	}
}

// A container cannot fill the disk with its log. A service that runs all the time has a
// limit of memory.
func TestServices_AreLimited(t *testing.T) {
	for name, service := range load(t, types.Mapping{}).Services {
		if service.Logging == nil || service.Logging.Options["max-size"] == "" || service.Logging.Options["max-file"] == "" {
			t.Errorf("%s: the log has no limit", name)
		}
		if service.Restart != "" && service.MemLimit == 0 {
			t.Errorf("%s: the memory has no limit", name)
		}
	}
}

func TestRedis_LimitsItsMemory(t *testing.T) {
	command := load(t, types.Mapping{"REDIS_MAXMEMORY": "3gb"}).Services["redis"].Command
	if i := slices.Index(command, "--maxmemory"); i < 0 || command[i+1] != "3gb" {
		t.Errorf("the command is %q, want --maxmemory 3gb", command)
	}
}

// The programs trust the headers of the proxy's network, so it must contain the proxy and
// the programs only. The ports for gRPC and metrics are not in it.
func TestNetworks(t *testing.T) {
	project := load(t, types.Mapping{})
	members := map[string][]string{}
	for name, service := range project.Services {
		for network := range service.Networks {
			members[network] = append(members[network], name)
		}
	}
	for _, names := range members {
		slices.Sort(names)
	}
	if want := []string{"collector", "core", "landing", "proxy"}; !slices.Equal(members["proxy"], want) {
		t.Errorf("the members of the network proxy are %q, want %q", members["proxy"], want)
	}
	shared := slices.DeleteFunc(slices.Collect(maps.Keys(project.Services["core"].Networks)), func(network string) bool { return !slices.Contains(members[network], "proxy") })
	if !slices.Equal(shared, []string{"proxy"}) {
		t.Errorf("core and proxy share the networks %q, want proxy", shared)
	}
	for _, network := range []string{"proxy", "private", "clicks", "metrics"} {
		if !project.Networks[network].Internal {
			t.Errorf("the network %s reaches the internet", network)
		}
	}
	if subnet := project.Networks["proxy"].Ipam.Config[0].Subnet; *project.Services["core"].Environment["TRIBUTARY_TRUSTED_PROXIES"] != subnet {
		t.Errorf("the core does not trust exactly the subnet %s", subnet)
	}
	for name, variable := range map[string]string{"core": "TRIBUTARY_METRICS_LISTEN", "collector": "TRIBUTARY_METRICS_LISTEN", "landing": "TRIBUTARY_LANDING_METRICS_LISTEN"} {
		service := project.Services[name]
		host, _, _ := strings.Cut(*service.Environment[variable], ":")
		if !slices.Contains(service.Networks["metrics"].Aliases, host) {
			t.Errorf("%s: the metrics port is bound to %s, which is not a name in the network metrics", name, host)
		}
	}
	if address := *project.Services["core"].Environment["TRIBUTARY_GRPC_LISTEN"]; !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("the gRPC port is bound to %s", address)
	}
}

// Prometheus finds the metrics ports by the names in the compose file.
func TestPrometheus_FindsTheMetricsPorts(t *testing.T) {
	config, err := os.ReadFile("../prometheus/compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	project := load(t, types.Mapping{})
	for name, variable := range map[string]string{"core": "TRIBUTARY_METRICS_LISTEN", "collector": "TRIBUTARY_METRICS_LISTEN", "landing": "TRIBUTARY_LANDING_METRICS_LISTEN"} {
		host, port, _ := strings.Cut(*project.Services[name].Environment[variable], ":")
		if want := "names: [" + host + "], type: A, port: " + port + "}"; !strings.Contains(string(config), want) {
			t.Errorf("compose.yml does not contain %s", want)
		}
	}
	for name, port := range map[string]string{"postgres-exporter": "9187", "redis-exporter": "9121", "node-exporter": "9100"} {
		_, reachable := project.Services[name].Networks["metrics"]
		if want := "names: [" + name + "], type: A, port: " + port + "}"; !reachable || !strings.Contains(string(config), want) {
			t.Errorf("compose.yml does not contain %s, or %s is not in the network metrics", want, name)
		}
	}
}

// env.example lists each variable of the compose file with its default. TRUSTED_PROXIES is
// for the test of the containers.
func TestExample_HasAllVariables(t *testing.T) {
	file, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("env.example")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{"COMPOSE_PROFILES": true}
	for _, match := range regexp.MustCompile(`\$\{(\w+)(?::-([^}]*))?`).FindAllStringSubmatch(string(file), -1) {
		name, value := match[1], match[2]
		used[name] = true
		if name == "TRUSTED_PROXIES" || name == "VERSION" {
			continue
		}
		line := regexp.MustCompile(`(?m)^#` + name + `=(.*)$`).FindSubmatch(example)
		if line == nil || value != "" && string(line[1]) != value {
			t.Errorf("env.example does not contain #%s=%s", name, value)
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^#?(\w+)=`).FindAllSubmatch(example, -1) {
		if !used[string(match[1])] {
			t.Errorf("the compose file does not use the variable %s of env.example", match[1])
		}
	}
}

// Each container sees exactly the secrets that its service, or another service with the same
// volume, uses.
func TestSecrets_AreSeparate(t *testing.T) {
	services := load(t, types.Mapping{}).Services
	const folder = "/etc/tributary"
	has := map[string][]string{} // the files of each volume
	for _, argument := range services["secrets"].Command[2:] {
		target, files, _ := strings.Cut(argument, "=")
		for _, volume := range services["secrets"].Volumes {
			if volume.Target == target {
				has[volume.Source] = strings.Split(files, ",")
			}
		}
	}
	roles, err := os.ReadFile("../postgres/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string][]string{}
	for name, service := range services {
		for _, volume := range service.Volumes {
			if volume.Target != folder || name == "secrets" {
				continue
			}
			if !volume.ReadOnly || has[volume.Source] == nil {
				t.Errorf("%s can write secrets, or the volume %s gets none", name, volume.Source)
			}
			for _, value := range service.Environment {
				if file, ok := strings.CutPrefix(*value, folder+"/"); ok {
					uses[volume.Source] = append(uses[volume.Source], file)
				}
			}
			if name == "roles" {
				for _, match := range regexp.MustCompile(`/tributary/secrets}/([\w-]+)"`).FindAllStringSubmatch(string(roles), -1) {
					uses[volume.Source] = append(uses[volume.Source], match[1])
				}
			}
		}
	}
	for volume, files := range has {
		slices.Sort(uses[volume])
		if used := slices.Compact(uses[volume]); !slices.Equal(files, used) {
			t.Errorf("the volume %s has the files %q, its services use %q", volume, files, used)
		}
	}
	if len(has) != 5 {
		t.Errorf("there are %d volumes for programs, want 5", len(has))
	}
}
