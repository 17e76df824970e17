package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// resend makes the service send an event again. The service sends the event to each
// running listener that has already received it.
func resend(ctx context.Context, path, event string, out io.Writer) error {
	merchant, err := loginToDemo(ctx, path)
	if err != nil {
		return err
	}
	endpoints, err := listenerEndpoints(ctx, merchant)
	if err != nil {
		return err
	}
	if len(endpoints) == 0 {
		return errors.New("no listener is running: start one with go run ./cmd/dev listen")
	}
	sent := 0
	for _, e := range endpoints {
		deliveries := webhooksPath + "/" + e.ID + "/deliveries"
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		err := merchant.call(ctx, http.MethodGet, deliveries+"?eventId="+url.QueryEscape(event), nil, &list)
		if err != nil && !hasCode(err, "NOT_FOUND") { // NOT_FOUND: the event is unknown
			return err
		}
		for _, delivery := range list.Data {
			if err := merchant.call(ctx, http.MethodPost, deliveries+"/"+delivery.ID+"/retry", nil, nil); err != nil {
				return err
			}
			sent++
		}
	}
	if sent == 0 {
		return fmt.Errorf("no running listener has received %s: only events since its start can be sent again", event)
	}
	_, err = fmt.Fprintf(out, "Sent %s again.\n", event)
	return err
}
