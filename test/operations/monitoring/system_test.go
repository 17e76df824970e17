//go:build operations

package monitoring

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/test/authority"
	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	startTimeout = 30 * time.Second
	pollInterval = 100 * time.Millisecond
)

// system is the four programs of the service, built as a release, with a new database.
type system struct {
	*testing.T
	dir, binaries  string
	environment    []string
	api, collector string
	// metrics has the address of the metrics port of each program.
	metrics map[string]string
	stops   map[string]func()
}

func newSystem(t *testing.T) *system {
	t.Helper()
	free, err := servers.FreeAddresses(9)
	if err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	s := &system{T: t, dir: t.TempDir(), api: free[0], collector: free[1], stops: map[string]func(){}}
	s.binaries = filepath.Dir(process.Binary(t, "core"))
	s.metrics = map[string]string{"core": free[4], "gateway": free[5], "landing": free[6], "collector": free[7]}
	s.environment = service.Environ(
		"TRIBUTARY_DATABASE_URL="+pgtest.New(t), "TRIBUTARY_REDIS_URL="+redistest.New(t), "TRIBUTARY_REGIONS=far="+redistest.New(t),
		"TRIBUTARY_API_LISTEN="+s.api, "TRIBUTARY_COLLECTOR_LISTEN="+s.collector, "TRIBUTARY_GRPC_LISTEN="+free[2], "TRIBUTARY_GRPC_ADDR="+free[2],
		"TRIBUTARY_LANDING_LISTEN="+free[3], "TRIBUTARY_LANDING_METRICS_LISTEN="+s.metrics["landing"],
		"TRIBUTARY_JWT_KEYS=k:"+key, "TRIBUTARY_ENCRYPTION_KEYS=k:"+key, "TRIBUTARY_HASH_KEY="+key,
		"TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_SHUTDOWN_DELAY=0s", "TRIBUTARY_LIMIT_CONVERSIONS=1000000", "TRIBUTARY_JOURNAL_DIR="+filepath.Join(s.dir, "journal"),
	)
	migrate := exec.CommandContext(t.Context(), filepath.Join(s.binaries, "landing"), "migrate")
	migrate.Env = s.environment
	s.output(migrate)
	for _, argv := range [][]string{{"core", "serve"}, {"gateway"}, {"landing"}, {"collector"}} {
		name := argv[0]
		environment := append(s.environment, "TRIBUTARY_METRICS_LISTEN="+s.metrics[name])
		if name == "landing" { // a program with metrics of its certificate
			pair := authority.New(t).Issue(t, "127.0.0.1", time.Now().AddDate(0, 0, 90))
			environment = append(environment, "TRIBUTARY_TLS_CERT="+s.write("cert.pem", string(pair.Certificate)), "TRIBUTARY_TLS_KEY="+s.write("key.pem", string(pair.Key)))
		}
		s.start(name, environment, filepath.Join(s.binaries, name), argv[1:]...)
		s.await(name+" is ready", func() error { return s.get("http://" + s.metrics[name] + "/readyz") })
	}
	return s
}

func (s *system) output(cmd *exec.Cmd) {
	s.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}

// start starts a program and stops it at the end of the test, unless stops has stopped it
// before. The programs stop in the reverse order.
func (s *system) start(name string, env []string, path string, args ...string) {
	s.Helper()
	var log bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = s.dir, env
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = service.ChildAttributes()
	started, done := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // see ChildAttributes
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.Fatalf("start %s: %v", name, err)
	}
	stopped := false
	s.stops[name] = func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-done:
			if err != nil {
				s.Errorf("%s stopped with the error %v\n%s", name, err, &log)
			}
		case <-time.After(startTimeout):
			_ = cmd.Process.Kill()
			s.Errorf("%s did not stop", name)
		}
	}
	s.Cleanup(s.stops[name])
}

// await waits until check returns nil.
func (s *system) await(what string, check func() error) {
	s.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s: %v", what, err)
		}
		time.Sleep(pollInterval)
	}
}

func (s *system) get(url string) error {
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returns %d", url, response.StatusCode)
	}
	return nil
}

// shop is a merchant with a partner.
type shop struct {
	s                           *system
	merchant, secret, publicKey string
}

func (s *system) newShop() *shop {
	s.Helper()
	api := service.API{Address: s.api}
	call := func(method, path, credential string, body map[string]any) map[string]any {
		s.Helper()
		out := map[string]any{}
		if err := api.Call(s.Context(), method, path, credential, body, &out); err != nil {
			s.Fatal(err)
		}
		return out
	}
	const password = "a long enough password"
	merchant := call(http.MethodPost, "/auth/merchant/register", "", map[string]any{
		"email": "merchant@example.com", "password": password, "name": "Mia", "workspaceName": "Shop",
	})["accessToken"].(string)
	partner := call(http.MethodPost, "/auth/partner/register", "", map[string]any{
		"email": "partner@example.com", "password": password, "name": "Pat", "country": "DE",
	})["accessToken"].(string)
	program := "/programs/" + call(http.MethodPost, "/programs", merchant, map[string]any{
		"name": "Spring", "slug": "spring", "websiteUrl": "https://shop.example.com", "currency": "EUR",
		"commissionRules": map[string]any{"commissionType": "percentage", "percentage": 30, "holdPeriodDays": 0, "autoApproval": false},
	})["id"].(string)
	call(http.MethodPost, program+"/activate", merchant, nil)
	participant := call(http.MethodPost, "/partner"+program+"/apply", partner, map[string]any{"acceptTerms": true, "referralCode": "pat"})["id"].(string)
	call(http.MethodPatch, program+"/partners/"+participant+"/approve", merchant, map[string]any{})
	return &shop{
		s: s, merchant: merchant, publicKey: call(http.MethodGet, "/api-keys", merchant, nil)["publicKey"].(string),
		secret: call(http.MethodPost, "/api-keys", merchant, map[string]any{"name": "Server"})["secretKey"].(string),
	}
}

// sell sends clicks and reports a conversion for each until ctx ends.
func (p *shop) sell(ctx context.Context) error {
	api := service.API{Address: p.s.api}
	for n := 0; ctx.Err() == nil; n++ {
		id, err := p.click(ctx)
		if err == nil {
			err = api.Call(ctx, http.MethodPost, "/conversions", p.secret, map[string]any{
				"event_type": "purchase", "external_transaction_id": fmt.Sprint("order-", n), "amount_cents": 1000, "currency": "EUR", "click_id": id,
			}, &map[string]any{})
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// click sends a click and returns its id.
func (p *shop) click(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.s.collector+"/v1/clicks", strings.NewReader(`{"referral_code":"pat"}`))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+p.publicKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var click struct {
		ID string `json:"click_id"`
	}
	err = json.NewDecoder(response.Body).Decode(&click)
	if response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("the click got the status %d", response.StatusCode)
	}
	return click.ID, err
}

func (s *system) write(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}
