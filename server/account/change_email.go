package account

import (
	"context"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// ChangeMerchantEmail requests a change of a merchant's address.
func (s *Service) ChangeMerchantEmail(ctx context.Context, req *affiliatev1.ChangeEmailRequest) (*affiliatev1.ChangeEmailResponse, error) {
	return s.changeEmail(ctx, req)
}

// ChangePartnerEmail requests a change of a partner's address.
func (s *Service) ChangePartnerEmail(ctx context.Context, req *affiliatev1.ChangeEmailRequest) (*affiliatev1.ChangeEmailResponse, error) {
	return s.changeEmail(ctx, req)
}

// changeEmail checks the password, and the code if the account has a second factor, and
// stores the request. It does not look the new address up. The response and its duration
// therefore do not depend on whether another account has the address.
func (s *Service) changeEmail(ctx context.Context, req *affiliatev1.ChangeEmailRequest) (*affiliatev1.ChangeEmailResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	holder, err := accounts.Account(ctx, s.db, caller.User)
	if err != nil {
		return nil, err
	}
	email := strings.ToLower(req.GetNewEmail())
	if email == holder.User.Email {
		return nil, affiliate.Invalid("new_email", "must not be the current address")
	}
	// As in a login, throttleCaller stores the attempt as failed, and the transaction below
	// deletes all failed attempts of the session.
	attempt, err := s.throttleCaller(ctx, holder, at)
	if err != nil {
		return nil, err
	}
	if err := s.requirePassword(ctx, holder, req.GetPassword()); err != nil {
		return nil, err
	}
	request := account.EmailRequest{
		ID:        affiliate.NewID[account.EmailRequestID](at),
		Purpose:   account.TokenChange,
		Account:   holder.User.Kind,
		Address:   email,
		User:      &caller.User,
		Session:   &caller.Session,
		CreatedAt: at,
	}
	var accepted bool
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := s.checkUnchanged(ctx, tx, holder, req.GetPassword()); err != nil {
			return err
		}
		if accepted, err = s.checkFactor(ctx, tx, holder, req.GetCode(), at); err != nil || !accepted {
			return err
		}
		if err := accounts.DeleteBucketFailures(ctx, tx, attempt.Bucket); err != nil {
			return err
		}
		return storeRequest(ctx, tx, request)
	})
	if err := refusedCode(accepted, err); err != nil {
		return nil, err
	}
	return &affiliatev1.ChangeEmailResponse{}, nil
}

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
