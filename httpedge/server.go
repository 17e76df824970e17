// Package httpedge contains the parts that all HTTP servers of the service share. It
// determines the client's address behind trusted proxies, whether a request used HTTPS,
// and the request id. It parses the origins of CORS, checks the media type of a body,
// writes the error body of docs/errors.md, and sets the time and size limits of a
// public server.
//
// It guarantees that a client cannot forge its address, and cannot pretend to use HTTPS.
// Forwarding headers are read only if the peer of the TCP connection is a trusted proxy.
// Only the parts of these headers that trusted proxies wrote are used.
//
// It does not authenticate clients, route requests or count them for rate limits. The
// gateway, the collector and the landing service do that.
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

// Limits of a public server, so that slow clients cannot occupy connections for a long time. Streams
// and downloads extend their write deadline with http.ResponseController.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	maxStreams        = 100
)

// HSTS is the value of Strict-Transport-Security for deployments that reject plain HTTP.
const HSTS = "max-age=31536000"

// NewServer returns a server with the limits above. Errors that net/http itself logs
// (failed TLS handshakes, invalid requests) are logged at debug level, because clients
// cause them and could flood the log.
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

// Serve runs server on listener until it is shut down. It uses TLS if config is not nil.
// A client that sends plain HTTP to the TLS port gets 403 HTTPS_REQUIRED; net/http alone
// would respond with 400. Serve returns nil after Shutdown or Close.
func Serve(server *http.Server, listener net.Listener, config *tls.Config) error {
	var err error
	if config == nil {
		err = server.Serve(listener)
	} else {
		server.TLSConfig = config
		err = server.ServeTLS(sniffingListener{listener}, "", "")
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// RecoverPanics recovers panics of the handler next. It passes the panic value to the function report and responds with
// 500 INTERNAL_ERROR. If next has already begun a response, RecoverPanics closes the connection instead, so that no
// client treats a partial response as complete. It does not recover http.ErrAbortHandler.
func RecoverPanics(next http.Handler, report func(r *http.Request, panicValue any, stack []byte)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watcher := &startWatcher{ResponseWriter: w}
		defer func() {
			panicValue := recover()
			if panicValue == nil {
				return
			}
			if err, ok := panicValue.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			report(r, panicValue, debug.Stack())
			if watcher.started {
				panic(http.ErrAbortHandler)
			}
			WriteError(w, http.StatusInternalServerError, affiliate.ReasonInternal, "An unexpected error occurred.")
		}()
		next.ServeHTTP(watcher, r)
	})
}

type startWatcher struct {
	http.ResponseWriter
	started bool
}

func (w *startWatcher) WriteHeader(status int) {
	// Informational responses (1xx) are sent before the response itself.
	w.started = w.started || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *startWatcher) Write(b []byte) (int, error) {
	w.started = true
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController set the deadlines of the wrapped writer.
func (w *startWatcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher for handlers that do not use http.ResponseController.
func (w *startWatcher) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		w.started = true
		f.Flush()
	}
}

// sniffingListener wraps each connection of a TLS listener in a sniffedConn.
type sniffingListener struct{ net.Listener }

func (l sniffingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sniffedConn{Conn: conn}, nil
}

// sniffedConn checks the first byte that the client sends. A TLS client always begins
// with a handshake record. For any other client, sniffedConn replaces everything that the
// server writes with the response 403 HTTPS_REQUIRED.
type sniffedConn struct {
	net.Conn
	// sniffed is true after the first byte was checked. isPlain is true if this byte does
	// not begin a TLS connection. refused is true after the response 403 was written.
	sniffed, isPlain, refused bool
}

const tlsHandshakeRecord = 0x16

func (c *sniffedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.sniffed {
		c.sniffed, c.isPlain = true, b[0] != tlsHandshakeRecord
	}
	return n, err
}

func (c *sniffedConn) Write(b []byte) (int, error) {
	if !c.isPlain {
		return c.Conn.Write(b)
	}
	if !c.refused {
		c.refused = true
		if _, err := c.Conn.Write(httpsRequiredResponse); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

var httpsRequiredResponse = func() []byte {
	body := fmt.Sprintf(`{"statusCode":403,"message":%q,"error":"Forbidden","code":%q}`+"\n", HTTPSRequiredMessage, affiliate.ReasonHTTPSRequired)
	return []byte("HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}()

// HTTPSRequiredMessage is the message of HTTPS_REQUIRED.
const HTTPSRequiredMessage = "This service is reached over HTTPS only."
