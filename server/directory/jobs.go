package directory

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// syncNowTimeout bounds what a call waits for the directory after its commit.
	syncNowTimeout = 100 * time.Millisecond
	// After a call that waited in vain, calls do not wait for syncNowPause. A request of
	// many changes therefore waits once and not for each of them.
	syncNowPause = time.Second
	// syncTimeout ends a job that hangs. The largest programmes need less.
	syncTimeout = 2 * time.Minute
	// maxRetryDelay bounds the delay of a change after the directory is back. River's
	// own delays grow to hours. If a long outage uses up all attempts of a job, the
	// sweep after the outage does its work.
	maxRetryDelay = 10 * time.Second
)

// Worker returns the worker of the jobs.
func (k *Keeper[R, B]) Worker() river.Worker[affiliate.SyncDirectory] {
	return &worker[R, B]{keeper: k}
}

type worker[R any, B Batch] struct {
	river.WorkerDefaults[affiliate.SyncDirectory]

	keeper *Keeper[R, B]
}

func (w *worker[R, B]) Timeout(*river.Job[affiliate.SyncDirectory]) time.Duration { return syncTimeout }

func (w *worker[R, B]) NextRetry(job *river.Job[affiliate.SyncDirectory]) time.Time {
	delay := min(time.Duration(job.Attempt)*time.Second, maxRetryDelay)
	return w.keeper.cfg.Now().Add(delay)
}

// Work brings one programme, one participant or the keys of a workspace up to date.
// A repeated or late job writes the state of its own time.
func (w *worker[R, B]) Work(ctx context.Context, job *river.Job[affiliate.SyncDirectory]) error {
	return w.keeper.Sync(ctx, job.Args)
}

// SyncNow writes a change after its commit and before the call that made it returns,
// so that the change works at the edge when the client sees the response. It takes at
// most syncNowTimeout. If that was too short, the calls of the next syncNowPause leave
// the write to the job of their change. An error is dropped because the job repeats the
// write, and Keep logs that the directory cannot be reached.
func (k *Keeper[R, B]) SyncNow(change affiliate.SyncDirectory) {
	if k.cfg.Now().UnixNano() < k.pausedUntil.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncNowTimeout)
	defer cancel()
	if err := k.Sync(ctx, change); err != nil && ctx.Err() != nil {
		k.pausedUntil.Store(k.cfg.Now().Add(syncNowPause).UnixNano())
	}
}

// Sync writes the current state of what has changed.
func (k *Keeper[R, B]) Sync(ctx context.Context, change affiliate.SyncDirectory) error {
	switch {
	case change.Participant != nil:
		return k.syncParticipant(ctx, change.Workspace, *change.Participant)
	case change.Program != nil:
		return k.syncProgram(ctx, change.Workspace, *change.Program)
	}
	return k.syncKeys(ctx, change.Workspace)
}

// syncProgram writes page by page, because a programme may have any number of codes.
// Every link has a code, so the codes lead to all links.
func (k *Keeper[R, B]) syncProgram(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID) error {
	after := ""
	return k.codes(ctx, func() ([]affiliate.ReferralTarget, error) {
		page, err := k.source.ProgramReferralTargets(ctx, workspace, program, k.cfg.Now(), after, pageSize)
		if len(page) > 0 {
			after = page[len(page)-1].Code
		}
		return page, err
	})
}

func (k *Keeper[R, B]) syncParticipant(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID) error {
	return k.write(ctx, k.sink.Changes(), func(version int64, batch B) error {
		targets, err := k.source.ParticipantReferralTargets(ctx, workspace, participant, k.cfg.Now())
		if err != nil {
			return err
		}
		putTargets(version, batch, targets)
		return nil
	})
}

func (k *Keeper[R, B]) syncKeys(ctx context.Context, workspace affiliate.WorkspaceID) error {
	return k.write(ctx, k.sink.Changes(), func(version int64, batch B) error {
		keys, err := k.source.WorkspacePublicKeys(ctx, workspace)
		if err != nil {
			return err
		}
		k.putKeys(version, batch, keys)
		return nil
	})
}
