package contract

import (
	"net/http"

	"google.golang.org/protobuf/reflect/protoreflect"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// createdRPCs lists the RPCs whose success status is 201, queuedRPCs those with 202, and
// emptyRPCs those with 204.
var (
	createdRPCs = map[string]bool{
		affiliatev1.AccountService_RegisterMerchant_FullMethodName:               true,
		affiliatev1.AccountService_RegisterPartner_FullMethodName:                true,
		affiliatev1.AccountService_AcceptInvite_FullMethodName:                   true,
		affiliatev1.WorkspaceService_CreateInvite_FullMethodName:                 true,
		affiliatev1.WorkspaceService_CreateApiKey_FullMethodName:                 true,
		affiliatev1.ServiceTokenService_CreateServiceToken_FullMethodName:        true,
		affiliatev1.ProgramService_CreateProgram_FullMethodName:                  true,
		affiliatev1.ProgramService_CreateGroup_FullMethodName:                    true,
		affiliatev1.ParticipantService_Apply_FullMethodName:                      true,
		affiliatev1.ParticipantService_AcceptParticipantInvite_FullMethodName:    true,
		affiliatev1.ParticipantService_InviteParticipant_FullMethodName:          true,
		affiliatev1.ParticipantService_CreateParticipant_FullMethodName:          true,
		affiliatev1.ParticipantService_CreateParticipantToken_FullMethodName:     true,
		affiliatev1.LinkService_CreateLink_FullMethodName:                        true,
		affiliatev1.LinkService_CreatePartnerLink_FullMethodName:                 true,
		affiliatev1.PromoCodeService_CreatePromoCode_FullMethodName:              true,
		affiliatev1.ConversionService_ReportConversion_FullMethodName:            true,
		affiliatev1.ConversionService_RefundConversion_FullMethodName:            true,
		affiliatev1.ConversionService_ReportDispute_FullMethodName:               true,
		affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName:               true,
		affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:               true,
		affiliatev1.WebhookService_CreateWebhook_FullMethodName:                  true,
		affiliatev1.NotificationService_CreateAnnouncement_FullMethodName:        true,
		affiliatev1.NotificationService_CreateStreamTicket_FullMethodName:        true,
		affiliatev1.NotificationService_CreatePartnerStreamTicket_FullMethodName: true,
		affiliatev1.ProcessorService_ConnectProcessor_FullMethodName:             true,
	}
	queuedRPCs = map[string]bool{
		affiliatev1.AccountService_ChangeMerchantEmail_FullMethodName: true,
		affiliatev1.AccountService_ChangePartnerEmail_FullMethodName:  true,
		affiliatev1.WebhookService_RetryDelivery_FullMethodName:       true,
		affiliatev1.WebhookService_RecoverDeliveries_FullMethodName:   true,
		affiliatev1.ProcessorService_ResyncProcessor_FullMethodName:   true,
		affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName:     true,
	}
	emptyRPCs = map[string]bool{
		affiliatev1.AccountService_Logout_FullMethodName:                      true,
		affiliatev1.AccountService_RemoveMerchantTotp_FullMethodName:          true,
		affiliatev1.AccountService_RemovePartnerTotp_FullMethodName:           true,
		affiliatev1.WorkspaceService_RemoveMember_FullMethodName:              true,
		affiliatev1.WorkspaceService_RevokeInvite_FullMethodName:              true,
		affiliatev1.WorkspaceService_RevokeApiKey_FullMethodName:              true,
		affiliatev1.ServiceTokenService_RevokeServiceToken_FullMethodName:     true,
		affiliatev1.ProgramService_DeleteGroup_FullMethodName:                 true,
		affiliatev1.ParticipantService_RevokeParticipantInvite_FullMethodName: true,
		affiliatev1.LinkService_DeleteLink_FullMethodName:                     true,
		affiliatev1.LinkService_DeletePartnerLink_FullMethodName:              true,
		affiliatev1.PromoCodeService_DeletePromoCode_FullMethodName:           true,
		affiliatev1.WebhookService_DeleteWebhook_FullMethodName:               true,
		affiliatev1.ProcessorService_DisconnectProcessor_FullMethodName:       true,
	}
)

// SuccessStatus returns the success status of an RPC: 201 if the RPC creates an object,
// 202 if the work is done later, 204 if the response is empty, and otherwise 200. With
// the metadata x-http-code, the core can set another status (200, 202 or 207) for one
// response.
func SuccessStatus(fullMethod string) int {
	switch {
	case createdRPCs[fullMethod]:
		return http.StatusCreated
	case queuedRPCs[fullMethod]:
		return http.StatusAccepted
	case emptyRPCs[fullMethod]:
		return http.StatusNoContent
	default:
		return http.StatusOK
	}
}

// bulkRPCs lists the RPCs with several items. Each item succeeds or fails separately.
var bulkRPCs = map[string]bool{
	affiliatev1.ParticipantService_BulkApproveParticipants_FullMethodName: true,
	affiliatev1.ParticipantService_BulkRejectParticipants_FullMethodName:  true,
	affiliatev1.CommissionService_BulkApproveCommissions_FullMethodName:   true,
	affiliatev1.CommissionService_BulkRejectCommissions_FullMethodName:    true,
	affiliatev1.ConversionService_ReportConversions_FullMethodName:        true,
}

// Bulk reports whether an RPC is a bulk request. If some items fail, the status of the
// response is 207. If all items fail, the response is the error BULK_ALL_FAILED with the
// results of the items.
func Bulk(fullMethod string) bool { return bulkRPCs[fullMethod] }

// sometimesReplacingRPCs lists the RPCs that create an object and respond with 200 if they
// have replaced or updated an existing one.
var sometimesReplacingRPCs = map[string]bool{
	affiliatev1.ConversionService_ReportDispute_FullMethodName:   true,
	affiliatev1.ProcessorService_ConnectProcessor_FullMethodName: true,
}

// SometimesReplaces reports whether an RPC whose success status is 201 responds with 200 to
// some requests, because it has replaced or updated an existing object.
func SometimesReplaces(fullMethod string) bool { return sometimesReplacingRPCs[fullMethod] }

// sometimesQueuedRPCs lists the RPCs that execute some requests at once and others later.
// They respond to the former with the status of SuccessStatus, and to the latter with
// 202.
var sometimesQueuedRPCs = map[string]bool{
	affiliatev1.ConversionService_RefundConversion_FullMethodName:  true,
	affiliatev1.TestModeService_DeleteTestData_FullMethodName:      true,
	affiliatev1.ExportService_ExportMerchantAccount_FullMethodName: true,
}

// SometimesQueued reports whether an RPC responds with 202 to some requests, and with the
// status of SuccessStatus to others.
func SometimesQueued(fullMethod string) bool { return sometimesQueuedRPCs[fullMethod] }

// IdempotencyKeyPattern is the pattern of a valid Idempotency-Key.
const IdempotencyKeyPattern = "^[A-Za-z0-9_-]{1,80}$"

// eventStreamRPCs lists the RPCs that stream server-sent events until the client leaves.
var eventStreamRPCs = map[string]bool{
	affiliatev1.NotificationService_StreamNotifications_FullMethodName:        true,
	affiliatev1.NotificationService_StreamPartnerNotifications_FullMethodName: true,
}

// EventStream reports whether an RPC streams server-sent events until the client leaves.
func EventStream(fullMethod string) bool { return eventStreamRPCs[fullMethod] }

// idempotentRPCs lists the RPCs that accept an Idempotency-Key. The value is true if the
// key is required.
var idempotentRPCs = map[string]bool{
	affiliatev1.ConversionService_ReportConversion_FullMethodName:     false,
	affiliatev1.ConversionService_ReportConversions_FullMethodName:    false,
	affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName:        false,
	affiliatev1.NotificationService_CreateAnnouncement_FullMethodName: false,
	affiliatev1.ParticipantService_CreateParticipant_FullMethodName:   false,
	affiliatev1.ParticipantService_InviteParticipant_FullMethodName:   false,
	affiliatev1.WorkspaceService_CreateInvite_FullMethodName:          false,
	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:        true,
	affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName:         true,
}

// IdempotencyKey reports whether an RPC requires an Idempotency-Key and whether it
// accepts one.
func IdempotencyKey(fullMethod string) (required, accepted bool) {
	required, accepted = idempotentRPCs[fullMethod]
	return required, accepted
}

var rawBodyTypes = map[string][]string{
	affiliatev1.NotificationService_Unsubscribe_FullMethodName: {"application/x-www-form-urlencoded", "multipart/form-data"},
}

// RawBodyTypes returns the media types that a raw body can have, for the documentation.
func RawBodyTypes(fullMethod string) []string {
	if types, ok := rawBodyTypes[fullMethod]; ok {
		return types
	}
	return []string{"application/json"}
}

// defaultBodyLimit bounds a request body in bytes, because the gateway keeps a whole body
// in memory.
const defaultBodyLimit = 64 << 10

// bodyLimits contains the limits of the RPCs for which defaultBodyLimit does not apply.
var bodyLimits = map[string]int64{
	affiliatev1.ConversionService_ReportConversions_FullMethodName:    4 << 20,
	affiliatev1.MailService_ReceiveProviderEvent_FullMethodName:       256 << 10,
	affiliatev1.ProcessorService_ReceiveProcessorEvent_FullMethodName: 512 << 10,
}

// BodyLimit returns the maximum size of a request body in bytes. The gateway refuses a
// larger body with 413.
func BodyLimit(fullMethod string) int64 {
	if limit, ok := bodyLimits[fullMethod]; ok {
		return limit
	}
	return defaultBodyLimit
}

// lenientRPCs lists the RPCs that ignore unknown keys of a body. The clients of these
// RPCs are servers of merchants, which may send fields of newer versions of the API.
var lenientRPCs = map[string]bool{
	affiliatev1.ConversionService_ReportConversion_FullMethodName:  true,
	affiliatev1.ConversionService_ReportConversions_FullMethodName: true,
	affiliatev1.ConversionService_RefundConversion_FullMethodName:  true,
	affiliatev1.ConversionService_ReportDispute_FullMethodName:     true,
}

// IgnoresUnknownKeys reports whether an RPC ignores unknown keys of a body. If a body has
// such keys, the response lists them in the header Ignored-Fields. For other RPCs, the
// response to a body that has unknown keys is 400.
func IgnoresUnknownKeys(fullMethod string) bool { return lenientRPCs[fullMethod] }

// anyOriginRPCs lists the RPCs that accept participant tokens. The page of a partner in a
// merchant's app calls them.
var anyOriginRPCs = map[string]bool{
	affiliatev1.PartnerService_ListPartnerPrograms_FullMethodName:     true,
	affiliatev1.PartnerService_GetPartnerProgram_FullMethodName:       true,
	affiliatev1.PartnerService_ListPartnerCommissions_FullMethodName:  true,
	affiliatev1.PartnerService_GetPartnerBalances_FullMethodName:      true,
	affiliatev1.LinkService_ListPartnerLinks_FullMethodName:           true,
	affiliatev1.LinkService_CreatePartnerLink_FullMethodName:          true,
	affiliatev1.PromoCodeService_ListPartnerPromoCodes_FullMethodName: true,
	affiliatev1.PayoutService_ListPartnerPayouts_FullMethodName:       true,
}

// AnyOrigin reports whether scripts of every web origin may call an RPC and read its
// responses. This gives a script no access of its own: the API has no cookies, and the
// script must have a token.
func AnyOrigin(fullMethod string) bool { return anyOriginRPCs[fullMethod] }

// negotiatingRPCs lists the RPCs that select the encoding of the response by the header
// Accept-Encoding.
var negotiatingRPCs = map[string]bool{
	affiliatev1.ExportService_DownloadExport_FullMethodName: true,
}

// NegotiatesEncoding reports whether an RPC selects the encoding of the response by the header
// Accept-Encoding, which is then required.
func NegotiatesEncoding(fullMethod string) bool { return negotiatingRPCs[fullMethod] }

var downloadTypes = map[string]string{
	affiliatev1.ExportService_DownloadExport_FullMethodName: "application/json",
}

// DownloadType returns the media type of a download, for the documentation.
func DownloadType(fullMethod string) string {
	if media, ok := downloadTypes[fullMethod]; ok {
		return media
	}
	return "text/csv"
}

// csvRows are the lists of the messages that are also available as CSV. The request has a field
// format, whose value csv selects CSV.
var csvRows = map[protoreflect.FullName]protoreflect.Name{
	"affiliate.v1.AnalyticsTimeseries": "points",
	"affiliate.v1.AnalyticsBreakdown":  "rows",
}

// CSVRows returns the list of a response whose elements are the rows of a CSV table, or nil if
// the response is not available as CSV.
func CSVRows(response protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	return response.Fields().ByName(csvRows[response.FullName()])
}
