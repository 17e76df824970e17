package affiliate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// BuyerKey is the key of the hashes of data that identifies a buyer. The hash of a value
// depends on the kind of data and on the workspace, so equal values in two workspaces have
// different hashes.
type BuyerKey []byte

// Sum returns the hash of a value. kind is a word for the kind of data.
func (k BuyerKey) Sum(workspace WorkspaceID, kind, value string) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(workspace.UUID[:])
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// CustomerRef returns the hash of a customer id in hexadecimal digits. The customer id is the
// merchant's id for the buyer, or the id of the customer at the payment processor.
func (k BuyerKey) CustomerRef(workspace WorkspaceID, id string) string {
	return hex.EncodeToString(k.customer(workspace, id))
}

func (k BuyerKey) customer(workspace WorkspaceID, id string) []byte {
	return k.Sum(workspace, "customer_id", id)
}

// Email returns the hash of an e-mail address, and the address's domain in clear text. It
// normalises the address before hashing, so that different spellings of one mailbox's
// address have equal hashes. ok is false if the text is not an e-mail address.
func (k BuyerKey) Email(workspace WorkspaceID, address string) (hash []byte, domain string, ok bool) {
	local, domain, ok := FoldEmail(address)
	if !ok {
		return nil, "", false
	}
	return k.Sum(workspace, "customer_email", local+"@"+domain), domain, true
}

// BuyerIdentityKind says which id names a buyer.
type BuyerIdentityKind string

// The kinds of identities (DECISIONS.md section 12, N4).
const (
	BuyerEmail             BuyerIdentityKind = "email"
	BuyerCustomerID        BuyerIdentityKind = "customer_id"
	BuyerTransactionID     BuyerIdentityKind = "external_transaction_id"
	BuyerProcessorCustomer BuyerIdentityKind = "processor_customer_id"
)

// BuyerIdentity names a buyer by a hash. Digest is the hash that conversions store for an
// e-mail address and for a customer id of either kind. Conversions store no hash of their
// external transaction id, so this hash is computed from the stored ids.
type BuyerIdentity struct {
	Kind   BuyerIdentityKind
	Digest []byte
}

// Identity returns the identity of a buyer. ok is false if the value cannot be a value of its
// kind.
func (k BuyerKey) Identity(workspace WorkspaceID, kind BuyerIdentityKind, value string) (identity BuyerIdentity, ok bool) {
	identity.Kind = kind
	switch kind {
	case BuyerEmail:
		identity.Digest, _, ok = k.Email(workspace, value)
	case BuyerCustomerID, BuyerProcessorCustomer:
		identity.Digest, ok = k.customer(workspace, value), true
	case BuyerTransactionID:
		identity.Digest, ok = k.Sum(workspace, string(BuyerTransactionID), value), true
	}
	return identity, ok && value != ""
}

// Is reports whether the value has this identity.
func (i BuyerIdentity) Is(k BuyerKey, workspace WorkspaceID, kind BuyerIdentityKind, value string) bool {
	other, ok := k.Identity(workspace, kind, value)
	return ok && i.Kind == kind && hmac.Equal(i.Digest, other.Digest)
}

// CustomerRef returns the reference that conversions of the buyer have. ok is false if the
// identity is not a customer id.
func (i BuyerIdentity) CustomerRef() (ref string, ok bool) {
	return hex.EncodeToString(i.Digest), i.Kind == BuyerCustomerID || i.Kind == BuyerProcessorCustomer
}
