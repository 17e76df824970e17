package workspace

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. What a person changed is audited in the transaction of the
// change; who that person is and may do is read there once more.
type Store interface {
	// Workspace reads the settings. Errors: NOT_FOUND.
	Workspace(ctx context.Context, id affiliate.WorkspaceID) (affiliate.Workspace, error)
	// UpdateWorkspace changes what the patch names; a patch that changes nothing
	// leaves no trace. Errors: NOT_FOUND, VALIDATION_ERROR.
	UpdateWorkspace(ctx context.Context, id affiliate.WorkspaceID, patch affiliate.WorkspacePatch, at time.Time, by affiliate.Actor) (affiliate.Workspace, error)

	// Members reads one page, oldest first, and counts all pages.
	Members(ctx context.Context, workspace affiliate.WorkspaceID, page affiliate.Page) ([]affiliate.TeamMember, int64, error)
	// UpdateMember gives a member another role and ends those of the member's
	// invitations that the role could not make; the same one leaves no trace.
	// Errors: NOT_FOUND, FORBIDDEN, LAST_OWNER.
	UpdateMember(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.UserID, role affiliate.Role, at time.Time, by affiliate.Actor) (affiliate.TeamMember, error)
	// RemoveMember takes a member out and ends all its sessions and invitations.
	// Errors: NOT_FOUND, FORBIDDEN, LAST_OWNER.
	RemoveMember(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.UserID, at time.Time, by affiliate.Actor) error
	// TransferOwnership makes another member an owner and the actor an admin, whose
	// invitations of owners end. Errors: NOT_FOUND, FORBIDDEN for who is no owner
	// any more.
	TransferOwnership(ctx context.Context, workspace affiliate.WorkspaceID, to affiliate.UserID, at time.Time, by affiliate.Actor) (affiliate.TeamMember, error)

	// MemberInvites reads one page of those that can still be accepted, newest
	// first, and counts all pages.
	MemberInvites(ctx context.Context, workspace affiliate.WorkspaceID, now time.Time, page affiliate.Page) ([]affiliate.MemberInvite, int64, error)
	// CreateMemberInvite stores an invitation and ends an earlier one of the
	// address. Errors: FORBIDDEN for a role that the actor may not give, now or in
	// the earlier one, EMAIL_TAKEN.
	CreateMemberInvite(ctx context.Context, invite affiliate.MemberInvite, digest [sha256.Size]byte, by affiliate.Actor) error
	// RevokeMemberInvite ends an invitation. Errors: NOT_FOUND for one that cannot
	// be accepted any more, FORBIDDEN for a role that the actor may not give.
	RevokeMemberInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time, by affiliate.Actor) error

	// APIKeys lists the keys of a mode that open something at now, newest first.
	APIKeys(ctx context.Context, scope affiliate.Scope, now time.Time) ([]affiliate.APIKey, error)
	// CreateSecretKey refuses with API_KEY_LIMIT_EXCEEDED and, as RollKey and
	// RevokeSecretKey, with FORBIDDEN who may not manage keys any more.
	CreateSecretKey(ctx context.Context, key affiliate.NewAPIKey, actor affiliate.Actor) error
	// RollKey stores a successor, of the same kind, name and end as the key that it
	// replaces, and returns it; the old key works until the grace is over. Errors:
	// NOT_FOUND for a key that opens nothing or has a successor,
	// API_KEY_LIMIT_EXCEEDED.
	RollKey(ctx context.Context, id affiliate.APIKeyID, successor affiliate.NewAPIKey, grace time.Duration, by affiliate.Actor) (affiliate.APIKey, error)
	// RevokeSecretKey stops a secret key. Errors: NOT_FOUND for one that opens
	// nothing, and for a public key.
	RevokeSecretKey(ctx context.Context, scope affiliate.Scope, id affiliate.APIKeyID, at time.Time, by affiliate.Actor) error

	// AuditLog reads one page of what concerns the mode and of what concerns none,
	// newest first, and counts all pages up to affiliate.MaxAuditTotal.
	AuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter, page affiliate.Page) ([]affiliate.AuditEntry, int64, error)
	// ExportAuditLog hands every row of the same to each, as one snapshot has them,
	// until each returns an error, which it returns. It does not hold rows.
	ExportAuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter, each func(affiliate.AuditEntry) error) error
}
