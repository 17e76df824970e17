// Package dispatch takes committed events on to those who follow them.
//
// An event row commits with its cause, and the job that brings it here with
// both, so no event is lost and none tells of something that did not happen.
// Each follower sees an event at least once and in no promised order; what a
// follower does has to bear repetition.
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
	// MarkConverted stamps a click with its first conversion, and reports whether
	// the click is stored.
	MarkConverted(ctx context.Context, workspace affiliate.WorkspaceID, click affiliate.ClickID, at time.Time) (stored bool, err error)
	// MarkDispatched ends the events' stay in the outbox.
	MarkDispatched(ctx context.Context, workspace affiliate.WorkspaceID, ids []affiliate.EventID, now time.Time) error
}

// Worker works affiliate.DispatchEvents.
type Worker struct {
	river.WorkerDefaults[affiliate.DispatchEvents]
	store Store
	now   func() time.Time
}

// NewWorker makes the worker.
func NewWorker(store Store, now func() time.Time) *Worker { return &Worker{store: store, now: now} }

// Work hands the job's events to every follower and marks them.
func (w *Worker) Work(ctx context.Context, job *river.Job[affiliate.DispatchEvents]) error {
	events, err := w.store.Undispatched(ctx, job.Args.Workspace, job.Args.Events)
	if err != nil || len(events) == 0 {
		return err
	}
	early, err := w.stampClicks(ctx, job.Args.Workspace, events)
	if err != nil {
		return fmt.Errorf("stamp clicks: %w", err)
	}
	if early {
		return river.JobSnooze(snooze)
	}
	return w.store.MarkDispatched(ctx, job.Args.Workspace, job.Args.Events, w.now().UTC())
}

// stampClicks follows attributed conversions: their clicks have converted. early
// says that a click is on its way: its conversion found it where ingestion had
// not been yet.
func (w *Worker) stampClicks(ctx context.Context, workspace affiliate.WorkspaceID, events []affiliate.StoredEvent) (early bool, err error) {
	for _, event := range events {
		if event.Name != affiliate.EventConversionCreated && event.Name != affiliate.EventConversionReattributed {
			continue
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
			return false, fmt.Errorf("event %s: %w", event.ID, err)
		}
		if object := body.Data.Object; object.Attributed && object.Attribution.Click != nil {
			stored, err := w.store.MarkConverted(ctx, workspace, *object.Attribution.Click, event.At)
			if err != nil {
				return false, err
			}
			early = early || !stored && w.now().Sub(event.At) < arrival
		}
	}
	return early, nil
}
