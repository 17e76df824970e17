package conversion

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

const (
	// freshClickAge is the maximum age of a click for which a report waits. An older
	// click that is not stored yet will probably not be stored during the short wait.
	freshClickAge = 2 * time.Minute
	// maxClockLead is the time by which the clock of a collector may be ahead. It is equal
	// to the wait for a late click. Ids with a later time are not looked up.
	maxClockLead = lateClickWait
)

// waitSteps are the pauses between queries for the click, 300 ms together.
var waitSteps = []time.Duration{
	10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond,
}

// Tail finds a click in the tail of the click stream. The tail is the newest part of the
// stream. It contains clicks that collectors have acknowledged but that are not in
// Postgres yet. ok is false if the tail does not contain the click. If the collector that
// accepted the click could not read the edge directory (the copy of keys and links in
// Redis), the click has no scope and no participant.
type Tail interface {
	Find(ctx context.Context, id affiliate.ClickID) (click click.Click, ok bool, err error)
}

// lookup finds clicks in Postgres and in the click stream.
type lookup struct {
	db     *postgres.DB
	clicks *conversions.Clicks
	tail   Tail
	now    func() time.Time
	log    *slog.Logger
}

// plausibleID reports whether a collector can have created an id: its time is at most maxClockLead after now.
func (l lookup) plausibleID(id affiliate.ClickID) bool {
	created, ok := id.Time()
	return ok && !created.After(l.now().Add(maxClockLead))
}

// find looks up a click in Postgres. If the click is not found and not older than
// freshClickAge, find repeats the query after each pause in waitSteps. Then it reads the
// tail of the click stream. It returns nil if the click is unknown.
func (l lookup) find(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*attribution.FoundClick, error) {
	if !l.plausibleID(id) {
		return nil, nil
	}
	found, err := l.clicks.Find(ctx, workspace, id)
	if err != nil || found != nil {
		return found, err
	}
	if created, _ := id.Time(); l.now().Sub(created) < freshClickAge {
		for _, step := range waitSteps {
			if err := sleep(ctx, step); err != nil {
				return nil, err
			}
			found, err := l.clicks.Find(ctx, workspace, id)
			if err != nil || found != nil {
				return found, err
			}
		}
	}
	// Clicks may be stored more than freshClickAge after their arrival.
	return l.findInTail(ctx, workspace, id)
}

// findInTail looks up a click in the tail of the click stream. It returns nil if the tail
// does not contain the click or cannot be read. The conversion then waits for the click,
// so an outage of Redis only delays the commission.
func (l lookup) findInTail(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*attribution.FoundClick, error) {
	if l.tail == nil {
		return nil, nil
	}
	click, ok, err := l.tail.Find(ctx, id)
	if err != nil {
		l.log.WarnContext(ctx, "the click stream's tail cannot be read", "error", err)
		return nil, nil
	}
	// A click without a workspace is not resolved yet. Package ingest will resolve it.
	if !ok || click.Workspace != workspace || click.Participant.IsZero() {
		return nil, nil
	}
	earner, err := conversions.FindEarner(ctx, l.db, click.Scope, click.Program, click.Participant)
	if err != nil || earner == nil {
		return nil, err
	}
	return &attribution.FoundClick{
		Mode: click.Mode, ReceivedAt: click.ReceivedAt, ExpiresAt: click.ExpiresAt,
		Link: click.Link, Earner: *earner, ClickTraits: attribution.TraitsOf(click),
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
