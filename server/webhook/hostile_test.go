package webhook_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/webhook"
	server "github.com/tributary-hq/tributary/server/webhook"
)

// delivered is the outcome whatever becomes of the body.
var delivered = webhook.Outcome{StatusCode: http.StatusOK}

// send makes an attempt on a receiver that may be called.
func send(t *testing.T, r *receiver) webhook.Outcome {
	t.Helper()
	return newClient(t, allowLoopback).Send(t.Context(), attempt(r.url(host)))
}

func TestReceiverThatNeverAnswersTimesOut(t *testing.T) {
	const bound = 100 * time.Millisecond
	within := func(r *server.Request, _ *server.Client) { r.Timeout = bound }
	hear := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	for name, test := range map[string]struct {
		receiver *receiver
		bound    func(*server.Request, *server.Client)
	}{
		"no byte of TLS, the handshake's bound": {
			listen(t, hear),
			func(_ *server.Request, c *server.Client) { c.Bound(ample, bound, ample) },
		},
		"no byte of an answer": {answer(t, func(_ *http.Request, c net.Conn) bool {
			hear(c)
			return false
		}), within},
		"a header, byte by byte": {answer(t, func(_ *http.Request, c net.Conn) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Drip: ")
			repeat(c, []byte("x"), 5*time.Millisecond)
			return false
		}), within},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, allowLoopback)
			a := attempt(test.receiver.url(host))
			test.bound(&a, client)
			if o := client.Send(t.Context(), a); o != webhook.FailureOutcome(webhook.Timeout) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

func TestEndlessHeaderIsCutOff(t *testing.T) {
	for name, part := range map[string]string{
		"one line":     strings.Repeat("x", 4096),
		"many lines":   strings.Repeat("X-More: x\r\n", 400) + "X-More: ",
		"1xx answers":  "x\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: ",
		"100 continue": "x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\nX-More: ",
	} {
		t.Run(name, func(t *testing.T) {
			r := answer(t, func(_ *http.Request, c net.Conn) bool {
				_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: ")
				repeat(c, []byte(part), 0)
				return false
			})
			if o := send(t, r); o != webhook.FailureOutcome(webhook.ProtocolError) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

// The receiver drips for as long as it is listened to. That it stops shows that the
// connection is gone, and that Send returns shows that the place is free.
func TestDrippingBodyHoldsNoPlace(t *testing.T) {
	for name, header := range map[string]string{
		"length given": "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
		"chunked":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n",
		"until closed": "HTTP/1.1 200 OK\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			stopped := make(chan struct{})
			r := answer(t, func(_ *http.Request, c net.Conn) bool {
				defer close(stopped)
				_, _ = io.WriteString(c, header)
				repeat(c, []byte("x"), 5*time.Millisecond)
				return false
			})
			if o := send(t, r); o != delivered {
				t.Errorf("outcome %+v", o)
			}
			<-stopped
		})
	}
}

func TestBodyDoesNotChangeTheOutcome(t *testing.T) {
	for name, text := range map[string]string{
		"cut short":                 "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf",
		"a chunk that is none":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
		"a trailer that is none":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno trailer\r\n\r\n",
		"not the encoding it tells": "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
		"more than was announced":   "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok and more",
		"one byte over the bound":   "HTTP/1.1 200 OK\r\nContent-Length: 16385\r\n\r\n" + strings.Repeat("x", 16385),
	} {
		t.Run(name, func(t *testing.T) {
			if o := send(t, say(t, text)); o != delivered {
				t.Errorf("outcome %+v", o)
			}
		})
	}
	t.Run("reset", func(t *testing.T) {
		r := answer(t, func(_ *http.Request, c net.Conn) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nRetry-After: 60\r\nContent-Length: 9\r\n\r\nhalf")
			return false
		})
		want := webhook.Outcome{StatusCode: 503, ErrorCode: "http_503", RetryAfter: time.Minute}
		if o := send(t, r); o != want {
			t.Errorf("outcome %+v", o)
		}
	})
}

// Two answers are as large as they like: one by what it sends, one by what it would
// become. The receiver is of the same process, so its memory counts too.
func TestHugeBodyIsNeitherReadNorUnpacked(t *testing.T) {
	const size = 1 << 30
	chunk := make([]byte, 1<<20)
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	_, _ = packer.Write(chunk)
	_ = packer.Close()
	bomb := bytes.Repeat(packed.Bytes(), size/len(chunk)) // packed files in a row are one

	for name, test := range map[string]struct {
		header string
		body   func(net.Conn) (sent int)
	}{
		"1 GB": {fmt.Sprintf("Content-Length: %d", size), func(c net.Conn) (sent int) {
			for sent < size {
				n, err := c.Write(chunk)
				if sent += n; err != nil {
					break
				}
			}
			return sent
		}},
		"packed zeros": {fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d", len(bomb)), func(c net.Conn) int {
			n, _ := c.Write(bomb)
			return n
		}},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan int, 1)
			r := answer(t, func(_ *http.Request, c net.Conn) bool {
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", test.header)
				sent <- test.body(c)
				return false
			})
			client := newClient(t, allowLoopback)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if o := client.Send(t.Context(), attempt(r.url(host))); o != delivered {
				t.Errorf("outcome %+v", o)
			}
			n := <-sent
			runtime.ReadMemStats(&after)
			if n >= size/4 {
				t.Errorf("%d bytes were taken", n)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("%d bytes were allocated", used)
			}
		})
	}
}

