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

// writeCounter is a Redis hook that counts the writes that have passed the breaker.
type writeCounter struct {
	mu                        sync.Mutex
	running, maxRunning, sent int
}

func (c *writeCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *writeCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() != "xadd" { // a command that opens a new connection for a write
			return next(ctx, command)
		}
		c.mu.Lock()
		c.running++
		c.sent++
		c.maxRunning = max(c.maxRunning, c.running)
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.running--
		}()
		return next(ctx, command)
	}
}

func (c *writeCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *writeCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxRunning, c.sent = 0, 0
}

func (c *writeCounter) counts() (maxRunning, sent int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.maxRunning, c.sent
}

// testOneCallAtATime checks a client whose server hangs, while several goroutines send
// commands. After the breaker has opened, at most one command at a time may wait for the
// server.
func testOneCallAtATime(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	var counter writeCounter
	client.AddHook(&counter)
	writer := clickstream.NewWriter(client, 1)
	batch := marshalBatch(t, newID())
	var callers sync.WaitGroup
	for range 5 {
		callers.Go(func() {
			if writer.Append(t.Context(), 0, batch, 1) == nil {
				t.Error("Append to a server that hangs succeeded")
			}
		})
	}
	callers.Wait()
	counter.reset()
	deadline := time.Now().Add(time.Minute)
	for range 8 {
		callers.Go(func() {
			for probes := 0; probes < 3; _, probes = counter.counts() {
				if time.Now().After(deadline) {
					t.Errorf("within a minute, %d calls were sent, want 3", probes)
					return
				}
				time.Sleep(time.Millisecond) // let other goroutines run
				if writer.Append(t.Context(), 0, batch, 1) == nil {
					t.Error("Append to a server that hangs succeeded")
				}
			}
		})
	}
	callers.Wait()
	if maxRunning, sent := counter.counts(); maxRunning != 1 {
		t.Errorf("%d of %d calls waited for the server at the same time, want 1", maxRunning, sent)
	}
}

func TestBreaker_SendsOneCallAtATimeToSilentServer(t *testing.T) {
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
	testOneCallAtATime(t, connect(t, clickstream.Endpoint{URL: "redis://" + listener.Addr().String()}))
}

func TestBreaker_SendsOneCallAtATimeToPausedServer(t *testing.T) {
	server := redistest.Start(t)
	client := connect(t, clickstream.Endpoint{URL: server.URL})
	writer := clickstream.NewWriter(client, 1)
	write := func() error { return writer.Append(t.Context(), 0, marshalBatch(t, newID()), 1) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	testOneCallAtATime(t, client)
	server.Resume()
	eventually(t, write)
}
