package affiliate

import "time"

// PayoutBatchID identifies a batch of payouts.
type PayoutBatchID = ID[PayoutBatch]

// PayoutBatchStatus is where a batch stands. It follows from where its payouts
// do.
type PayoutBatchStatus string

// The statuses (DECISIONS.md section 7).
const (
	BatchDraft           PayoutBatchStatus = "draft"
	BatchConfirmed       PayoutBatchStatus = "confirmed"
	BatchProcessing      PayoutBatchStatus = "processing"
	BatchCompleted       PayoutBatchStatus = "completed"
	BatchPartiallyFailed PayoutBatchStatus = "partially_failed"
	BatchCanceled        PayoutBatchStatus = "canceled"
)

// PayoutBatch is payouts that were made at one time.
type PayoutBatch struct {
	ID          PayoutBatchID
	Scope       Scope
	Status      PayoutBatchStatus
	Programs    []ProgramID // none: all of the mode
	Cutoff      time.Time   // its commissions were payable by then
	CreatedBy   UserID
	ConfirmedBy *UserID
	CreatedAt   time.Time
	ConfirmedAt *time.Time
	CompletedAt *time.Time // when the last of its payouts ended
	Version     int        // one more with every change
	Counts      PayoutCounts
	Totals      []PayoutTotal // by currency, without canceled payouts
}

// PayoutTotal is the sum of payouts in one currency.
type PayoutTotal struct {
	Currency    string
	Count       int64
	AmountCents int64
}

// PayoutCounts is how many payouts stand where.
type PayoutCounts map[PayoutStatus]int64

// All is how many there are.
func (n PayoutCounts) All() int64 {
	var all int64
	for _, count := range n {
		all += count
	}
	return all
}

// Status is where a batch of these payouts stands.
func (n PayoutCounts) Status() PayoutBatchStatus {
	open := n[PayoutPending] + n[PayoutProcessing]
	switch {
	case n[PayoutDraft] > 0:
		return BatchDraft
	case open > 0 && n[PayoutProcessing]+n[PayoutPaid] > 0:
		return BatchProcessing
	case open > 0:
		return BatchConfirmed
	case n[PayoutFailed] > 0:
		return BatchPartiallyFailed
	case n[PayoutPaid] > 0:
		return BatchCompleted
	}
	return BatchCanceled
}

// Ended reports whether nothing of the batch is left to do but to try again what
// failed.
func (s PayoutBatchStatus) Ended() bool {
	return s == BatchCompleted || s == BatchPartiallyFailed || s == BatchCanceled
}

// Follow brings the batch to where its payouts stand.
func (b PayoutBatch) Follow(counts PayoutCounts, at time.Time) PayoutBatch {
	b.Status, b.Counts = counts.Status(), counts
	switch {
	case !b.Status.Ended():
		b.CompletedAt = nil
	case b.CompletedAt == nil:
		b.CompletedAt = &at
	}
	return b
}

// Refuse says that the batch allows nothing of the kind where it stands.
func (b PayoutBatch) Refuse() *Error {
	return refuseStatus(ReasonPayoutState, b.Status)
}

// PayoutSelection is what a batch is made of.
type PayoutSelection struct {
	Scope    Scope
	Programs []ProgramID // none: all of the mode
	Cutoff   time.Time
}

// NewPayoutBatch is the request for a batch.
type NewPayoutBatch struct {
	PayoutSelection
	By Actor
	At time.Time
}

// PayoutBatchDraft is a new batch with its payouts and their commissions. The batch
// has no counts and totals yet.
type PayoutBatchDraft struct {
	Batch       PayoutBatch
	Payouts     []Payout
	Commissions []HeldCommission // each with its payout, in the order of their ids
}

// Draft makes a batch of what is due to participants, one payout for each account
// that is not excluded. The free commissions are in the order of their ids, and
// each becomes part of its account's payout. Errors: PAYOUT_STATE_INVALID if there
// is no payout.
func (n NewPayoutBatch) Draft(due []PayoutDue, free []HeldCommission) (PayoutBatchDraft, error) {
	type account struct {
		Participant ParticipantID
		Currency    string
	}
	commissions := map[account][]HeldCommission{}
	for _, c := range free {
		of := account{c.Participant, c.Currency}
		commissions[of] = append(commissions[of], c)
	}
	draft := PayoutBatchDraft{Batch: PayoutBatch{
		ID: NewID[PayoutBatch](n.At), Scope: n.Scope, Status: BatchDraft, Programs: n.Programs,
		Cutoff: n.Cutoff, CreatedBy: *n.By.User, CreatedAt: n.At, Version: 1,
	}}
	payouts := map[account]*PayoutID{}
	for _, d := range due {
		of := account{d.Participant, d.Currency}
		if d = d.WithCommissions(commissions[of]); d.Excluded() != "" {
			continue
		}
		p := Payout{
			ID: NewID[Payout](n.At), Scope: n.Scope, Batch: draft.Batch.ID, Program: d.Program, Participant: d.Participant,
			Partner: d.Partner, Currency: d.Currency, Status: PayoutDraft, Version: 1, CreatedAt: n.At, UpdatedAt: n.At,
		}.Settles(d)
		draft.Payouts, payouts[of] = append(draft.Payouts, p), &p.ID
	}
	if len(draft.Payouts) == 0 {
		return PayoutBatchDraft{}, NothingPayable()
	}
	for _, c := range free {
		if c.Payout = payouts[account{c.Participant, c.Currency}]; c.Payout != nil {
			draft.Commissions = append(draft.Commissions, c)
		}
	}
	return draft, nil
}

// Events returns the events of the payouts.
func (d PayoutBatchDraft) Events() []Event {
	named := map[PayoutID][]CommissionID{}
	for _, c := range d.Commissions {
		named[*c.Payout] = append(named[*c.Payout], c.ID)
	}
	events := make([]Event, len(d.Payouts))
	for i, p := range d.Payouts {
		events[i] = p.Created(named[p.ID])
	}
	return events
}

// NothingPayable makes the refusal of a batch without payouts.
func NothingPayable() *Error {
	refused := Refuse(ReasonPayoutState)
	refused.Message = "Nothing is payable."
	return refused
}
