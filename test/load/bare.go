package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// bareRole makes this binary the yardstick's server: load bare address answer.
const bareRole = "bare"

// idLength is that of a UUID's text.
const idLength = 36

// serveBare serves what our servers are compared with, and nothing that makes
// them worth having. A click is answered with answer, an answer of the
// collector's, with an id of its own in the place of the first one in it.
func serveBare(ctx context.Context, address, answer string) error {
	const before = `"click_id":"`
	at := strings.Index(answer, before) + len(before)
	if at < len(before) || len(answer) < at+idLength {
		return fmt.Errorf("bare: no click_id in the answer %q", answer)
	}
	head, tail := answer[:at], answer[at+idLength:]

	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/clicks", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id := affiliate.NewID[affiliate.Click](time.Now())
		text := make([]byte, 0, len(answer))
		text = append(append(append(text, head...), id.String()...), tail...)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(text)
	})
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct {
			Status string `json:"status"`
		}{"ok"})
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startBare starts the yardstick's server beside this process.
func (b *bench) startBare(ctx context.Context, answer string) (*process, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	p, err := b.start(ctx, bareRole, address, nil, own, bareRole, address, answer)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, healthPath); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}
