package clickstream_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// outside is a hook under the breaker that counts the writes which are out.
type outside struct {
	mu              sync.Mutex
	now, most, sent int
}

func (o *outside) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *outside) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() != "xadd" { // a new connection's greeting, within a write
			return next(ctx, command)
		}
		o.mu.Lock()
		o.now++
		o.sent++
		o.most = max(o.most, o.now)
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.now--
		}()
		return next(ctx, command)
	}
}

func (o *outside) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// begin forgets what was counted.
func (o *outside) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.most, o.sent = 0, 0
}

func (o *outside) counted() (most, sent int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.most, o.sent
}

// oneAtATimeHangs finds that of many callers of a server that hangs no two wait for
// it at the same time, once it has been given up.
func oneAtATimeHangs(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	var out outside
	client.AddHook(&out)
	writer := clickstream.NewWriter(client, 1)
	batch := batchOf(t, newID())
	var callers sync.WaitGroup
	for range 5 {
		callers.Go(func() {
			if writer.Append(t.Context(), 0, batch, 1) == nil {
				t.Error("a hanging server took a batch")
			}
		})
	}
	callers.Wait()
	out.begin()
	for range 8 {
		callers.Go(func() {
			for probes := 0; probes < 3; _, probes = out.counted() {
				time.Sleep(time.Millisecond) // leaves the processor to others
				if writer.Append(t.Context(), 0, batch, 1) == nil {
					t.Error("a hanging server took a batch")
				}
			}
		})
	}
	callers.Wait()
	if most, sent := out.counted(); most != 1 {
		t.Errorf("%d calls hang at once, of %d", most, sent)
	}
}

func TestOneCallAtATimeWaitsForAServerThatNeverAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	var conns []net.Conn
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	oneAtATimeHangs(t, connect(t, clickstream.Endpoint{URL: "redis://" + listener.Addr().String()}))
}

func TestOneCallAtATimeWaitsForAServerThatHangs(t *testing.T) {
	server := redistest.Start(t)
	client := connect(t, clickstream.Endpoint{URL: server.URL})
	writer := clickstream.NewWriter(client, 1)
	write := func() error { return writer.Append(t.Context(), 0, batchOf(t, newID()), 1) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	oneAtATimeHangs(t, client)
	server.Resume()
	eventually(t, write)
}
