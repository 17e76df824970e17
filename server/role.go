package server

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// LockWorkspace locks the caller's workspace and returns the caller's current role.
// Errors: FORBIDDEN if the caller is no longer a member.
func LockWorkspace(ctx context.Context, tx *postgres.Tx, caller Principal) (affiliate.Role, error) {
	if err := postgres.LockWorkspace(ctx, tx, caller.Workspace); err != nil {
		return "", err
	}
	return CurrentRole(ctx, tx, caller)
}

// CurrentRole returns the role that the caller has now. This role can differ from the
// role with which the call was authorised. The transaction must have locked the
// workspace, so that the role cannot change before the transaction ends. The role of a
// service token never changes. Errors: FORBIDDEN if the caller is no longer a member.
func CurrentRole(ctx context.Context, tx *postgres.Tx, caller Principal) (affiliate.Role, error) {
	if caller.Service != nil {
		return caller.Role, nil
	}
	member, err := accounts.Member(ctx, tx, caller.Workspace, caller.User)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return member.Role, err
}
