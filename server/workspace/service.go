// Package workspace manages the settings, members, invitations, API keys and audit
// log of a workspace.
//
// Guaranteed: a secret key and the token of an invitation are shown once and stored
// as a digest. A mode has at most ten live secret keys and a workspace at least one
// owner, also under parallel calls. The caller's role is read again under the
// workspace's lock, so a role that was lost while a call waited allows nothing, and
// the invitations that it allowed end with it. An export of the audit log shows one
// snapshot and takes the memory of one chunk.
//
// Not promised: that a new public key, or other allowed origins, work at the edge from
// the response on. The core writes the edge directory after its commit and before its
// response, but waits at most 100 ms; the job of the change repeats the write.
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

// New makes the service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// at returns the time of a call: UTC, in milliseconds, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// GetWorkspace reads the settings.
func (s *Service) GetWorkspace(ctx context.Context, _ *affiliatev1.GetWorkspaceRequest) (*affiliatev1.Workspace, error) {
	caller := server.PrincipalFrom(ctx)
	w, err := s.store.Workspace(ctx, caller.Workspace)
	if err != nil {
		return nil, err
	}
	return server.WorkspaceSeenBy(w, caller.Role), nil
}

// UpdateWorkspace changes the settings in the mask. A change of nothing is neither
// stored nor audited.
func (s *Service) UpdateWorkspace(ctx context.Context, req *affiliatev1.UpdateWorkspaceRequest) (*affiliatev1.Workspace, error) {
	caller, at, patch := server.PrincipalFrom(ctx), s.at(), patchOf(req)
	var after affiliate.Workspace
	err := s.store.InTx(ctx, func(tx Tx) error {
		before, err := tx.LockSettings(ctx, caller.Workspace)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patch); err != nil {
			return err
		}
		was, is, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || was == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if err := tx.UpdateWorkspace(ctx, after); err != nil {
			return err
		}
		if err := affiliate.RedactChange(was, is, "test_mail_redirect", affiliate.MaskEmail); err != nil {
			return err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: caller.Workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: "workspace.update", ResourceType: "workspace", ResourceID: caller.Workspace, Before: was, After: is,
		}); err != nil {
			return err
		}
		_, origins := is["allowed_origins"]
		_, policy := is["origin_policy"]
		if !origins && !policy {
			return nil
		}
		// The directory has both with each public key.
		return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: caller.Workspace})
	})
	if err != nil {
		return nil, err
	}
	return server.WorkspaceSeenBy(after, caller.Role), nil
}

// lockTeam locks the caller's workspace and returns the caller's current role.
// Errors: FORBIDDEN if the caller is no longer a member.
func lockTeam(ctx context.Context, tx Tx, caller server.Principal) (affiliate.Role, error) {
	if err := tx.LockWorkspace(ctx, caller.Workspace); err != nil {
		return "", err
	}
	return currentRole(ctx, tx, caller)
}

// currentRole returns the role that the caller has now, which may differ from the
// role that the call was authorised with. It does not change before the transaction
// ends if the workspace is locked. Errors: FORBIDDEN if the caller is no longer a
// member.
func currentRole(ctx context.Context, tx Tx, caller server.Principal) (affiliate.Role, error) {
	member, err := tx.Member(ctx, caller.Workspace, caller.User)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return member.Role, err
}
