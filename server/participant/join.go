package participant

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// Apply makes the calling partner a participant in an active programme. If the programme
// is private, the partner needs an invitation. The programme must have the mode in the
// request's X-Mode header. If a partner applies several times at the same time, or several
// partners request the same code, exactly one application succeeds.
func (s *Service) Apply(ctx context.Context, req *affiliatev1.ApplyRequest) (*affiliatev1.Participant, error) {
	id := server.PathID[affiliate.ProgramID](req.GetProgramId())
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	var joined participant.Detail
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		partner, err := accounts.SharePartner(ctx, tx, caller.User)
		if err != nil {
			return err
		}
		program, err := participants.LockProgramToApply(ctx, tx, id, caller.Mode, partner.Email, at)
		if err != nil {
			return err
		}
		p, err := participant.Apply(program, partner, req.GetAnswers(), acceptanceOf(req.GetAcceptTerms(), req.TermsVersion), at)
		if err != nil {
			return err
		}
		joined.ProgramName, joined.Currency = program.Name, program.Currency
		joined.Participant, err = join(ctx, tx, p, click.FoldCode(req.GetReferralCode()), "participant.apply", affiliate.EventParticipantApplied)
		if err != nil {
			return err
		}
		// The partner no longer needs an invitation, and nobody else may use its token.
		_, err = participants.EndInvites(ctx, tx, joined.Scope, joined.Program, partner.Email, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return toPartnerProto(joined), nil
}

// AcceptParticipantInvite makes the calling partner an approved participant in the programme
// of the invitation. The programme must have the mode in the request's X-Mode header. Any
// partner with the token can accept, even if the partner's e-mail address is not the invited
// address. If several calls use the same token, exactly one succeeds. If a call is refused,
// the invitation stays open. If the merchant has made a participation for the partner, the
// call accepts this participation.
func (s *Service) AcceptParticipantInvite(ctx context.Context, req *affiliatev1.AcceptParticipantInviteRequest) (*affiliatev1.Participant, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	var accepted participant.Detail
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		invite, err := participants.LockInviteByToken(ctx, tx, account.DigestInviteToken(req.GetToken()), caller.Mode)
		if err != nil {
			return err
		}
		if !invite.Open(at) {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		invite.EndedAt = &at
		if err := participants.UpdateInvite(ctx, tx, invite); err != nil {
			return err
		}
		program, err := programs.LockActive(ctx, tx, invite.Scope, invite.Program)
		if err != nil {
			return err
		}
		// If the partner is already a participant and no consent is missing, join returns APPLICATION_DUPLICATE.
		offered, err := participants.LockOfPartner(ctx, tx, invite.Scope, invite.Program, caller.User)
		if err != nil && !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			return err
		}
		partner, err := accounts.SharePartner(ctx, tx, caller.User)
		if err != nil {
			return err
		}
		if offered.Consent != "" {
			after, err := offered.Accept(program, partner, acceptanceOf(req.GetAcceptTerms(), req.TermsVersion), at)
			if err != nil {
				return err
			}
			accepted, err = storeConsent(ctx, tx, offered, after, affiliate.EventParticipantApproved, "participant.accept_invite", server.ActorFrom(ctx))
			return err
		}
		p, err := invite.Join(program, partner, acceptanceOf(req.GetAcceptTerms(), req.TermsVersion), at)
		if err != nil {
			return err
		}
		accepted.ProgramName, accepted.Currency = program.Name, program.Currency
		accepted.Participant, err = join(ctx, tx, p, invite.ReferralCode, "participant.accept_invite", affiliate.EventParticipantApplied)
		return err
	})
	if err != nil {
		return nil, err
	}
	return toPartnerProto(accepted), nil
}

