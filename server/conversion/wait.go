package conversion

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// freshFor is how young a click must be for ingestion to be waited for: an
	// older one will not be stored in this very moment.
	freshFor = 2 * time.Minute
	// futureSlack is how far ahead of us the edge that made the id may be.
	futureSlack = 5 * time.Minute
)

// waitSteps are the pauses between looks at Postgres. They add up to 300 ms,
// which ingestion needs only when it is behind.
var waitSteps = []time.Duration{
	10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond,
}

// lookup finds clicks wherever an acknowledged one can be.
type lookup struct {
	store Store
	tail  Tail
	now   func() time.Time
	log   *slog.Logger
}

// mayArrive reports whether the id is one that an edge can have given out.
func (l lookup) mayArrive(id affiliate.ClickID) bool {
	minted, ok := id.Time()
	return ok && !minted.After(l.now().Add(futureSlack))
}

// find looks in Postgres; for a fresh id it waits for ingestion in short steps
// and then looks in the stream's tail. nil: the click is unknown.
func (l lookup) find(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	if !l.mayArrive(id) {
		return nil, nil
	}
	found, err := l.store.FindClick(ctx, workspace, id)
	if err != nil || found != nil {
		return found, err
	}
	if minted, _ := id.Time(); l.now().Sub(minted) < freshFor {
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
	// However old: ingestion may be behind by more than anybody would wait for.
	return l.findInTail(ctx, workspace, id)
}

// findInTail answers nil whenever the tail does not help: the click is awaited
// then, so that a Redis that does not answer costs time and not the commission.
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
