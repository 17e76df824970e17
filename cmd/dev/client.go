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
	// seedAddress is the client address of the requests that create demo data. Because
	// the developer has another address, these requests do not count towards the
	// developer's rate limit. seedAddress is in a block that is reserved for
	// documentation. The service reads it from the header X-Forwarded-For, because
	// loopback is a trusted proxy.
	seedAddress = "192.0.2.1"
	// pollEvery is the pause between two checks of a condition.
	pollEvery = 50 * time.Millisecond
	// visitorAgent is the user agent of a browser. With the user agent of Go's HTTP
	// client, a click would count as the click of a bot.
	visitorAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	// callTimeout is the maximum time of one request.
	callTimeout = 30 * time.Second
)

// apiError is an error response of the service.
type apiError struct {
	Status  int    `json:"statusCode"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"details"`

	request    string
	retryAfter time.Duration
}

func (r *apiError) Error() string {
	var details strings.Builder
	for _, detail := range r.Details {
		fmt.Fprintf(&details, " %s %s.", detail.Field, detail.Message)
	}
	return fmt.Sprintf("%s: %d %s: %s%s", r.request, r.Status, r.Code, r.Message, &details)
}

// hasCode reports whether err is an error response with one of the error codes.
func hasCode(err error, codes ...string) bool {
	var r *apiError
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

// apiClient is a client of the REST API.
type apiClient struct {
	url string
	// credential is an access token or an API key. If it is empty, requests have no
	// Authorization header.
	credential string
	// mode is the value of the header X-Mode. If it is empty, the header is not sent.
	mode string
	// address is the client address of requests. Default: seedAddress.
	address string
	// printLine prints a message to the terminal. If it is nil, nothing is printed.
	printLine func(format string, args ...any)
}

func (c apiClient) withCredential(credential string) apiClient { c.credential = credential; return c }

func (c apiClient) withMode(mode string) apiClient { c.mode = mode; return c }

func (c apiClient) withAddress(address string) apiClient { c.address = address; return c }

// call sends a request with body as JSON and decodes the response body into out. Both may be
// nil. If an error response has the header Retry-After, call waits for that time and repeats
// the request, until ctx ends.
func (c apiClient) call(ctx context.Context, method, path string, body, out any) error {
	for {
		err := c.send(ctx, method, path, body, out)
		var r *apiError
		if !errors.As(err, &r) || r.retryAfter == 0 {
			return err
		}
		if c.printLine != nil {
			c.printLine("%s: trying again in %s.", r.Code, r.retryAfter)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(r.retryAfter):
		}
	}
}

func (c apiClient) send(ctx context.Context, method, path string, body, out any) error {
	name := method + " " + path
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, reader)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
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
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		r := &apiError{Status: response.StatusCode, Message: string(text), request: name}
		_ = json.Unmarshal(text, r) // a response without JSON leaves r unchanged
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		r.retryAfter = time.Duration(seconds) * time.Second
		return r
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// waitUntilReady repeats a GET request to path until it succeeds or ctx ends.
func (c apiClient) waitUntilReady(ctx context.Context, path string) error {
	for {
		err := c.send(ctx, http.MethodGet, path, nil, nil)
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
