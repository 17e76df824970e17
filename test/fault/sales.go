package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// sellerThinks bounds the pause of a seller between two sales.
	sellerThinks = 200 * time.Millisecond
	// recently is how old the clicks are that sales name: what a collector has in its
	// journal is found later, and attributed then.
	recently = 3 * time.Second
	// purchase is what every sale is.
	purchase = "purchase"
)

// saleAttempt is one report of a sale. Several reports of one sale have the same
// External.
type saleAttempt struct {
	External string `json:"external"`
	// Target is whose code or click the sale names: its merchant's shop made it.
	Target int   `json:"target"`
	Amount int64 `json:"amount"`
	// Click is what it names; zero: the target's promo code.
	Click uuid.UUID `json:"click,omitzero"`
	// Outcome is acknowledged with status 201, and with 409, which says that a report
	// before was stored.
	Outcome outcome `json:"outcome"`
	Status  int     `json:"status,omitempty"`
	// Answered is the conversion, with status 201.
	Answered uuid.UUID `json:"answered,omitzero"`
	// Start and End are Unix milliseconds.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Error is what went wrong, for people.
	Error string `json:"error,omitempty"`
}

// sales is the shops' servers and what they share.
type sales struct {
	api     string // the address of the REST API
	load    *load
	history *recorder
	// sold tells whoever listens that a sale was acknowledged this moment.
	sold chan struct{}
}

// seller reports one sale at a time, each until it knows that it is stored.
type seller struct {
	*sales
	number int
	made   int
	rand   *rand.Rand
	client *http.Client
}

// start lets sellers sell until the load ends.
func (s *sales) start(seed uint64, sellers int) {
	s.sold = make(chan struct{})
	for n := range sellers {
		one := &seller{
			sales: s, number: n, rand: rand.New(rand.NewPCG(seed, 1<<32+uint64(n))), // #nosec G404 -- what is sold
			client: &http.Client{Transport: &http.Transport{}, Timeout: patience},
		}
		s.load.done.Go(one.run)
	}
}

func (s *seller) run() {
	for !s.load.ended() {
		s.sell()
		select {
		case <-s.load.stop:
		case <-time.After(rand.N(sellerThinks)): // #nosec G404 -- how long
		}
	}
	s.client.CloseIdleConnections()
}

// sell reports one sale again and again until it is told that it is stored, beyond
// the end of the storm if need be.
func (s *seller) sell() {
	s.made++
	a := saleAttempt{
		External: "sale-" + strconv.Itoa(s.number) + "-" + strconv.Itoa(s.made),
		Target:   s.rand.IntN(len(s.load.targets)), Amount: 100 + s.rand.Int64N(20_000),
	}
	if s.rand.IntN(2) == 0 {
		a.Click = s.click(a.Target)
	}
	for giveUp := (time.Time{}); ; {
		if done := s.try(a); done.Outcome == acknowledged || done.Outcome == wrong {
			return
		}
		if s.load.ended() {
			if giveUp.IsZero() {
				giveUp = time.Now().Add(quiescence)
			} else if time.Now().After(giveUp) {
				return // the checker finds that it was left open
			}
		}
		time.Sleep(time.Duration(50+s.rand.IntN(300)) * time.Millisecond)
	}
}

// click draws from the clicks that were made for a target a moment ago; zero when
// there are none.
func (s *seller) click(target int) uuid.UUID {
	var clicks []uuid.UUID
	for _, a := range s.history.since(time.Now().Add(-recently)) {
		if a.Target == target && a.Outcome == acknowledged {
			clicks = append(clicks, a.Answered)
		}
	}
	if len(clicks) == 0 {
		return uuid.Nil
	}
	return clicks[s.rand.IntN(len(clicks))]
}

// try makes one report and writes it into the history.
func (s *seller) try(a saleAttempt) saleAttempt {
	a.Start = time.Now().UnixMilli()
	err := s.send(&a)
	if err == nil && a.Outcome == acknowledged {
		select {
		case s.sold <- struct{}{}:
		default:
		}
	}
	a.End = time.Now().UnixMilli()
	if err != nil {
		a.Error, a.Outcome = err.Error(), lost
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			a.Outcome = unsent
		}
	}
	s.history.sell(a)
	return a
}

func (s *seller) send(a *saleAttempt) error {
	to := s.load.targets[a.Target]
	said := map[string]any{
		"event_type": purchase, "external_transaction_id": a.External, "amount_cents": a.Amount, "currency": "EUR", "promo_code": to.promo,
	}
	if a.Click != uuid.Nil {
		delete(said, "promo_code")
		said["click_id"] = a.Click.String()
	}
	body, err := json.Marshal(said)
	if err != nil {
		return err
	}
	ctx := context.Background() // the client has a timeout
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.api+"/api/v1/conversions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+to.secret)
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	a.read(response.StatusCode, text)
	return nil
}

// read says what an answer means.
func (a *saleAttempt) read(status int, body []byte) {
	a.Status, a.Outcome = status, wrong
	switch status {
	case http.StatusCreated:
		var said struct {
			ID uuid.UUID `json:"id"`
		}
		if err := json.Unmarshal(body, &said); err != nil || said.ID == uuid.Nil {
			a.Error = fmt.Sprintf("%s: %v", body, err)
			return
		}
		a.Outcome, a.Answered = acknowledged, said.ID
	case http.StatusConflict:
		if bytes.Contains(body, []byte(affiliate.ReasonConversionDuplicate)) {
			a.Outcome = acknowledged
			return
		}
		a.Error = string(body)
	case http.StatusServiceUnavailable:
		a.Outcome = refused
	default:
		a.Error = string(body)
	}
}
