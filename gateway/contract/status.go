package contract

import (
	"net/http"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// created, queued and empty are the RPCs whose success is not 200.
var (
	created = map[string]bool{
		affiliatev1.AccountService_RegisterMerchant_FullMethodName:            true,
		affiliatev1.AccountService_RegisterPartner_FullMethodName:             true,
		affiliatev1.AccountService_AcceptInvite_FullMethodName:                true,
		affiliatev1.WorkspaceService_CreateInvite_FullMethodName:              true,
		affiliatev1.WorkspaceService_CreateApiKey_FullMethodName:              true,
		affiliatev1.ProgramService_CreateProgram_FullMethodName:               true,
		affiliatev1.ProgramService_CreateGroup_FullMethodName:                 true,
		affiliatev1.ParticipantService_Apply_FullMethodName:                   true,
		affiliatev1.ParticipantService_AcceptParticipantInvite_FullMethodName: true,
		affiliatev1.ParticipantService_InviteParticipant_FullMethodName:       true,
		affiliatev1.LinkService_CreateLink_FullMethodName:                     true,
		affiliatev1.LinkService_CreatePartnerLink_FullMethodName:              true,
		affiliatev1.PromoCodeService_CreatePromoCode_FullMethodName:           true,
		affiliatev1.ConversionService_ReportConversion_FullMethodName:         true,
		affiliatev1.ConversionService_RefundConversion_FullMethodName:         true,
		affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName:            true,
		affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:            true,
		affiliatev1.WebhookService_CreateWebhook_FullMethodName:               true,
	}
	queued = map[string]bool{
		affiliatev1.WebhookService_RetryDelivery_FullMethodName:     true,
		affiliatev1.WebhookService_RecoverDeliveries_FullMethodName: true,
	}
	empty = map[string]bool{
		affiliatev1.AccountService_Logout_FullMethodName:                      true,
		affiliatev1.WorkspaceService_RemoveMember_FullMethodName:              true,
		affiliatev1.WorkspaceService_RevokeInvite_FullMethodName:              true,
		affiliatev1.WorkspaceService_RevokeApiKey_FullMethodName:              true,
		affiliatev1.ProgramService_DeleteGroup_FullMethodName:                 true,
		affiliatev1.ParticipantService_RevokeParticipantInvite_FullMethodName: true,
		affiliatev1.LinkService_DeleteLink_FullMethodName:                     true,
		affiliatev1.LinkService_DeletePartnerLink_FullMethodName:              true,
		affiliatev1.PromoCodeService_DeletePromoCode_FullMethodName:           true,
		affiliatev1.WebhookService_DeleteWebhook_FullMethodName:               true,
	}
)

// SuccessStatus is what an RPC answers when it succeeds: 201 for what makes
// something, 202 for what asks for work, 204 for what has nothing to say, else 200. A single answer may
// differ (202, 207) by saying so in its x-http-code metadata.
func SuccessStatus(fullMethod string) int {
	switch {
	case created[fullMethod]:
		return http.StatusCreated
	case queued[fullMethod]:
		return http.StatusAccepted
	case empty[fullMethod]:
		return http.StatusNoContent
	default:
		return http.StatusOK
	}
}

// bulk are the RPCs about several things, each of which succeeds on its own.
var bulk = map[string]bool{
	affiliatev1.ParticipantService_BulkApproveParticipants_FullMethodName: true,
	affiliatev1.ParticipantService_BulkRejectParticipants_FullMethodName:  true,
	affiliatev1.CommissionService_BulkApproveCommissions_FullMethodName:   true,
	affiliatev1.CommissionService_BulkRejectCommissions_FullMethodName:    true,
	affiliatev1.ConversionService_ReportConversions_FullMethodName:        true,
}

// Bulk tells whether an RPC may answer 207 when some of the things failed, and
// shows the same results beside the envelope of BULK_ALL_FAILED.
func Bulk(fullMethod string) bool { return bulk[fullMethod] }

// accepted are the RPCs that may take something whose effect comes later.
var accepted = map[string]bool{
	affiliatev1.ConversionService_RefundConversion_FullMethodName: true,
}

// MayBeAccepted tells whether an RPC may answer 202.
func MayBeAccepted(fullMethod string) bool { return accepted[fullMethod] }

// acts are the RPCs whose GET changes something.
var acts = map[string]bool{
	affiliatev1.PayoutService_ExportPayoutBatch_FullMethodName: true,
}

// Acts tells whether an RPC changes something whatever its verb, so that it is
// not asked for by HEAD.
func Acts(fullMethod string) bool { return acts[fullMethod] }

// IdempotencyKeyPattern is what an Idempotency-Key looks like (SPEC.md section 8).
const IdempotencyKeyPattern = "^[A-Za-z0-9_-]{1,80}$"

// idempotent are the RPCs that take an Idempotency-Key; true: they need one.
var idempotent = map[string]bool{
	affiliatev1.ConversionService_ReportConversion_FullMethodName:  false,
	affiliatev1.ConversionService_ReportConversions_FullMethodName: false,
	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:     true,
}

// IdempotencyKey tells whether an RPC takes an Idempotency-Key, and whether it
// needs one.
func IdempotencyKey(fullMethod string) (needed, taken bool) {
	needed, taken = idempotent[fullMethod]
	return needed, taken
}

// defaultBodyLimit bounds a request body in bytes (RELIABILITY.md 6.6).
const defaultBodyLimit = 64 << 10

// bodyLimits are the RPCs that take more or less.
var bodyLimits = map[string]int64{
	affiliatev1.ConversionService_ReportConversions_FullMethodName: 4 << 20,
}

// BodyLimit is the most bytes the RPC's body may have; more is 413.
func BodyLimit(fullMethod string) int64 {
	if limit, ok := bodyLimits[fullMethod]; ok {
		return limit
	}
	return defaultBodyLimit
}
