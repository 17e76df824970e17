// Package workspace manages what belongs to a merchant as a whole: its settings,
// members and audit log, and its API keys.
//
// It guarantees that a secret key or an invitation's token is shown once, at its
// creation, and stored as a digest only; that a mode never has more than ten
// active secret keys and a workspace never less than one owner, however many ask
// at the same time; that who loses a role while a call of theirs waits is refused
// what the role allowed, and keeps no invitation that they could not make now; and that an export of the audit log, of whatever length, takes
// the memory of a chunk and shows one instant.
//
// It does not promise that the edge knows a new public key, or another list of
// origins, at once: the directory follows a moment after the commit.
package workspace

import (
	"context"
	"time"

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

// at is the instant of a call: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// GetWorkspace reads the settings.
func (s *Service) GetWorkspace(ctx context.Context, _ *affiliatev1.GetWorkspaceRequest) (*affiliatev1.Workspace, error) {
	caller := server.PrincipalFrom(ctx)
	w, err := s.store.Workspace(ctx, caller.Workspace)
	if err != nil {
		return nil, err
	}
	return settings(w.SeenBy(caller.Role)), nil
}

// UpdateWorkspace changes what the mask names.
func (s *Service) UpdateWorkspace(ctx context.Context, req *affiliatev1.UpdateWorkspaceRequest) (*affiliatev1.Workspace, error) {
	w, err := s.store.UpdateWorkspace(ctx, server.PrincipalFrom(ctx).Workspace, patchOf(req), s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return settings(w), nil
}
