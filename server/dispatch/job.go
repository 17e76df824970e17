// Package dispatch takes committed events on to those who follow them.
//
// An event row commits with its cause, and the job that brings it here with
// both, so no event is lost and none tells of something that did not happen.
// A job has the events of one workspace, of any number of causes, and costs the
// same few statements however many they are. Each follower sees an event at least
// once and in no promised order; what a follower does has to bear repetition.
// What a follower cannot take yet waits with its job and keeps no other event
// back.
package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// arrival is how long a click may take from the stream to its row; snooze is
	// the pause between two looks.
	arrival = 24 * time.Hour
	snooze  = 5 * time.Second
)

// Store reads the outbox and does what followers ask for.
type Store interface {
	// Undispatched reads those of the events that have not been taken on yet.
	Undispatched(ctx context.Context, workspace affiliate.WorkspaceID, ids []affiliate.EventID) ([]affiliate.StoredEvent, error)
	// MarkDispatched ends the events' stay in the outbox and stamps clicks with
	// their first conversions. Events whose click may still come stay: they are
	// returned.
	MarkDispatched(ctx context.Context, workspace affiliate.WorkspaceID, ids []affiliate.EventID, clicks []affiliate.ConvertedClick, now time.Time) (early []affiliate.EventID, err error)
}

// Worker works affiliate.DispatchEvents.
type Worker struct {
	river.WorkerDefaults[affiliate.DispatchEvents]
	store Store
	now   func() time.Time
}

// NewWorker makes the worker.
func NewWorker(store Store, now func() time.Time) *Worker { return &Worker{store: store, now: now} }

// Work hands the job's events to every follower and marks them. It comes back for
// those whose clicks are on their way.
func (w *Worker) Work(ctx context.Context, job *river.Job[affiliate.DispatchEvents]) error {
	events, err := w.store.Undispatched(ctx, job.Args.Workspace, job.Args.Events)
	if err != nil || len(events) == 0 {
		return err
	}
	now := w.now().UTC()
	ids := make([]affiliate.EventID, len(events))
	var clicks []affiliate.ConvertedClick
	for i, event := range events {
		ids[i] = event.ID
		click, err := convertedClick(event)
		if err != nil {
			return fmt.Errorf("event %s: %w", event.ID, err)
		}
		if click != nil {
			clicks = append(clicks, affiliate.ConvertedClick{Event: event.ID, Click: *click, At: event.At, MayCome: now.Sub(event.At) < arrival})
		}
	}
	early, err := w.store.MarkDispatched(ctx, job.Args.Workspace, ids, clicks, now)
	if err != nil {
		return fmt.Errorf("mark events: %w", err)
	}
	if len(early) > 0 {
		return river.JobSnooze(snooze)
	}
	return nil
}

// convertedClick is the click of a conversion that an event tells is attributed;
// nil of every other event. The conversion may have found it where ingestion had
// not been yet.
func convertedClick(event affiliate.StoredEvent) (*affiliate.ClickID, error) {
	if event.Name != affiliate.EventConversionCreated && event.Name != affiliate.EventConversionReattributed {
		return nil, nil
	}
	var body struct {
		Data struct {
			Object struct {
				Attributed  bool `json:"attributed"`
				Attribution struct {
					Click *affiliate.ClickID `json:"click_id"`
				} `json:"attribution"`
			} `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(event.Body, &body); err != nil {
		return nil, err
	}
	if !body.Data.Object.Attributed {
		return nil, nil
	}
	return body.Data.Object.Attribution.Click, nil
}
