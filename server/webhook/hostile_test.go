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

	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server/webhook"
)

// okOutcome is the outcome of a response with status 200, regardless of its body.
var okOutcome = domain.Outcome{StatusCode: http.StatusOK}

// sendOnce makes one attempt with a client that allows loopback addresses.
func sendOnce(t *testing.T, r *receiver) domain.Outcome {
	t.Helper()
	return newClient(t, allowLoopback).Send(t.Context(), newRequest(r.url(host)))
}

func TestSend_TimesOutWithoutResponse(t *testing.T) {
	const timeout = 100 * time.Millisecond
	setRequestTimeout := func(r *webhook.Request, _ *webhook.Client) { r.Timeout = timeout }
	discard := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	for name, test := range map[string]struct {
		receiver   *receiver
		setTimeout func(*webhook.Request, *webhook.Client)
	}{
		"no TLS handshake": {
			listen(t, discard),
			func(_ *webhook.Request, c *webhook.Client) { c.SetTimeouts(longTimeout, timeout, longTimeout) },
		},
		"no response": {respondWith(t, func(_ *http.Request, c net.Conn) bool {
			discard(c)
			return false
		}), setRequestTimeout},
		"a header, byte by byte": {respondWith(t, func(_ *http.Request, c net.Conn) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Drip: ")
			writeSlowly(c)
			return false
		}), setRequestTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, allowLoopback)
			req := newRequest(test.receiver.url(host))
			test.setTimeout(&req, client)
			checkOutcome(t, client.Send(t.Context(), req), domain.Outcome{ErrorCode: domain.Timeout})
		})
	}
}

func TestSend_RejectsEndlessHeader(t *testing.T) {
	for name, part := range map[string]string{
		"one line":      strings.Repeat("x", 4096),
		"many lines":    strings.Repeat("X-More: x\r\n", 400) + "X-More: ",
		"1xx responses": "x\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: ",
		"100 continue":  "x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\nX-More: ",
	} {
		t.Run(name, func(t *testing.T) {
			r := respondWith(t, func(_ *http.Request, c net.Conn) bool {
				_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: ")
				writeRepeatedly(c, []byte(part))
				return false
			})
			checkOutcome(t, sendOnce(t, r), domain.Outcome{ErrorCode: domain.ProtocolError})
		})
	}
}

// The receiver sends its body slowly until the client closes the connection. Send must
// not wait for the end of the body, because it would delay other attempts: the number of
// attempts in flight is limited.
func TestSend_ClosesConnectionWithSlowBody(t *testing.T) {
	for name, header := range map[string]string{
		"with a length":    "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
		"chunked":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n",
		"without a length": "HTTP/1.1 200 OK\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			stopped := make(chan struct{})
			r := respondWith(t, func(_ *http.Request, c net.Conn) bool {
				defer close(stopped)
				_, _ = io.WriteString(c, header)
				writeSlowly(c)
				return false
			})
			checkOutcome(t, sendOnce(t, r), okOutcome)
			<-stopped
		})
	}
}

func TestSend_BodyDoesNotChangeTheOutcome(t *testing.T) {
	for name, text := range map[string]string{
		"truncated":               "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf",
		"invalid chunk":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
		"invalid trailer":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno trailer\r\n\r\n",
		"wrong encoding":          "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
		"longer than its length":  "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok and more",
		"one byte over the limit": "HTTP/1.1 200 OK\r\nContent-Length: 16385\r\n\r\n" + strings.Repeat("x", 16385),
	} {
		t.Run(name, func(t *testing.T) {
			checkOutcome(t, sendOnce(t, respondWithText(t, text)), okOutcome)
		})
	}
	t.Run("truncated body after an error status", func(t *testing.T) {
		r := respondWith(t, func(_ *http.Request, c net.Conn) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nRetry-After: 60\r\nContent-Length: 9\r\n\r\nhalf")
			return false
		})
		want := domain.Outcome{StatusCode: 503, ErrorCode: "http_503", RetryAfter: time.Minute}
		checkOutcome(t, sendOnce(t, r), want)
	})
}

// One response is very large. The other response is small but would be very large after
// decompression. The receiver runs in the same process, so the measured memory includes
// the memory of the receiver.
func TestSend_NeitherReadsNorDecompressesLargeBody(t *testing.T) {
	const size = 1 << 30
	chunk := make([]byte, 1<<20)
	var compressed bytes.Buffer
	compressor := gzip.NewWriter(&compressed)
	_, _ = compressor.Write(chunk)
	_ = compressor.Close()
	bomb := bytes.Repeat(compressed.Bytes(), size/len(chunk)) // gzip files can be concatenated

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
		"compressed zeros": {fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d", len(bomb)), func(c net.Conn) int {
			n, _ := c.Write(bomb)
			return n
		}},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan int, 1)
			r := respondWith(t, func(_ *http.Request, c net.Conn) bool {
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", test.header)
				sent <- test.body(c)
				return false
			})
			client := newClient(t, allowLoopback)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			checkOutcome(t, client.Send(t.Context(), newRequest(r.url(host))), okOutcome)
			n := <-sent
			runtime.ReadMemStats(&after)
			if n >= size/4 {
				t.Errorf("%d bytes were read, want less than %d", n, size/4)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("%d bytes were allocated, want at most %d", used, 8<<20)
			}
		})
	}
}

