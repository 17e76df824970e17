//go:build operations

package containers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/test/authority"
	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/shop"
	"github.com/tributary-hq/tributary/tools/servers"
)

const deploy = "../../../deploy"

// insideVariable is set in the copy of this test program that runs in its own namespaces.
const insideVariable = "TRIBUTARY_TEST_INSIDE"

// TestCompose runs the services of the compose file in a network namespace without any
// connection to other machines, so that the ports and host names of the file can be used as
// they are. The programs run from the images of the release. There is no registry with
// images of Postgres, Redis and Caddy, so Debian's packages run with the settings of the
// file.
func TestCompose(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		for _, name := range []string{"podman", "runc", "caddy", "nginx-light", "iproute2"} {
			install(t, name)
		}
		inside := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "--propagation", "private", os.Args[0], "-test.run=^TestCompose$", "-test.v")
		inside.Env = append(os.Environ(), insideVariable+"="+releaseFolder(t))
		out, err := inside.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	s := newServices(t, os.Getenv(insideVariable))
	s.start(t)
	for _, name := range []string{"core", "collector"} {
		s.podman(t, "healthcheck", "run", name)
	}
	s.checkSecrets(t, "core", "encryption-keys", "hash-key", "jwt-keys", "pgpass")
	s.checkSecrets(t, "collector", "hash-key")
	s.checkSecrets(t, "migrate", "owner-password", "owner-pgpass")

	t.Run("behind Caddy", func(t *testing.T) {
		data := t.TempDir()
		environment := s.project.Services["proxy"].Environment
		caddy := process.Start(t, append(lines(environment), "XDG_DATA_HOME="+data, "XDG_CONFIG_HOME="+data, "HOME="+data),
			"caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(deploy, "proxy/Caddyfile"))
		root := filepath.Join(data, "caddy/pki/authorities/local/root.crt")
		var certificate []byte
		process.Eventually(t, 20*time.Second, "Caddy has its certificates", func() bool {
			if caddy.Ended() {
				t.Fatal(caddy.Log(t))
			}
			certificate, _ = os.ReadFile(root)
			return len(certificate) > 0
		})
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(certificate)
		useService(t, roots, "api.localhost", "collect.localhost", "shop.localhost")
		caddy.Stop(t)
	})
	t.Run("behind nginx", func(t *testing.T) {
		ca := authority.New(t)
		startNginx(t, ca, "api.example.com", "collect.example.com", "go.example.com", "shop.example.com")
		useService(t, ca.Pool(), "api.example.com", "collect.example.com", "shop.example.com")
	})

	for _, name := range []string{"core", "collector"} {
		s.podman(t, "stop", "--time", "60", name)
		if code := s.podman(t, "inspect", "--format", "{{.State.ExitCode}}", name); code != "0" {
			t.Errorf("the %s stopped with exit code %s:\n%s", name, code, s.podman(t, "logs", name))
		}
		if log := s.podman(t, "logs", name); strings.Contains(log, `"level":"ERROR"`) {
			t.Errorf("the %s logged errors:\n%s", name, log)
		}
	}
}

// install installs a Debian package if its main program is missing.
func install(t *testing.T, name string) {
	t.Helper()
	program := map[string]string{"nginx-light": "nginx", "iproute2": "ip"}[name]
	if program == "" {
		program = name
	}
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if err := servers.Install(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// services is the compose file and the means to run it.
type services struct {
	project       *types.Project
	dir           string // the folder of the release
	podmanOptions []string
}

func newServices(t *testing.T, dir string) *services {
	t.Helper()
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Join(deploy, "compose"),
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(deploy, "compose/compose.yaml")}},
		// All services have the address 127.0.0.1 in this test. The test registers its users.
		Environment: types.Mapping{"VERSION": version, "TRUSTED_PROXIES": "127.0.0.0/8", "REGISTRATION_MERCHANT": "open", "REGISTRATION_PARTNER": "open"},
	})
	if err != nil {
		t.Fatal(err)
	}
	command(t, "", "ip", "link", "set", "lo", "up")
	hosts := []string{"127.0.0.1", "localhost"}
	for name, service := range project.Services {
		hosts = append(hosts, name)
		for _, network := range service.Networks {
			if network != nil {
				hosts = append(hosts, network.Aliases...)
			}
		}
	}
	for _, host := range []string{"api", "collect", "go", "shop", "forms"} {
		hosts = append(hosts, host+".localhost", host+".example.com")
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(strings.Join(hosts, " ")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, "", "mount", "--bind", file, "/etc/hosts")
	return &services{project: project, dir: dir, podmanOptions: []string{
		"--root", dir + "/storage", "--runroot", dir + "/run", "--tmpdir", dir + "/tmp", "--runtime", "runc", "--cgroup-manager", "cgroupfs",
	}}
}

