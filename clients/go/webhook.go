package tributary

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Event is the content of a webhook. docs/events.md describes the objects of each type.
type Event struct {
	// ID is the same in every delivery of the event.
	ID         string    `json:"id"`
	Type       string    `json:"type"`
	APIVersion string    `json:"api_version"`
	Timestamp  time.Time `json:"timestamp"`
	// Mode is test or live.
	Mode        string    `json:"mode"`
	WorkspaceID string    `json:"workspace_id"`
	Data        EventData `json:"data"`
}

// EventData is the object of an event.
type EventData struct {
	// Object is the object after the event.
	Object json.RawMessage `json:"object"`
	// PreviousAttributes has the changed fields with their values before the event. It is
	// empty if nothing changed.
	PreviousAttributes json.RawMessage `json:"previous_attributes"`
}

// VerifyWebhook verifies the signature and the age of a webhook (Standard Webhooks) and
// returns its event. It fails if the webhook is not genuine or older than five minutes.
// The body must be the bytes as received: a body that was decoded and encoded again does not verify.
func VerifyWebhook(secret string, body []byte, header http.Header) (Event, error) {
	var event Event
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return event, fmt.Errorf("signing secret: %w", err)
	}
	if err := webhook.Verify(body, header); err != nil {
		return event, err
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return event, fmt.Errorf("event: %w", err)
	}
	return event, nil
}
