package testmode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
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
	// writerPoll is the time between two looks at the transactions that write clicks.
	writerPoll = 5 * time.Millisecond
	// walkOverlap is the time before the deletion from which clicks and events are read again
	// in a next round, because some of them may have been stored in the meantime.
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

// Delete deletes the test data of a running deletion. It stops at the given time; done is
// then false, and another call must continue. If done is true, deleted contains what all
// calls have deleted. Several calls for the same deletion may run at the same time. If
// another call has finished the deletion, done is true and deleted is nil.
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

// run repeats rounds until the deletion is finished. A round leaves something if it has
// deleted participants or programmes, if there was too much for one transaction, or if
// requests use the test data at the same time.
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

// closePrograms archives the programmes and deletes their codes and links from the edge
// directory. This comes before the deletion of their rows, because after a crash the codes
// would not be known any more. If a job writes a code again before its row is deleted, the
// code is not usable, because its programme is archived.
func (d *deletion) closePrograms(ctx context.Context) error {
	for more := true; more; {
		err := d.change(ctx, func(tx *postgres.Tx, _ *privacy.RunningReset) error {
			archived, err := testdata.ArchivePrograms(ctx, tx, d.workspace, programBatch, d.now())
			more = archived == programBatch
			return err
		})
		if err != nil {
			return err
		}
		if err := d.checkTime(); err != nil {
			return err
		}
	}
	cursor := ""
	for {
		page, err := testdata.ReferralCodes(ctx, d.DB, d.workspace, cursor, codeBatch)
		if err != nil || len(page) == 0 {
			return err
		}
		codes, links := make([]string, len(page)), make([]string, len(page))
		for i, code := range page {
			codes[i], links[i] = code.Code, code.ShortKey
		}
		slices.Sort(links)
		if err := d.Edge.DeleteCodes(ctx, privacy.DirectoryCodes{Scope: d.scope(), Codes: codes, Links: slices.Compact(links)}); err != nil {
			return fmt.Errorf("remove codes from the edge directory: %w", err)
		}
		if cursor = codes[len(codes)-1]; len(page) < codeBatch {
			return nil
		}
		if err := d.checkTime(); err != nil {
			return err
		}
	}
}

func (d *deletion) scope() affiliate.Scope {
	return affiliate.Scope{Workspace: d.workspace, Mode: affiliate.ModeTest}
}

// dropLateClicks stores the time until which clicks of test mode are dropped, and returns it.
// Then it waits for the transactions that may store such clicks because they have not seen
// the time. storage/clicks.Store explains why no click is missed.
func (d *deletion) dropLateClicks(ctx context.Context) (cutoff time.Time, err error) {
	cutoff = d.now()
	err = d.change(ctx, func(tx *postgres.Tx, _ *privacy.RunningReset) error {
		if err := exports.DeleteTestExports(ctx, tx, d.workspace); err != nil {
			return err
		}
		return testdata.SetResetAt(ctx, tx, d.workspace, cutoff)
	})
	if err != nil {
		return cutoff, err
	}
	waiting, err := testdata.ClickWriters(ctx, d.DB)
	for err == nil && len(waiting) > 0 {
		if err := d.checkTime(); err != nil {
			return cutoff, err
		}
		select {
		case <-ctx.Done():
			return cutoff, ctx.Err()
		case <-time.After(writerPoll):
		}
		var running []string
		running, err = testdata.ClickWriters(ctx, d.DB)
		waiting = slices.DeleteFunc(waiting, func(writer string) bool { return !slices.Contains(running, writer) })
	}
	return cutoff, err
}

// deleteClicks reads the clicks that follow the stored progress and deletes those of test
// mode.
func (d *deletion) deleteClicks(ctx context.Context, cutoff time.Time) error {
	for more := true; more; {
		var visits []click.Click
		err := d.change(ctx, func(tx *postgres.Tx, r *privacy.RunningReset) error {
			last, read, deleted, err := testdata.DeleteClicks(ctx, tx, d.workspace, r.ClicksAfter, walkBatch)
			visits, more = deleted, read == walkBatch
			if !more {
				last = earlier(last, affiliate.FirstID[affiliate.ClickID](cutoff.Add(-walkOverlap)))
			}
			r.ClicksAfter = last
			r.Deleted["clicks"] += int64(len(deleted))
			return err
		})
		if err != nil {
			return err
		}
		d.deleteVisitors(ctx, visits)
		if err := d.checkTime(); err != nil {
			return err
		}
	}
	return nil
}

// earlier returns the lower of two ids.
func earlier[T any](a, b affiliate.ID[T]) affiliate.ID[T] {
	if slices.Compare(a.UUID[:], b.UUID[:]) < 0 {
		return a
	}
	return b
}

// deleteVisitors deletes the visitors of deleted clicks. After a failure, the next click of
// a visitor may not count as unique for a day, so an error is only logged.
func (d *deletion) deleteVisitors(ctx context.Context, clicks []click.Click) {
	since := d.now().Add(-visitorMemory)
	clicks = slices.DeleteFunc(clicks, func(c click.Click) bool { return c.ReceivedAt.Before(since) })
	if err := d.Visitors.Delete(ctx, clicks); err != nil {
		d.Log.LogAttrs(ctx, slog.LevelWarn, "the visitors of deleted clicks were not deleted", slog.Any("error", err))
	}
}

// deleteDeadLetters deletes the clicks of test mode that could not be stored. Each round reads
// the whole stream again, because it contains few records.
func (d *deletion) deleteDeadLetters(ctx context.Context) error {
	keys, err := testdata.PublicKeys(ctx, d.DB, d.workspace)
	if err != nil {
		return err
	}
	search := affiliate.DeadLetterSearch{Workspace: d.workspace, PublicKeys: keys, Mode: affiliate.ModeTest}
	var last affiliate.StreamPosition
	for more := true; more; {
		if last, more, err = d.DeadLetters.Delete(ctx, search, last); err != nil {
			return err
		}
		if err := d.checkTime(); err != nil {
			return err
		}
	}
	return nil
}

