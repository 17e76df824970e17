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
)

const (
	// thinks bounds the pause of a client between two clicks.
	thinks = 16 * time.Millisecond
	// patience is how long a client waits for an answer.
	patience = 4 * time.Second
	// tries bounds the attempts of one proposal. More than what memory of an
	// outage allows would only make the history longer.
	tries = 8

	browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)

// load is the clients and what they share.
type load struct {
	collectors []*edge
	targets    []target
	history    *recorder
	// stays is how long a client keeps away from a collector that said it closes
	// the connection: as a balancer would that sees it leave.
	stays time.Duration
	// calm holds clients back before their next attempt while it is locked.
	calm sync.RWMutex
	stop chan struct{}
	done sync.WaitGroup
}

// edge is a collector as clients see it.
type edge struct {
	address string
	// leaving: it was told to stop gracefully and has not ended yet.
	leaving atomic.Bool
}

func (l *load) start(seed uint64, clients int) {
	l.stop = make(chan struct{})
	for n := range clients {
		c := &client{
			load: l, rand: rand.New(rand.NewPCG(seed, uint64(n+1))), // #nosec G404 -- which way, which collector
			conns: make([]*conn, len(l.collectors)), avoid: make([]time.Time, len(l.collectors)),
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

// client sends one request at a time, over a kept connection to each collector.
// It never sends a request twice by itself, so that what it knows of each is
// exact.
type client struct {
	load  *load
	rand  *rand.Rand
	conns []*conn
	avoid []time.Time
}

type conn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *client) run() {
	for !c.load.ended() {
		c.click()
		c.sleep(time.Duration(c.rand.Int64N(int64(thinks))))
	}
	for n := range c.conns {
		c.hangUp(n)
	}
}

func (c *client) sleep(d time.Duration) {
	select {
	case <-c.load.stop:
	case <-time.After(d):
	}
}

// click registers one click: half of them under ids of the client's own.
func (c *client) click() {
	a := attempt{Request: c.load.history.request(), Target: c.rand.IntN(len(c.load.targets)), Collector: c.choose(-1)}
	switch draw := c.rand.IntN(100); {
	case draw < 50:
		a.Way = proposing
		c.propose(a)
		return
	case draw < 85:
		a.Way = minting
	default:
		a.Way = following
	}
	if a = c.try(a); a.Outcome != acknowledged {
		c.waitAfter(a)
	}
}

// propose repeats an id until it is acknowledged, on whichever collector, as the
// script does; and now and then once more after that.
func (c *client) propose(a attempt) {
	a.Proposed = affiliate.NewID[affiliate.Click](time.Now()).UUID
	for range tries {
		done := c.try(a)
		if done.Outcome == acknowledged {
			if c.rand.IntN(20) == 0 {
				a.Collector = c.choose(-1)
				c.try(a)
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

// waitAfter is shorter than what a 503 asks for: the storm wants pressure.
func (c *client) waitAfter(a attempt) {
	if a.Outcome != sentOn {
		c.sleep(time.Duration(50+c.rand.IntN(300)) * time.Millisecond)
	}
}

// choose takes a collector that did not say it leaves; after a failed attempt
// mostly another one.
func (c *client) choose(failed int) int {
	var open []int
	for n := range c.conns {
		if time.Now().After(c.avoid[n]) && (n != failed || c.rand.IntN(3) == 0) {
			open = append(open, n)
		}
	}
	if len(open) == 0 {
		return c.rand.IntN(len(c.conns))
	}
	return open[c.rand.IntN(len(open))]
}

// try makes one attempt and writes it into the history.
func (c *client) try(a attempt) attempt {
	c.load.calm.RLock()
	defer c.load.calm.RUnlock()
	at := c.load.collectors[a.Collector]
	a.Start = time.Now().UnixMilli()
	leaving := at.leaving.Load()
	answer, err := c.send(&a)
	a.End = time.Now().UnixMilli()
	if err != nil {
		c.hangUp(a.Collector)
		a.Error = err.Error()
		a.CutOff = a.Outcome == lost && (leaving || at.leaving.Load()) && cutConnection(err)
	} else {
		c.read(&a, answer)
	}
	c.load.history.add(a)
	return a
}

// answer is a response that was read to its end.
type answer struct {
	status   int
	body     []byte
	location string
}

// send writes the request and reads the answer. With an error, the outcome says
// whether the request was sent.
func (c *client) send(a *attempt) (answer, error) {
	request, err := c.request(a)
	if err != nil {
		a.Outcome = unsent
		return answer{}, err
	}
	to, err := c.dial(a.Collector)
	if err != nil {
		a.Outcome = unsent
		return answer{}, err
	}
	a.Outcome = lost
	if err := to.SetDeadline(time.Now().Add(patience)); err != nil {
		return answer{}, err
	}
	if err := request.Write(to); err != nil {
		return answer{}, err
	}
	response, err := http.ReadResponse(to.reader, request)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return answer{}, err
	}
	if response.Close {
		c.hangUp(a.Collector)
		c.avoid[a.Collector] = time.Now().Add(c.load.stays)
	}
	return answer{response.StatusCode, body, response.Header.Get("Location")}, nil
}

func (c *client) dial(collector int) (*conn, error) {
	if kept := c.conns[collector]; kept != nil {
		if !closedByPeer(kept.Conn.(*net.TCPConn)) {
			return kept, nil
		}
		c.hangUp(collector)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	made, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.load.collectors[collector].address)
	if err != nil {
		return nil, err
	}
	c.conns[collector] = &conn{made, bufio.NewReader(made)}
	return c.conns[collector], nil
}

func (c *client) hangUp(collector int) {
	if kept := c.conns[collector]; kept != nil {
		_ = kept.Close()
		c.conns[collector] = nil
	}
}

func (c *client) request(a *attempt) (*http.Request, error) {
	to := c.load.targets[a.Target]
	at := "http://" + c.load.collectors[a.Collector].address
	if a.Way == following {
		query := url.Values{affiliate.SubIDParam: {subIDOf(a.Request)}}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, at+to.short+"?"+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("User-Agent", browser)
		return request, nil
	}
	said := map[string]string{
		"referral_code": to.code, "sub_id": subIDOf(a.Request),
		"url": "https://shop.example.com/sale?utm_source=blog", "consent": "granted", "language": "en-GB", "screen": "1920x1080",
	}
	if a.Proposed != uuid.Nil {
		said["click_id"] = a.Proposed.String()
	}
	body, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, at+"/v1/clicks", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", browser)
	request.Header.Set("Accept-Language", "en-GB,en;q=0.9")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+to.key)
	return request, nil
}

// read says what an answer means.
func (c *client) read(a *attempt, got answer) {
	a.Status, a.Outcome = got.status, wrong
	switch {
	case got.status == http.StatusServiceUnavailable:
		a.Outcome = refused
	case a.Way == following && got.status == http.StatusFound:
		a.Outcome = c.readRedirect(a, got.location)
	case a.Way != following && (got.status == http.StatusCreated || got.status == http.StatusOK):
		var said struct {
			ClickID   uuid.UUID  `json:"click_id"`
			ProgramID *uuid.UUID `json:"program_id"`
		}
		err := json.Unmarshal(got.body, &said)
		if err != nil || said.ClickID == uuid.Nil {
			a.Error = fmt.Sprintf("%s: %v", got.body, err)
			return
		}
		a.Outcome, a.Answered, a.Blind = acknowledged, said.ClickID, said.ProgramID == nil
	default:
		a.Error = string(got.body)
	}
}

func (c *client) readRedirect(a *attempt, location string) outcome {
	to, err := url.Parse(location)
	if err != nil || to.Host != "shop.example.com" {
		a.Error = "sent to " + strconv.Quote(location)
		return wrong
	}
	id := to.Query().Get(affiliate.ClickIDParam)
	if id == "" {
		return sentOn
	}
	if a.Answered, err = uuid.Parse(id); err != nil {
		a.Error = "sent to " + strconv.Quote(location)
		return wrong
	}
	return acknowledged
}

// cutConnection says that an error is the other side's end and not our patience.
func cutConnection(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
