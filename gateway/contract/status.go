package contract

import (
	"net/http"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// created, queued and empty list the RPCs whose success is not 200.
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

// SuccessStatus is the status of an RPC's success: 201 when it creates something,
// 202 when the work follows, 204 when the response is empty, otherwise 200. The
// core chooses another one (202, 207) for a single response in the metadata
// x-http-code.
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

// bulk lists the RPCs about several items, each of which succeeds or fails alone.
var bulk = map[string]bool{
	affiliatev1.ParticipantService_BulkApproveParticipants_FullMethodName: true,
	affiliatev1.ParticipantService_BulkRejectParticipants_FullMethodName:  true,
	affiliatev1.CommissionService_BulkApproveCommissions_FullMethodName:   true,
	affiliatev1.CommissionService_BulkRejectCommissions_FullMethodName:    true,
	affiliatev1.ConversionService_ReportConversions_FullMethodName:        true,
}

// Bulk reports whether an RPC responds with 207 when some items failed, and with
// the envelope of BULK_ALL_FAILED and the results when all failed.
func Bulk(fullMethod string) bool { return bulk[fullMethod] }

// accepted lists the RPCs that accept a request whose effect comes later.
var accepted = map[string]bool{
	affiliatev1.ConversionService_RefundConversion_FullMethodName: true,
}

// MayBeAccepted reports whether an RPC may respond with 202.
func MayBeAccepted(fullMethod string) bool { return accepted[fullMethod] }

// acts lists the RPCs whose GET changes something.
var acts = map[string]bool{
	affiliatev1.PayoutService_ExportPayoutBatch_FullMethodName: true,
}

// Acts reports whether the GET of an RPC changes something. Such a route does not
// accept HEAD.
func Acts(fullMethod string) bool { return acts[fullMethod] }

// IdempotencyKeyPattern is the form of an Idempotency-Key (SPEC.md section 8).
const IdempotencyKeyPattern = "^[A-Za-z0-9_-]{1,80}$"

// idempotent lists the RPCs that accept an Idempotency-Key; true means required.
var idempotent = map[string]bool{
	affiliatev1.ConversionService_ReportConversion_FullMethodName:  false,
	affiliatev1.ConversionService_ReportConversions_FullMethodName: false,
	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:     true,
}

// IdempotencyKey reports whether an RPC accepts an Idempotency-Key, and whether
// it requires one.
func IdempotencyKey(fullMethod string) (needed, taken bool) {
	needed, taken = idempotent[fullMethod]
	return needed, taken
}

// defaultBodyLimit bounds a request body in bytes (RELIABILITY.md 6.6).
const defaultBodyLimit = 64 << 10

// bodyLimits lists the RPCs with another limit.
var bodyLimits = map[string]int64{
	affiliatev1.ConversionService_ReportConversions_FullMethodName: 4 << 20,
}

// BodyLimit is the largest body of the RPC in bytes; a larger one is 413.
func BodyLimit(fullMethod string) int64 {
	if limit, ok := bodyLimits[fullMethod]; ok {
		return limit
	}
	return defaultBodyLimit
}

// ignoring lists the RPCs that ignore unknown keys of a body. Their senders are
// servers of merchants, which are deployed in many versions.
var ignoring = map[string]bool{
	affiliatev1.ConversionService_ReportConversion_FullMethodName:  true,
	affiliatev1.ConversionService_ReportConversions_FullMethodName: true,
	affiliatev1.ConversionService_RefundConversion_FullMethodName:  true,
}

// IgnoresUnknownKeys reports whether unknown keys of a body are ignored and named
// in the header Ignored-Fields. Other RPCs refuse them with 400.
func IgnoresUnknownKeys(fullMethod string) bool { return ignoring[fullMethod] }
