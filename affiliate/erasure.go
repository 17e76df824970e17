package affiliate

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
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

// ErasureKey is the key of the digests that stay after an erasure. It is used for nothing
// else (DECISIONS.md section 23).
type ErasureKey []byte

// NewErasureKey derives an ErasureKey from the hash key of the deployment.
func NewErasureKey(hashKey []byte) ErasureKey {
	key, err := hkdf.Key(sha256.New, hashKey, nil, "tributary erased values", sha256.Size)
	if err != nil {
		panic("derive the key of erased values: " + err.Error()) // only if the length is too large
	}
	return key
}

// Digest returns the digest of a value of a workspace and mode. The caller passes codes in
// the form in which they are stored (FoldCode).
func (k ErasureKey) Digest(scope Scope, kind ErasedKind, value string) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(scope.Workspace.UUID[:])
	mac.Write([]byte(scope.Mode))
	mac.Write([]byte{0})
	mac.Write([]byte(value))
	return mac.Sum(nil)
}
