package affiliate

// PingObject is the object of webhook.ping: the endpoint that is tested.
type PingObject struct {
	Endpoint    EndpointID `json:"webhook_id"`
	Description *string    `json:"description"` // as the merchant entered it; null if there is none
}

// EventObjects returns for each event a zero value of the type of its object. The
// published schemas are generated from these types. The map has an entry for every event
// that is sent, including webhook.ping.
func EventObjects() map[EventName]any {
	var (
		conversion  conversionObject
		commission  commissionPayload
		refunded    = CommissionChange{Before: &Commission{}}.refundedPayload()
		payout      payoutObject
		participant ParticipantObject
		link        LinkObject
		promoCode   PromoCodeObject
	)
	return map[EventName]any{
		EventConversionCreated:         conversion,
		EventConversionRefunded:        conversion,
		EventConversionReattributed:    conversion,
		EventConversionFraudDetected:   fraudObject{},
		EventCommissionCreated:         commission,
		EventCommissionApproved:        commission,
		EventCommissionRejected:        commission,
		EventCommissionPaid:            commission,
		EventCommissionRefunded:        refunded,
		EventCommissionUpdated:         commission,
		EventCommissionReviewRequired:  commission,
		EventCommissionDisputed:        commission,
		EventCommissionDisputeResolved: commission,
		EventPayoutCreated:             payout,
		EventPayoutProcessing:          payout,
		EventPayoutPaid:                payout,
		EventPayoutFailed:              payout,
		EventPayoutCanceled:            payout,
		EventParticipantApplied:        participant,
		EventParticipantApproved:       participant,
		EventParticipantRejected:       participant,
		EventParticipantSuspended:      participant,
		EventParticipantReinstated:     participant,
		EventParticipantErased:         ErasedObject{},
		EventLinkCreated:               link,
		EventLinkUpdated:               link,
		EventPromoCodeCreated:          promoCode,
		EventPromoCodeDeactivated:      promoCode,
		EventProgramUpdated:            ProgramObject{},
		EventGDPRBuyerErasureCompleted: buyerErasureObject{},
		EventGDPRExportReady:           ExportObject{},
		EventWebhookPing:               PingObject{},
	}
}
