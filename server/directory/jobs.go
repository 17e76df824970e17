package directory

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// syncTimeout ends a job that hangs; the largest programmes are done within.
	syncTimeout = 2 * time.Minute
	// maxRetryDelay bounds how long a change waits after the directory is back:
	// River's own delays grow to hours. Jobs that are given up in a long outage
	// are made good by the sweep after it.
	maxRetryDelay = 10 * time.Second
)

// Worker does the jobs.
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

// Work brings one programme, one participant or a workspace's keys up to date.
// Running it again, or late, writes what is true by then.
func (w *worker[R, B]) Work(ctx context.Context, job *river.Job[affiliate.SyncDirectory]) error {
	return w.keeper.Sync(ctx, job.Args)
}

// Sync does one job.
func (k *Keeper[R, B]) Sync(ctx context.Context, job affiliate.SyncDirectory) error {
	switch {
	case job.Participant != nil:
		return k.syncParticipant(ctx, job.Workspace, *job.Participant)
	case job.Program != nil:
		return k.syncProgram(ctx, job.Workspace, *job.Program)
	}
	return k.syncKeys(ctx, job.Workspace)
}

// syncProgram goes by pages, as a programme may have any number of codes. Every
// link has a code, so links come with them.
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

// syncParticipant writes entry by entry: a batch would empty the collectors'
// caches, which one partner's code is not worth.
func (k *Keeper[R, B]) syncParticipant(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID) error {
	version, err := k.source.DirectoryVersion(ctx)
	if err != nil {
		return err
	}
	targets, err := k.source.ParticipantReferralTargets(ctx, workspace, participant, k.cfg.Now())
	if err != nil {
		return err
	}
	for _, target := range targets {
		if err := k.sink.PutReferralCode(ctx, version, target.Scope, target.Code, codeEntry(target)); err != nil {
			return err
		}
	}
	for target := range eachLink(targets) {
		if err := k.sink.PutLink(ctx, version, target.Link.Key, linkEntry(target)); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper[R, B]) syncKeys(ctx context.Context, workspace affiliate.WorkspaceID) error {
	version, err := k.source.DirectoryVersion(ctx)
	if err != nil {
		return err
	}
	keys, err := k.source.WorkspacePublicKeys(ctx, workspace)
	if err != nil {
		return err
	}
	for _, key := range keys {
		digest, ok := digestOf(key)
		if !ok {
			continue
		}
		if err := k.sink.PutPublicKey(ctx, version, digest, k.keyEntry(key)); err != nil {
			return err
		}
	}
	return nil
}
