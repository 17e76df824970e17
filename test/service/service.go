// Package service helps test programs that run the service in separate processes and use
// it through its public API. It provides the environment of such a process, the
// attributes that end the process together with the test program, and calls of the
// public API. It does not start, watch or end processes, because each program needs this
// in a different way.
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
)

// Environ returns the environment of this process without settings of the service, plus
// the given settings.
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

// Call sends a request to /api/v1 + path and decodes the JSON response into answer. body
// and credential are optional. A status of 400 or more is an error that contains the
// status and the response. A response without a body is an error too.
func (a API) Call(ctx context.Context, method, path, credential string, body map[string]any, answer any) error {
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
	if credential != "" {
		request.Header.Set("Authorization", "Bearer "+credential)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %d %s", method, path, reply.StatusCode, text)
	}
	return json.Unmarshal(text, answer)
}
