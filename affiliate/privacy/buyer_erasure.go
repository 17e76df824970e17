package privacy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
)

// BuyerErasureID identifies the erasure of a buyer.
type BuyerErasureID = affiliate.ID[BuyerErasure]

// BuyerErasureStatus is the state of the erasure of a buyer. The transitions are from
// processing to done and from processing to failed. A request with another Idempotency-Key
// repeats a failed erasure.
type BuyerErasureStatus string

// The statuses.
const (
	BuyerErasureProcessing BuyerErasureStatus = "processing"
	BuyerErasureDone       BuyerErasureStatus = "done"
	BuyerErasureFailed     BuyerErasureStatus = "failed"
)

const (
	// MaxBuyerErasureFailures is the number of failed attempts after which an erasure has
	// failed.
	MaxBuyerErasureFailures = 5
	// BuyerErasureLease is how long a worker owns an erasure without renewing the lease.
	BuyerErasureLease = 5 * time.Minute
	// BuyerErasureKeyLifetime is how long an Idempotency-Key of an erasure is remembered.
	// An erasure that has ended is kept for the same time.
	BuyerErasureKeyLifetime = 30 * 24 * time.Hour
)

// BuyerErasureStep is a part of the work of an erasure. The steps run in the order of the
// constants. Each step can be repeated. If the last step finds more conversions, the steps
// after EraseFollow run again.
type BuyerErasureStep string

// The steps.
const (
	// EraseSearch compares the hashes of all ids of conversions with the identity. Only
	// erasures that are applied again after a restore have this step.
	EraseSearch BuyerErasureStep = "search"
	// EraseFollow finds further conversions of the buyer.
	EraseFollow BuyerErasureStep = "follow"
	// EraseSales erases the conversions that were found.
	EraseSales BuyerErasureStep = "sales"
	// EraseExports deletes the exports of the workspace, which contain ids of the conversions.
	EraseExports BuyerErasureStep = "exports"
	// EraseCustomers deletes the bindings of the customer.
	EraseCustomers BuyerErasureStep = "customers"
	// EraseResponses deletes responses that are stored under Idempotency-Keys.
	EraseResponses BuyerErasureStep = "responses"
	// EraseProcessorEvents empties events of payment processors that are not applied yet.
	EraseProcessorEvents BuyerErasureStep = "processor_events"
	// EraseAgain finds conversions that were stored during the erasure, for example by an event of a
	// payment processor that had arrived before, and conversions that a joining request has named.
	EraseAgain BuyerErasureStep = "again"
)

// BuyerErasureSteps is the order of the steps.
var BuyerErasureSteps = []BuyerErasureStep{
	EraseSearch, EraseFollow, EraseSales, EraseExports, EraseCustomers, EraseResponses, EraseProcessorEvents,
	EraseAgain,
}

// BuyerErasure is the erasure of a buyer. Its rows contain no value that the caller has sent.
type BuyerErasure struct {
	ID        BuyerErasureID
	Workspace affiliate.WorkspaceID
	Identity  BuyerIdentity
	Status    BuyerErasureStatus
	Progress  BuyerErasureProgress
	Failures  int // number of failed attempts
	Lease     BuyerErasureWork
	CreatedAt time.Time
	// RequestedAt is the time of the last request for the erasure.
	RequestedAt time.Time
}

// ListedBuyerErasure is an erasure in the list of a workspace.
type ListedBuyerErasure struct {
	ID         BuyerErasureID
	Status     BuyerErasureStatus
	CreatedAt  time.Time
	FinishedAt *time.Time // nil while it is processing
}

// Until returns the time up to which the erasure covers conversions and events. Without a limit,
// the erasure of an address that a shop reports for all its guests would not end. A conversion that
// was reported before the request can have a time up to MaxConversionLead after the request.
func (e BuyerErasure) Until() time.Time { return e.RequestedAt.Add(conversion.MaxConversionLead) }

// BuyerErasureProgress is how far an erasure has come. The step continues after the row at
// Position, which is empty at the start of the step.
type BuyerErasureProgress struct {
	Step     BuyerErasureStep
	Position string
}

