package collector

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/ratelimit"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const benchBody = `{"referral_code":"anna","url":"https://shop.example/product/4711?utm_source=mail","referrer":"https://news.example/article","utm":{"source":"mail","campaign":"spring"},"consent":"granted","screen":"1920x1080","language":"de-DE"}`

// completeDirectory is a directory that contains every key and code.
type completeDirectory struct{}

func (completeDirectory) PublicKey(context.Context, [32]byte) (*edgev1.PublicKeyEntry, directory.State) {
	return &edgev1.PublicKeyEntry{WorkspaceId: make([]byte, 16), Mode: edgev1.Mode_MODE_TEST}, directory.Found
}

func (completeDirectory) ReferralCode(context.Context, affiliate.Scope, string) (*edgev1.ReferralCodeEntry, directory.State) {
	return &edgev1.ReferralCodeEntry{ProgramId: make([]byte, 16), ParticipantId: make([]byte, 16), Active: true, AttributionWindowDays: 30}, directory.Found
}

func (completeDirectory) Link(context.Context, string) (*edgev1.LinkEntry, directory.State) {
	return nil, directory.Absent
}

func (completeDirectory) SigningKeys(context.Context) (*edgev1.SigningKeys, directory.State) {
	return nil, directory.Unknown
}

type instantSink struct{}

func (instantSink) Append(context.Context, int, []byte, int) error { return nil }

type discardResponse struct{ header http.Header }

func (w *discardResponse) Header() http.Header         { return w.header }
func (w *discardResponse) Write(b []byte) (int, error) { return len(b), nil }
func (w *discardResponse) WriteHeader(int)             {}

// BenchmarkHandler measures the collector's own work per click, without sockets and
// Redis.
func BenchmarkHandler(b *testing.B) {
	c := New(Config{AllowHTTP: true, LimitTracking: 1 << 40, LimitVisitor: 1 << 40, HashKey: bytes.Repeat([]byte("k"), 32)},
		Deps{Sink: instantSink{}, Directory: completeDirectory{}, Limits: ratelimit.NewLease(nil, ratelimit.Options{})})
	defer func() { _ = c.Shutdown(context.Background()) }()
	key := account.NewKey(account.PublicKey, affiliate.ModeTest).Reveal()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, _ := http.NewRequest(http.MethodPost, "/v1/clicks", strings.NewReader(benchBody))
			r.RemoteAddr = "203.0.113.9:4711"
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("User-Agent", benchAgent)
			c.handler.ServeHTTP(&discardResponse{header: make(http.Header)}, r)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	raw := []byte(benchBody)
	b.ReportAllocs()
	for b.Loop() {
		if _, violations := decode(raw); len(violations) > 0 {
			b.Fatalf("decode reports %v, want no violations", violations)
		}
	}
}

const benchAgent = windows + "Chrome/131.0.0.0 Safari/537.36"

// BenchmarkRecord measures how long it takes to write the record of a visitor whose user
// agent is cached, without and with a country file.
func BenchmarkRecord(b *testing.B) {
	click, violations := decode([]byte(benchBody))
	if len(violations) > 0 {
		b.Fatalf("decode reports %v, want no violations", violations)
	}
	now := time.Now()
	id := affiliate.NewID[affiliate.ClickID](now)
	codeEntry := &edgev1.ReferralCodeEntry{ProgramId: make([]byte, 16), ParticipantId: make([]byte, 16), AttributionWindowDays: 30}
	v := visitor{addr: netip.MustParseAddr("203.0.113.9"), agent: benchAgent}
	run := func(b *testing.B, c *Collector) {
		b.Helper()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			record := make([]byte, 0, 1024)
			for pb.Next() {
				record = c.record(record[:0], id, now, apiCaller{}, codeEntry, click, v)
			}
		})
	}
	c := &Collector{hashes: &hasher{key: bytes.Repeat([]byte("k"), 32)}, agents: newAgentCache()}
	b.Run("without country", func(b *testing.B) { run(b, c) })
	c.deps.countries = countriesWith(b, "GeoLite2-City", map[string]mmdbtype.Map{"203.0.113.0/24": placeRecord("CH", "ZH")})
	b.Run("with country", func(b *testing.B) { run(b, c) })
}

// BenchmarkAgent measures concurrent lookups of agents: a cached agent, new agents, and a
// mix of both.
func BenchmarkAgent(b *testing.B) {
	var newAgents atomic.Int64
	for _, c := range []struct {
		name       string
		isNewAgent func(n int) bool
	}{
		{"cached", func(int) bool { return false }},
		{"new", func(int) bool { return true }},
		{"every tenth new", func(n int) bool { return n%10 == 0 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			cache := newAgentCache()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for n := 0; pb.Next(); n++ {
					text := benchAgent
					if c.isNewAgent(n) {
						text = benchAgent + strconv.FormatInt(newAgents.Add(1), 36)
					}
					cache.parse(text)
				}
			})
		})
	}
}

// BenchmarkServed compares the collector with a plain handler that reads the body and
// responds with a UUIDv7. The collector responds after Redis has acknowledged the click.
// Both use 64 keep-alive connections on the loopback interface.
func BenchmarkServed(b *testing.B) {
	const connections = 64
	run := func(b *testing.B, server *http.Server, key string) {
		b.Helper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatalf("unexpected error: %v", err)
		}
		go func() { _ = server.Serve(listener) }()
		defer func() { _ = server.Close() }()
		request := []byte("POST /v1/clicks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key +
			"\r\nContent-Type: text/plain\r\nUser-Agent: " + benchAgent + "\r\nContent-Length: " + strconv.Itoa(len(benchBody)) + "\r\n\r\n" + benchBody)
		work := make(chan struct{}, connections)
		var group sync.WaitGroup
		for range connections {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				b.Fatalf("unexpected error: %v", err)
			}
			group.Go(func() {
				defer func() { _ = conn.Close() }()
				response := make([]byte, 4096)
				for range work {
					if _, err := conn.Write(request); err != nil {
						b.Errorf("sending a request: %v", err)
						return
					}
					n, err := conn.Read(response)
					if err != nil || !bytes.HasPrefix(response[:n], []byte("HTTP/1.1 201")) {
						b.Errorf("response %q, error %v; want the status 201", response[:n], err)
						return
					}
				}
			})
		}
		b.ResetTimer()
		for range b.N {
			work <- struct{}{}
		}
		close(work)
		group.Wait()
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	}
	b.Run("bare", func(b *testing.B) {
		run(b, httpedge.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, affiliate.NewID[affiliate.ClickID](time.Now()).String())
		}), discardLogger()), "x")
	})
	b.Run("collector", func(b *testing.B) {
		e := newEdge(b, redistest.New(b), func(cfg *Config) { cfg.LimitTracking = 1 << 40 })
		run(b, httpedge.NewServer(e.collector.handler, discardLogger()), e.key.Reveal())
	})
}
