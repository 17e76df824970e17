// Package event lists the types of the objects of all events.
package event

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// PingObject is the object of webhook.ping: the endpoint that is tested.
type PingObject struct {
	Endpoint    affiliate.EndpointID `json:"webhook_id"`
	Description *string              `json:"description"` // as the merchant entered it; null if there is none
}

// EventObjects returns for each event a zero value of the type of its object. The
// published schemas are generated from these types. The map has an entry for every event
// that is sent, including webhook.ping.
func EventObjects() map[affiliate.EventName]any {
	var (
		converted = conversion.Object{}
		earned    = commission.Object{}
		refunded  = commission.Change{Before: &commission.Commission{}}.RefundedObject()
		paidOut   = payout.Object{}
		joined    = participant.Object{}
		shared    = link.Object{}
		discount  = promocode.Object{}
	)
	return map[affiliate.EventName]any{
		affiliate.EventConversionCreated:         converted,
		affiliate.EventConversionRefunded:        converted,
		affiliate.EventConversionReattributed:    converted,
		affiliate.EventConversionFraudDetected:   conversion.FraudObject{},
		affiliate.EventCommissionCreated:         earned,
		affiliate.EventCommissionApproved:        earned,
		affiliate.EventCommissionRejected:        earned,
		affiliate.EventCommissionPaid:            earned,
		affiliate.EventCommissionRefunded:        refunded,
		affiliate.EventCommissionUpdated:         earned,
		affiliate.EventCommissionReviewRequired:  earned,
		affiliate.EventCommissionDisputed:        earned,
		affiliate.EventCommissionDisputeResolved: earned,
		affiliate.EventPayoutCreated:             paidOut,
		affiliate.EventPayoutProcessing:          paidOut,
		affiliate.EventPayoutPaid:                paidOut,
		affiliate.EventPayoutFailed:              paidOut,
		affiliate.EventPayoutCanceled:            paidOut,
		affiliate.EventParticipantApplied:        joined,
		affiliate.EventParticipantApproved:       joined,
		affiliate.EventParticipantRejected:       joined,
		affiliate.EventParticipantSuspended:      joined,
		affiliate.EventParticipantReinstated:     joined,
		affiliate.EventParticipantErased:         privacy.ErasedObject{},
		affiliate.EventLinkCreated:               shared,
		affiliate.EventLinkUpdated:               shared,
		affiliate.EventPromoCodeCreated:          discount,
		affiliate.EventPromoCodeDeactivated:      discount,
		affiliate.EventProgramUpdated:            program.Object{},
		affiliate.EventGDPRBuyerErasureCompleted: privacy.BuyerErasureObject{},
		affiliate.EventGDPRExportReady:           privacy.ExportObject{},
		affiliate.EventWebhookPing:               PingObject{},
	}
}