// join stores a new participant with the requested code, or with a code derived from
// the partner's name. It also creates the default link and updates the list counts. It
// publishes the given events, and participant.approved for an approved participant. The
// participant and its code are stored first, so that a duplicate application and a taken code
// are detected early. The list counts are updated last, because other transactions wait for
// these rows. Errors: APPLICATION_DUPLICATE, EXTERNAL_ID_TAKEN, REFERRAL_CODE_TAKEN.
func join(
	ctx context.Context, tx *postgres.Tx, p participant.Participant, requestedCode, action string, names ...affiliate.EventName,
) (participant.Participant, error) {
	if err := participants.Insert(ctx, tx, p); err != nil {
		return p, err
	}
	link := link.Link{
		ID: affiliate.NewID[affiliate.LinkID](p.CreatedAt), Scope: p.Scope, Program: p.Program, Participant: p.ID,
		IsDefault: true, Version: 1, CreatedAt: p.CreatedAt, UpdatedAt: p.CreatedAt,
	}
	var err error
	if p.ReferralCode, err = links.ReserveCode(ctx, tx, p, link.ID, requestedCode); err != nil {
		return p, err
	}
	if p.Status == participant.Approved {
		names = append(names, affiliate.EventParticipantApproved)
	}
	var events []affiliate.Event
	for _, name := range names {
		events = append(events, p.Event(name, p.CreatedAt, nil))
	}
	link.Code = p.ReferralCode
	events = append(events, affiliate.NewEvent(p.Scope, affiliate.EventLinkCreated, p.CreatedAt, link.Object(), nil))
	if err := changed(ctx, tx, p, action, server.ActorFrom(ctx), nil, p.Joined(), events...); err != nil {
		return p, err
	}
	if _, err := links.Insert(ctx, tx, link); err != nil {
		return p, err
	}
	return p, postgres.ChangeCounts(ctx, tx, p.Workspace, p.Program,
		postgres.CountChange{What: postgres.ParticipantCount + string(p.Status), ID: p.ID.UUID, N: 1})
}

// AcceptParticipation accepts a participation that a merchant has made for the calling
// partner.
func (s *Service) AcceptParticipation(ctx context.Context, req *affiliatev1.AcceptParticipationRequest) (*affiliatev1.Participant, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	caller := server.PrincipalFrom(ctx)
	scope, _, err := links.PartnerParticipation(ctx, s.db, caller.User, caller.Mode, program)
	if err != nil {
		return nil, err
	}
	var accepted participant.Detail
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		// A change of the partner's name or address waits until the participant has a copy.
		partner, err := accounts.SharePartner(ctx, tx, caller.User)
		if err != nil {
			return err
		}
		active, err := programs.LockActive(ctx, tx, scope, program)
		if err != nil {
			return err
		}
		before, err := participants.LockOfPartner(ctx, tx, scope, program, caller.User)
		if err != nil {
			return err
		}
		after, err := before.Accept(active, partner, acceptanceOf(req.GetAcceptTerms(), req.TermsVersion), s.currentTime())
		if err != nil {
			return err
		}
		accepted, err = storeConsent(ctx, tx, before, after, affiliate.EventParticipantApproved, "participant.accept", server.ActorFrom(ctx))
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
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	caller := server.PrincipalFrom(ctx)
	scope, _, err := links.PartnerParticipation(ctx, s.db, caller.User, caller.Mode, program)
	if err != nil {
		return nil, err
	}
	var declined participant.Detail
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := participants.LockOfPartner(ctx, tx, scope, program, caller.User)
		if err != nil {
			return err
		}
		after, err := before.Decline(s.currentTime())
		if err != nil {
			return err
		}
		declined, err = storeConsent(ctx, tx, before, after, affiliate.EventParticipantRejected, "participant.decline", affiliate.System)
		return err
	})
	if err != nil {
		return nil, err
	}
	return toPartnerProto(declined), nil
}

// storeConsent stores that a partner has accepted or declined a participation, which the caller has
// locked. It ends the invitation that was mailed. It returns the participant with its stats.
func storeConsent(
	ctx context.Context, tx *postgres.Tx, before, after participant.Participant, event affiliate.EventName, action string, by affiliate.Actor,
) (participant.Detail, error) {
	if _, err := participants.EndInvites(ctx, tx, before.Scope, before.Program, before.PartnerEmail, after.UpdatedAt); err != nil {
		return participant.Detail{}, err
	}
	if err := storeStatus(ctx, tx, before, after, event, action, map[string]participant.Status{"status": after.Status}, by); err != nil {
		return participant.Detail{}, err
	}
	return participants.Get(ctx, tx, after.Scope, after.Program, after.ID)
}
