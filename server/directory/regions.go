package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tributary-hq/tributary/server"
	edge "github.com/tributary-hq/tributary/storage/directory"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	directories "github.com/tributary-hq/tributary/storage/postgres/directory"
)

const (
	// syncTimeout is the longest time that a job may take. The jobs of the largest
	// programmes take less time.
	syncTimeout = 2 * time.Minute
	// maxRetryDelay is the longest delay before a failed job is retried. After an outage
	// of the directory, a job therefore writes its change within this time. The default
	// delays of River would grow to hours. If the outage is so long that a job fails in
	// all its attempts, the sweep after the outage writes the change.
	maxRetryDelay = 10 * time.Second
	// farPause is the time for which no changes are written to a region after a failure, so
	// that jobs do not wait for a region that cannot be reached.
	farPause = 10 * time.Second
)

// Regions writes changes to the directories of all regions.
type Regions struct {
	home   *Keeper
	others map[string]*Keeper // by name
}

// NewRegions returns a Regions. home is the keeper of the home region, and others are the
// keepers of the other regions by their names. Each keeper must run (Keep).
func NewRegions(home *Keeper, others map[string]*Keeper) *Regions {
	return &Regions{home: home, others: others}
}

// Worker returns the worker of the SyncDirectory jobs.
func (r *Regions) Worker() river.Worker[affiliate.SyncDirectory] {
	return &server.Worker[affiliate.SyncDirectory]{
		Limit: syncTimeout,
		Retry: func(attempts int) time.Time {
			return r.home.cfg.Now().Add(min(time.Duration(attempts)*time.Second, maxRetryDelay))
		},
		Run: server.ForArgs(r.sync),
	}
}

// sync writes the entries of one programme, of one participant, or of the public keys of
// a workspace. It reads the current state from the database, so a job can run late or
// several times. It fails only if the home region fails: a sweep repairs the others.
func (r *Regions) sync(ctx context.Context, job affiliate.SyncDirectory) error {
	var others sync.WaitGroup
	for _, keeper := range r.others {
		others.Go(func() { keeper.syncFar(ctx, job) })
	}
	err := r.home.Sync(ctx, job)
	others.Wait()
	return err
}

// SyncNow writes a change to the directory of the home region (Keeper.SyncNow). The response
// to a request does not wait for other regions.
func (r *Regions) SyncNow(change affiliate.SyncDirectory) { r.home.SyncNow(change) }

// DeleteCodes deletes codes and short links whose texts must not stay in the directories. It
// returns an error if a region cannot be reached. The caller must then call it again, because a
// sweep does not delete entries. The codes and links must already be inactive in the database.
func (r *Regions) DeleteCodes(ctx context.Context, codes privacy.DirectoryCodes) error {
	err := r.home.DeleteCodes(ctx, codes)
	for name, keeper := range r.others {
		if farErr := keeper.DeleteCodes(ctx, codes); farErr != nil {
			err = errors.Join(err, fmt.Errorf("region %s: %w", name, farErr))
		}
	}
	return err
}

// syncFar writes a change to the directory of another region. If the write fails, or if a
// write to the region has failed within farPause, Keep runs a sweep at its next check.
func (k *Keeper) syncFar(ctx context.Context, change affiliate.SyncDirectory) {
	if k.cfg.Now().UnixNano() < k.pausedUntil.Load() {
		k.sweepDue.Store(true)
		return
	}
	if err := k.Sync(ctx, change); err != nil {
		k.pausedUntil.Store(k.cfg.Now().Add(farPause).UnixNano())
		k.sweepDue.Store(true)
	}
}

const (
	// syncNowTimeout is the longest time that SyncNow waits for the directory.
	syncNowTimeout = 100 * time.Millisecond
	// syncNowPause is how long SyncNow does nothing after a timeout. A request with many
	// changes calls SyncNow for each change. If the directory does not respond, the pause
	// ensures that the request waits once and not for each change.
	syncNowPause = time.Second
)

// SyncNow writes a change to the directory. It is called after the commit of the change
// and before the response is sent, so that collectors know the change when the client
// receives the response. It takes at most syncNowTimeout. After a timeout, SyncNow does
// nothing for syncNowPause. SyncNow returns no error, because the job of each change
// writes the change as well, and Keep logs that the directory cannot be reached.
func (k *Keeper) SyncNow(change affiliate.SyncDirectory) {
	if k.cfg.Now().UnixNano() < k.pausedUntil.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncNowTimeout)
	defer cancel()
	if err := k.Sync(ctx, change); err != nil && ctx.Err() != nil {
		k.pausedUntil.Store(k.cfg.Now().Add(syncNowPause).UnixNano())
	}
}

// DeleteCodes deletes codes and short links whose texts must not stay in the directory. The
// codes and links must already be inactive in the database.
func (k *Keeper) DeleteCodes(ctx context.Context, codes privacy.DirectoryCodes) error {
	return k.write(ctx, k.writer.Changes(), func(version int64, batch *edge.Batch) error {
		for _, code := range codes.Codes {
			batch.DeleteReferralCode(version, codes.Scope, code)
		}
		for _, link := range codes.Links {
			batch.DeleteLink(version, link)
		}
		return nil
	})
}

// Sync writes the current state of the entries to which change refers.
func (k *Keeper) Sync(ctx context.Context, change affiliate.SyncDirectory) error {
	switch {
	case change.Participant != nil:
		return k.syncParticipant(ctx, change.Workspace, *change.Participant)
	case change.Program != nil:
		return k.syncProgram(ctx, change.Workspace, *change.Program)
	}
	return k.syncKeys(ctx, change.Workspace)
}

// syncProgram writes the entries of a programme. It works page by page, because a
// programme can have any number of referral codes. With the codes it also writes all
// links of the programme, because each link has at least one code.
func (k *Keeper) syncProgram(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID) error {
	cursor := ""
	return k.writeCodes(ctx, func() ([]participant.ReferralTarget, error) {
		page, err := directories.ProgramReferralTargets(ctx, k.db, workspace, program, k.cfg.Now(), cursor, pageSize)
		if len(page) > 0 {
			cursor = page[len(page)-1].Code
		}
		return page, err
	})
}

func (k *Keeper) syncParticipant(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID) error {
	return k.write(ctx, k.writer.Changes(), func(version int64, batch *edge.Batch) error {
		targets, err := directories.ParticipantReferralTargets(ctx, k.db, workspace, participant, k.cfg.Now())
		if err != nil {
			return err
		}
		putTargets(version, batch, targets)
		return nil
	})
}

func (k *Keeper) syncKeys(ctx context.Context, workspace affiliate.WorkspaceID) error {
	return k.write(ctx, k.writer.Changes(), func(version int64, batch *edge.Batch) error {
		keys, err := directories.WorkspacePublicKeys(ctx, k.db, workspace)
		if err != nil {
			return err
		}
		k.putKeys(version, batch, keys)
		return nil
	})
}
