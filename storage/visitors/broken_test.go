package visitors

import (
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// If a connection breaks, MarkUnique must use the replies that it has already received.
func TestMarkUnique_UsesRepliesBeforeConnectionBreaks(t *testing.T) {
	proxyURL, breakAfter := startProxy(t, redistest.Start(t).URL)
	v := New(connect(t, proxyURL))
	var clicks []*click.Click
	for bucket := range byte(buckets) {
		clicks = append(clicks, clicksOfBucket(bucket, 1)...)
	}
	mark(t, v, clicks...)
	const received = 3 // number of replies before the connection breaks; a reply is a token and a time
	breakAfter(received * len("$12\r\ntoken___time\r\n"))
	for _, c := range clicks {
		c.Unique = false
	}
	if unknown := v.MarkUnique(t.Context(), clicks); unknown != buckets-received {
		t.Errorf("%d clicks are unknown, want %d", unknown, buckets-received)
	}
	for bucket, c := range clicks {
		if c.Unique != (bucket < received) {
			t.Errorf("bucket %d: Unique is %t, want %t", bucket, c.Unique, bucket < received)
		}
	}
}

// startProxy starts a proxy for a Redis server. breakAfter sets the number of further
// bytes of replies that the proxy forwards before it closes its connections.
func startProxy(t *testing.T, serverURL string) (proxyURL string, breakAfter func(bytes int)) {
	t.Helper()
	address, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	redis := address.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	const unlimited = 1 << 40
	var remaining atomic.Int64 // bytes of replies until the proxy closes its connections
	remaining.Store(unlimited)
	forward := func(client net.Conn) {
		defer func() { _ = client.Close() }()
		server, err := net.Dial("tcp", redis)
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		go func() { _, _ = io.Copy(server, client) }()
		for buffer := make([]byte, 4096); ; {
			n, err := server.Read(buffer)
			if left := remaining.Add(-int64(n)); left < 0 {
				_, _ = client.Write(buffer[:max(0, int64(n)+left)])
				return
			}
			if _, failed := client.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(client)
		}
	}()
	address.Host = listener.Addr().String()
	return address.String(), func(bytes int) { remaining.Store(int64(bytes)) }
}
