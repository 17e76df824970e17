package testmode

import (
	"context"
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

// closePrograms archives the programmes and deletes their codes and links from the edge
// directory. The rows of the codes are deleted later, so that a deletion that continues
// after a crash still finds the codes. If a job writes a code again before its row is
// deleted, the code is not usable, because its programme is archived.
func (d *deletion) closePrograms(ctx context.Context) error {
	err := d.repeat(ctx, func(tx *postgres.Tx, _ *privacy.RunningReset) (more bool, err error) {
		archived, err := testdata.ArchivePrograms(ctx, tx, d.workspace, programBatch, d.now())
		return archived == programBatch, err
	})
	if err != nil {
		return err
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

// dropLateClicks stores and returns the time until which clicks of test mode are dropped. It
// also deletes the exports of test mode. Then it waits for the transactions that may store such
// clicks because they have not seen the time. clicks.Store explains why no click is missed.
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

// deleteClicks reads the clicks after the stored position and deletes the clicks of test
// mode and their visitors.
func (d *deletion) deleteClicks(ctx context.Context, cutoff time.Time) error {
	return d.repeat(ctx, func(tx *postgres.Tx, r *privacy.RunningReset) (more bool, err error) {
		last, read, deleted, err := testdata.DeleteClicks(ctx, tx, d.workspace, r.ClicksAfter, walkBatch)
		if more = read == walkBatch; !more {
			last = earlier(last, affiliate.FirstID[affiliate.ClickID](cutoff.Add(-walkOverlap)))
		}
		r.ClicksAfter = last
		r.Deleted["clicks"] += int64(len(deleted))
		tx.AfterCommit(func() { d.deleteVisitors(ctx, deleted) })
		return more, err
	})
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
// the whole stream again, because the stream contains few records.
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

// deleteEvents reads the events after the stored position and deletes the events of test mode.
func (d *deletion) deleteEvents(ctx context.Context, cutoff time.Time) error {
	return d.repeat(ctx, func(tx *postgres.Tx, r *privacy.RunningReset) (more bool, err error) {
		last, read, deleted, err := testdata.DeleteEvents(ctx, tx, d.workspace, r.EventsAfter, walkBatch)
		if more = read == walkBatch; !more {
			last = earlier(last, affiliate.FirstID[affiliate.EventID](cutoff.Add(-walkOverlap)))
		}
		r.EventsAfter = last
		r.Deleted["events"] += deleted
		return more, err
	})
}

// clearAuditLog removes the values from entries of the audit log about test data. When the rows
// of a participant are deleted, a later erasure of the partner can no longer find these
// entries. Each round reads the whole audit log again.
func (d *deletion) clearAuditLog(ctx context.Context) error {
	var last affiliate.AuditID
	return d.repeat(ctx, func(tx *postgres.Tx, _ *privacy.RunningReset) (more bool, err error) {
		next, read, err := testdata.ClearAuditLog(ctx, tx, d.workspace, last, walkBatch)
		last = next
		return read == walkBatch, err
	})
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
			for step := range testdata.Steps() {
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
// processor, so that the same codes can be created there again.
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

// deleteParts deletes rows in small transactions, table by table, until each table has only
// rows of transactions that run at the same time. These transactions may insert rows that
// refer to the rows that a step deletes. The next round deletes both.
func (d *deletion) deleteParts(ctx context.Context) error {
	for step := range testdata.Steps() {
		err := d.repeat(ctx, func(tx *postgres.Tx, r *privacy.RunningReset) (more bool, err error) {
			if err := d.checkPrograms(ctx, tx); err != nil {
				return false, err
			}
			rows, err := testdata.DeleteRows(ctx, tx, d.workspace, step, rowBatch)
			r.Deleted[rows.Table] += rows.Counted
			tx.AfterCommit(func() { d.deleteCodesAgain(ctx, rows.Codes, rows.Links) })
			return rows.Rows == rowBatch, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
