// Package service is for programs that run the service in processes of its own
// and speak to it from outside: what such a process gets to start with, how it ends
// with its program, and the calls of the public API. Starting, watching and ending
// processes is left to each program, for they want different things of it.
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

// Environ is our environment without the settings of the service in it, and with
// those given.
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

// Call sends one request with a JSON body and a credential, where there are any,
// and reads the JSON that comes back into answer. The path is what follows
// /api/v1. A status of 400 or more is an error that tells status and text; so is an
// answer without a body.
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
