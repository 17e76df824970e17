// Package service is for test programs that run the service in separate processes and use
// it through its public API. It provides the environment and the attributes of these
// processes, and a client of the public API. It does not start or stop the processes,
// because each test program does this in a different way.
package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/google/uuid"
)

// Environ returns the environment of this process with the given settings. Other settings
// of the service are removed.
func Environ(settings ...string) []string {
	var env []string
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "TRIBUTARY_") {
			env = append(env, line)
		}
	}
	return append(env, settings...)
}

// API is the REST API of the gateway that listens on Address.
type API struct{ Address string }

// Call sends a request to /api/v1 + path and decodes the JSON response into out. If body
// is nil, the request has no body. If credential is empty, the request has no credential.
// If the status is 400 or more, Call returns an error with the status and the response.
// It also returns an error if the response has no body. A request that creates a
// payout batch has a new idempotency key.
func (a API) Call(ctx context.Context, method, path, credential string, body map[string]any, out any) error {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+a.Address+"/api/v1"+path, &sent)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if strings.HasSuffix(path, "/payouts/batches") {
		request.Header.Set("Idempotency-Key", uuid.NewString())
	}
	if credential != "" {
		request.Header.Set("Authorization", "Bearer "+credential)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return json.Unmarshal(text, out)
}
