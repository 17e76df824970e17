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
	// maxPauseBetweenSales is the maximum pause of a seller between two sales.
	maxPauseBetweenSales = 200 * time.Millisecond
	// maxClickAge is the maximum age of the click of a sale. Some of these clicks are not
	// stored yet, because they are still in the journal of a collector. Their sales are
	// attributed when the clicks are stored.
	maxClickAge = 3 * time.Second
	// purchase is the event type of every sale.
	purchase = "purchase"
)

// saleAttempt is one report of a sale. All reports of the same sale have the same
// External.
type saleAttempt struct {
	External string `json:"external"`
	// Target is the index of the target to which the sale must be attributed.
	Target int   `json:"target"`
	Amount int64 `json:"amount"`
	// Click is the click id of the sale. If it is zero, the sale has the promo code of
	// the target.
	Click uuid.UUID `json:"click,omitzero"`
	// Outcome is acknowledged if the status is 201, or 409 because an earlier report was
	// stored.
	Outcome outcome `json:"outcome"`
	Status  int     `json:"status,omitempty"`
	// ResponseID is the conversion id of a response with status 201.
	ResponseID uuid.UUID `json:"response_id,omitzero"`
	// Start and End are Unix milliseconds.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Error is the error message.
	Error string `json:"error,omitempty"`
}

// sales contains the state that all sellers share.
type sales struct {
	api     string // address of the REST API
	load    *load
	history *recorder
	// saleAcknowledged receives a value when a sale is acknowledged, if a fault is
	// waiting for this.
	saleAcknowledged chan struct{}
}

// seller acts as the server of a merchant. It reports one sale at a time, and repeats
// each report until it is acknowledged.
type seller struct {
	*sales
	number int
	count  int
	rand   *rand.Rand
	client *http.Client
}

// start starts the sellers. They run until the load ends.
func (s *sales) start(seed uint64, sellers int) {
	s.saleAcknowledged = make(chan struct{})
	for n := range sellers {
		started := &seller{
			sales: s, number: n, rand: rand.New(rand.NewPCG(seed, 1<<32+uint64(n))), // #nosec G404 -- not for security
			client: &http.Client{Transport: &http.Transport{}, Timeout: clientTimeout},
		}
		s.load.done.Go(started.run)
	}
}

func (s *seller) run() {
	for !s.load.ended() {
		s.sell()
		select {
		case <-s.load.stop:
		case <-time.After(rand.N(maxPauseBetweenSales)): // #nosec G404 -- not for security
		}
	}
	s.client.CloseIdleConnections()
}

// sell reports one sale and repeats the report until it is acknowledged. If necessary, it
// continues for up to settleTimeout after the end of the load.
func (s *seller) sell() {
	s.count++
	a := saleAttempt{
		External: "sale-" + strconv.Itoa(s.number) + "-" + strconv.Itoa(s.count),
		Target:   s.rand.IntN(len(s.load.targets)), Amount: 100 + s.rand.Int64N(20_000),
	}
	if s.rand.IntN(2) == 0 {
		a.Click = s.recentClick(a.Target)
	}
	for deadline := (time.Time{}); ; {
		if done := s.report(a); done.Outcome == acknowledged || done.Outcome == unexpected {
			return
		}
		if s.load.ended() {
			if deadline.IsZero() {
				deadline = time.Now().Add(settleTimeout)
			} else if time.Now().After(deadline) {
				return // the checker reports this sale as unacknowledged
			}
		}
		time.Sleep(time.Duration(50+s.rand.IntN(300)) * time.Millisecond)
	}
}

// recentClick returns a random recent click of a target, or zero if there is none.
func (s *seller) recentClick(target int) uuid.UUID {
	var clicks []uuid.UUID
	for _, a := range s.history.since(time.Now().Add(-maxClickAge)) {
		if a.Target == target && a.Outcome == acknowledged {
			clicks = append(clicks, a.ResponseID)
		}
	}
	if len(clicks) == 0 {
		return uuid.Nil
	}
	return clicks[s.rand.IntN(len(clicks))]
}

// report sends one report and adds it to the history.
func (s *seller) report(a saleAttempt) saleAttempt {
	a.Start = time.Now().UnixMilli()
	err := s.send(&a)
	if err == nil && a.Outcome == acknowledged {
		select {
		case s.saleAcknowledged <- struct{}{}:
		default:
		}
	}
	a.End = time.Now().UnixMilli()
	if err != nil {
		a.Error, a.Outcome = err.Error(), noResponse
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			a.Outcome = unsent
		}
	}
	s.history.addSale(a)
	return a
}

func (s *seller) send(a *saleAttempt) error {
	target := s.load.targets[a.Target]
	fields := map[string]any{
		"event_type": purchase, "external_transaction_id": a.External, "amount_cents": a.Amount, "currency": "EUR", "promo_code": target.promo,
	}
	if a.Click != uuid.Nil {
		delete(fields, "promo_code")
		fields["click_id"] = a.Click.String()
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	ctx := context.Background() // the client has a timeout
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.api+"/api/v1/conversions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+target.secret)
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	a.interpret(response.StatusCode, text)
	return nil
}

// interpret sets a.Outcome according to the response.
func (a *saleAttempt) interpret(status int, body []byte) {
	a.Status, a.Outcome = status, unexpected
	switch status {
	case http.StatusCreated:
		var fields struct {
			ID uuid.UUID `json:"id"`
		}
		if err := json.Unmarshal(body, &fields); err != nil || fields.ID == uuid.Nil {
			a.Error = fmt.Sprintf("%s: %v", body, err)
			return
		}
		a.Outcome, a.ResponseID = acknowledged, fields.ID
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