func TestAnswerThatIsNotHTTP(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                {"", webhook.ConnectionRefused},
		"another protocol":       {"SSH-2.0-OpenSSH_9.6\r\n", webhook.ProtocolError},
		"a status of letters":    {"HTTP/1.1 abc OK\r\n\r\n", webhook.ProtocolError},
		"a status of two digits": {"HTTP/1.1 20 OK\r\n\r\n", webhook.ProtocolError},
		"a negative status":      {"HTTP/1.1 -20 OK\r\n\r\n", webhook.ProtocolError},
		"a status below 100":     {"HTTP/1.1 042 OK\r\nContent-Length: 0\r\n\r\n", webhook.ProtocolError},
		"a status of zero":       {"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", webhook.ProtocolError},
		"half a status line":     {"HTTP/1.1 20", webhook.ProtocolError},
		"half a header":          {"HTTP/1.1 200 OK\r\nContent-Le", webhook.ProtocolError},
		"a header without colon": {"HTTP/1.1 200 OK\r\nno header\r\n\r\n", webhook.ProtocolError},
		"a negative length":      {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", webhook.ProtocolError},
		"two lengths":            {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", webhook.ProtocolError},
		"HTTP/2":                 {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", webhook.ProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			if o := send(t, say(t, tc.text)); o != webhook.FailureOutcome(tc.want) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

func TestSwitchOfProtocolIsRefused(t *testing.T) {
	r := answer(t, func(_ *http.Request, c net.Conn) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tunnel\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
		return false
	})
	want := webhook.Outcome{StatusCode: 101, ErrorCode: "http_101"}
	if o := send(t, r); o != want {
		t.Errorf("outcome %+v", o)
	}
}

func TestBrokenConnection(t *testing.T) {
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }
	for name, tc := range map[string]struct {
		handle func(net.Conn)
		want   string
	}{
		"closed before TLS": {func(net.Conn) {}, webhook.ConnectionRefused},
		"reset before TLS":  {reset, webhook.ConnectionRefused},
		"closed within TLS": {func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, webhook.ConnectionRefused},
		"reset within TLS": {func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			reset(c)
		}, webhook.ConnectionRefused},
		"reset after the request": {func(c net.Conn) {
			_, _ = tls.Server(c, receiverTLS()).Read(make([]byte, 4096))
			reset(c)
		}, webhook.ConnectionRefused},
		"reset within the header": {func(c net.Conn) {
			secured := tls.Server(c, receiverTLS())
			_, _ = secured.Read(make([]byte, 4096))
			_, _ = io.WriteString(secured, "HTTP/1.1 200 OK\r\nContent-")
			reset(c)
		}, webhook.ProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			if o := send(t, listen(t, tc.handle)); o != webhook.FailureOutcome(tc.want) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		r := listen(t, func(net.Conn) {})
		r.close()
		if o := send(t, r); o != webhook.FailureOutcome(webhook.ConnectionRefused) {
			t.Errorf("outcome %+v", o)
		}
	})
}

// shake shakes hands and then waits for the client to go: closing a connection with
// bytes unread would reset it, and the client might see that before the alert.
func shake(cfg *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		_ = tls.Server(c, cfg).Handshake()
		_, _ = io.Copy(io.Discard, c)
	}
}

func TestTLSIsAlwaysVerified(t *testing.T) {
	issue := func(change func(*x509.Certificate)) *tls.Config { return authority().issue(change) }
	outdated, demanding, limited := receiverTLS().Clone(), receiverTLS().Clone(), receiverTLS().Clone()
	outdated.MinVersion, outdated.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	demanding.ClientAuth = tls.RequireAnyClientCert
	limited.ClientAuth, limited.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
	for name, handle := range map[string]func(net.Conn){
		"expired":                 shake(issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })),
		"not valid yet":           shake(issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })),
		"of another host":         shake(issue(func(c *x509.Certificate) { c.DNSNames = []string{"other.test"} })),
		"of the address only":     shake(issue(func(c *x509.Certificate) { c.DNSNames = nil })),
		"in the common name only": shake(issue(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil })),
		"of a client": shake(issue(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})),
		"of an unknown authority":        shake(newAuthority().issue()),
		"self-signed":                    shake(selfSigned()),
		"TLS 1.1 only":                   shake(outdated),
		"a client's demanded":            shake(demanding),
		"a client's demanded by TLS 1.2": shake(limited),
		"plain HTTP on the port": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\nThis is plain HTTP")
			_, _ = io.Copy(io.Discard, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if o := send(t, listen(t, handle)); o != webhook.FailureOutcome(webhook.TLSError) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}
