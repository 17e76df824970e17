package partner

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// ListPayoutMethodProposals returns the payout methods that merchants propose to the partner.
func (s *Service) ListPayoutMethodProposals(
	ctx context.Context, _ *affiliatev1.ListPayoutMethodProposalsRequest,
) (*affiliatev1.ListPayoutMethodProposalsResponse, error) {
	caller := server.PrincipalFrom(ctx)
	proposals, err := payouts.Proposals(ctx, s.db, caller.User, caller.Mode)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListPayoutMethodProposalsResponse{Data: server.ConvertAll(proposals, s.proposalToProto)}, nil
}

// proposalToProto shows the whole account: the masked forms of two accounts can be equal, and the
// partner has to recognise the own one.
func (s *Service) proposalToProto(p payout.NamedProposal) *affiliatev1.PayoutMethodProposal {
	message := &affiliatev1.PayoutMethodProposal{
		Id: p.ID.String(), ProgramId: p.Program.String(), ProgramName: &p.ProgramName, MerchantName: &p.MerchantName,
		Method: server.EnumValue[affiliatev1.PayoutMethod](p.Method), AccountHint: p.Hint, ProposedAt: server.Timestamp(p.ProposedAt),
	}
	if account, err := payout.OpenAccount(p.Method, p.Account, s.seal.Open, p.ID); err == nil {
		message.Account, message.AccountHolder = server.OptionalString(account.Account), server.OptionalString(account.Holder)
	}
	return message
}

// endedProposal has the fields of a proposal that are stored in the audit log of the partner's account.
type endedProposal struct {
	ID        payout.ProposalID     `json:"proposal_id"`
	Workspace affiliate.WorkspaceID `json:"workspace_id"`
	Method    payout.Method         `json:"method"`
	Hint      *string               `json:"account_hint"`
}

// endProposal ends a proposal and stores who has ended it. Errors: NOT_FOUND if it has ended already.
func (s *Service) endProposal(ctx context.Context, tx *postgres.Tx, p payout.Proposal, action string) error {
	if err := payouts.EndProposal(ctx, tx, p); err != nil {
		return err
	}
	return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
		User: server.PrincipalFrom(ctx).User, Actor: server.ActorFrom(ctx), At: s.currentTime(), Action: action,
		Before: endedProposal{p.ID, p.Workspace, p.Method, p.Hint},
	})
}

// ConfirmPayoutMethodProposal sets the payout method of the partner to a proposed one, as
// SetPayoutMethod does, and ends the proposal.
func (s *Service) ConfirmPayoutMethodProposal(
	ctx context.Context, req *affiliatev1.ConfirmPayoutMethodProposalRequest,
) (*affiliatev1.PayoutMethodDetails, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	proposal, err := payouts.Proposal(ctx, s.db, caller.User, caller.Mode, server.PathID[payout.ProposalID](req.GetProposalId()))
	if err != nil {
		return nil, err
	}
	account, err := payout.OpenAccount(proposal.Method, proposal.Account, s.seal.Open, proposal.ID)
	if err != nil {
		return nil, err
	}
	// A code is used even if the proposal ends in the meantime.
	factorSince, err := s.owners.Reauthenticate(ctx, req.GetPassword(), req.GetCode())
	if err != nil {
		return nil, err
	}
	var details payout.Details
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if details, err = s.setMethod(ctx, tx, caller.User, account, factorSince, at); err != nil {
			return err
		}
		// If the proposal has ended or changed in the meantime, the method is not set either.
		return s.endProposal(ctx, tx, proposal.Proposal, "payout_method.confirm_proposal")
	})
	if err != nil {
		return nil, err
	}
	return payoutMethodToProto(&details), nil
}

// DeclinePayoutMethodProposal ends a proposal. The payout method of the partner stays as it is.
func (s *Service) DeclinePayoutMethodProposal(
	ctx context.Context, req *affiliatev1.DeclinePayoutMethodProposalRequest,
) (*affiliatev1.DeclinePayoutMethodProposalResponse, error) {
	caller := server.PrincipalFrom(ctx)
	proposal, err := payouts.Proposal(ctx, s.db, caller.User, caller.Mode, server.PathID[payout.ProposalID](req.GetProposalId()))
	if err != nil {
		return nil, err
	}
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		return s.endProposal(ctx, tx, proposal.Proposal, "payout_method.decline_proposal")
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.DeclinePayoutMethodProposalResponse{}, nil
}
