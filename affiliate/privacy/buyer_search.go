package privacy

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
)

// SaleProperty is a property by which conversions of a buyer are found.
type SaleProperty int

// The properties. SaleOfTransaction is the external transaction id or an id of a payment
// processor. SaleOfProcessorCustomer is the id of the customer at the processor,
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
