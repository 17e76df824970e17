// Package testmode deletes the test data of a workspace.
//
//	request ─▶ store that a deletion is running ─▶ count ─▶ insert its job
//	                      │
//	                      ├─ at most 5,000 records ─▶ delete ─▶ 200
//	                      └─ more ─▶ 202, and the job deletes
//
//	delete:
//	    1. archive the programmes, and delete their codes and links from the edge directory
//	    2. store the time until which clicks are dropped, and wait for transactions that
//	       may not have seen it
//	    3. delete clicks and events in parts, and delete from Redis the clicks that could
//	       not be stored
//	    4. delete everything else in one transaction with one snapshot
//	       if a table has too many rows: delete parts of all tables instead, go to step 1
//	       if participants or programmes were deleted: go to step 1
//	       otherwise: finish the deletion in the same transaction
//
// The package guarantees:
//
//   - At most one deletion of a workspace runs at a time.
//   - Live data is not changed.
//   - A deletion that was started is finished, even if the process crashes at any point. The
//     job of the deletion then does the rest. It repeats steps 1 and 2 and continues step 3 at
//     the stored position.
//   - A transaction that writes test data at the same time either has all of its rows deleted
//     or keeps all of them, except clicks and events. A transaction that depends on a
//     participant locks the participant, so it either ends before the participant is deleted,
//     or fails. If a transaction locked its participant before the snapshot of step 4 and
//     ended later, only the next snapshot contains its rows. The steps are therefore repeated
//     until a snapshot contains no participants and no programmes.
//   - Each statement changes a limited number of rows.
//
// It does not guarantee which of the objects that are created during a deletion remain.
// Promotion codes at the payment processor are deactivated by a later job.
package testmode

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	testdata "github.com/tributary-hq/tributary/storage/postgres/testmode"
)

const (
	// requestTime is the time after which a request stops deleting and leaves the rest to
	// the job. It is shorter than the time limit of a call.
	requestTime = 10 * time.Second
	// jobDelay is the time after which the job of a small deletion runs. The request has then
	// ended, so the job does something only if the request has failed.
	jobDelay = 30 * time.Second
	// maxInspectedClicks is the maximum number of clicks, in both modes, that a request reads to count test clicks.
	maxInspectedClicks = 100_000
)

// Edge is the directory from which collectors read codes and links. Package directory
// implements it.
type Edge interface {
	// DeleteCodes writes that codes and links do not exist.
	DeleteCodes(ctx context.Context, codes privacy.DirectoryCodes) error
}

// Visitors stores the visitors of the last 24 hours. Package storage/visitors implements it.
type Visitors interface {
	// Delete deletes the visitors of clicks.
	Delete(ctx context.Context, clicks []click.Click) error
}

// DeadLetters is the Redis stream of the clicks that could not be stored. Package
// storage/clickstream implements it.
type DeadLetters interface {
	// Delete reads a page of the records after a position and deletes the records that the
	// search selects. last is the position of the last record of the page. more is false if the
	// page was the last one.
	Delete(ctx context.Context, search affiliate.DeadLetterSearch, after affiliate.StreamPosition) (last affiliate.StreamPosition, more bool, err error)
}

// Config configures a Service.
type Config struct {
	DB          *postgres.DB
	Edge        Edge
	Visitors    Visitors
	DeadLetters DeadLetters
	Log         *slog.Logger
	Now         func() time.Time
	// ServerTime returns the time of Postgres, with which River compares the times of jobs.
	// Default: time.Now.
	ServerTime func() time.Time
}

// Service implements affiliate.v1.TestModeService.
type Service struct {
	affiliatev1.UnimplementedTestModeServiceServer
	Config
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.ServerTime == nil {
		cfg.ServerTime = time.Now
	}
	return &Service{Config: cfg}
}

func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }

// DeleteTestData deletes all test data of the caller's workspace, or starts its deletion.
// The mode of the call makes no difference. Errors: RESET_IN_PROGRESS.
func (s *Service) DeleteTestData(ctx context.Context, _ *affiliatev1.DeleteTestDataRequest) (*affiliatev1.DeleteTestDataResponse, error) {
	now := s.now()
	reset := privacy.TestDataReset{
		Workspace: server.PrincipalFrom(ctx).Workspace, ID: affiliate.NewID[privacy.TestDataResetID](now),
		Actor: server.ActorFrom(ctx), StartedAt: now,
	}
	var small bool
	err := testdata.Attempt(ctx, s.DB, func(tx *postgres.Tx) error {
		started, err := testdata.StartReset(ctx, tx, reset)
		if err != nil {
			return err
		}
		if !started {
			return affiliate.Refuse(affiliate.ReasonResetInProgress)
		}
		records, err := testdata.CountRecords(ctx, tx, reset.Workspace, privacy.MaxSynchronousReset, maxInspectedClicks)
		if err != nil {
			return err
		}
		job := privacy.DeleteTestData{Workspace: reset.Workspace, Reset: reset.ID}
		if small = records <= privacy.MaxSynchronousReset; small {
			job.NotBefore = now.Add(jobDelay)
		}
		return tx.Enqueue(ctx, job)
	})
	if err != nil {
		return nil, err
	}
	if small {
		deleted, done, err := s.Delete(ctx, reset, now.Add(requestTime))
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "a request could not delete all test data, its job continues",
				slog.String("workspace", reset.Workspace.String()), slog.Any("error", err))
		}
		if done {
			return &affiliatev1.DeleteTestDataResponse{Deleted: countsToProto(deleted.Public())}, nil
		}
	}
	server.SetHTTPStatus(ctx, http.StatusAccepted)
	return &affiliatev1.DeleteTestDataResponse{Status: affiliatev1.TestDataStatus_TEST_DATA_STATUS_PROCESSING}, nil
}

func countsToProto(d privacy.DeletedTestData) *affiliatev1.DeletedTestData {
	return &affiliatev1.DeletedTestData{
		Programs: d.Programs, Participants: d.Participants, Links: d.Links, Clicks: d.Clicks,
		Conversions: d.Conversions, Commissions: d.Commissions, WebhookDeliveries: d.WebhookDeliveries,
		NotificationLogs: d.NotificationLogs, PromoCodes: d.PromoCodes, Payouts: d.Payouts,
	}
}

const (
	// jobTime is the time after which a run of the job stops. The job then runs again.
	// jobTimeout is the time limit of a run, including its last transaction.
	jobTime    = 3 * time.Minute
	jobTimeout = 4 * time.Minute
	// jobPause is the time between two runs, in which other jobs can run.
	jobPause = time.Second
	// maxRetryDelay is the longest time between a failure and the next attempt.
	maxRetryDelay = time.Minute
)

// AddWorkers registers the worker of this package's job.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &server.Worker[privacy.DeleteTestData]{
		Limit: jobTimeout,
		Retry: func(attempts int) time.Time {
			return s.ServerTime().Add(min(time.Duration(attempts)*time.Second, maxRetryDelay))
		},
		Run: func(ctx context.Context, job *river.Job[privacy.DeleteTestData]) error {
			reset := privacy.TestDataReset{Workspace: job.Args.Workspace, ID: job.Args.Reset}
			_, done, err := s.Delete(ctx, reset, s.now().Add(jobTime))
			if err == nil && !done {
				return river.JobSnooze(jobPause)
			}
			return err
		},
	})
}
