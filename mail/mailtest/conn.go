package mailtest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/emersion/go-smtp"

	"github.com/tributary-hq/tributary/mail"
)

// faultListener replaces replies that go-smtp gives without calling the session.
type faultListener struct {
	net.Listener
	server *Server
	smtp   *smtp.Server
	served chan struct{} // closed when smtp has ended

	mu    sync.Mutex
	conns []net.Conn
}

// stop closes the listener and all connections. Close of go-smtp misses a listener and a
// connection that it has not registered yet.
func (l *faultListener) stop() {
	_ = l.smtp.Close()
	_ = l.Close()
	<-l.served
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

// Accept returns the next connection. With implicit TLS, the connection is decrypted.
func (l *faultListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conns = append(l.conns, conn)
	l.mu.Unlock()
	l.server.change(func() { l.server.connected++ })
	if l.server.options.TLS == ImplicitTLS {
		conn = tls.Server(conn, l.server.tls)
	}
	return &faultConn{Conn: conn, server: l.server, reader: bufio.NewReader(conn)}, nil
}

// faultConn reads the lines of the client. If a test has set a failure for a command, faultConn sends the reply, and
// the command does not reach go-smtp. Only the goroutine of the connection uses a faultConn.
type faultConn struct {
	net.Conn
	server  *Server
	reader  *bufio.Reader
	line    []byte // the rest of the last command
	greeted bool   // the greeting was written
	content bool   // between the reply 354 and the next reply
	started bool   // STARTTLS was sent; the following data is encrypted
}

func (c *faultConn) Read(p []byte) (int, error) {
	for len(c.line) == 0 {
		if c.content || c.started {
			return c.reader.Read(p)
		}
		line, err := c.reader.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if err := c.command(line); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.line)
	c.line = c.line[n:]
	return n, nil
}

// command replies to the command in the given line if a test has set a failure for the command. Otherwise it keeps the
// line for go-smtp.
func (c *faultConn) command(line []byte) error {
	var reply Reply
	var ok bool
	switch strings.ToUpper(strings.TrimSpace(string(line))) {
	case "STARTTLS":
		reply, ok = c.server.take(mail.PhaseTLS, "", anyReply)
		c.started = !ok
	case "DATA":
		reply, ok = c.server.take(mail.PhaseData, "", isText)
	case "QUIT":
		reply, ok = c.server.take(PhaseQuit, "", anyReply)
	}
	switch {
	case !ok:
		c.line = line
		return nil
	case isText(reply):
		return reply.write(c.Conn)
	default:
		return reply.breakOff(c.Conn)
	}
}

// Write writes a reply of go-smtp. The first one is the greeting.
func (c *faultConn) Write(p []byte) (int, error) {
	c.content = bytes.HasPrefix(p, []byte("354"))
	if c.greeted {
		return c.Conn.Write(p)
	}
	c.greeted = true
	reply, ok := c.server.take(mail.PhaseGreeting, "", anyReply)
	switch {
	case !ok:
		return c.Conn.Write(p)
	case isText(reply):
		if err := reply.write(c.Conn); err != nil {
			return 0, err
		}
		return len(p), nil
	default:
		_ = reply.breakOff(c.Conn)
		return 0, io.ErrClosedPipe
	}
}