// BuyerErasureWork is the lease of the worker of an erasure. It is zero if no worker owns the
// erasure.
type BuyerErasureWork struct {
	Until time.Time
	// Recovering is true if the worker has taken the erasure over from a worker whose lease
	// has expired.
	Recovering bool
}

// Join returns the erasure after another request for the same buyer has joined it. More events
// can have arrived, so the last two steps start again if they have begun. The given identity
// can have hashes under a hash key that did not exist when the erasure was requested. Errors:
// ACTIVE_OPERATION_CONFLICT if a worker is recovering the erasure at this time.
func (e BuyerErasure) Join(identity BuyerIdentity, now time.Time) (BuyerErasure, error) {
	if e.Lease.Recovering && now.Before(e.Lease.Until) {
		return e, affiliate.Refuse(affiliate.ReasonActiveOperationConflict)
	}
	e.RequestedAt, e.Identity.Digests = now, identity.Digests.Union(e.Identity.Digests)
	if e.Progress.Step == EraseAgain || e.Progress.Step == EraseProcessorEvents {
		e.Progress = BuyerErasureProgress{Step: EraseProcessorEvents}
	}
	return e, nil
}

// Event returns the event about the end of an erasure. The erasure covers both modes, but the
// event belongs to live mode only, so that a workspace gets it once.
func (e BuyerErasure) Event(status BuyerErasureStatus, at time.Time) affiliate.Event {
	scope := affiliate.Scope{Workspace: e.Workspace, Mode: affiliate.ModeLive}
	return affiliate.NewEvent(scope, affiliate.EventGDPRBuyerErasureCompleted, at, BuyerErasureObject{Operation: e.ID, Status: status}, nil)
}

// BuyerErasureObject is the object of gdpr.buyer_erasure_completed.
type BuyerErasureObject struct {
	Operation BuyerErasureID     `json:"operation_id"` // the id that the request for the erasure has returned
	Status    BuyerErasureStatus `json:"status"`       // done, or failed after five attempts
}

// Notice returns the facts for the notifications about the event.
func (o BuyerErasureObject) Notice() affiliate.Notice {
	outcome := "was erased"
	if o.Status == BuyerErasureFailed {
		outcome = "could not be erased. Send the request again with another Idempotency-Key"
	}
	return affiliate.Notice{Resource: o.Operation.UUID, Facts: map[string]string{"outcome": outcome}}
}

// EraseBuyer is the job that erases a buyer.
type EraseBuyer struct {
	Workspace affiliate.WorkspaceID `json:"workspace"`
	Operation BuyerErasureID        `json:"operation"`
}

// Kind returns the name of the job.
func (EraseBuyer) Kind() string { return "erase_buyer" }

// buyerEntry is the first part of the kind of an erasure log entry about a buyer. The second
// part is the kind of the identity.
const buyerEntry = "buyer."

// Entries returns the entries of the erasure log, one for each digest of the identity. The subject
// of an entry is the digest. A backup can contain hashes under each of the hash keys.
func (e BuyerErasure) Entries() []ErasureLogEntry {
	var entries []ErasureLogEntry
	for _, digest := range e.Identity.Digests {
		entries = append(entries, ErasureLogEntry{
			At: e.RequestedAt, Workspace: &e.Workspace, Kind: buyerEntry + string(e.Identity.Kind), Subject: hex.EncodeToString(digest),
		})
	}
	return entries
}

// BuyerOfEntry returns the identity of the buyer in an entry of the erasure log. ok is false if
// the entry is about another subject.
func BuyerOfEntry(entry ErasureLogEntry) (identity BuyerIdentity, ok bool) {
	kind, ok := strings.CutPrefix(entry.Kind, buyerEntry)
	digest, err := hex.DecodeString(entry.Subject)
	return BuyerIdentity{Kind: BuyerIdentityKind(kind), Digests: affiliate.Digests{digest}}, ok && err == nil
}

