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

// RegisterMerchant creates a user, a workspace that the user owns, a public key for each
// mode, and a session. It mails a token that verifies the address. If the request has the
// token of an invitation, the user joins the workspace of the invitation instead. With the
// set-up code, the first workspace of the installation can also be created if the registration
// is closed.
func (s *Service) RegisterMerchant(ctx context.Context, req *affiliatev1.RegisterMerchantRequest) (*affiliatev1.SessionResponse, error) {
	if err := s.admitMerchant(ctx, req); err != nil {
		return nil, err
	}
	if req.InviteToken != nil {
		return s.AcceptInvite(ctx, &affiliatev1.AcceptInviteRequest{
			Token: req.GetInviteToken(), Name: req.GetName(), Password: req.GetPassword(),
		})
	}
	hash, err := s.hashes.hash(ctx, req.GetPassword())
	if err != nil {
		return nil, err
	}
	at := s.currentTime()
	user := account.User{
		ID:        affiliate.NewID[affiliate.UserID](at),
		Kind:      affiliate.Merchant,
		Email:     strings.ToLower(req.GetEmail()),
		Name:      req.GetName(),
		CreatedAt: at,
	}
	workspace := account.NewWorkspace(req.GetWorkspaceName(), at)
	owner := account.Member{Workspace: workspace.ID, Role: affiliate.RoleOwner}
	registered := account.Account{User: user, Member: &owner, PasswordHash: hash}
	session, token := newSession(ctx, user.ID, at), newToken()
	actor := server.ActorFrom(ctx)
	actor.User = &user.ID

	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if s.setsUp(req) {
			if err := s.admitSetup(ctx, tx, req); err != nil {
				return err
			}
		}
		if err := insertOwner(ctx, tx, registered, workspace, actor, at); err != nil {
			return err
		}
		if err := accounts.InsertSession(ctx, tx, session, token.digest()); err != nil {
			return err
		}
		return s.begin(ctx, tx, registered, at)
	})
	if err != nil {
		return nil, err
	}
	return s.sessionResponse(registered, &workspace, session.ID, token.text())
}

// insertOwner stores a new user with a new workspace that the user owns, and a public key
// for each mode. Errors: EMAIL_TAKEN.
func insertOwner(ctx context.Context, tx *postgres.Tx, owner account.Account, workspace account.Workspace, by affiliate.Actor, at time.Time) error {
	if err := accounts.InsertUser(ctx, tx, owner.User, owner.PasswordHash); err != nil {
		return err
	}
	if err := accounts.LockSlugs(ctx, tx); err != nil {
		return err
	}
	var err error
	if workspace.Slug, err = accounts.FreeSlug(ctx, tx, account.Slugs(workspace.Name)); err != nil {
		return err
	}
	if err := accounts.InsertWorkspace(ctx, tx, workspace); err != nil {
		return err
	}
	if err := accounts.InsertMember(ctx, tx, owner.ID, *owner.Member, at); err != nil {
		return err
	}
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		scope := affiliate.Scope{Workspace: workspace.ID, Mode: mode}
		_, key := account.GenerateAPIKey(account.PublicKey, scope, "Public key", at)
		if err := accounts.InsertKey(ctx, tx, key); err != nil {
			return err
		}
	}
	if err := tx.Audit(ctx, affiliate.AuditLine{
		Workspace: workspace.ID, Actor: by, At: at,
		Action: "workspace.create", ResourceType: "workspace", ResourceID: workspace.ID,
		After: map[string]string{"name": workspace.Name},
	}); err != nil {
		return err
	}
	return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: workspace.ID})
}

// admitMerchant checks whether the setting MerchantRegistration permits a registration.
// Errors: REGISTRATION_CLOSED.
func (s *Service) admitMerchant(ctx context.Context, req *affiliatev1.RegisterMerchantRequest) error {
	refusal := affiliate.Refuse(affiliate.ReasonRegistrationClosed)
	switch {
	case s.setsUp(req):
		return nil // RegisterMerchant checks the code in its transaction.
	case s.MerchantRegistration == account.ClosedRegistration:
		return refusal
	case req.InviteToken == nil && s.MerchantRegistration == account.InviteRegistration:
		return refusal
	case req.InviteToken == nil:
		return nil
	}
	invite, _, err := accounts.InviteByToken(ctx, s.DB, account.DigestInviteToken(req.GetInviteToken()))
	if isNotFound(err) || err == nil && (!invite.Open(s.currentTime()) || invite.Email != strings.ToLower(req.GetEmail())) {
		return refusal
	}
	return err
}

// setsUp reports whether a registration is to create the first workspace of the installation.
func (s *Service) setsUp(req *affiliatev1.RegisterMerchantRequest) bool {
	return req.SetupCode != nil && req.InviteToken == nil && s.MerchantRegistration != account.OpenRegistration
}

// admitSetup checks that the installation has no workspace and that the set-up code is right.
// It waits for other transactions that create a workspace, so only one of two registrations at
// the same time is admitted. Errors: REGISTRATION_CLOSED, VALIDATION_ERROR.
func (s *Service) admitSetup(ctx context.Context, tx *postgres.Tx, req *affiliatev1.RegisterMerchantRequest) error {
	if err := accounts.LockSlugs(ctx, tx); err != nil {
		return err
	}
	exists, err := accounts.AnyWorkspace(ctx, tx)
	switch {
	case err != nil:
		return err
	case exists:
		return affiliate.Refuse(affiliate.ReasonRegistrationClosed)
	case !account.IsSetupCode(s.HashKeys, req.GetSetupCode()):
		return affiliate.Invalid("setup_code", "must be the code that the core has logged")
	}
	return nil
}

