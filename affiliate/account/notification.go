package account

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// MemberNotification returns a notification about a member for the feed of the workspace.
// facts are the values of the placeholders in its text.
func MemberNotification(
	workspace affiliate.WorkspaceID, kind notification.Type, member affiliate.UserID, at time.Time, facts map[string]string,
) notification.Notification {
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(workspace), kind, nil, at)
	n.Workspace, n.User, n.Resource, n.Facts = &workspace, &member, &member.UUID, facts
	return n
}

// Notification returns a notification about an account, for the feed of the
// member's workspace, or for the feed of the partner. The result is empty for a merchant who is
// not a member of a workspace, because this user has no feed.
func Notification(account Account, kind notification.Type, at time.Time, facts map[string]string) []notification.Notification {
	user := account.User.ID
	if account.Member != nil {
		return []notification.Notification{MemberNotification(account.Member.Workspace, kind, user, at, facts)}
	}
	if account.User.Kind != affiliate.Partner {
		return nil
	}
	n := notification.NewNotification(affiliate.Partner, notification.PartnerFeed(user), kind, nil, at)
	n.User, n.Resource, n.Facts = &user, &user.UUID, facts
	return []notification.Notification{n}
}

// KeyNotification returns a notification about a secret key that a member, or a service
// token that the member has created, has created, rolled or revoked. It returns none for a
// public key, which is not a secret.
func KeyNotification(kind notification.Type, key APIKey, by affiliate.UserID, at time.Time) []notification.Notification {
	if key.Kind != SecretKey {
		return nil
	}
	n := MemberNotification(key.Scope.Workspace, kind, by, at, map[string]string{
		"key": key.Name, "last4": key.Last4, "mode": string(key.Scope.Mode),
	})
	n.Resource = &key.ID.UUID
	return []notification.Notification{n}
}