// BuyerSale is a conversion with everything that must be changed when its buyer is erased.
type BuyerSale struct {
	Conversion            affiliate.ConversionID
	Scope                 affiliate.Scope
	ExternalTransactionID string
	Click                 *affiliate.ClickID
	// ProcessorIDs are the ids by which a payment processor knows the sale, its charges and its
	// disputes. ProcessorCustomer is the processor's id of the customer; empty if it is unknown.
	ProcessorIDs      []string
	ProcessorCustomer string
	Refunds           []SaleRefund // including parked refunds
	Events            []SaleEvent
}

// SaleRefund is a refund of a BuyerSale.
type SaleRefund struct {
	ID         conversion.RefundID
	ExternalID string
}

// SaleEvent is an event about a BuyerSale.
type SaleEvent struct {
	ID   affiliate.EventID
	Day  time.Time
	Body []byte
}

// ErasedSale is the result of the erasure of a BuyerSale.
type ErasedSale struct {
	Conversion   affiliate.ConversionID
	Scope        affiliate.Scope
	Click        *affiliate.ClickID
	Pseudonym    string // replaces the external transaction id
	Values       []ErasedValue
	ProcessorIDs map[string]string // the texts that replace the ids
	Refunds      []SaleRefund      // with their new external ids
	Events       []SaleEvent       // the events whose body changes
}

// ErasedValue is a digest that stays after an erasure.
type ErasedValue struct {
	Kind   ErasedKind
	Digest []byte
}

// Erase returns the values that replace the data of a sale. The pseudonym must be unique in the
// scope. The function can be repeated: an id that is already erased stays as it is.
func (k ErasureKey) Erase(sale BuyerSale, pseudonym string) (ErasedSale, error) {
	erased := ErasedSale{
		Conversion: sale.Conversion, Scope: sale.Scope, Click: sale.Click, Pseudonym: pseudonym, ProcessorIDs: map[string]string{},
		Values: []ErasedValue{{ErasedTransactionID, k.Digest(sale.Scope, ErasedTransactionID, sale.ExternalTransactionID)}},
	}
	for _, id := range sale.ProcessorIDs {
		if !IsErasedProcessorID(id) {
			erased.ProcessorIDs[id] = k.ProcessorID(sale.Scope, id)
		}
	}
	for _, refund := range sale.Refunds {
		erased.Values = append(erased.Values, ErasedValue{ErasedRefundID, k.Digest(sale.Scope, ErasedRefundID, refund.ExternalID)})
		erased.Refunds = append(erased.Refunds, SaleRefund{ID: refund.ID, ExternalID: ErasedRefundPseudonym(pseudonym, refund.ID)})
	}
	for _, event := range sale.Events {
		body, err := RedactBuyer(event.Body, pseudonym)
		if err != nil {
			return erased, err
		}
		if !bytes.Equal(body, event.Body) {
			erased.Events = append(erased.Events, SaleEvent{ID: event.ID, Day: event.Day, Body: body})
		}
	}
	return erased, nil
}

// Fingerprints returns the hashes of each digest of the identity under each erasure key. The first
// hash is stored. It stays after the erasure, so it differs from the hashes that conversions have.
func (k ErasureKeys) Fingerprints(workspace affiliate.WorkspaceID, identity BuyerIdentity) affiliate.Digests {
	var fingerprints affiliate.Digests
	for _, digest := range identity.Digests {
		fingerprints = append(fingerprints, k.Digests(affiliate.Scope{Workspace: workspace}, ErasedKind("buyer "+identity.Kind), string(digest))...)
	}
	return fingerprints
}

// SalePseudonym returns the n-th candidate for the text that replaces the external
// transaction id of a conversion. A later candidate is used if another conversion has the
// text.
func SalePseudonym(id affiliate.ConversionID, n int) string {
	sum := sha256.Sum256(append(id.UUID[:], strconv.Itoa(n)...))
	return "erased-" + hex.EncodeToString(sum[:4])
}

// ErasedRefundPseudonym returns the text that replaces the external id of a refund: the
// pseudonym of its sale, and a part of the refund's id that makes the text unique.
func ErasedRefundPseudonym(sale string, id conversion.RefundID) string {
	return sale + "-" + hex.EncodeToString(id.UUID[8:])
}
