// Package privacy has the rules of erasures, exports and the deletion of test data.
package privacy

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

// ErasedKind is the kind of a value that an erasure has replaced and whose digest is kept,
// so that the value stays taken or a later report of it is recognised.
type ErasedKind string

// The kinds of erased values. A referral code and a promo code stay taken. An external
// transaction id finds its conversion, so that a duplicate is refused and a refund is
// applied. A processor id (payment intent, charge, session, invoice) does the same for the
// reports of payment processors. A refund id makes a repeated refund a duplicate.
const (
	ErasedReferralCode  ErasedKind = "referral_code"
	ErasedPromoCode     ErasedKind = "promo_code"
	ErasedTransactionID ErasedKind = "external_transaction_id"
	ErasedProcessorID   ErasedKind = "processor_id"
	ErasedRefundID      ErasedKind = "external_refund_id"
)

// ErasureKey is a key of the digests that stay after an erasure. It is used for nothing
// else, so that no other stored hash of the value is equal to its digest.
type ErasureKey []byte

// ErasureKeys are derived from the hash keys, in the same order: the first key makes the digests
// of new erasures, and stored digests are searched under all keys.
type ErasureKeys []ErasureKey

// NewErasureKeys derives the ErasureKeys from the hash keys of the deployment.
func NewErasureKeys(hashKeys affiliate.HashKeys) ErasureKeys {
	keys := make(ErasureKeys, len(hashKeys))
	for i, hashKey := range hashKeys {
		key, err := hkdf.Key(sha256.New, hashKey, nil, "tributary erased values", sha256.Size)
		if err != nil {
			panic("derive the key of erased values: " + err.Error()) // only if the length is too large
		}
		keys[i] = key
	}
	return keys
}

// First returns the key of new erasures. It is nil in commands that erase nothing and have no
// key.
func (k ErasureKeys) First() ErasureKey {
	if len(k) == 0 {
		return nil
	}
	return k[0]
}

// Digests returns the digests of a value under all keys; see ErasureKey.Digest.
func (k ErasureKeys) Digests(scope affiliate.Scope, kind ErasedKind, value string) affiliate.Digests {
	digests := make(affiliate.Digests, len(k))
	for i, key := range k {
		digests[i] = key.Digest(scope, kind, value)
	}
	return digests
}

// ProcessorIDs returns the texts that can replace ids of a payment processor, under all keys.
func (k ErasureKeys) ProcessorIDs(scope affiliate.Scope, ids ...string) []string {
	texts := make([]string, 0, len(k)*len(ids))
	for _, key := range k {
		texts = append(texts, key.ProcessorIDs(scope, ids)...)
	}
	return texts
}

// Digest returns the digest of a value of a workspace and mode. The caller passes codes in
// the form in which they are stored (FoldCode).
func (k ErasureKey) Digest(scope affiliate.Scope, kind ErasedKind, value string) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(scope.Workspace.UUID[:])
	mac.Write([]byte(scope.Mode))
	mac.Write([]byte{0})
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// erasedProcessorID is the prefix of texts that replace ids of payment processors. Ids of
// processors do not contain a colon.
const erasedProcessorID = "erased:"

// ProcessorID returns the text that replaces an id of a payment processor. Under one key, an id
// always has the same text, so rows with the id can still be joined and found. All ids of a sale
// are replaced under one key, also ids that become known after the erasure of the sale.
func (k ErasureKey) ProcessorID(scope affiliate.Scope, id string) string {
	return erasedProcessorID + hex.EncodeToString(k.Digest(scope, ErasedProcessorID, id))
}

// ProcessorIDs returns the texts that replace ids of a payment processor.
func (k ErasureKey) ProcessorIDs(scope affiliate.Scope, ids []string) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = k.ProcessorID(scope, id)
	}
	return texts
}

// IsErasedProcessorID reports whether a text replaces an id of a payment processor.
func IsErasedProcessorID(text string) bool { return strings.HasPrefix(text, erasedProcessorID) }

// ErasureSubject is what an erasure is about.
type ErasureSubject string

// The subjects. A buyer is erased by a separate operation.
const (
	EraseParticipant ErasureSubject = "participant"
	ErasePartner     ErasureSubject = "partner"
	EraseWorkspace   ErasureSubject = "workspace"
)

// ErasureID identifies an erasure.
type ErasureID = affiliate.ID[Erasure]

// Erasure is the erasure of a participant, of a partner's account, or of a workspace.
type Erasure struct {
	ID      ErasureID
	Subject ErasureSubject
	// SubjectID is the id of the participant, of the user or of the workspace.
	SubjectID uuid.UUID
	// Workspace is nil for the account of a partner. Mode is the mode of a participant.
	Workspace *affiliate.WorkspaceID
	Mode      *affiliate.Mode
	At        time.Time
}

// NewErasure returns an erasure at the given time.
func NewErasure(subject ErasureSubject, id uuid.UUID, at time.Time) Erasure {
	return Erasure{ID: affiliate.NewID[ErasureID](at), Subject: subject, SubjectID: id, At: at}
}

