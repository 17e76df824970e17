package privacy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
)

// BuyerKeys are the hash keys under which data that identifies a buyer is hashed. The hash of a
// value depends on the kind of data and on the workspace, so equal values in two workspaces
// have different hashes.
type BuyerKeys affiliate.HashKeys

// Sum returns the hash of a value under each key. The parameter kind names the kind of data.
func (k BuyerKeys) Sum(workspace affiliate.WorkspaceID, kind, value string) affiliate.Digests {
	return affiliate.HashKeys(k).Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(kind))
		mac.Write([]byte{0})
		mac.Write(workspace.UUID[:])
		mac.Write([]byte(value))
		return mac.Sum(nil)
	})
}

// CustomerRefs returns the hashes of a customer id in hexadecimal digits, in the order of the keys. The
// customer id is the merchant's id for the buyer, or the id of the customer at the payment processor. The
// reference of a stored customer does not change when the keys change.
func (k BuyerKeys) CustomerRefs(workspace affiliate.WorkspaceID, id string) []string {
	return refs(k.customer(workspace, id))
}

func (k BuyerKeys) customer(workspace affiliate.WorkspaceID, id string) affiliate.Digests {
	return k.Sum(workspace, "customer_id", id)
}

// refs returns digests of a customer id as references.
func refs(d affiliate.Digests) []string {
	refs := make([]string, len(d))
	for i, digest := range d {
		refs[i] = hex.EncodeToString(digest)
	}
	return refs
}

// Email returns the hashes of an e-mail address, and the address's domain in clear text. It
// normalises the address before hashing, so that different spellings of one mailbox's
// address have equal hashes. ok is false if the text is not an e-mail address.
func (k BuyerKeys) Email(workspace affiliate.WorkspaceID, address string) (hashes affiliate.Digests, domain string, ok bool) {
	local, domain, ok := affiliate.FoldEmail(address)
	if !ok {
		return nil, "", false
	}
	return k.Sum(workspace, "customer_email", local+"@"+domain), domain, true
}

// BuyerIdentityKind says which kind of value identifies a buyer.
type BuyerIdentityKind string

// The kinds of identities (docs/merchant/buyer-erasure.md#request-an-erasure).
const (
	BuyerEmail             BuyerIdentityKind = "email"
	BuyerCustomerID        BuyerIdentityKind = "customer_id"
	BuyerTransactionID     BuyerIdentityKind = "external_transaction_id"
	BuyerProcessorCustomer BuyerIdentityKind = "processor_customer_id"
)

// BuyerIdentity identifies a buyer by the hashes of one value. A conversion stores one hash of the
// buyer's e-mail address and one hash of a customer id (the merchant's or the processor's). It
// stores no hash of its external transaction id, so this hash is computed from the stored ids.
type BuyerIdentity struct {
	Kind BuyerIdentityKind
	// Digests has one hash for each hash key at the time of the request. An identity that was
	// read from the erasure log has a single hash.
	Digests affiliate.Digests
}

// Identity returns the identity of a buyer. ok is false if the value cannot be a value of its
// kind.
func (k BuyerKeys) Identity(workspace affiliate.WorkspaceID, kind BuyerIdentityKind, value string) (identity BuyerIdentity, ok bool) {
	identity.Kind = kind
	switch kind {
	case BuyerEmail:
		identity.Digests, _, ok = k.Email(workspace, value)
	case BuyerCustomerID, BuyerProcessorCustomer:
		identity.Digests, ok = k.customer(workspace, value), true
	case BuyerTransactionID:
		identity.Digests, ok = k.Sum(workspace, string(BuyerTransactionID), value), true
	}
	return identity, ok && value != ""
}

// Is reports whether the given value has this identity.
func (i BuyerIdentity) Is(k BuyerKeys, workspace affiliate.WorkspaceID, kind BuyerIdentityKind, value string) bool {
	other, ok := k.Identity(workspace, kind, value)
	return ok && i.Kind == kind && i.Digests.HasAny(other.Digests)
}

// CustomerRefs returns the references that conversions of the buyer can have. It returns none if
// the identity is not a customer id.
func (i BuyerIdentity) CustomerRefs() []string {
	if i.Kind != BuyerCustomerID && i.Kind != BuyerProcessorCustomer {
		return nil
	}
	return refs(i.Digests)
}

// SaleProperty is a property by which conversions of a buyer are found.
type SaleProperty int

// The properties. SaleOfTransaction is the external transaction id, or an id of the sale at the
// payment processor. SaleOfProcessorCustomer is the id of the customer at the processor,
// SaleOfCustomerRef is Conversion.CustomerRef, and SaleOfEmailHash is
// Conversion.CustomerEmailHash.
const (
	SaleOfTransaction SaleProperty = iota
	SaleOfProcessorCustomer
	SaleOfCustomerRef
	SaleOfEmailHash
)

// FoundSale is a conversion of a buyer from which further conversions can be found.
type FoundSale struct {
	ID                affiliate.ConversionID
	CustomerRef       *string
	ProcessorCustomer *string
}

// SaleIDs are the ids of a conversion that can be the identity of its buyer.
type SaleIDs struct {
	ID                    affiliate.ConversionID
	ExternalTransactionID string
	ProcessorCustomer     *string
	Aliases               []string
}

// Matches reports whether the conversion has the id that the identity stands for.
func (s SaleIDs) Matches(k BuyerKeys, workspace affiliate.WorkspaceID, identity BuyerIdentity) bool {
	if s.ProcessorCustomer != nil && identity.Is(k, workspace, BuyerProcessorCustomer, *s.ProcessorCustomer) {
		return true
	}
	for _, id := range append([]string{s.ExternalTransactionID}, s.Aliases...) {
		if identity.Is(k, workspace, BuyerTransactionID, id) {
			return true
		}
	}
	return false
}

// StoredResponseKey is the position of a walk through the stored responses of a workspace.
type StoredResponseKey struct {
	Mode   affiliate.Mode `json:"mode"`
	Method string         `json:"method"`
	Key    string         `json:"key"`
}

// WaitingEvent is an event of a payment processor that still has its content.
type WaitingEvent struct {
	ConnectionID processor.ConnectionID
	ID           string
	Mode         affiliate.Mode
	Body         []byte // encrypted
	Status       processor.EventStatus
	ReceivedAt   time.Time
}

// WaitingEventKey is the position of a walk through the waiting events of a workspace.
type WaitingEventKey struct {
	Connection processor.ConnectionID `json:"connection"`
	ID         string                 `json:"id"`
}
