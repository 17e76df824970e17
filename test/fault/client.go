package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
)

const (
	// maxPauseBetweenClicks is the maximum pause of a client between two clicks.
	maxPauseBetweenClicks = 16 * time.Millisecond
	// clientTimeout is the maximum time that a client waits for a response.
	clientTimeout = 4 * time.Second
	// maxAttempts is the maximum number of attempts for a click whose id the client
	// chose. It limits the length of the history.
	maxAttempts = 8

	browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)

// load contains the state that all clients share.
type load struct {
	collectors []*edge
	targets    []target
	history    *recorder
	// avoidFor is the time for which a client sends no requests to a collector after a
	// response with "Connection: close". A load balancer would also stop using a
	// collector that shuts down.
	avoidFor time.Duration
	// A client holds pauseLock for reading during each attempt. A fault that must pause
	// all clients holds it for writing, so that no client begins its next attempt.
	pauseLock sync.RWMutex
	stop      chan struct{}
	done      sync.WaitGroup
}

// edge contains what the clients know about one collector.
type edge struct {
	address string
	// stopping reports that the collector has received SIGTERM and has not exited yet.
	stopping atomic.Bool
}

func (l *load) start(seed uint64, clients int) {
	l.stop = make(chan struct{})
	for n := range clients {
		c := &client{
			load: l, rand: rand.New(rand.NewPCG(seed, uint64(n+1))), // #nosec G404 -- not for security
			conns: make([]*conn, len(l.collectors)), avoidUntil: make([]time.Time, len(l.collectors)),
		}
		l.done.Go(c.run)
	}
}

func (l *load) end() {
	close(l.stop)
	l.done.Wait()
}

func (l *load) ended() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// client sends one request at a time, over a persistent connection to each collector. The
// HTTP client of net/http would repeat some failed requests itself. This client does not,
// so that the history contains every request that was sent.
type client struct {
	load       *load
	rand       *rand.Rand
	conns      []*conn
	avoidUntil []time.Time
}

type conn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *client) run() {
	for !c.load.ended() {
		c.click()
		c.sleep(time.Duration(c.rand.Int64N(int64(maxPauseBetweenClicks))))
	}
	for n := range c.conns {
		c.closeConn(n)
	}
}

func (c *client) sleep(d time.Duration) {
	select {
	case <-c.load.stop:
	case <-time.After(d):
	}
}

// click registers one click. For half of the clicks the client chooses the id.
func (c *client) click() {
	a := attempt{Request: c.load.history.nextRequest(), Target: c.rand.IntN(len(c.load.targets)), Collector: c.choose(-1)}
	switch draw := c.rand.IntN(100); {
	case draw < 50:
		a.Route = postWithID
		c.propose(a)
		return
	case draw < 85:
		a.Route = postWithoutID
	default:
		a.Route = getShortLink
	}
	if a = c.attempt(a); a.Outcome != acknowledged {
		c.waitAfter(a)
	}
}

// propose sends a click with an id that the client chose, until it is acknowledged. Each
// attempt may be sent to another collector. Some clicks are sent again after they were
// acknowledged.
func (c *client) propose(a attempt) {
	a.Proposed = affiliate.NewID[affiliate.ClickID](time.Now()).UUID
	for range maxAttempts {
		done := c.attempt(a)
		if done.Outcome == acknowledged {
			if c.rand.IntN(20) == 0 {
				a.Collector = c.choose(-1)
				c.attempt(a)
			}
			return
		}
		if c.load.ended() {
			return
		}
		c.waitAfter(done)
		a.Collector = c.choose(a.Collector)
	}
}

// waitAfter waits before the next attempt. The wait is shorter than the Retry-After of a
// 503 response, to keep the load high.
func (c *client) waitAfter(a attempt) {
	if a.Outcome != redirected {
		c.sleep(time.Duration(50+c.rand.IntN(300)) * time.Millisecond)
	}
}

// choose returns a random collector that has not announced its shutdown. failed is the
// collector of the last attempt if this attempt failed, or -1; choose usually returns
// another collector.
func (c *client) choose(failed int) int {
	var candidates []int
	for n := range c.conns {
		if time.Now().After(c.avoidUntil[n]) && (n != failed || c.rand.IntN(3) == 0) {
			candidates = append(candidates, n)
		}
	}
	if len(candidates) == 0 {
		return c.rand.IntN(len(c.conns))
	}
	return candidates[c.rand.IntN(len(candidates))]
}

