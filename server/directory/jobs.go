package directory

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	directories "github.com/tributary-hq/tributary/storage/postgres/directory"
)

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

// DeleteCodes deletes codes and short links whose texts must not stay in the directory. The
// database must already say that they do not work.
func (k *Keeper[R, B]) DeleteCodes(ctx context.Context, codes privacy.DirectoryCodes) error {
	return k.write(ctx, k.sink.Changes(), func(version int64, batch B) error {
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
func (k *Keeper[R, B]) Sync(ctx context.Context, change affiliate.SyncDirectory) error {
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
func (k *Keeper[R, B]) syncProgram(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID) error {
	cursor := ""
	return k.writeCodes(ctx, func() ([]participant.ReferralTarget, error) {
		page, err := directories.ProgramReferralTargets(ctx, k.db, workspace, program, k.cfg.Now(), cursor, pageSize)
		if len(page) > 0 {
			cursor = page[len(page)-1].Code
		}
		return page, err
	})
}

func (k *Keeper[R, B]) syncParticipant(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID) error {
	return k.write(ctx, k.sink.Changes(), func(version int64, batch B) error {
		targets, err := directories.ParticipantReferralTargets(ctx, k.db, workspace, participant, k.cfg.Now())
		if err != nil {
			return err
		}
		putTargets(version, batch, targets)
		return nil
	})
}

func (k *Keeper[R, B]) syncKeys(ctx context.Context, workspace affiliate.WorkspaceID) error {
	return k.write(ctx, k.sink.Changes(), func(version int64, batch B) error {
		keys, err := directories.WorkspacePublicKeys(ctx, k.db, workspace)
		if err != nil {
			return err
		}
		k.putKeys(version, batch, keys)
		return nil
	})
}
