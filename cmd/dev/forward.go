package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// forwardTimeout is the maximum time of one request to the developer's receiver. The
// service waits 15 seconds for the response to a webhook. forwardTimeout is shorter, so
// that the listener can still respond in time.
const forwardTimeout = 12 * time.Second

// forwarder forwards webhooks to the developer's receiver.
type forwarder struct {
	url    string
	client *http.Client
}

// newForwarder returns a forwarder to an address. Over HTTPS, it accepts certificates
// that the authorities of the system have signed, and certificates that `dev cert` has
// written.
func newForwarder(address string, authority tls.Certificate) (*forwarder, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--forward-to must be an address such as http://127.0.0.1:3000/hooks, not %q", address)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AddCert(authority.Leaf)
	return &forwarder{url: address, client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		Timeout:   forwardTimeout,
		// The service does not follow redirects either.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// forwardResult is the result of forwarding one webhook.
type forwardResult struct {
	// status is the status of the receiver's response, or 502 if there was no response.
	status     int
	retryAfter string
	duration   time.Duration
	err        error
}

func (f forwardResult) String() string {
	if f.err != nil {
		return fmt.Sprintf("no response: %v", f.err)
	}
	return fmt.Sprintf("%d (%d ms)", f.status, f.duration.Milliseconds())
}

// send sends the webhook to the receiver. It does not change the body and the headers with the
// signature, so that the receiver can verify the signature.
func (f *forwarder) send(ctx context.Context, header http.Header, body []byte) forwardResult {
	failed := func(err error) forwardResult { return forwardResult{status: http.StatusBadGateway, err: err} }
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return failed(err)
	}
	request.Header = header.Clone()
	request.Header.Del("Accept-Encoding") // the HTTP client sets this header
	start := time.Now()
	response, err := f.client.Do(request)
	if err != nil {
		// Remove the address from the error, because the listener has already printed the
		// address.
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		return failed(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxWebhookBytes))
	return forwardResult{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), duration: time.Since(start)}
}