// ErasureLogEntry is an entry of the erasure log, a file outside the database. After a restore
// of an older backup, the entries say what has to be erased again.
type ErasureLogEntry struct {
	At time.Time `json:"at"`
	// Kind is an ErasureSubject, or buyer.
	Kind string `json:"kind"`
	// Workspace is nil for the account of a partner.
	Workspace *affiliate.WorkspaceID `json:"workspace,omitempty"`
	// Subject is the id of the participant, user or workspace, or the digest of a buyer.
	Subject string `json:"subject"`
}

// Valid reports whether the entry has the fields that its kind needs.
func (e ErasureLogEntry) Valid() bool {
	return !e.At.IsZero() && e.Kind != "" && e.Subject != "" && (e.Workspace != nil || e.Kind == string(ErasePartner))
}

// TombstoneLife is how long the revoked sessions of an erased account stay, without personal
// data. During this time, requests with an access token of the account get ALREADY_ERASED. It
// is longer than the life of an access token.
const TombstoneLife = 20 * time.Minute

// pseudonymDigits is the number of hexadecimal digits in a pseudonym.
const pseudonymDigits = 8

// Pseudonym returns the text that replaces names, addresses and codes of an erased subject:
// erased- and the last eight digits of its id. The id of a participant's partner gives the
// pseudonym of the participant, so a person has the same pseudonym in all programmes and after
// the erasure of the account.
func Pseudonym(id uuid.UUID) string {
	text := hex.EncodeToString(id[:])
	return "erased-" + text[len(text)-pseudonymDigits:]
}

// ParticipantErased returns the webhook event of the erasure of a participant.
func ParticipantErased(p participant.Participant, at time.Time) affiliate.Event {
	return affiliate.NewEvent(p.Scope, affiliate.EventParticipantErased, at, ErasedObject{ID: p.ID, Program: p.Program, ErasedAt: affiliate.FormatTime(at)}, nil)
}

// ErasedObject is the object of participant.erased events. Its keys, their order and their
// meaning are public.
type ErasedObject struct {
	ID       affiliate.ParticipantID `json:"id"` // the participant
	Program  affiliate.ProgramID     `json:"program_id"`
	ErasedAt string                  `json:"erased_at"` // when the data was erased
}

// ErasureReceipt is what the audit log keeps of the erasure of a participant: the amounts
// that were not paid.
type ErasureReceipt struct {
	PendingCents map[string]int64 `json:"pending_cents"` // of commissions that are not approved, by currency
	BalanceCents map[string]int64 `json:"balance_cents"` // sum of the ledger, by currency
}

// EraseData is the job that replaces or deletes the data that an erasure has left. It does
// its work in steps, so it can be repeated at any time.
type EraseData struct {
	Erasure ErasureID `json:"erasure"`
}

// Kind returns the name of the job.
func (EraseData) Kind() string { return "erase_data" }

// ResumeErasures is the job that enqueues EraseData for erasures that have not finished, and that
// erases accounts that nobody has claimed and that take part in no programme.
type ResumeErasures struct{}

// Kind returns the name of the job.
func (ResumeErasures) Kind() string { return "resume_erasures" }

// ErasableAccount is an account that is about to be erased. ErasedAt is set if it was erased
// before.
type ErasableAccount struct {
	ID       affiliate.UserID
	Kind     affiliate.AccountKind
	Email    string // lower case
	Name     string
	ErasedAt *time.Time
	// Unclaimed is true until the owner of an account that a merchant made sets a password.
	Unclaimed bool
}

// ErasableWorkspace is a workspace that is about to be erased. ErasedAt is set if it was
// erased before.
type ErasableWorkspace struct {
	Name string
	// BillingActive says that the operator has marked the subscription as active.
	BillingActive bool
	ErasedAt      *time.Time
}

// CheckErasure returns the reason why a workspace cannot be erased. Errors: ALREADY_ERASED,
// BILLING_SUBSCRIPTION_ACTIVE.
func (w ErasableWorkspace) CheckErasure() error {
	switch {
	case w.ErasedAt != nil:
		return affiliate.Refuse(affiliate.ReasonAlreadyErased)
	case w.BillingActive:
		return affiliate.Refuse(affiliate.ReasonBillingSubscriptionActive)
	}
	return nil
}

// AddressDigests are the keyed digests of an account's e-mail address. They find the rows that
// contain no id of the account.
type AddressDigests struct {
	Login affiliate.Digests // see LoginSubject
	Mail  affiliate.Digests // see MailDigest
}

// DirectoryCodes is a list of codes and short links in the edge directory.
type DirectoryCodes struct {
	Scope affiliate.Scope
	Codes []string // case-folded
	Links []string // keys of short links
}

// ErasurePage is the result of processing one page of an erasure.
type ErasurePage struct {
	// Delete are codes that must be deleted from the edge directory before their texts are
	// replaced. It is nil if this page has no such codes.
	Delete []DirectoryCodes
	// DeadLetters is the page of dead letters in Redis that the caller must search and delete.
	// It is nil if there is none.
	DeadLetters *affiliate.DeadLetterPage
	// Exports is true on the last page. The caller then deletes all exports with data of the
	// subject, and adds the analytics log of each workspace in Workspaces to the sums.
	Exports    bool
	Workspaces []affiliate.WorkspaceID
	// Wait is the time until the next page; 0 means now.
	Wait time.Duration
	// Finished is true if no page is left.
	Finished bool
}
