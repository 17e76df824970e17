package httpedge

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Limits of a public server (RELIABILITY.md 6.6). Streams and downloads extend
// their own write deadline through http.ResponseController.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	maxStreams        = 100
)

// HSTS is the Strict-Transport-Security value of a deployment that refuses
// plain HTTP.
const HSTS = "max-age=31536000"

// NewServer makes a server with the limits above. Its own complaints (TLS
// handshakes, broken clients) go to log at debug level: they are the peer's
// faults and as many as the peer likes.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Serve runs server on listener until it is shut down, over TLS when config is
// not nil. A client that speaks plain HTTP to the TLS port reads 403
// HTTPS_REQUIRED too, where net/http alone would answer a bare 400. It returns
// nil after Shutdown or Close.
func Serve(server *http.Server, listener net.Listener, config *tls.Config) error {
	var err error
	if config == nil {
		err = server.Serve(listener)
	} else {
		server.TLSConfig = config
		err = server.ServeTLS(plainRefuser{listener}, "", "")
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Guard turns a panic of next into 500 INTERNAL_ERROR and hands what was thrown
// to report. When the answer has already begun, the connection is cut instead,
// so that no client takes half an answer for a whole one.
func Guard(next http.Handler, report func(r *http.Request, thrown any, stack []byte)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watched := &startWatcher{ResponseWriter: w}
		defer func() {
			thrown := recover()
			if thrown == nil {
				return
			}
			if err, ok := thrown.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			report(r, thrown, debug.Stack())
			if watched.started {
				panic(http.ErrAbortHandler)
			}
			WriteError(w, http.StatusInternalServerError, affiliate.ReasonInternal, "An unexpected error occurred.")
		}()
		next.ServeHTTP(watched, r)
	})
}

type startWatcher struct {
	http.ResponseWriter
	started bool
}

func (w *startWatcher) WriteHeader(status int) {
	// 1xx answers are not the answer.
	w.started = w.started || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *startWatcher) Write(b []byte) (int, error) {
	w.started = true
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach Flush and the deadlines.
func (w *startWatcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush keeps plain http.Flusher assertions working (server-sent events).
func (w *startWatcher) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		w.started = true
		f.Flush()
	}
}

type plainRefuser struct{ net.Listener }

func (l plainRefuser) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sniffedConn{Conn: conn}, nil
}

// sniffedConn looks at the first byte that the client sends. A TLS client
// always begins with a handshake record; anything else never gets a session, so
// whatever the TLS stack or net/http then writes is replaced by the refusal.
type sniffedConn struct {
	net.Conn
	sniffed, plain, refused bool
}

const tlsHandshakeRecord = 0x16

func (c *sniffedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.sniffed {
		c.sniffed, c.plain = true, b[0] != tlsHandshakeRecord
	}
	return n, err
}

func (c *sniffedConn) Write(b []byte) (int, error) {
	if !c.plain {
		return c.Conn.Write(b)
	}
	if !c.refused {
		c.refused = true
		if _, err := c.Conn.Write(httpsRequired); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

var httpsRequired = func() []byte {
	body := fmt.Sprintf(`{"statusCode":403,"message":%q,"error":"Forbidden","code":%q}`+"\n", HTTPSRequiredMessage, affiliate.ReasonHTTPSRequired)
	return []byte("HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}()

// HTTPSRequiredMessage is the sentence of HTTPS_REQUIRED.
const HTTPSRequiredMessage = "This service is reached over HTTPS only."