// admitPartner checks whether the setting PartnerRegistration permits a registration. The
// result mailed is true if the request has the token of a mail to its address. Errors:
// REGISTRATION_CLOSED.
func (s *Service) admitPartner(ctx context.Context, req *affiliatev1.RegisterPartnerRequest) (mailed bool, err error) {
	var address string
	if req.InviteToken != nil {
		address, mailed, err = accounts.ParticipantInviteAddress(ctx, s.DB, account.DigestInviteToken(req.GetInviteToken()), s.currentTime())
		if err != nil {
			return false, err
		}
	}
	invited := address != "" && address == strings.ToLower(req.GetEmail())
	if !invited && s.PartnerRegistration == account.InviteRegistration {
		return false, affiliate.Refuse(affiliate.ReasonRegistrationClosed)
	}
	return invited && mailed, nil
}

// RegisterPartner creates a user and a session. It mails a token that verifies the address.
// If the request has the token of a mail to the address, the address is verified at once. An
// account that a stranger has registered with the address and never verified is then taken
// over (takeOver).
func (s *Service) RegisterPartner(ctx context.Context, req *affiliatev1.RegisterPartnerRequest) (*affiliatev1.SessionResponse, error) {
	mailed, err := s.admitPartner(ctx, req)
	if err != nil {
		return nil, err
	}
	hash, err := s.hashes.hash(ctx, req.GetPassword())
	if err != nil {
		return nil, err
	}
	at := s.currentTime()
	user := account.User{
		ID:        affiliate.NewID[affiliate.UserID](at),
		Kind:      affiliate.Partner,
		Email:     strings.ToLower(req.GetEmail()),
		Name:      req.GetName(),
		Country:   req.Country,
		CreatedAt: at,
	}
	var session account.Session
	token := newToken()
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		registered, action, err := s.insertPartner(ctx, tx, user, hash, mailed)
		if err != nil {
			return err
		}
		session = newSession(ctx, registered.ID, at)
		if err := accounts.InsertSession(ctx, tx, session, token.digest()); err != nil {
			return err
		}
		if user, err = s.beginInvited(ctx, tx, account.Account{User: registered}, mailed, at); err != nil {
			return err
		}
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
			User: user.ID, Actor: server.ActorFrom(ctx), At: at, Action: action,
		})
	})
	if err != nil {
		return nil, err
	}
	s.storeOrigin(ctx, user, at)
	return s.sessionResponse(account.Account{User: user}, nil, session.ID, token.text())
}

// insertPartner stores a new partner. If the caller has the token of a mail to the address
// (mailed), and an account has the address but the address was never verified,
// insertPartner takes this account over and returns it. The result action is the action for
// the audit log. Errors: EMAIL_TAKEN.
func (s *Service) insertPartner(
	ctx context.Context, tx *postgres.Tx, user account.User, hash string, mailed bool,
) (registered account.User, action string, err error) {
	if mailed {
		id, found, err := accounts.LockUser(ctx, tx, affiliate.Partner, user.Email)
		if err != nil {
			return user, "", err
		}
		if found {
			account, err := accounts.Account(ctx, tx, id)
			if err != nil {
				return user, "", err
			}
			if account.EmailVerified {
				return user, "", affiliate.Refuse(affiliate.ReasonEmailTaken)
			}
			registered, err = s.takeOver(ctx, tx, account.User, user.Name, hash, user.CreatedAt)
			return registered, "account.take_over", err
		}
	}
	return user, "account.create", accounts.InsertUser(ctx, tx, user, hash)
}

// begin sends a new account the mail that verifies its address. It also stores the device
// with which the account was created, so that the device is known at the next login.
func (s *Service) begin(ctx context.Context, tx *postgres.Tx, registered account.Account, at time.Time) error {
	if _, err := s.seeDevice(ctx, tx, registered.ID, at); err != nil {
		return err
	}
	if err := s.sendVerification(ctx, tx, registered, at); err != nil {
		return err
	}
	return tx.Notify(ctx, account.Notification(registered, notification.NotifyVerifyEmail, at, nil)...)
}

// CreateWorkspace creates a workspace for the operator of the service, independently of the
// setting MerchantRegistration. It returns the text of a token. The owner uses the token
// like the token of a mail that resets a password. The token is valid for
// account.InviteLife. The account has an unusable password, so no login is possible until
// the owner has set a password. Errors: EMAIL_TAKEN.
func (s *Service) CreateWorkspace(ctx context.Context, email, name, workspaceName string) (id affiliate.WorkspaceID, resetToken string, err error) {
	at := s.currentTime()
	workspace := account.NewWorkspace(workspaceName, at)
	owner := account.Account{
		User: account.User{
			ID: affiliate.NewID[affiliate.UserID](at), Kind: affiliate.Merchant, Email: strings.ToLower(email), Name: name, CreatedAt: at,
		},
		Member:       &account.Member{Workspace: workspace.ID, Role: affiliate.RoleOwner},
		PasswordHash: UnusableHash(),
	}
	token, text, digest := account.NewClaimToken(owner.User, at)
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := insertOwner(ctx, tx, owner, workspace, affiliate.System, at); err != nil {
			return err
		}
		return accounts.InsertEmailToken(ctx, tx, token, digest)
	})
	return workspace.ID, text, err
}
