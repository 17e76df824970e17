package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// seedAddress is the client address of requests that create demo data, so that
	// they do not use up the rate limit of the developer. It is an address for
	// documentation. The service accepts it because loopback is a trusted proxy.
	seedAddress = "192.0.2.1"
	// pollEvery is the pause between two checks of a condition.
	pollEvery = 50 * time.Millisecond
	// visitorAgent is a browser's user agent. With Go's own the click would count as a bot's.
	visitorAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	// callTimeout limits one request.
	callTimeout = 30 * time.Second
)

// refusal is an error response of the service.
type refusal struct {
	Status  int    `json:"statusCode"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"details"`

	what string
	wait time.Duration
}

func (r *refusal) Error() string {
	var details strings.Builder
	for _, detail := range r.Details {
		fmt.Fprintf(&details, " %s %s.", detail.Field, detail.Message)
	}
	return fmt.Sprintf("%s: %d %s: %s%s", r.what, r.Status, r.Code, r.Message, &details)
}

// refused reports whether err is a refusal with one of the codes.
func refused(err error, codes ...string) bool {
	var r *refusal
	if !errors.As(err, &r) {
		return false
	}
	for _, code := range codes {
		if r.Code == code {
			return true
		}
	}
	return false
}

// caller is a client of the REST API. With an empty credential it sends none.
type caller struct {
	url        string
	credential string
	// mode is the value of X-Mode; if it is empty the header is not sent.
	mode string
	// address is the client address of requests. Default: seedAddress.
	address string
	// say prints a message to the terminal; nil prints nothing.
	say func(format string, args ...any)
}

func (c caller) as(credential string) caller { c.credential = credential; return c }

func (c caller) in(mode string) caller { c.mode = mode; return c }

func (c caller) from(address string) caller { c.address = address; return c }

// call sends a request with body as JSON and decodes the response into answer; both may
// be nil. It repeats the request after Retry-After until ctx ends.
func (c caller) call(ctx context.Context, method, path string, body, answer any) error {
	for {
		err := c.try(ctx, method, path, body, answer)
		var r *refusal
		if !errors.As(err, &r) || r.wait == 0 {
			return err
		}
		if c.say != nil {
			c.say("%s: trying again in %s.", r.Code, r.wait)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(r.wait):
		}
	}
}

func (c caller) try(ctx context.Context, method, path string, body, answer any) error {
	what := method + " " + path
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, sent)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.credential != "" {
		req.Header.Set("Authorization", "Bearer "+c.credential)
	}
	if c.mode != "" {
		req.Header.Set("X-Mode", c.mode)
	}
	req.Header.Set("User-Agent", visitorAgent)
	req.Header.Set("X-Forwarded-For", cmp.Or(c.address, seedAddress))
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if reply.StatusCode >= http.StatusBadRequest {
		r := &refusal{Status: reply.StatusCode, Message: string(text), what: what}
		_ = json.Unmarshal(text, r) // other responses leave r unchanged
		seconds, _ := strconv.Atoi(reply.Header.Get("Retry-After"))
		r.wait = time.Duration(seconds) * time.Second
		return r
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ready waits until path responds with success.
func (c caller) ready(ctx context.Context, path string) error {
	for {
		err := c.try(ctx, http.MethodGet, path, nil, nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-time.After(pollEvery):
		}
	}
}