// attempt makes one attempt and adds it to the history.
func (c *client) attempt(a attempt) attempt {
	c.load.pauseLock.RLock()
	defer c.load.pauseLock.RUnlock()
	collector := c.load.collectors[a.Collector]
	a.Start = time.Now().UnixMilli()
	stoppingBefore := collector.stopping.Load()
	response, err := c.send(&a)
	a.End = time.Now().UnixMilli()
	if err != nil {
		c.closeConn(a.Collector)
		a.Error = err.Error()
		a.CutOff = a.Outcome == noResponse && (stoppingBefore || collector.stopping.Load()) && closedByServer(err)
	} else {
		c.interpret(&a, response)
	}
	c.load.history.add(a)
	return a
}

// clickResponse is a complete HTTP response.
type clickResponse struct {
	status   int
	body     []byte
	location string
}

// send sends the request and reads the response. If send returns an error, a.Outcome is
// noResponse if the request was sent, and unsent otherwise.
func (c *client) send(a *attempt) (clickResponse, error) {
	request, err := c.request(a)
	if err != nil {
		a.Outcome = unsent
		return clickResponse{}, err
	}
	conn, err := c.dial(a.Collector)
	if err != nil {
		a.Outcome = unsent
		return clickResponse{}, err
	}
	a.Outcome = noResponse
	if err := conn.SetDeadline(time.Now().Add(clientTimeout)); err != nil {
		return clickResponse{}, err
	}
	if err := request.Write(conn); err != nil {
		return clickResponse{}, err
	}
	response, err := http.ReadResponse(conn.reader, request)
	if err != nil {
		return clickResponse{}, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return clickResponse{}, err
	}
	if response.Close {
		c.closeConn(a.Collector)
		c.avoidUntil[a.Collector] = time.Now().Add(c.load.avoidFor)
	}
	return clickResponse{response.StatusCode, body, response.Header.Get("Location")}, nil
}

func (c *client) dial(collector int) (*conn, error) {
	if existing := c.conns[collector]; existing != nil {
		if !closedByPeer(existing.Conn.(*net.TCPConn)) {
			return existing, nil
		}
		c.closeConn(collector)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	created, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.load.collectors[collector].address)
	if err != nil {
		return nil, err
	}
	c.conns[collector] = &conn{created, bufio.NewReader(created)}
	return c.conns[collector], nil
}

func (c *client) closeConn(collector int) {
	if existing := c.conns[collector]; existing != nil {
		_ = existing.Close()
		c.conns[collector] = nil
	}
}

func (c *client) request(a *attempt) (*http.Request, error) {
	target := c.load.targets[a.Target]
	base := "http://" + c.load.collectors[a.Collector].address
	if a.Route == getShortLink {
		query := url.Values{link.SubIDParam: {subIDOf(a.Request)}}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+target.shortPath+"?"+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("User-Agent", browser)
		return request, nil
	}
	fields := map[string]string{
		"referral_code": target.code, "sub_id": subIDOf(a.Request),
		"url": "https://shop.example.com/sale?utm_source=blog", "consent": "granted", "language": "en-GB", "screen": "1920x1080",
	}
	if a.Proposed != uuid.Nil {
		fields["click_id"] = a.Proposed.String()
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/v1/clicks", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", browser)
	request.Header.Set("Accept-Language", "en-GB,en;q=0.9")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+target.key)
	return request, nil
}

// interpret sets a.Outcome according to the response.
func (c *client) interpret(a *attempt, got clickResponse) {
	a.Status, a.Outcome = got.status, unexpected
	switch {
	case got.status == http.StatusServiceUnavailable:
		a.Outcome = refused
	case a.Route == getShortLink && got.status == http.StatusFound:
		a.Outcome = c.readRedirect(a, got.location)
	case a.Route != getShortLink && (got.status == http.StatusCreated || got.status == http.StatusOK):
		var fields struct {
			ClickID   uuid.UUID  `json:"click_id"`
			ProgramID *uuid.UUID `json:"program_id"`
		}
		err := json.Unmarshal(got.body, &fields)
		if err != nil || fields.ClickID == uuid.Nil {
			a.Error = fmt.Sprintf("%s: %v", got.body, err)
			return
		}
		a.Outcome, a.ResponseID, a.WithoutDirectory = acknowledged, fields.ClickID, fields.ProgramID == nil
	default:
		a.Error = string(got.body)
	}
}

func (c *client) readRedirect(a *attempt, location string) outcome {
	destination, err := url.Parse(location)
	if err != nil || destination.Host != "shop.example.com" {
		a.Error = "redirected to " + strconv.Quote(location)
		return unexpected
	}
	id := destination.Query().Get(link.ClickIDParam)
	if id == "" {
		return redirected
	}
	if a.ResponseID, err = uuid.Parse(id); err != nil {
		a.Error = "redirected to " + strconv.Quote(location)
		return unexpected
	}
	return acknowledged
}

// closedByServer reports whether err means that the server closed the connection. It
// returns false for a timeout.
func closedByServer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