// deleteEvents does the same with events as deleteClicks with clicks.
func (d *deletion) deleteEvents(ctx context.Context, cutoff time.Time) error {
	for more := true; more; {
		err := d.change(ctx, func(tx *postgres.Tx, r *privacy.RunningReset) error {
			last, read, deleted, err := testdata.DeleteEvents(ctx, tx, d.workspace, r.EventsAfter, walkBatch)
			if more = read == walkBatch; !more {
				last = earlier(last, affiliate.FirstID[affiliate.EventID](cutoff.Add(-walkOverlap)))
			}
			r.EventsAfter = last
			r.Deleted["events"] += deleted
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

// clearAuditLog removes the values from entries of the audit log about test data. Without the
// rows, the erasure of a partner could not find the entries about the partner. Each round reads
// the whole audit log again.
func (d *deletion) clearAuditLog(ctx context.Context) error {
	var last affiliate.AuditID
	for more := true; more; {
		err := d.change(ctx, func(tx *postgres.Tx, _ *privacy.RunningReset) error {
			next, read, err := testdata.ClearAuditLog(ctx, tx, d.workspace, last, walkBatch)
			last, more = next, read == walkBatch
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

// deleteRest deletes everything that is left, except clicks and events, in one transaction
// with one snapshot. It finishes the deletion unless it has deleted participants or
// programmes. If a table has too many rows, it deletes nothing and returns errTooMuch. If a
// programme is not archived, it deletes nothing and returns errProgramOpened.
func (d *deletion) deleteRest(ctx context.Context) (deleted privacy.TestDataCounts, finished bool, err error) {
	var codes, links []string
	err = testdata.InSnapshot(ctx, d.DB, func(tx *postgres.Tx) error {
		codes, links = nil, nil
		return d.locked(ctx, tx, func(tx *postgres.Tx, r *privacy.RunningReset) error {
			if err := d.checkPrograms(ctx, tx); err != nil {
				return err
			}
			finished = true
			for step := range testdata.Steps(d.DB) {
				rows, err := testdata.DeleteRows(ctx, tx, d.workspace, step, lastBatch)
				if err != nil {
					return err
				}
				if rows.Rows == lastBatch {
					return errTooMuch
				}
				r.Deleted[rows.Table] += rows.Counted
				codes, links = append(codes, rows.Codes...), append(links, rows.Links...)
				if rows.Rows > 0 && (rows.Table == "participants" || rows.Table == "programs") {
					finished = false
				}
			}
			if err := d.deactivateAtProcessor(ctx, tx); err != nil || !finished {
				return err
			}
			deleted = r.Deleted
			now := d.now()
			if err := testdata.FinishReset(ctx, tx, *r, now); err != nil {
				return err
			}
			return tx.Audit(ctx, r.Audit(r.Deleted, now))
		})
	})
	if err != nil {
		return nil, false, err
	}
	d.deleteCodesAgain(ctx, codes, links)
	return deleted, finished, nil
}

// checkPrograms returns errProgramOpened if a programme is not archived. The edge may then
// know codes that would be deleted.
func (d *deletion) checkPrograms(ctx context.Context, tx *postgres.Tx) error {
	open, err := testdata.HasOpenPrograms(ctx, tx, d.workspace)
	if err == nil && open {
		err = errProgramOpened
	}
	return err
}

// deactivateAtProcessor inserts jobs that deactivate the promotion codes at the payment
// processor, so that their texts are free there too.
func (d *deletion) deactivateAtProcessor(ctx context.Context, tx *postgres.Tx) error {
	ids, err := testdata.PromoCodesAtProcessor(ctx, tx, d.workspace, lastBatch)
	if err != nil {
		return err
	}
	jobs := make([]affiliate.Job, len(ids))
	for i, id := range ids {
		jobs[i] = promocode.SyncPromoCode{Workspace: d.workspace, Mode: affiliate.ModeTest, PromoCode: id}
	}
	return tx.Enqueue(ctx, jobs...)
}

// deleteCodesAgain deletes codes and links from the edge directory after the deletion of their
// rows, because a job may have written them again in the meantime. These entries are not
// usable, so an error is only logged.
func (d *deletion) deleteCodesAgain(ctx context.Context, codes, links []string) {
	if err := d.Edge.DeleteCodes(ctx, privacy.DirectoryCodes{Scope: d.scope(), Codes: codes, Links: links}); err != nil {
		d.Log.LogAttrs(ctx, slog.LevelWarn, "deleted codes may be in the edge directory", slog.Any("error", err))
	}
}

// deleteParts deletes rows in small transactions, table by table, until each table has few
// rows. Other transactions may insert rows that refer to the rows that a step deletes. The
// next round deletes both.
func (d *deletion) deleteParts(ctx context.Context) error {
	for step := range testdata.Steps(d.DB) {
		for more := true; more; {
			var codes, links []string
			err := d.change(ctx, func(tx *postgres.Tx, r *privacy.RunningReset) error {
				if err := d.checkPrograms(ctx, tx); err != nil {
					return err
				}
				rows, err := testdata.DeleteRows(ctx, tx, d.workspace, step, rowBatch)
				more, codes, links = rows.Rows == rowBatch, rows.Codes, rows.Links
				r.Deleted[rows.Table] += rows.Counted
				return err
			})
			if err != nil {
				return err
			}
			d.deleteCodesAgain(ctx, codes, links)
			if err := d.checkTime(); err != nil {
				return err
			}
		}
	}
	return nil
}