func (s *services) podman(t *testing.T, args ...string) string {
	t.Helper()
	return command(t, "", "podman", slices.Concat(s.podmanOptions, args)...)
}

// start starts the services in the order of the compose file's depends_on.
func (s *services) start(t *testing.T) {
	t.Helper()
	for _, program := range []string{"core", "collector"} {
		s.podman(t, "load", "--input", filepath.Join(s.dir, "dist/tributary-"+program+"_"+version+"_linux_amd64.image.tar"))
	}
	err := s.project.ForEachService(nil, func(name string, service *types.ServiceConfig) error {
		switch name {
		case "postgres":
			s.startPostgres(t, service)
		case "redis":
			s.startRedis(t, service)
		case "roles":
			s.createRoles(t, service)
		case "secrets", "migrate":
			s.run(t, name, service)
		case "core", "collector":
			s.run(t, name, service)
			s.awaitHealthy(t, name, service)
		case "proxy": // started by the test
		default:
			return fmt.Errorf("the test does not know the service %s", name)
		}
		return nil
	}, types.IncludeDependencies)
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a service of the compose file as a container. A service without a restart policy
// runs until its end, another one in the background.
func (s *services) run(t *testing.T, name string, service *types.ServiceConfig) {
	t.Helper()
	args := []string{"run", "--name", name, "--network", "host", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--no-healthcheck"}
	if service.HealthCheck != nil {
		// podman starts no timer for the check, because no systemd runs here. The test runs
		// the check.
		args = append(args[:len(args)-1], "--health-interval", "disable", "--health-cmd", `["`+strings.Join(service.HealthCheck.Test[1:], `","`)+`"]`)
	}
	if service.Restart != "" {
		args = append(args, "--detach")
	}
	if service.ReadOnly {
		args = append(args, "--read-only")
	}
	for _, capability := range service.CapDrop {
		args = append(args, "--cap-drop", capability)
	}
	for _, option := range service.SecurityOpt {
		args = append(args, "--security-opt", strings.Replace(option, ":true", "", 1))
	}
	for _, line := range lines(service.Environment) {
		args = append(args, "--env", line)
	}
	for _, volume := range service.Volumes {
		mode := "rw"
		if volume.ReadOnly {
			mode = "ro"
		}
		args = append(args, "--volume", volume.Source+":"+volume.Target+":"+mode)
	}
	s.podman(t, slices.Concat(args, []string{service.Image}, service.Command)...)
	if service.Restart != "" {
		t.Cleanup(func() { s.podman(t, "rm", "--force", "--time", "0", name) })
	}
}

// awaitHealthy runs the health check of a service until it succeeds.
func (s *services) awaitHealthy(t *testing.T, name string, service *types.ServiceConfig) {
	t.Helper()
	check := slices.Concat(s.podmanOptions, []string{"exec", name}, service.HealthCheck.Test[1:])
	process.Eventually(t, 30*time.Second, name+" is healthy", func() bool {
		return exec.CommandContext(t.Context(), "podman", check...).Run() == nil
	})
}

// hostPath returns the path on the host of a file in a volume of a service.
func (s *services) hostPath(t *testing.T, service *types.ServiceConfig, file string) string {
	t.Helper()
	volume := service.Volumes[slices.IndexFunc(service.Volumes, func(v types.ServiceVolumeConfig) bool { return strings.HasPrefix(file, v.Target) })]
	source := volume.Source
	if volume.Type == types.VolumeTypeVolume {
		source = s.podman(t, "volume", "inspect", "--format", "{{.Mountpoint}}", volume.Source)
	}
	return filepath.Join(source, strings.TrimPrefix(file, volume.Target))
}

// checkSecrets checks that a service sees exactly the given secrets.
func (s *services) checkSecrets(t *testing.T, name string, want ...string) {
	t.Helper()
	service := s.project.Services[name]
	entries, err := os.ReadDir(s.hostPath(t, &service, "/etc/tributary"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	if !slices.Equal(files, want) {
		t.Errorf("the service %s sees the secrets %q, want %q", name, files, want)
	}
}

// createRoles runs the command of the service with the psql of this machine.
func (s *services) createRoles(t *testing.T, service *types.ServiceConfig) {
	t.Helper()
	args := slices.Clone(service.Command)
	last := len(args) - 1
	option, file, _ := strings.Cut(args[last], "=")
	args[last] = option + "=" + s.hostPath(t, service, file)
	psql := exec.CommandContext(t.Context(), args[0], args[1:]...)
	psql.Env = append(os.Environ(),
		"PGPASSFILE="+s.hostPath(t, service, *service.Environment["PGPASSFILE"]), "SECRETS="+s.hostPath(t, service, *service.Environment["SECRETS"]))
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", args, err, out)
	}
}

// startPostgres starts a server that requires the password which the service secrets has
// created.
func (s *services) startPostgres(t *testing.T, service *types.ServiceConfig) {
	t.Helper()
	environment := service.Environment.Resolve(func(string) (string, bool) { return "", false })
	password, err := os.ReadFile(s.hostPath(t, service, *environment["POSTGRES_PASSWORD_FILE"]))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := servers.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	server, err := servers.StartPostgres(t.Context(), servers.PostgresConfig{Dir: dir, Port: 5432, Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()); _ = os.RemoveAll(dir) })
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "alter role "+*environment["POSTGRES_USER"]+" password '"+strings.TrimSpace(string(password))+"'"); err != nil {
		t.Fatal(err)
	}
	rules := "host all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(dir, "cluster/pg_hba.conf"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "select pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, 10*time.Second, "Postgres requires the password", func() bool {
		conn, err := pgx.Connect(t.Context(), server.URL)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil
	})
}

