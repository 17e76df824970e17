package participant

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// CreateParticipant adds a partner to a programme. If no partner has the address, it makes
// an account, and the participant is approved. If a partner has the address, the
// participant is pending until this partner accepts the participation. A request with the
// Idempotency-Key of an earlier request adds nothing and returns the earlier response.
func (s *Service) CreateParticipant(ctx context.Context, req *affiliatev1.CreateParticipantRequest) (*affiliatev1.Participant, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	caller := server.PrincipalFrom(ctx)
	enrolment := participant.Enrolment{
		Scope: caller.Scope(), Program: program, Email: strings.ToLower(req.GetEmail()), Name: req.GetName(),
		ExternalID: req.ExternalId, ReferralCode: click.FoldCode(req.GetReferralCode()),
		Group: server.ParseOptionalID[affiliate.GroupID](req.GroupId),
	}
	sendInvite := req.SendInvite == nil || req.GetSendInvite()
	key, err := server.OptionalKey(ctx, affiliatev1.ParticipantService_CreateParticipant_FullMethodName, req, s.currentTime())
	if err != nil {
		return nil, err
	}
	response, replayed, err := s.enrolOnce(ctx, enrolment, sendInvite, key)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonEmailTaken)) {
		// Another call has made the account at the same time. The other call has committed,
		// so this attempt finds the account.
		response, replayed, err = s.enrolOnce(ctx, enrolment, sendInvite, key)
	}
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	return response, nil
}

// enrolOnce calls enrol and stores the response under the key, unless a response is stored
// already. The participant may change later, so the id alone could not repeat the response.
func (s *Service) enrolOnce(
	ctx context.Context, e participant.Enrolment, sendInvite bool, key *affiliate.IdempotencyKey,
) (response *affiliatev1.Participant, replayed bool, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		response = &affiliatev1.Participant{}
		stored, err := server.ClaimKey(ctx, tx, e.Scope, key)
		if err != nil {
			return err
		}
		if replayed = stored != nil; replayed {
			return proto.Unmarshal(stored, response)
		}
		p, err := s.enrol(ctx, tx, e, sendInvite)
		if err != nil {
			return err
		}
		detail, err := participants.Get(ctx, tx, e.Scope, e.Program, p.ID)
		if err != nil {
			return err
		}
		response = toProto(detail, server.PrincipalFrom(ctx).Role)
		if stored, err = proto.Marshal(response); err != nil {
			return err
		}
		return server.StoreResponse(ctx, tx, e.Scope, key, stored)
	})
	return response, replayed, err
}

// enrol stores the participant and, if necessary, the account of the partner. Errors: EMAIL_TAKEN
// if another transaction makes the account at the same time, and all errors of CreateParticipant.
func (s *Service) enrol(ctx context.Context, tx *postgres.Tx, e participant.Enrolment, sendInvite bool) (p participant.Participant, err error) {
	at := s.currentTime()
	program, err := programs.LockOpen(ctx, tx, e.Scope, e.Program)
	if err != nil {
		return p, err
	}
	if err := participants.LockGroup(ctx, tx, e.Scope, e.Program, e.Group); err != nil {
		return p, err
	}
	user, hadAccount, err := partnerOf(ctx, tx, e.Email)
	if err != nil {
		return p, err
	}
	if !hadAccount {
		user = e.Account(at)
		if err := s.insertAccount(ctx, tx, user); err != nil {
			return p, err
		}
	}
	// A participation whose partner has since changed the address of the account still has
	// the given address until the partner accepts it. The address must not be used twice.
	if found, err := participants.HasAddress(ctx, tx, e.Scope, e.Program, e.Email); err != nil {
		return p, err
	} else if found {
		return p, affiliate.Refuse(affiliate.ReasonApplicationDuplicate)
	}
	if p, err = join(ctx, tx, e.Join(program, user.ID, hadAccount, at), e.ReferralCode, "participant.create"); err != nil {
		return p, err
	}
	if _, err := participants.EndInvites(ctx, tx, p.Scope, p.Program, p.PartnerEmail, at); err != nil {
		return p, err
	}
	if hadAccount {
		if err := tx.Notify(ctx, p.OfferNotification()); err != nil {
			return p, err
		}
	}
	if !sendInvite {
		return p, nil
	}
	return p, s.sendInvites(ctx, tx, e, program, user, p.ReferralCode, hadAccount, at)
}

// partnerOf returns the partner's account with an address, and locks it, so that it is not
// erased before the participant is stored.
func partnerOf(ctx context.Context, tx *postgres.Tx, email string) (user account.User, found bool, err error) {
	if _, found, err = accounts.LockUser(ctx, tx, affiliate.Partner, email); err != nil || !found {
		return user, false, err
	}
	account, found, err := accounts.AccountByEmail(ctx, tx, affiliate.Partner, email)
	return account.User, found, err
}

func (s *Service) insertAccount(ctx context.Context, tx *postgres.Tx, user account.User) error {
	if err := accounts.InsertUser(ctx, tx, user, s.unusableHash()); err != nil {
		return err
	}
	// The log of the account does not name the member or the token of the merchant.
	return tx.AuditAccount(ctx, affiliate.AccountAuditLine{User: user.ID, Actor: affiliate.System, At: user.CreatedAt, Action: "account.create"})
}

// sendInvites mails the partner a token with which the partner accepts the participation, if needsConsent
// is true, and a token with which the partner sets the password, if the account has none yet.
func (s *Service) sendInvites(
	ctx context.Context, tx *postgres.Tx, e participant.Enrolment, program program.Program, user account.User, code string, needsConsent bool, at time.Time,
) error {
	inviter := server.PrincipalFrom(ctx).AccountableUser()
	workspaceName, inviterName, err := participants.NamesForMail(ctx, tx, e.Scope.Workspace, inviter)
	if err != nil {
		return err
	}
	if err := s.invitations.Admit(ctx, tx, e.Email); err != nil {
		return err
	}
	rate, link, err := termsOf(ctx, tx, program, e.Group, code)
	if err != nil {
		return err
	}
	send := func(mail notification.Mail, token string) error {
		mail.Facts.ProgramName, mail.Facts.WorkspaceName, mail.Facts.InviterName = program.Name, workspaceName, inviterName
		mail.Facts.Rate, mail.Facts.Link = rate, link
		mail.Secret = s.seal.SealMailToken(mail.ID, token)
		return tx.SendMail(ctx, mail)
	}
	if user.Unclaimed {
		token, text, digest := account.NewClaimToken(user, at)
		if err := accounts.InsertEmailToken(ctx, tx, token, digest); err != nil {
			return err
		}
		if err := send(e.ClaimMail(user.ID, needsConsent, token.ExpiresAt, at), text); err != nil {
			return err
		}
	}
	if !needsConsent {
		return nil
	}
	invite := e.Invite(inviter, at)
	tokens, digests := account.NewInviteTokens()
	if _, err := participants.ReplaceInvite(ctx, tx, invite, digests); err != nil {
		return err
	}
	return send(invite.Mail(), tokens.Mailed)
}
