package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// change is a change of an account about which the user is informed.
type change struct {
	action       string // of the audit record
	notification notification.Type
	// before and after are the changed values for the audit record.
	before, after any
	// facts are the values of the placeholders in the notification.
	facts map[string]string
}

// recordChange notifies the user of a change and writes its audit record: for a merchant to
// the audit log of the workspace, for a partner to the audit log of the account.
func recordChange(ctx context.Context, tx *postgres.Tx, account account.Account, c change, at time.Time) error {
	actor := server.ActorFrom(ctx)
	actor.User = &account.User.ID
	return recordChangeBy(ctx, tx, actor, account, c, at)
}

// recordChangeBy is recordChange for a change that actor has made.
func recordChangeBy(ctx context.Context, tx *postgres.Tx, actor affiliate.Actor, holder account.Account, c change, at time.Time) error {
	if err := tx.Notify(ctx, account.Notification(holder, c.notification, at, c.facts)...); err != nil {
		return err
	}
	if holder.Member == nil {
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
			User: holder.User.ID, Actor: actor, At: at, Action: c.action, Before: c.before, After: c.after,
		})
	}
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: holder.Member.Workspace, Actor: actor, At: at,
		Action: c.action, ResourceType: "member", ResourceID: holder.User.ID, Before: c.before, After: c.after,
	})
}
