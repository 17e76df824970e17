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

// forwardTimeout limits one request to the receiver. It is shorter than the 15 seconds of
// the service, so the listener can still respond.
const forwardTimeout = 12 * time.Second

// forwarder sends webhooks on to the developer's receiver.
type forwarder struct {
	url    string
	client *http.Client
}

// newForwarder returns a forwarder to an address. It accepts the certificates that dev cert
// makes, besides those of the system.
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

// forwarded is the result of forwarding one webhook.
type forwarded struct {
	// status is the receiver's, or 502 if there was no response.
	status     int
	retryAfter string
	took       time.Duration
	err        error
}

func (f forwarded) String() string {
	if f.err != nil {
		return fmt.Sprintf("no response: %v", f.err)
	}
	return fmt.Sprintf("%d (%d ms)", f.status, f.took.Milliseconds())
}

// send posts the webhook with the bytes and headers as received, so that the receiver can
// verify it.
func (f *forwarder) send(ctx context.Context, header http.Header, body []byte) forwarded {
	failed := func(err error) forwarded { return forwarded{status: http.StatusBadGateway, err: err} }
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return failed(err)
	}
	request.Header = header.Clone()
	request.Header.Del("Accept-Encoding") // the client adds its own
	start := time.Now()
	response, err := f.client.Do(request)
	if err != nil {
		// The address is in the first line of the output already.
		var in *url.Error
		if errors.As(err, &in) {
			err = in.Err
		}
		return failed(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxWebhookBytes))
	return forwarded{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), took: time.Since(start)}
}
