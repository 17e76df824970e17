package assemble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver/dns"
	"google.golang.org/grpc/test/bufconn"

	tributary "github.com/tributary-hq/tributary/clients/go"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/health"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// A gateway distributes its calls to all cores that a DNS name leads to. No call fails while a
// core stops, and a core that is added to the name gets calls.
func TestRunGateway_BalancesCores(t *testing.T) {
	dns.SetMinResolutionInterval(10 * time.Millisecond)
	names := startNameServer(t)
	release := make(chan struct{})
	first, port := startCore(t, "127.0.0.1", "0", release)
	second, _ := startCore(t, "127.0.0.2", port, release)
	names.set(first.address, second.address)

	url, served := callThroughGateway(t, fmt.Sprintf("dns://%s/cores.test:%s", names.address, port), 1)
	pgtest.Eventually(t, "both cores get calls", func() bool { return first.calls.Load() > 10 && second.calls.Load() > 10 })

	// Calls wait in each core, so that the second core cannot end before they do. The other
	// calls take turns too, so that two calls in a row can reach the same core.
	held := make(chan error)
	waiting := func() int64 { return first.waiting.Load() + second.waiting.Load() }
	for first.waiting.Load() == 0 || second.waiting.Load() == 0 {
		before := waiting()
		go func() { held <- get(t.Context(), url+readyPath) }()
		pgtest.Eventually(t, "a core runs one more call", func() bool { return waiting() > before })
	}
	second.stop()
	pgtest.Eventually(t, "the stopping core gets no more calls", func() bool {
		before, then := second.calls.Load(), served.Load()
		pgtest.Eventually(t, "calls succeed while a core stops", func() bool { return served.Load() > then+20 })
		return second.calls.Load() == before
	})
	close(release)
	for range waiting() {
		if err := <-held; err != nil {
			t.Errorf("a call that ran when its core stopped: %v", err)
		}
	}
	if err := <-second.ended; err != nil {
		t.Error(err)
	}

	// The name no longer leads to the core that stopped. So the gateway has no failed
	// connection that makes it look up the name again, and only the age of its connection
	// does.
	names.set(first.address)
	lookups := names.lookups.Load()
	pgtest.Eventually(t, "the gateway looks up the name again", func() bool { return names.lookups.Load() > lookups+1 })
	third, _ := startCore(t, "127.0.0.3", port, release)
	names.set(first.address, third.address)
	before := first.calls.Load()
	pgtest.Eventually(t, "the new core gets calls too", func() bool { return third.calls.Load() > 10 && first.calls.Load() > before+10 })
}

// A gateway can have one address for all cores, that of a proxy. No call fails while a core
// stops and the proxy leads to another core.
func TestRunGateway_OneAddressOfAProxy(t *testing.T) {
	proxy := listenLocal(t)
	var target atomic.Pointer[string]
	go forward(t, proxy, &target)
	t.Cleanup(func() { _ = proxy.Close() })
	startTarget := func() *healthCore {
		core, port := startCore(t, "127.0.0.1", "0", nil)
		target.Store(new(net.JoinHostPort(core.address, port)))
		return core
	}
	core := startTarget()
	_, served := callThroughGateway(t, proxy.Addr().String(), 4)
	for range 200 {
		before := served.Load()
		pgtest.Eventually(t, "calls succeed", func() bool { return served.Load() > before+50 || t.Failed() })
		stopped := core
		core = startTarget()
		stopped.stop()
		if err := <-stopped.ended; err != nil {
			t.Error(err)
		}
	}
}

