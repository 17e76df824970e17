//go:build operations

// Package certificates tests that the processes of the service use renewed certificates
// and authorities without a restart, and that SIGHUP does not stop them.
package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/test/authority"
	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/stack"
)

// files are the TLS files of all processes: the certificate of the public ports, and the
// certificates with which core and gateway identify each other.
type files struct{ dir string }

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) settings() []string {
	return []string{
		"TRIBUTARY_TLS_CERT=" + f.path("public.pem"), "TRIBUTARY_TLS_KEY=" + f.path("public.key"),
		"TRIBUTARY_GRPC_TLS_CERT=" + f.path("private.pem"), "TRIBUTARY_GRPC_TLS_KEY=" + f.path("private.key"), "TRIBUTARY_GRPC_TLS_CA=" + f.path("ca.pem"),
	}
}

// renew writes new certificates, which a new authority signs. It returns the authority.
func (f files) renew(t *testing.T) *authority.Authority {
	t.Helper()
	ca := authority.New(t)
	contents := map[string][]byte{"ca.pem": ca.Certificate}
	for _, name := range []string{"public", "private"} {
		pair := ca.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
		contents[name+".pem"], contents[name+".key"] = pair.Certificate, pair.Key
	}
	for name, content := range contents {
		if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ca
}

// accepts reports whether a client that trusts only these authorities accepts the
// certificate of a server.
func accepts(t *testing.T, address string, roots *x509.CertPool) bool {
	t.Helper()
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func TestRenewal(t *testing.T) {
	f := files{t.TempDir()}
	first := f.renew(t)
	s := stack.New(t, f.settings()...)
	core, gateway := s.StartCore(t), s.StartGateway(t)
	collector, landing := s.StartCollector(t), s.StartLanding(t)
	processes := []*process.Process{core, gateway, collector, landing}
	ports := []string{s.Gateway, s.Collector, s.Landing}
	for _, port := range ports {
		if !accepts(t, port, first.Pool()) {
			t.Fatalf("the port %s does not use the first certificate", port)
		}
	}

	second := f.renew(t)
	for _, p := range processes {
		p.Signal(t, syscall.SIGHUP)
	}
	for _, port := range ports {
		process.Eventually(t, 10*time.Second, "the port "+port+" uses the renewed certificate", func() bool { return accepts(t, port, second.Pool()) })
	}
	// A core that starts later only has the new certificates. The gateway must trust it and
	// show it a certificate of the new authority.
	core.Stop(t)
	core = s.StartCore(t)
	process.Eventually(t, 20*time.Second, "the gateway is connected to the new core", func() bool {
		return process.Status(t.Context(), "http://"+s.GatewayMetrics+"/readyz") == http.StatusOK
	})
	for _, p := range []*process.Process{core, gateway, collector, landing} {
		if p.Ended() {
			t.Errorf("a process has ended:\n%s", p.Log(t))
		}
	}
}

// A collector without a trusted connection to Redis logs the reason. It connects without a
// restart when the file contains the right authority.
func TestRedisAuthorities(t *testing.T) {
	const password = "hunter2"
	file := filepath.Join(t.TempDir(), "ca.pem")
	trust := func(ca *authority.Authority) {
		t.Helper()
		if err := os.WriteFile(file, ca.Certificate, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := authority.New(t), authority.New(t)
	server := redistest.StartWith(t, redistest.Config{Authority: first})
	s := stack.New(t, "TRIBUTARY_REDIS_URL="+strings.Replace(server.URL, "://", "://default:"+password+"@", 1), "TRIBUTARY_REDIS_CA_FILE="+file)
	trust(second)
	collector := process.Start(t, append(slices.Clone(s.Settings), "TRIBUTARY_METRICS_LISTEN="+s.CollectorMetrics), process.Binary(t, "collector"))
	status := func() int { return process.Status(t.Context(), "http://"+s.CollectorMetrics+"/readyz") }
	await := func(want int, what string) {
		t.Helper()
		process.Eventually(t, 20*time.Second, what, func() bool { return status() == want })
	}
	// The collector checks Redis, and logs the reason of a failure, when its readiness is
	// checked.
	awaitRefusal := func(reason string) {
		t.Helper()
		process.Eventually(t, 20*time.Second, "the collector is not ready and logs "+reason, func() bool {
			return status() == http.StatusServiceUnavailable && strings.Contains(collector.Log(t), reason)
		})
	}
	awaitRefusal("certificate signed by unknown authority")
	trust(first)
	collector.Signal(t, syscall.SIGHUP)
	await(http.StatusOK, "the collector trusts the first authority")

	// An authority is replaced while the collector runs.
	server.Renew(second, "127.0.0.1")
	server.Restart()
	await(http.StatusServiceUnavailable, "the collector does not trust the second authority")
	trust(second)
	collector.Signal(t, syscall.SIGHUP)
	await(http.StatusOK, "the collector trusts the second authority")

	server.Renew(second, "redis.internal")
	server.Restart()
	awaitRefusal("cannot validate certificate for 127.0.0.1")
	if strings.Contains(collector.Log(t), password) {
		t.Error("the log contains the password")
	}
}
