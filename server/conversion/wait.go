package conversion

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// freshClickAge is the age up to which a report waits for the ingestion of its click. It is
	// unlikely that an older click is stored within the wait.
	freshClickAge = 2 * time.Minute
	// maxClockLead is the time by which the clock of the collector that created the id may
	// be ahead of this clock.
	maxClockLead = 5 * time.Minute
)

// waitSteps are the pauses between two queries for the click. Together they are 300 ms.
// Ingestion needs that long only if it lags.
var waitSteps = []time.Duration{
	10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond,
}

// lookup finds acknowledged clicks, in Postgres and in the click stream.
type lookup struct {
	store Store
	tail  Tail
	now   func() time.Time
	log   *slog.Logger
}

// plausibleID reports whether a collector can have created the id: it must contain a time,
// and the time must not be in the future.
func (l lookup) plausibleID(id affiliate.ClickID) bool {
	created, ok := id.Time()
	return ok && !created.After(l.now().Add(maxClockLead))
}

// find looks up a click in Postgres. If the click is not there and its id is fresh, find
// waits for ingestion and looks again after each of waitSteps. If the click is still not
// found, find reads the tail of the click stream. It returns nil if the click is unknown.
func (l lookup) find(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	if !l.plausibleID(id) {
		return nil, nil
	}
	found, err := l.store.FindClick(ctx, workspace, id)
	if err != nil || found != nil {
		return found, err
	}
	if created, _ := id.Time(); l.now().Sub(created) < freshClickAge {
		for _, step := range waitSteps {
			if err := sleep(ctx, step); err != nil {
				return nil, err
			}
			found, err := l.store.FindClick(ctx, workspace, id)
			if err != nil || found != nil {
				return found, err
			}
		}
	}
	// This does not depend on the age of the click, because ingestion may lag by more than
	// freshClickAge.
	return l.findInTail(ctx, workspace, id)
}

// findInTail looks up a click in the tail of the click stream. It returns nil if the
// click is not there or if the tail cannot be read. The conversion then waits for its
// click, so that an outage of Redis delays the commission but does not lose it.
func (l lookup) findInTail(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	if l.tail == nil {
		return nil, nil
	}
	click, ok, err := l.tail.Find(ctx, id)
	if err != nil {
		l.log.WarnContext(ctx, "the click stream's tail cannot be read", "error", err)
		return nil, nil
	}
	// An unresolved click has no workspace; ingestion resolves it.
	if !ok || click.Scope.Workspace != workspace || click.Participant.IsZero() {
		return nil, nil
	}
	earner, err := l.store.FindEarner(ctx, click.Scope, click.Program, click.Participant)
	if err != nil || earner == nil {
		return nil, err
	}
	return &affiliate.FoundClick{
		Mode: click.Scope.Mode, ReceivedAt: click.ReceivedAt, ExpiresAt: click.ExpiresAt,
		Link: click.Link, Earner: *earner, Traits: click.Traits(),
	}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
