package privacy

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	erasures "github.com/tributary-hq/tributary/storage/postgres/privacy"
)

// Replay erases the subject of an entry of the erasure log again, after a restore of a backup
// that is older than the erasure. Nothing blocks a replay: the subject was erased before. It
// returns the erasure whose job the caller must run, or false if the database has no such
// subject or the subject is erased.
func (s *Service) Replay(ctx context.Context, entry privacy.ErasureLogEntry) (id privacy.ErasureID, replayed bool, err error) {
	subject, err := uuid.Parse(entry.Subject)
	if err != nil {
		return id, false, fmt.Errorf("subject: %w", err)
	}
	erasure := privacy.NewErasure(privacy.ErasureSubject(entry.Kind), subject, entry.At.UTC())
	erasure.Workspace = entry.Workspace
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		replayed = false
		switch erasure.Subject {
		case privacy.EraseParticipant:
			p, err := participants.LockByID(ctx, tx, *entry.Workspace, affiliate.ParticipantID{UUID: subject})
			if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
				return nil
			}
			if err != nil || p.ErasedAt != nil {
				return err
			}
			replayed, erasure.Mode = true, &p.Mode
			return s.eraseParticipant(ctx, tx, erasure, p, affiliate.System)
		case privacy.ErasePartner:
			account, found, err := erasures.LockAccount(ctx, tx, affiliate.UserID{UUID: subject})
			if err != nil || !found || account.ErasedAt != nil {
				return err
			}
			participations, err := participants.LockAllOfPartner(ctx, tx, account.ID)
			if err != nil {
				return err
			}
			replayed = true
			return s.erasePartner(ctx, tx, erasure, account, participations)
		case privacy.EraseWorkspace:
			workspace, found, err := erasures.LockWorkspaceForErasure(ctx, tx, affiliate.WorkspaceID{UUID: subject})
			if err != nil || !found || workspace.ErasedAt != nil {
				return err
			}
			replayed = true
			return s.eraseWorkspace(ctx, tx, erasure, workspace, affiliate.System)
		}
		return fmt.Errorf("unknown kind %q", entry.Kind)
	})
	if err != nil || !replayed {
		return id, false, err
	}
	return erasure.ID, true, erasures.MarkLogged(ctx, s.DB, erasure.ID, s.Now())
}
