package affiliate

import "time"

// MemberNotification returns a notification about a member for the feed of the workspace.
// facts are the values of the placeholders in its text.
func MemberNotification(
	workspace WorkspaceID, kind NotificationType, member UserID, at time.Time, facts map[string]string,
) Notification {
	n := NewNotification(Merchant, WorkspaceFeed(workspace), kind, nil, at)
	n.Workspace, n.User, n.Resource, n.Facts = &workspace, &member, &member.UUID, facts
	return n
}

// AccountNotification returns a notification about an account: for the feed of the
// member's workspace, or for the feed of the partner. It returns none for a merchant who is
// not a member of a workspace, because this user has no feed.
func AccountNotification(account Account, kind NotificationType, at time.Time, facts map[string]string) []Notification {
	user := account.User.ID
	if account.Member != nil {
		return []Notification{MemberNotification(account.Member.Workspace, kind, user, at, facts)}
	}
	if account.User.Kind != Partner {
		return nil
	}
	n := NewNotification(Partner, PartnerFeed(user), kind, nil, at)
	n.User, n.Resource, n.Facts = &user, &user.UUID, facts
	return []Notification{n}
}

// KeyNotification returns a notification about a secret key that a member, or a service
// token that the member has created, has created, rolled or revoked. It returns none for a
// public key, which is not a secret.
func KeyNotification(kind NotificationType, key APIKey, by UserID, at time.Time) []Notification {
	if key.Kind != SecretKey {
		return nil
	}
	n := MemberNotification(key.Scope.Workspace, kind, by, at, map[string]string{
		"key": key.Name, "last4": key.Last4, "mode": string(key.Scope.Mode),
	})
	n.Resource = &key.ID.UUID
	return []Notification{n}
}
