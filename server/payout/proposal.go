package payout

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// ProposePayoutMethod stores a proposal for the partner of a participant and notifies the
// partner. If the same account is proposed already, nothing changes.
func (s *Service) ProposePayoutMethod(ctx context.Context, req *affiliatev1.ProposePayoutMethodRequest) (*affiliatev1.PayoutMethodProposal, error) {
	account, wrong := payout.ParsePayoutAccount(payout.Method(server.EnumName(req.GetMethod())), req.Account, req.AccountHolder)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	at := s.currentTime()
	var proposal payout.Proposal
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		p, err := lockParticipant(ctx, tx, req)
		if err != nil {
			return err
		}
		if p.ErasedAt != nil || p.Status == participant.Rejected || p.Consent != "" {
			return p.RefuseMove()
		}
		var before any
		switch proposal, err = payouts.ProposalOf(ctx, tx, p); {
		case err == nil:
			// An account whose key was removed cannot be decrypted and is replaced.
			proposed, err := payout.OpenAccount(proposal.Method, proposal.Account, s.seal.Open, proposal.ID)
			if err == nil && proposed == account {
				return nil
			}
			before = proposalObject{proposal.Method, proposal.Hint}
		case !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)):
			return err
		}
		proposal = payout.Proposal{
			ID: affiliate.NewID[payout.ProposalID](at), Scope: p.Scope, Program: p.Program, Participant: p.ID,
			Method: account.Method, Hint: account.Hint(), ProposedAt: at,
		}
		if proposal.Account, err = account.Sealed(s.seal.Seal, proposal.ID); err != nil {
			return err
		}
		if err := payouts.Propose(ctx, tx, proposal); err != nil {
			return err
		}
		if err := tx.Notify(ctx, proposal.Notification(p.Partner)); err != nil {
			return err
		}
		return s.auditProposal(ctx, tx, proposal, "payout_method.propose", before, proposalObject{proposal.Method, proposal.Hint})
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.PayoutMethodProposal{
		Id: proposal.ID.String(), ProgramId: proposal.Program.String(), Method: server.EnumValue[affiliatev1.PayoutMethod](proposal.Method),
		AccountHint: proposal.Hint, ProposedAt: server.Timestamp(proposal.ProposedAt),
	}, nil
}

// WithdrawPayoutMethodProposal deletes the proposal for a participant.
func (s *Service) WithdrawPayoutMethodProposal(
	ctx context.Context, req *affiliatev1.WithdrawPayoutMethodProposalRequest,
) (*affiliatev1.WithdrawPayoutMethodProposalResponse, error) {
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		p, err := lockParticipant(ctx, tx, req)
		if err != nil {
			return err
		}
		proposal, err := payouts.ProposalOf(ctx, tx, p)
		if err != nil {
			return err
		}
		if err := payouts.EndProposal(ctx, tx, proposal); err != nil {
			return err
		}
		return s.auditProposal(ctx, tx, proposal, "payout_method.withdraw_proposal", proposalObject{proposal.Method, proposal.Hint}, nil)
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.WithdrawPayoutMethodProposalResponse{}, nil
}

// participantPath is a request with a participant in its path.
type participantPath interface {
	GetProgramId() string
	GetParticipantId() string
}

// lockParticipant locks the participant of a request. Errors: NOT_FOUND.
func lockParticipant(ctx context.Context, tx *postgres.Tx, req participantPath) (participant.Participant, error) {
	program, id := server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PathID[affiliate.ParticipantID](req.GetParticipantId())
	return participants.Lock(ctx, tx, server.PrincipalFrom(ctx).Scope(), program, id)
}

// proposalObject has the fields of a proposal that are stored in the audit log.
type proposalObject struct {
	Method payout.Method `json:"method"`
	Hint   *string       `json:"account_hint"`
}

func (s *Service) auditProposal(ctx context.Context, tx *postgres.Tx, p payout.Proposal, action string, before, after any) error {
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: p.Workspace, Mode: &p.Mode, Actor: server.ActorFrom(ctx), At: s.currentTime(),
		Action: action, ResourceType: "participant", ResourceID: p.Participant, Before: before, After: after,
	})
}
