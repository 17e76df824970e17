package export

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
)

const (
	// jobTimeout is the longest time of one job. jobTime is the time after which a job leaves
	// the rest of the bundle to the next job.
	jobTimeout = 5 * time.Minute
	jobTime    = 4 * time.Minute
)

// AddWorkers registers the worker of this package's job.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &server.Worker[privacy.BuildExport]{Limit: jobTimeout, Run: func(ctx context.Context, job *river.Job[privacy.BuildExport]) error {
		return server.Snooze(s.Continue(ctx, job.Args, jobTime))
	}})
}

// Continue continues the bundle of a large workspace at the stored progress. If the bundle is
// not complete after the time limit, Continue inserts another job. If another process makes
// the bundle, wait is the time until the next call.
func (s *Service) Continue(ctx context.Context, job privacy.BuildExport, limit time.Duration) (wait time.Duration, err error) {
	now := s.now()
	var e *privacy.Export
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) (err error) {
		if e, err = exports.LockExport(ctx, tx, privacy.WorkspaceSubject(job.Workspace), now); err != nil {
			return err
		}
		if e == nil || e.ID != job.Export || e.Ready() {
			e = nil
			return nil
		}
		// A lease without a process means that a job has been inserted and has not begun.
		if e.Busy(now) && e.Lease != uuid.Nil {
			wait = leaseLife
			return nil
		}
		e.Lease, e.LeaseUntil = uuid.New(), now.Add(leaseLife)
		return exports.TakeExport(ctx, tx, *e)
	})
	if err != nil || wait > 0 || e == nil {
		return wait, err
	}
	err = s.build(ctx, e, sizeLimit{}, now.Add(limit))
	// The outcome is stored even if the process stops.
	storeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	switch {
	case err == nil:
		return 0, s.complete(storeCtx, *e)
	case errors.Is(err, errLost):
		return 0, nil
	case errors.Is(err, errTimeUp):
		return 0, s.continueLater(storeCtx, *e)
	}
	return 0, errors.Join(err, s.release(storeCtx, *e))
}

// continueLater ends the lease of an export and inserts the job that continues it.
func (s *Service) continueLater(ctx context.Context, e privacy.Export) error {
	now := s.now()
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		found, err := exports.LockExport(ctx, tx, e.ExportSubject, now)
		if err != nil || found == nil || found.ID != e.ID || found.Lease != e.Lease {
			return err
		}
		found.Lease, found.LeaseUntil = uuid.Nil, now.Add(leaseLife)
		if err := exports.TakeExport(ctx, tx, *found); err != nil {
			return err
		}
		return tx.Enqueue(ctx, privacy.BuildExport{Workspace: *e.WorkspaceID, Export: e.ID})
	})
}

// complete stores that a bundle is complete, and publishes the event and the notification. If
// members wait for the bundle, it mails a link to each of them. It has no effect if the export
// was deleted in the meantime.
func (s *Service) complete(ctx context.Context, e privacy.Export) error {
	now := s.now()
	e = e.Complete(now)
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		completed, err := exports.CompleteExport(ctx, tx, e)
		if err != nil || !completed {
			return err
		}
		if events := e.ReadyEvent(now); len(events) > 0 {
			if err := tx.Publish(ctx, events...); err != nil {
				return err
			}
		}
		if notifications := e.ReadyNotification(now); len(notifications) > 0 {
			if err := tx.Notify(ctx, notifications...); err != nil {
				return err
			}
		}
		if !e.Queued {
			return nil
		}
		return s.sendLinks(ctx, tx, e)
	})
}

// sendLinks mails a separate link to each member who has requested the bundle and may still
// export data.
func (s *Service) sendLinks(ctx context.Context, tx *postgres.Tx, e privacy.Export) error {
	recipients, err := exports.Recipients(ctx, tx, e)
	if err != nil {
		return err
	}
	name, err := exports.WorkspaceName(ctx, tx, *e.WorkspaceID)
	if err != nil {
		return err
	}
	for _, to := range recipients {
		if to.Role != affiliate.RoleOwner && to.Role != affiliate.RoleAdmin {
			continue
		}
		token, text, digest := e.NewToken(*e.ReadyAt, true)
		if err := exports.InsertToken(ctx, tx, token, digest); err != nil {
			return err
		}
		mail := notification.Mail{
			ID: affiliate.NewID[notification.MailID](*e.ReadyAt), Kind: notification.MailExportReady, Type: string(notification.MailExportReady),
			Workspace: e.WorkspaceID,
			Recipient: notification.Recipient{User: &to.User, Account: affiliate.Merchant, Name: to.Name, Address: to.Address},
			Facts:     notification.MailFacts{WorkspaceName: name, ExpiresAt: &token.ExpiresAt},
			CreatedAt: *e.ReadyAt,
		}
		mail.Secret = s.Seal.Seal([]byte(text), mail.ID.UUID[:])
		if err := tx.SendMail(ctx, mail); err != nil {
			return err
		}
	}
	return nil
}
