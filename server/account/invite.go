package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// AcceptInvite makes the invited user a member of the workspace and opens a session. The
// e-mail address and the role of the member come from the invitation. The token of the
// invitation is the only proof of the caller's identity. An invitation has two tokens: the token in
// the mail also verifies the address, the token in the response to the inviter does not.
//
// The address may already belong to the account of a user who was removed from a
// workspace, or to an account of a stranger who has registered the address and never
// verified it. AcceptInvite then gives this account to the caller (takeOver). For a
// stranger's account, the caller needs the token in the mail.
func (s *Service) AcceptInvite(ctx context.Context, req *affiliatev1.AcceptInviteRequest) (*affiliatev1.SessionResponse, error) {
	digest := account.DigestInviteToken(req.GetToken())
	// Unknown tokens are rejected before the password is hashed, because hashing is
	// expensive.
	invite, _, err := accounts.InviteByToken(ctx, s.DB, digest)
	if err != nil {
		return nil, err
	}
	if !invite.Open(s.currentTime()) {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	var violations affiliate.Violations
	checkPassword("password", req.GetPassword(), req.GetName(), invite.Email, &violations)
	if err := violations.Err(); err != nil {
		return nil, err
	}
	hash, err := s.hashes.hash(ctx, req.GetPassword())
	if err != nil {
		return nil, err
	}

	at, token := s.currentTime(), newToken()
	var holder account.Account
	var workspace account.Workspace
	var session account.Session
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		// The lock ensures that only one of several calls with the same token succeeds.
		invite, mailed, err := accounts.LockInviteByToken(ctx, tx, digest)
		if err != nil {
			return err
		}
		if !invite.Open(at) {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		if err := accounts.EndInvite(ctx, tx, invite.Workspace, invite.ID, at); err != nil {
			return err
		}
		// Several workspaces may have invited this address. The lock ensures that the
		// user becomes a member of only one of these workspaces.
		id, found, err := accounts.LockUser(ctx, tx, affiliate.Merchant, invite.Email)
		if err != nil {
			return err
		}
		if found {
			if holder, err = accounts.Account(ctx, tx, id); err != nil {
				return err
			}
			if holder.Member != nil {
				if holder.EmailVerified || !mailed {
					return affiliate.Refuse(affiliate.ReasonEmailTaken)
				}
				if err := leaveForInvite(ctx, tx, holder, at); err != nil {
					return err
				}
			}
			if holder.User, err = s.takeOver(ctx, tx, holder.User, req.GetName(), hash, at); err != nil {
				return err
			}
		} else {
			holder.User = account.User{
				ID:        affiliate.NewID[affiliate.UserID](at),
				Kind:      affiliate.Merchant,
				Email:     invite.Email,
				Name:      req.GetName(),
				CreatedAt: at,
			}
			if err := accounts.InsertUser(ctx, tx, holder.User, hash); err != nil {
				return err
			}
		}
		holder.Member = &account.Member{Workspace: invite.Workspace, Role: invite.Role}
		if err := accounts.InsertMember(ctx, tx, holder.ID, *holder.Member, at); err != nil {
			return err
		}
		session = newSession(ctx, holder.ID, at)
		if err := accounts.InsertSession(ctx, tx, session, token.digest()); err != nil {
			return err
		}
		if workspace, err = accounts.Workspace(ctx, tx, invite.Workspace); err != nil {
			return err
		}
		if holder.User, err = s.beginInvited(ctx, tx, holder, mailed, at); err != nil {
			return err
		}
		joined := map[string]string{"role": string(invite.Role)}
		if err := tx.Notify(ctx, account.MemberNotification(invite.Workspace, notification.NotifyMemberJoined, holder.ID, at, joined)); err != nil {
			return err
		}
		actor := server.ActorFrom(ctx)
		actor.User = &holder.ID
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: invite.Workspace, Actor: actor, At: at,
			Action: "member.join", ResourceType: "member", ResourceID: holder.ID,
			After: map[string]string{"role": string(invite.Role), "invite": invite.ID.String()},
		})
	})
	if err != nil {
		return nil, err
	}
	return s.sessionResponse(holder, &workspace, session.ID, token.text())
}

// leaveForInvite removes the account of an unverified address from its workspace, so that
// the person who reads the mail of the address can join another workspace. If the account
// is the last owner, the secret keys and service tokens of the workspace are revoked,
// because a stranger may have them, and the workspace has no members afterwards. Errors:
// EMAIL_TAKEN if the account is the last owner and the workspace is in use.
func leaveForInvite(ctx context.Context, tx *postgres.Tx, account account.Account, at time.Time) error {
	workspace := account.Member.Workspace
	if err := postgres.LockWorkspace(ctx, tx, workspace); err != nil {
		return err
	}
	owners, err := accounts.CountOwners(ctx, tx, workspace)
	if err != nil {
		return err
	}
	if account.Member.Role == affiliate.RoleOwner && owners == 1 {
		used, err := accounts.WorkspaceInUse(ctx, tx, workspace)
		if err != nil {
			return err
		}
		if used {
			return affiliate.Refuse(affiliate.ReasonEmailTaken)
		}
		if err := accounts.RevokeCredentials(ctx, tx, workspace, at); err != nil {
			return err
		}
	}
	if err := accounts.DeleteMember(ctx, tx, workspace, account.ID); err != nil {
		return err
	}
	if _, err := accounts.EndInvitesBy(ctx, tx, workspace, account.ID, affiliate.Roles(), at); err != nil {
		return err
	}
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: workspace, Actor: affiliate.System, At: at,
		Action: "member.remove", ResourceType: "member", ResourceID: account.ID,
		Before: map[string]string{"role": string(account.Member.Role)},
	})
}

// takeOver gives an account to the person who accepts an invitation for the account's address.
// It ends the account's sessions and mailed tokens, replaces its name and password, and removes
// its second factor and payout method, because another person may have set them.
func (s *Service) takeOver(ctx context.Context, tx *postgres.Tx, user account.User, name, hash string, at time.Time) (account.User, error) {
	user.Name, user.EmailVerified, user.SecondFactor, user.Unclaimed = name, false, false, false
	if err := accounts.RevokeSessions(ctx, tx, user.ID, at); err != nil {
		return user, err
	}
	if err := accounts.RevokeEmailTokens(ctx, tx, user.ID, at); err != nil {
		return user, err
	}
	if err := accounts.DeleteSecondFactor(ctx, tx, user.ID); err != nil {
		return user, err
	}
	if err := accounts.DeleteLoginFailures(ctx, tx, account.LoginSubject(s.HashKeys, user.Kind, user.Email)); err != nil {
		return user, err
	}
	return user, accounts.ResetUser(ctx, tx, user, hash)
}

// beginInvited verifies the address of an account if the person has used the token of a mail
// to the address. Otherwise it sends the mail that verifies the address. It also stores the
// device, as begin does.
func (s *Service) beginInvited(ctx context.Context, tx *postgres.Tx, account account.Account, mailed bool, at time.Time) (account.User, error) {
	if !mailed {
		return account.User, s.begin(ctx, tx, account, at)
	}
	account.EmailVerified = true
	if _, err := s.seeDevice(ctx, tx, account.ID, at); err != nil {
		return account.User, err
	}
	return account.User, s.markVerified(ctx, tx, account, at)
}