// A core that was gone for ten minutes gets calls within five seconds of its return, whether
// its machine refused connections or did not respond at all.
func TestConnectToCore_ReconnectsWithinFiveSeconds(t *testing.T) {
	const absence, allowed = 10 * time.Minute, 5 * time.Second
	clients := map[string]func(grpc.DialOption) (affiliatev1.HealthServiceClient, io.Closer, error){
		"gateway": func(dialer grpc.DialOption) (affiliatev1.HealthServiceClient, io.Closer, error) {
			conn, err := connectToCore("passthrough:///core", insecure.NewCredentials(), dialer)
			return affiliatev1.NewHealthServiceClient(conn), conn, err
		},
		"Go client": func(dialer grpc.DialOption) (affiliatev1.HealthServiceClient, io.Closer, error) {
			client, err := tributary.New("passthrough:///core", tributary.Options{Plaintext: true, DialOptions: []grpc.DialOption{dialer}})
			return client.Health, client, err
		},
	}
	for name, connect := range clients {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, silent: %v", name, silent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					core, listener := grpc.NewServer(), bufconn.Listen(1<<16)
					affiliatev1.RegisterHealthServiceServer(core, &healthCore{})
					go func() { _ = core.Serve(listener) }()
					defer core.Stop()
					returned := time.Now().Add(absence)
					previous, longest := time.Now(), time.Duration(0) // between two attempts to connect
					client, conn, err := connect(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
						longest = max(longest, time.Since(previous))
						previous = time.Now()
						if time.Now().Before(returned) {
							if silent {
								<-ctx.Done()
							}
							return nil, errors.New("the core is gone")
						}
						return listener.DialContext(ctx)
					}))
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = conn.Close() }()
					ctx, cancel := context.WithTimeout(t.Context(), 2*absence)
					defer cancel()
					if _, err := client.CheckLiveness(ctx, &affiliatev1.CheckLivenessRequest{}, grpc.WaitForReady(true)); err != nil {
						t.Fatal(err)
					}
					if waited := time.Since(returned); waited > allowed || longest > allowed {
						t.Errorf("the first call succeeded %s after the return, and the longest time between two attempts to connect was %s, want at most %s", waited, longest, allowed)
					}
				})
			})
		}
	}
}

// A gateway logs that it does not reach the core at its address, and that it does.
func TestRunGateway_LogsWhetherTheCoreIsReached(t *testing.T) {
	free := listenLocal(t)
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(lineWriter(lines), nil))
	cfg := settings.Gateway{CoreAddr: address}
	cfg.AllowHTTP = true
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	api, metrics := listenLocal(t), listenLocal(t)
	go func() { ended <- RunGateway(ctx, cfg, certificates.New(log), api, metrics, log, clock.New(time.Now)) }()
	if line := <-lines; !strings.Contains(line, "level=WARN msg=\"the clock could not be compared\" server=\"the core\"") {
		t.Errorf("the first line is %s", line)
	}
	if line := <-lines; !strings.Contains(line, "level=WARN msg=\"the core is not reached") || !strings.Contains(line, "core="+address) {
		t.Errorf("the second line is %s", line)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	startCore(t, "127.0.0.1", port, nil)
	if line := <-lines; !strings.Contains(line, "level=INFO msg=\"the core is reached\" core="+address) {
		t.Errorf("the line after the start of the core is %s", line)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A gateway compares its clock with that of the core, as soon as it reaches it.
func TestRunGateway_RefusesClockThatDiffersFromCore(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	core, err := server.New(server.Config{DB: noCredentials, Log: log, Now: time.Now}, server.Service{Desc: &affiliatev1.HealthService_ServiceDesc, Impl: health.New(time.Now)})
	if err != nil {
		t.Fatal(err)
	}
	listener := listenLocal(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- core.Serve(ctx, listener) }()
	cfg := settings.Gateway{CoreAddr: listener.Addr().String()}
	cfg.AllowHTTP = true
	behind := clock.New(func() time.Time { return time.Now().Add(-10 * time.Minute) })
	// If the response takes longer than a second, the gateway does not compare the clocks at the
	// start. On a slow machine, it must be started again.
	for range 5 {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		err = RunGateway(attempt, cfg, certificates.New(log), listenLocal(t), listenLocal(t), log, behind)
		cancel()
		if err != nil {
			break
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	const want = "the clock of this machine is 10m0s behind the clock of the core (maximum: 30s): synchronise the clocks (NTP) and start again"
	// If the response is slow, the measured difference is a little shorter or longer than ten minutes.
	measured := regexp.MustCompile(`9m59\.\d+s|10m0\.\d+s`)
	if err == nil || measured.ReplaceAllString(err.Error(), "10m0s") != want {
		t.Errorf("RunGateway returned %v, want %s", err, want)
	}
}

// lineWriter sends each line of a log to the channel.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// callThroughGateway starts a gateway, and clients that call it until the test ends. The test
// fails if a call fails. served counts the calls.
func callThroughGateway(t *testing.T, coreAddr string, clients int) (url string, served *atomic.Int64) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := settings.Gateway{CoreAddr: coreAddr}
	cfg.AllowHTTP = true
	api, metrics := listenLocal(t), listenLocal(t)
	url, served = "http://"+api.Addr().String(), &atomic.Int64{}
	var parts sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); parts.Wait() })
	parts.Go(func() {
		if err := RunGateway(ctx, cfg, certificates.New(log), api, metrics, log, clock.New(time.Now)); err != nil {
			t.Error(err)
		}
	})
	for range clients {
		parts.Go(func() {
			for ctx.Err() == nil {
				if err := get(ctx, url+"/api/v1/health"); err != nil && ctx.Err() == nil {
					t.Errorf("a call failed: %v", err)
					return
				}
				served.Add(1)
			}
		})
	}
	return url, served
}

