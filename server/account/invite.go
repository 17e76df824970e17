package account

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// AcceptInvite makes the invited user a member of the workspace and opens a session. The
// e-mail address and the role of the member come from the invitation. The token of the
// invitation is the only proof of the caller's identity.
//
// The address may already belong to the account of a user who was removed from a
// workspace. AcceptInvite then uses this account again. It revokes the account's sessions
// and its mailed tokens and replaces its password, because the person who has the token may
// not be the earlier user.
func (s *Service) AcceptInvite(ctx context.Context, req *affiliatev1.AcceptInviteRequest) (*affiliatev1.SessionResponse, error) {
	digest := affiliate.DigestInviteToken(req.GetToken())
	// Unknown tokens are rejected before the password is hashed, because hashing is
	// expensive.
	invite, err := s.store.InviteByToken(ctx, digest)
	if err != nil {
		return nil, err
	}
	if !invite.Open(s.currentTime()) {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	var violations affiliate.Violations
	checkPassword(req.GetPassword(), req.GetName(), invite.Email, &violations)
	if err := violations.Err(); err != nil {
		return nil, err
	}
	hash, err := s.hashes.hash(ctx, req.GetPassword())
	if err != nil {
		return nil, err
	}

	at, token := s.currentTime(), newToken()
	var account affiliate.Account
	var workspace affiliate.Workspace
	var session affiliate.Session
	err = s.store.InTx(ctx, func(tx Tx) error {
		// The lock ensures that only one of several calls with the same token succeeds.
		invite, err := tx.LockInviteByToken(ctx, digest)
		if err != nil {
			return err
		}
		if !invite.Open(at) {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		if err := tx.EndInvite(ctx, invite.Workspace, invite.ID, at); err != nil {
			return err
		}
		// Several workspaces may have invited this address. The lock ensures that the
		// user becomes a member of only one of these workspaces.
		id, found, err := tx.LockUser(ctx, affiliate.Merchant, invite.Email)
		if err != nil {
			return err
		}
		if found {
			if account, err = tx.Account(ctx, id); err != nil {
				return err
			}
			if account.Member != nil {
				return affiliate.Refuse(affiliate.ReasonEmailTaken)
			}
			account.User.Name, account.User.EmailVerified = req.GetName(), false
			if err := tx.RevokeSessions(ctx, id, at); err != nil {
				return err
			}
			if err := tx.RevokeEmailTokens(ctx, id, at); err != nil {
				return err
			}
			// The second factor belongs to the earlier user.
			if err := tx.DeleteSecondFactor(ctx, id); err != nil {
				return err
			}
			account.User.SecondFactor = false
			if err := tx.ResetUser(ctx, account.User, hash); err != nil {
				return err
			}
		} else {
			account.User = affiliate.User{
				ID:        affiliate.NewID[affiliate.User](at),
				Kind:      affiliate.Merchant,
				Email:     invite.Email,
				Name:      req.GetName(),
				CreatedAt: at,
			}
			if err := tx.InsertUser(ctx, account.User, hash); err != nil {
				return err
			}
		}
		account.Member = &affiliate.Member{Workspace: invite.Workspace, Role: invite.Role}
		if err := tx.InsertMember(ctx, account.User.ID, *account.Member, at); err != nil {
			return err
		}
		session = affiliate.NewSession(account.User.ID, at)
		if err := tx.InsertSession(ctx, session, token.digest()); err != nil {
			return err
		}
		if workspace, err = tx.Workspace(ctx, invite.Workspace); err != nil {
			return err
		}
		// The response to the creation of the invitation also contains its token, so the
		// token does not prove that the user reads the mail of the address.
		if err := s.begin(ctx, tx, account, at); err != nil {
			return err
		}
		joined := map[string]string{"role": string(invite.Role)}
		if err := tx.Notify(ctx, affiliate.MemberNotification(invite.Workspace, affiliate.NotifyMemberJoined, account.User.ID, at, joined)); err != nil {
			return err
		}
		actor := server.ActorFrom(ctx)
		actor.User = &account.User.ID
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: invite.Workspace, Actor: actor, At: at,
			Action: "member.join", ResourceType: "member", ResourceID: account.User.ID,
			After: map[string]string{"role": string(invite.Role), "invite": invite.ID.String()},
		})
	})
	if err != nil {
		return nil, err
	}
	return s.sessionResponse(account, &workspace, session.ID, token)
}