func TestSend_ResponseThatIsNotHTTP(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                  {"", domain.ConnectionFailed},
		"another protocol":       {"SSH-2.0-OpenSSH_9.6\r\n", domain.ProtocolError},
		"a status of letters":    {"HTTP/1.1 abc OK\r\n\r\n", domain.ProtocolError},
		"a status of two digits": {"HTTP/1.1 20 OK\r\n\r\n", domain.ProtocolError},
		"a negative status":      {"HTTP/1.1 -20 OK\r\n\r\n", domain.ProtocolError},
		"a status below 100":     {"HTTP/1.1 042 OK\r\nContent-Length: 0\r\n\r\n", domain.ProtocolError},
		"a status of zero":       {"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", domain.ProtocolError},
		"half a status line":     {"HTTP/1.1 20", domain.ProtocolError},
		"half a header":          {"HTTP/1.1 200 OK\r\nContent-Le", domain.ProtocolError},
		"a header without colon": {"HTTP/1.1 200 OK\r\nno header\r\n\r\n", domain.ProtocolError},
		"a negative length":      {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", domain.ProtocolError},
		"two lengths":            {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", domain.ProtocolError},
		"HTTP/2":                 {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", domain.ProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			checkOutcome(t, sendOnce(t, respondWithText(t, tc.text)), domain.Outcome{ErrorCode: tc.want})
		})
	}
}

func TestSend_SwitchingProtocolsIsAFailure(t *testing.T) {
	r := respondWith(t, func(_ *http.Request, c net.Conn) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tunnel\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
		return false
	})
	want := domain.Outcome{StatusCode: 101, ErrorCode: "http_101"}
	checkOutcome(t, sendOnce(t, r), want)
}

func TestSend_BrokenConnection(t *testing.T) {
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }
	for name, tc := range map[string]struct {
		handle func(net.Conn)
		want   string
	}{
		"closed before TLS": {func(net.Conn) {}, domain.ConnectionFailed},
		"reset before TLS":  {reset, domain.ConnectionFailed},
		"closed within TLS": {func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, domain.ConnectionFailed},
		"reset within TLS": {func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			reset(c)
		}, domain.ConnectionFailed},
		"reset after the request": {func(c net.Conn) {
			_, _ = tls.Server(c, receiverTLS()).Read(make([]byte, 4096))
			reset(c)
		}, domain.ConnectionFailed},
		"reset within the header": {func(c net.Conn) {
			tlsConn := tls.Server(c, receiverTLS())
			_, _ = tlsConn.Read(make([]byte, 4096))
			_, _ = io.WriteString(tlsConn, "HTTP/1.1 200 OK\r\nContent-")
			reset(c)
		}, domain.ProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			checkOutcome(t, sendOnce(t, listen(t, tc.handle)), domain.Outcome{ErrorCode: tc.want})
		})
	}
	t.Run("no listener", func(t *testing.T) {
		r := listen(t, func(net.Conn) {})
		r.close()
		checkOutcome(t, sendOnce(t, r), domain.Outcome{ErrorCode: domain.ConnectionFailed})
	})
}

// handshakeOnly makes the TLS handshake and then reads until the client closes the
// connection. Closing a connection with unread bytes would reset it, and the client could
// see the reset before the TLS alert.
func handshakeOnly(cfg *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		_ = tls.Server(c, cfg).Handshake()
		_, _ = io.Copy(io.Discard, c)
	}
}

func TestSend_VerifiesCertificates(t *testing.T) {
	issue := func(change func(*x509.Certificate)) *tls.Config { return testAuthority().issue(change) }
	outdated, clientCert, clientCertTLS12 := receiverTLS().Clone(), receiverTLS().Clone(), receiverTLS().Clone()
	outdated.MinVersion, outdated.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	clientCert.ClientAuth = tls.RequireAnyClientCert
	clientCertTLS12.ClientAuth, clientCertTLS12.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
	for name, handle := range map[string]func(net.Conn){
		"expired":                      handshakeOnly(issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })),
		"not valid yet":                handshakeOnly(issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })),
		"for another host":             handshakeOnly(issue(func(c *x509.Certificate) { c.DNSNames = []string{"other.test"} })),
		"for the address only":         handshakeOnly(issue(func(c *x509.Certificate) { c.DNSNames = nil })),
		"host only in the common name": handshakeOnly(issue(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil })),
		"for clients only": handshakeOnly(issue(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})),
		"from an unknown authority":              handshakeOnly(newAuthority().issue()),
		"self-signed":                            handshakeOnly(selfSigned()),
		"TLS 1.1 only":                           handshakeOnly(outdated),
		"client certificate required":            handshakeOnly(clientCert),
		"client certificate required by TLS 1.2": handshakeOnly(clientCertTLS12),
		"plain HTTP on the port": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\nThis is plain HTTP")
			_, _ = io.Copy(io.Discard, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkOutcome(t, sendOnce(t, listen(t, handle)), domain.Outcome{ErrorCode: domain.TLSError})
		})
	}
}