// startRedis starts Redis with the command of the compose file.
func (s *services) startRedis(t *testing.T, service *types.ServiceConfig) {
	t.Helper()
	redis := process.Start(t, nil, append(slices.Clone(service.Command), "--bind", "127.0.0.1", "--dir", t.TempDir())...)
	process.Eventually(t, 10*time.Second, "Redis responds", func() bool {
		if redis.Ended() {
			t.Fatal(redis.Log(t))
		}
		return exec.CommandContext(t.Context(), service.HealthCheck.Test[1], service.HealthCheck.Test[2:]...).Run() == nil
	})
}

// lines returns an environment as lines of the form NAME=value.
func lines(environment types.MappingWithEquals) []string {
	var result []string
	for name, value := range environment {
		if value != nil {
			result = append(result, name+"="+*value)
		}
	}
	return result
}

// startNginx starts nginx with the sample configuration and a certificate for the hosts.
func startNginx(t *testing.T, ca *authority.Authority, hosts ...string) {
	t.Helper()
	dir := t.TempDir()
	pair := ca.Issue(t, hosts[0], time.Now().Add(time.Hour), hosts[1:]...)
	sample, err := os.ReadFile(filepath.Join(deploy, "proxy/nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"fullchain.pem": string(pair.Certificate), "privkey.pem": string(pair.Key),
		"tributary.conf": strings.ReplaceAll(string(sample), "/etc/tributary/tls/", dir+"/"),
		"nginx.conf": "daemon off;\nuser root;\npid " + dir + "/pid;\nerror_log stderr warn;\nevents {}\n" +
			"http {\naccess_log off;\nclient_body_temp_path " + dir + "/body;\nproxy_temp_path " + dir + "/proxy;\ninclude " + dir + "/tributary.conf;\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nginx := process.Start(t, nil, "nginx", "-c", dir+"/nginx.conf", "-p", dir)
	process.Eventually(t, 10*time.Second, "nginx accepts connections", func() bool {
		if nginx.Ended() {
			t.Fatal(nginx.Log(t))
		}
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool(), ServerName: hosts[0], MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", "127.0.0.1:443")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// useService uses the API, the collector, and the collector through a merchant's own site.
func useService(t *testing.T, roots *x509.CertPool, api, collect, site string) {
	t.Helper()
	client := &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true},
	}
	defer client.CloseIdleConnections()
	process.Eventually(t, 20*time.Second, "the API is ready", func() bool {
		response, err := client.Get("https://" + api + "/api/v1/health/ready")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	})
	direct := shop.Open(t, client, "https://"+api, "https://"+collect)
	partner := direct.Join(t, "ada")
	for i, collector := range []string{direct.Collector, "https://" + site + "/t"} {
		s := *direct
		s.Collector = collector
		response, err := client.Get(collector + "/v1/script.js")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/javascript") {
			t.Errorf("%s/v1/script.js returns %s, %s", collector, response.Status, response.Header.Get("Content-Type"))
		}
		status, click, err := s.Click(t.Context(), partner.Code)
		if err != nil || status != http.StatusCreated {
			t.Fatalf("click at %s: %d %v", collector, status, err)
		}
		status, sale, err := s.Sell(t.Context(), fmt.Sprintf("order-%d", i), "", click)
		if err != nil || status != http.StatusCreated || !sale.Attributed {
			t.Errorf("conversion after a click at %s: %d %+v %v", collector, status, sale, err)
		}
	}
}
