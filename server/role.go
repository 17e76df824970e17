package server

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
)

// MemberTx is a transaction that reads the members of a workspace.
type MemberTx interface {
	// LockWorkspace locks a workspace, so that concurrent changes of its members,
	// invitations, keys and tokens run one after the other. Errors: NOT_FOUND.
	LockWorkspace(ctx context.Context, id affiliate.WorkspaceID) error
	// Member returns a member. Errors: NOT_FOUND.
	Member(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID) (account.TeamMember, error)
}

// LockWorkspace locks the caller's workspace and returns the caller's current role.
// Errors: FORBIDDEN if the caller is no longer a member.
func LockWorkspace(ctx context.Context, tx MemberTx, caller Principal) (affiliate.Role, error) {
	if err := tx.LockWorkspace(ctx, caller.Workspace); err != nil {
		return "", err
	}
	return CurrentRole(ctx, tx, caller)
}

// CurrentRole returns the role that the caller has now. This role can differ from the
// role with which the call was authorised. The transaction must have locked the
// workspace, so that the role cannot change before the transaction ends. The role of a
// service token never changes. Errors: FORBIDDEN if the caller is no longer a member.
func CurrentRole(ctx context.Context, tx MemberTx, caller Principal) (affiliate.Role, error) {
	if caller.Service != nil {
		return caller.Role, nil
	}
	member, err := tx.Member(ctx, caller.Workspace, caller.User)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return member.Role, err
}
