package payout

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	proposalColumns = postgres.Columns[payout.Proposal]("t")
	proposalOf      = `
		select ` + proposalColumns + `
		from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.id = $3 and t.proposal_id is not null`
	// The proposals of a partner are found by the partner's participations, of which there are few.
	proposals = `
		select ` + proposalColumns + `, p.name as program_name, coalesce(w.portal_name, w.name) as merchant_name
		from participants t
		join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
		join workspaces w on w.id = t.workspace_id
		where t.partner_id = $1 and t.mode = $2 and t.proposal_id is not null and t.partner_consent is null`
	proposalList = proposals + ` order by t.proposed_at desc, t.id`
	proposalByID = proposals + ` and t.proposal_id = $3`
)

// Proposals returns the proposals for a partner, newest first.
func Proposals(ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode) ([]payout.NamedProposal, error) {
	return postgres.List[payout.NamedProposal](ctx, db, proposalList, partner, mode)
}

// Proposal returns a proposal for a partner. Errors: NOT_FOUND.
func Proposal(ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, id payout.ProposalID) (payout.NamedProposal, error) {
	return postgres.OneRow[payout.NamedProposal](db.Query(ctx, proposalByID, partner, mode, id))
}

// ProposalOf returns the proposal for a participant. Errors: NOT_FOUND if there is none.
func ProposalOf(ctx context.Context, tx *postgres.Tx, p participant.Participant) (payout.Proposal, error) {
	return postgres.OneRow[payout.Proposal](tx.Query(ctx, proposalOf, p.Workspace, p.Mode, p.ID))
}

// Propose stores a proposal in place of an earlier one for the participant, which the transaction
// has locked.
func Propose(ctx context.Context, tx *postgres.Tx, p payout.Proposal) error {
	const propose = `
		update participants
		set proposal_id = $4, proposed_method = $5, proposed_account = $6, proposed_account_hint = $7, proposed_at = $8
		where workspace_id = $1 and mode = $2 and id = $3`
	return postgres.Exec(ctx, tx, propose, p.Workspace, p.Mode, p.Participant, p.ID, p.Method, p.Account, p.Hint, p.ProposedAt)
}

// EndProposal deletes a proposal. Errors: NOT_FOUND if the merchant or the partner has ended it in
// the meantime, or the merchant has replaced it.
func EndProposal(ctx context.Context, tx *postgres.Tx, p payout.Proposal) error {
	const end = `
		update participants
		set proposal_id = null, proposed_method = null, proposed_account = null, proposed_account_hint = null, proposed_at = null
		where workspace_id = $1 and mode = $2 and id = $3 and proposal_id = $4`
	tag, err := tx.Exec(ctx, end, p.Workspace, p.Mode, p.Participant, p.ID)
	return postgres.RefuseIfNone(tag, err, affiliate.ReasonNotFound)
}
