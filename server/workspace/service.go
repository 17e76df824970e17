// Package workspace serves the settings, members, invitations, API keys and audit log of
// a workspace.
//
// It guarantees that a secret key and the token of an invitation are returned once and
// stored only as a digest. A mode has at most ten valid secret keys, and a workspace has
// at least one owner, also when requests run in parallel. The caller's role is read again
// while the workspace is locked. A caller that lost its role while the call waited is
// therefore refused. When a member loses a role, the invitations that need this role end.
// An export of the audit log shows one snapshot of the database and needs memory for only
// one chunk.
//
// It does not promise that a new public key or new allowed origins work at the edge when
// the response is sent. The core writes the edge directory after the commit and waits at
// most 100 ms for it. A job repeats the write.
package workspace

import (
	"context"
	"errors"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service implements affiliate.v1.WorkspaceService.
type Service struct {
	affiliatev1.UnimplementedWorkspaceServiceServer
	store Store
	now   func() time.Time
}

// New returns a Service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// GetWorkspace returns the settings.
func (s *Service) GetWorkspace(ctx context.Context, _ *affiliatev1.GetWorkspaceRequest) (*affiliatev1.Workspace, error) {
	caller := server.PrincipalFrom(ctx)
	w, err := s.store.Workspace(ctx, caller.Workspace)
	if err != nil {
		return nil, err
	}
	return server.WorkspaceForRole(w, caller.Role), nil
}

// UpdateWorkspace changes the settings that the update mask names. If nothing changes, it
// stores nothing.
func (s *Service) UpdateWorkspace(ctx context.Context, req *affiliatev1.UpdateWorkspaceRequest) (*affiliatev1.Workspace, error) {
	caller, at, patch := server.PrincipalFrom(ctx), s.currentTime(), patchOf(req)
	var after affiliate.Workspace
	err := s.store.InTx(ctx, func(tx Tx) error {
		before, err := tx.LockSettings(ctx, caller.Workspace)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patch); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if err := tx.UpdateWorkspace(ctx, after); err != nil {
			return err
		}
		if err := affiliate.RedactChange(oldValues, newValues, "test_mail_redirect", affiliate.MaskEmail); err != nil {
			return err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: caller.Workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: "workspace.update", ResourceType: "workspace", ResourceID: caller.Workspace, Before: oldValues, After: newValues,
		}); err != nil {
			return err
		}
		_, origins := newValues["allowed_origins"]
		_, policy := newValues["origin_policy"]
		if !origins && !policy {
			return nil
		}
		// The edge directory stores both settings with each public key.
		return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: caller.Workspace})
	})
	if err != nil {
		return nil, err
	}
	return server.WorkspaceForRole(after, caller.Role), nil
}

// lockWorkspace locks the caller's workspace and returns the caller's current role.
// Errors: FORBIDDEN if the caller is no longer a member.
func lockWorkspace(ctx context.Context, tx Tx, caller server.Principal) (affiliate.Role, error) {
	if err := tx.LockWorkspace(ctx, caller.Workspace); err != nil {
		return "", err
	}
	return currentRole(ctx, tx, caller)
}

// currentRole returns the role that the caller has now. It can differ from the role with
// which the call was authorised. The workspace must be locked, so that the role cannot
// change until the transaction ends. Errors: FORBIDDEN if the caller is no longer a member.
func currentRole(ctx context.Context, tx Tx, caller server.Principal) (affiliate.Role, error) {
	member, err := tx.Member(ctx, caller.Workspace, caller.User)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return member.Role, err
}
