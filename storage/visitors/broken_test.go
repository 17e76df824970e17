package visitors

import (
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// What was answered before a connection breaks counts.
func TestAnswersBeforeABreakCount(t *testing.T) {
	through, breakAfter := wire(t, redistest.Start(t).URL)
	v := New(connect(t, through))
	var clicks []*affiliate.Click
	for bucket := range byte(buckets) {
		clicks = append(clicks, ofBucket(bucket, 1)...)
	}
	mark(t, v, clicks...)
	const answered = 3
	breakAfter(answered * len("$12\r\nholder__time\r\n"))
	for _, c := range clicks {
		c.Unique = false
	}
	if unknown := v.MarkUnique(t.Context(), clicks); unknown != buckets-answered {
		t.Errorf("%d are unknown, want %d", unknown, buckets-answered)
	}
	for bucket, c := range clicks {
		if c.Unique != (bucket < answered) {
			t.Errorf("bucket %d: unique is %t", bucket, c.Unique)
		}
	}
}

// wire leads to a Redis, and breaks once so many more bytes of answers have passed.
func wire(t *testing.T, to string) (at string, breakAfter func(bytes int)) {
	t.Helper()
	address, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	redis := address.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	const whole = 1 << 40
	var left atomic.Int64
	left.Store(whole)
	pass := func(client net.Conn) {
		defer func() { _ = client.Close() }()
		server, err := net.Dial("tcp", redis)
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		go func() { _, _ = io.Copy(server, client) }()
		for buffer := make([]byte, 4096); ; {
			n, err := server.Read(buffer)
			if rest := left.Add(-int64(n)); rest < 0 {
				_, _ = client.Write(buffer[:max(0, int64(n)+rest)])
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
			go pass(client)
		}
	}()
	address.Host = listener.Addr().String()
	return address.String(), func(bytes int) { left.Store(int64(bytes)) }
}
