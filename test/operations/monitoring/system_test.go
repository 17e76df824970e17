//go:build operations

package monitoring

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/test/authority"
	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/shop"
	"github.com/tributary-hq/tributary/test/operations/stack"
	"github.com/tributary-hq/tributary/tools/servers"
)

// salePause is the time between two clicks.
const salePause = 100 * time.Millisecond

// system is the four programs of the service, with a new database and another region, and
// the exporters of the servers.
type system struct {
	*testing.T
	dir       string
	stack     *stack.Stack
	collector *process.Process
	// metrics has the address of the metrics port of each program and exporter.
	metrics map[string]string
}

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{T: t, dir: t.TempDir()}
	redisURL := redistest.New(t)
	s.stack = stack.New(t, "TRIBUTARY_REDIS_URL="+redisURL, "TRIBUTARY_REGIONS=far="+redistest.New(t), "TRIBUTARY_JOURNAL_DIR="+filepath.Join(s.dir, "journal"))
	s.metrics = map[string]string{
		"core": s.stack.CoreMetrics, "gateway": s.stack.GatewayMetrics, "landing": s.stack.LandingMetrics, "collector": s.stack.CollectorMetrics,
	}
	s.stack.StartCore(t)
	s.stack.StartGateway(t)
	// One program has metrics of its certificate.
	pair := authority.New(t).Issue(t, "127.0.0.1", time.Now().AddDate(0, 0, 90))
	s.stack.StartLanding(t, "TRIBUTARY_TLS_CERT="+s.write("cert.pem", string(pair.Certificate)), "TRIBUTARY_TLS_KEY="+s.write("key.pem", string(pair.Key)))
	s.collector = s.stack.StartCollector(t)
	s.startExporters(redisURL)
	return s
}

// startExporters starts the exporters of Postgres, Redis and the machine. A backup has left
// its time.
func (s *system) startExporters(redisURL string) {
	s.Helper()
	free, err := servers.FreeAddresses(3)
	if err != nil {
		s.Fatal(err)
	}
	s.write("tributary-backup.prom", fmt.Sprintf("tributary_backup_timestamp_seconds %d\n", time.Now().Unix()))
	postgresEnv := append(os.Environ(), "DATA_SOURCE_NAME="+os.Getenv("TRIBUTARY_TEST_DATABASE_URL"))
	for i, exporter := range []struct {
		name string
		env  []string
		args []string
	}{
		{"postgres", postgresEnv, []string{"--web.listen-address=" + free[0]}},
		{"redis", os.Environ(), []string{"-redis.addr", redisURL, "-web.listen-address", free[1]}},
		{"node", os.Environ(), []string{"--web.listen-address=" + free[2], "--collector.textfile.directory=" + s.dir}},
	} {
		program := "prometheus-" + exporter.name + "-exporter"
		if _, err := exec.LookPath(program); err != nil {
			if err := servers.Install(s.Context(), program); err != nil {
				s.Fatalf("%s is missing (Debian: apt-get install %[1]s): %v", program, err)
			}
		}
		running := process.StartCommand(s, exporter.env, program, append([]string{program}, exporter.args...)...)
		running.AwaitReady(s, "http://"+free[i]+"/metrics")
		s.metrics[exporter.name] = free[i]
	}
}

// openShop returns a shop and the code of its partner.
func (s *system) openShop() (opened *shop.Shop, code string) {
	s.Helper()
	opened = shop.Open(s, http.DefaultClient, "http://"+s.stack.Gateway, "http://"+s.stack.Collector)
	partner := opened.Join(s, "ada")
	opened.AwaitCode(s, partner.Code)
	return opened, partner.Code
}

// sell sends clicks and reports a conversion for each until ctx ends.
func sell(ctx context.Context, s *shop.Shop, code string) error {
	for n := 0; ctx.Err() == nil; n++ {
		_, click, err := s.Click(ctx, code)
		if err == nil {
			_, _, err = s.Sell(ctx, fmt.Sprint("order-", n), "", click)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(salePause):
		}
	}
	return nil
}

func (s *system) write(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}
