package participant

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// CreateParticipant adds a partner to a programme. If no partner has the address, it makes
// an account, and the participant is approved. If a partner has the address, the
// participant waits until the partner accepts it. A request with the Idempotency-Key of an
// earlier request adds nothing and returns the earlier response.
func (s *Service) CreateParticipant(ctx context.Context, req *affiliatev1.CreateParticipantRequest) (*affiliatev1.Participant, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
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
		// Another call has made the account at the same time. It has committed, so this
		// attempt finds the account.
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
		response = toProto(p, server.PrincipalFrom(ctx).Role)
		if stored, err = proto.Marshal(response); err != nil {
			return err
		}
		return server.StoreResponse(ctx, tx, e.Scope, key, stored)
	})
	return response, replayed, err
}

// enrol stores the participant and, if necessary, the account of the partner. Errors: as
// CreateParticipant, and EMAIL_TAKEN if another transaction makes the account.
func (s *Service) enrol(ctx context.Context, tx *postgres.Tx, e participant.Enrolment, sendInvite bool) (p participant.Participant, err error) {
	at, actor := s.currentTime(), server.ActorFrom(ctx)
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
	p, err = participants.Add(ctx, tx, e.Join(program, user.ID, hadAccount, at), e.ReferralCode, actor)
	if err != nil {
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

// sendInvites mails the partner a token that accepts the participation, unless the
// participant is approved, and a token that sets the password, unless somebody has set it.
func (s *Service) sendInvites(
	ctx context.Context, tx *postgres.Tx, e participant.Enrolment, program program.Program, user account.User, code string, awaited bool, at time.Time,
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
		if err := send(e.ClaimMail(user.ID, awaited, token.ExpiresAt, at), text); err != nil {
			return err
		}
	}
	if !awaited {
		return nil
	}
	invite := e.Invite(inviter, at)
	tokens, digests := account.NewInviteTokens()
	if err := participants.InsertInvite(ctx, tx, invite, digests); err != nil {
		return err
	}
	return send(invite.Mail(), tokens.Mailed)
}

// AcceptParticipation accepts a participation that a merchant has made for the calling
// partner.
func (s *Service) AcceptParticipation(ctx context.Context, req *affiliatev1.AcceptParticipationRequest) (*affiliatev1.Participant, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	partner, mode := server.PrincipalFrom(ctx).User, server.PrincipalFrom(ctx).Mode
	scope, _, err := links.PartnerParticipation(ctx, s.db, partner, mode, program)
	if err != nil {
		return nil, err
	}
	var accepted participant.Participant
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		// A change of the partner's name or address waits until the participant has a copy.
		if err := accounts.LockUserByID(ctx, tx, partner); err != nil {
			return err
		}
		account, err := accounts.Account(ctx, tx, partner)
		if err != nil {
			return err
		}
		active, err := programs.LockActive(ctx, tx, scope, program)
		if err != nil {
			return err
		}
		before, err := participants.LockParticipation(ctx, tx, scope, program, partner)
		if err != nil {
			return err
		}
		after, err := before.Accept(active, account.User, req.GetAcceptTerms(), s.currentTime())
		if err != nil {
			return err
		}
		accepted, err = participants.SetConsent(ctx, tx, before, after, affiliate.EventParticipantApproved, "participant.accept", server.ActorFrom(ctx))
		return err
	})
	if err != nil {
		return nil, err
	}
	return toPartnerProto(accepted), nil
}

// DeclineParticipation declines a participation that a merchant has made for the calling
// partner. The audit log of the merchant names the service, because the merchant must not
// learn the id, the name and the network of a partner who has not accepted.
func (s *Service) DeclineParticipation(ctx context.Context, req *affiliatev1.DeclineParticipationRequest) (*affiliatev1.Participant, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	partner, mode := server.PrincipalFrom(ctx).User, server.PrincipalFrom(ctx).Mode
	scope, _, err := links.PartnerParticipation(ctx, s.db, partner, mode, program)
	if err != nil {
		return nil, err
	}
	var declined participant.Participant
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := participants.LockParticipation(ctx, tx, scope, program, partner)
		if err != nil {
			return err
		}
		after, err := before.Decline(s.currentTime())
		if err != nil {
			return err
		}
		declined, err = participants.SetConsent(ctx, tx, before, after, affiliate.EventParticipantRejected, "participant.decline", affiliate.System)
		return err
	})
	if err != nil {
		return nil, err
	}
	return toPartnerProto(declined), nil
}

// CreateParticipantToken returns a token for one approved participant.
func (s *Service) CreateParticipantToken(ctx context.Context, req *affiliatev1.CreateParticipantTokenRequest) (*affiliatev1.ParticipantToken, error) {
	program, id, err := pathIDs(req)
	if err != nil {
		return nil, err
	}
	p, err := participants.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id)
	if err != nil {
		return nil, err
	}
	if err := p.CheckApproved(); err != nil {
		return nil, err
	}
	token, expiresAt, err := s.signer.SignParticipant(p.Scope.Workspace, p.ID, server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ParticipantToken{Token: token, ExpiresAt: timestamppb.New(expiresAt)}, nil
}
