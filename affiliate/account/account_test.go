package account_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestRole_ChangesAndRemovals(t *testing.T) {
	const (
		owner, admin, manager, viewer = affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleViewer
		forbidden, lastOwner          = affiliate.ReasonForbidden, affiliate.ReasonLastOwner
	)
	for _, tc := range []struct {
		name            string
		caller          affiliate.Role
		from, to        affiliate.Role
		owners          int
		change, removal affiliate.Reason // expected error codes; empty if allowed
	}{
		{name: "owner changes admin", caller: owner, from: admin, to: viewer, owners: 1},
		{name: "owner promotes to owner", caller: owner, from: viewer, to: owner, owners: 1},
		{name: "owner changes one of two owners", caller: owner, from: owner, to: admin, owners: 2},
		{name: "owner changes the last owner", caller: owner, from: owner, to: admin, owners: 1, change: lastOwner, removal: lastOwner},
		{name: "the last owner stays owner", caller: owner, from: owner, to: owner, owners: 1, removal: lastOwner},
		{name: "admin changes viewer", caller: admin, from: viewer, to: manager, owners: 1},
		{name: "admin promotes to owner", caller: admin, from: viewer, to: owner, owners: 1, change: forbidden},
		{name: "admin changes an owner", caller: admin, from: owner, to: viewer, owners: 2, change: forbidden, removal: forbidden},
		{name: "manager changes viewer", caller: manager, from: viewer, to: viewer, owners: 1, change: forbidden, removal: forbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantReason(t, "CheckRoleChange", tc.caller.CheckRoleChange(tc.from, tc.to, tc.owners), tc.change)
			wantReason(t, "CheckRemoval", tc.caller.CheckRemoval(tc.from, tc.owners), tc.removal)
		})
	}
}

// wantReason compares the error code of an error that a call returned. reason is empty
// if the call must succeed.
func wantReason(t *testing.T, call string, err error, reason affiliate.Reason) {
	t.Helper()
	if reason == "" && err != nil || reason != "" && !errors.Is(err, affiliate.Refuse(reason)) {
		t.Errorf("%s: error %v, want %q", call, err, reason)
	}
}

func TestUnmanageableRoles(t *testing.T) {
	if got := affiliate.RoleOwner.UnmanageableRoles(); len(got) != 0 {
		t.Errorf("RoleOwner.UnmanageableRoles() = %v, want none", got)
	}
	if got := affiliate.RoleAdmin.UnmanageableRoles(); !slices.Equal(got, []affiliate.Role{affiliate.RoleOwner}) {
		t.Errorf("RoleAdmin.UnmanageableRoles() = %v, want only owner", got)
	}
	if got := affiliate.RoleManager.UnmanageableRoles(); !slices.Equal(got, affiliate.Roles()) {
		t.Errorf("RoleManager.UnmanageableRoles() = %v, want all roles", got)
	}
}
