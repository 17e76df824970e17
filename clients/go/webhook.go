package tributary

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Event is the content of a webhook. docs/events.md lists the event types and describes
// the object in the events of each type.
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

// EventData contains the object of an event.
type EventData struct {
	// Object is the object after the event.
	Object json.RawMessage `json:"object"`
	// PreviousAttributes contains the changed fields with their values before the event.
	// It is empty if no field changed.
	PreviousAttributes json.RawMessage `json:"previous_attributes"`
}

// VerifyWebhook verifies the signature and the age of a webhook (Standard Webhooks) and
// returns its event. It returns an error if the signature is wrong, or if the timestamp
// differs from the current time by more than five minutes. The body must be the received
// bytes. If it was decoded and encoded again, the signature is wrong.
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
