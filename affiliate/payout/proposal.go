package payout

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// ProposalID identifies a proposal. When the merchant proposes another method, the proposal has
// another id, so that a partner confirms only what the partner has seen.
type ProposalID = affiliate.ID[Proposal]

// Proposal is a payout method that a merchant proposes to the partner of a participant. It is part
// of the participant's row. Nothing is paid to it until the partner confirms it.
type Proposal struct {
	ID ProposalID `db:"proposal_id"`
	affiliate.Scope
	Program     affiliate.ProgramID     `db:"program_id"`
	Participant affiliate.ParticipantID `db:"id"`
	Method      Method                  `db:"proposed_method"`
	Account     []byte                  `db:"proposed_account"`      // see Account.Sealed; the proposal is the owner
	Hint        *string                 `db:"proposed_account_hint"` // see Account.Hint
	ProposedAt  time.Time               `db:"proposed_at"`
}

// NamedProposal is a proposal with the names of the programme and of the merchant.
type NamedProposal struct {
	Proposal
	ProgramName  string
	MerchantName string
}

// Notification returns the notification for the partner.
func (p Proposal) Notification(partner affiliate.UserID) notification.Notification {
	n := notification.NewNotification(affiliate.Partner, notification.PartnerFeed(partner), notification.NotifyPayoutMethodProposed, &p.Mode, p.ProposedAt)
	n.Workspace, n.Program, n.Participant = &p.Workspace, &p.Program, &p.Participant
	return n
}

// Sealed returns the account in the form in which it is stored: its JSON text, encrypted with
// seal. The result is nil if the method has no account. The owner's id is the additional data, so
// that the result is useless if it is copied to a row of another owner.
func (a Account) Sealed(seal func(plain, aad []byte) []byte, owner fmt.Stringer) ([]byte, error) {
	if a.Account == "" {
		return nil, nil
	}
	plain, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return seal(plain, []byte(owner.String())), nil
}

// OpenAccount decrypts an account that Sealed has returned.
func OpenAccount(method Method, sealed []byte, open func(sealed, aad []byte) ([]byte, error), owner fmt.Stringer) (Account, error) {
	account := Account{Method: method}
	if sealed == nil {
		return account, nil
	}
	plain, err := open(sealed, []byte(owner.String()))
	if err != nil {
		return account, fmt.Errorf("decrypt a payout account: %w", err)
	}
	return account, json.Unmarshal(plain, &account)
}