// forward connects each client of the proxy to the target.
func forward(t *testing.T, proxy net.Listener, target *atomic.Pointer[string]) {
	t.Helper()
	for {
		client, err := proxy.Accept()
		if err != nil {
			return // the proxy is closed
		}
		server, err := net.Dial("tcp", *target.Load())
		if err != nil { // the target has just stopped, and there is another one
			server, err = net.Dial("tcp", *target.Load())
		}
		if err != nil {
			if t.Context().Err() == nil { // at the end, cores stop before the gateway
				t.Errorf("the proxy: %v", err)
			}
			_ = client.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = pair[0].Close()
			}()
		}
	}
}

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}

// healthCore is the gRPC server of a core that has only the health service.
type healthCore struct {
	affiliatev1.UnimplementedHealthServiceServer
	address string
	calls   atomic.Int64 // calls of CheckLiveness
	waiting atomic.Int64 // calls of CheckReadiness, each of which waits for release
	release <-chan struct{}
	stop    context.CancelFunc
	ended   chan error // receives the result of Serve
}

func (c *healthCore) CheckLiveness(context.Context, *affiliatev1.CheckLivenessRequest) (*affiliatev1.HealthStatus, error) {
	c.calls.Add(1)
	return &affiliatev1.HealthStatus{Status: "ok"}, nil
}

func (c *healthCore) CheckReadiness(ctx context.Context, _ *affiliatev1.CheckReadinessRequest) (*affiliatev1.HealthStatus, error) {
	c.waiting.Add(1)
	select {
	case <-c.release:
		return &affiliatev1.HealthStatus{Status: "ok"}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// noCredentials is the database of cores that serve only calls without a credential.
var noCredentials = &postgres.DB{}

// startCore starts a core that ends with the test, and returns it with its port.
func startCore(t *testing.T, host, port string, release <-chan struct{}) (core *healthCore, bound string) {
	t.Helper()
	c := &healthCore{address: host, release: release, ended: make(chan error, 1)}
	s, err := server.New(server.Config{DB: noCredentials, Log: slog.New(slog.DiscardHandler), Now: time.Now, MaxConnectionAge: time.Second},
		server.Service{Desc: &affiliatev1.HealthService_ServiceDesc, Impl: c})
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		t.Fatal(err)
	}
	_, bound, _ = net.SplitHostPort(listener.Addr().String())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	c.stop = stop
	t.Cleanup(stop)
	go func() { c.ended <- s.Serve(ctx, listener) }()
	return c, bound
}

// nameServer is a DNS server that returns the same IPv4 addresses for all names.
type nameServer struct {
	address string
	lookups atomic.Int64 // questions for IPv4 addresses

	mu        sync.Mutex
	addresses []netip.Addr
}

func (s *nameServer) set(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = nil
	for _, address := range addresses {
		s.addresses = append(s.addresses, netip.MustParseAddr(address))
	}
}

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	var config net.ListenConfig
	conn, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := &nameServer{address: conn.LocalAddr().String()}
	go func() {
		packet := make([]byte, 512)
		for {
			n, peer, err := conn.ReadFrom(packet)
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				return
			}
			response, err := s.respond(packet[:n])
			if err == nil {
				_, err = conn.WriteTo(response, peer)
			}
			if err != nil {
				t.Errorf("the name server: %v", err)
			}
		}
	}()
	return s
}

func (s *nameServer) respond(packet []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(packet); err != nil {
		return nil, err
	}
	message.Response, message.Authoritative, message.Additionals = true, true, nil
	question := message.Questions[0]
	if question.Type == dnsmessage.TypeA {
		s.mu.Lock()
		addresses := slices.Clone(s.addresses)
		s.mu.Unlock()
		for _, address := range addresses {
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: address.As4()},
			})
		}
		s.lookups.Add(1)
	}
	return message.Pack()
}
