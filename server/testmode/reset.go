package testmode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	testdata "github.com/tributary-hq/tributary/storage/postgres/testmode"
)

const (
	// programBatch is the number of programmes that one statement archives, and codeBatch the
	// number of codes that are deleted from the edge directory at a time.
	programBatch = 500
	codeBatch    = 1000
	// walkBatch is the number of clicks or events, in both modes, that one transaction reads.
	walkBatch = 5_000
	// rowBatch is the number of rows that a statement deletes if a table has many rows.
	// lastBatch is the number of rows of each table that the last transaction can delete.
	rowBatch  = 2_000
	lastBatch = 5_000
	// writerPoll is the time between two queries for the transactions that write clicks.
	writerPoll = 5 * time.Millisecond
	// walkOverlap is the time before the cutoff of a round from which the next round reads
	// clicks and events again, because some of them may have been stored later.
	walkOverlap = time.Minute
	// visitorMemory is the time for which the visitor of a click is stored.
	visitorMemory = 48 * time.Hour
)

var (
	// errNotRunning ends a transaction because the deletion is finished.
	errNotRunning = errors.New("the deletion of test data is finished")
	// errTooMuch rolls the last transaction back, because there is too much left to delete.
	errTooMuch = errors.New("there is too much test data for one transaction")
	// errProgramOpened ends a round, because a programme must be archived first.
	errProgramOpened = errors.New("there is a new programme in test mode")
	// errOutOfTime ends the work of this call. The job continues.
	errOutOfTime = errors.New("the time for a part of the deletion is over")
)

// Delete deletes the test data of a running deletion. It stops at the time until. The result
// done is then false, and another call must continue. If done is true, deleted counts the
// rows that all calls have deleted. Several calls for the same deletion may run at the same
// time. If another call has finished the deletion, done is true and deleted is nil.
func (s *Service) Delete(ctx context.Context, reset privacy.TestDataReset, until time.Time) (deleted privacy.TestDataCounts, done bool, err error) {
	d := deletion{Service: s, workspace: reset.Workspace, id: reset.ID, until: until}
	deleted, err = d.run(ctx)
	switch {
	case errors.Is(err, errNotRunning):
		return nil, true, nil
	case errors.Is(err, errOutOfTime):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("delete the test data of workspace %s: %w", reset.Workspace, err)
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "the test data of a workspace was deleted",
		slog.String("workspace", reset.Workspace.String()), slog.Any("rows", deleted))
	return deleted, true, nil
}

// deletion is the work of one call of Delete.
type deletion struct {
	*Service
	workspace affiliate.WorkspaceID
	id        privacy.TestDataResetID
	until     time.Time
}

// run repeats rounds until the deletion is finished. Another round is needed if a round has
// deleted participants or programmes, if it had too many rows for one transaction, or if
// requests used the test data at the same time.
func (d *deletion) run(ctx context.Context) (privacy.TestDataCounts, error) {
	for {
		deleted, finished, err := d.round(ctx)
		if finished {
			return deleted, nil
		}
		if err != nil && !errors.Is(err, privacy.ErrTestDataBusy) && !errors.Is(err, errProgramOpened) {
			return nil, err
		}
		if err := d.checkTime(); err != nil {
			return nil, err
		}
	}
}

func (d *deletion) round(ctx context.Context) (deleted privacy.TestDataCounts, finished bool, err error) {
	if err := d.closePrograms(ctx); err != nil {
		return nil, false, err
	}
	cutoff, err := d.dropLateClicks(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := d.deleteClicks(ctx, cutoff); err != nil {
		return nil, false, err
	}
	if err := d.deleteDeadLetters(ctx); err != nil {
		return nil, false, err
	}
	if err := d.deleteEvents(ctx, cutoff); err != nil {
		return nil, false, err
	}
	if err := d.clearAuditLog(ctx); err != nil {
		return nil, false, err
	}
	deleted, finished, err = d.deleteRest(ctx)
	if errors.Is(err, errTooMuch) {
		return nil, false, d.deleteParts(ctx)
	}
	return deleted, finished, err
}

func (d *deletion) checkTime() error {
	if !d.now().Before(d.until) {
		return errOutOfTime
	}
	return nil
}

// change runs fn in a transaction that has locked the deletion, and stores the progress that
// fn has changed.
func (d *deletion) change(ctx context.Context, fn func(tx *postgres.Tx, r *privacy.RunningReset) error) error {
	return testdata.Attempt(ctx, d.DB, func(tx *postgres.Tx) error { return d.locked(ctx, tx, fn) })
}

// repeat runs fn in transactions, as change does, until fn returns false or the time is over.
func (d *deletion) repeat(ctx context.Context, fn func(tx *postgres.Tx, r *privacy.RunningReset) (more bool, err error)) error {
	for more := true; more; {
		err := d.change(ctx, func(tx *postgres.Tx, r *privacy.RunningReset) (err error) {
			more, err = fn(tx, r)
			return err
		})
		if err != nil {
			return err
		}
		if err := d.checkTime(); err != nil {
			return err
		}
	}
	return nil
}

func (d *deletion) locked(ctx context.Context, tx *postgres.Tx, fn func(tx *postgres.Tx, r *privacy.RunningReset) error) error {
	r, found, err := testdata.LockReset(ctx, tx, d.workspace, d.id)
	if err != nil {
		return err
	}
	if !found {
		return errNotRunning
	}
	if err := fn(tx, &r); err != nil {
		return err
	}
	return testdata.SaveProgress(ctx, tx, r)
}
