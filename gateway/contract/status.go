package contract

import (
	"cmp"
	"net/http"

	"google.golang.org/protobuf/reflect/protoreflect"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// IdempotencyKeyPattern is the pattern of a valid Idempotency-Key.
const IdempotencyKeyPattern = "^[A-Za-z0-9_-]{1,80}$"

// defaultBodyLimit bounds a request body in bytes, because the gateway keeps a whole body
// in memory.
const defaultBodyLimit = 64 << 10

// Facts are the facts about the requests and responses of an RPC that its proto does not
// contain.
type Facts struct {
	// Status is the success status of an RPC: 201 if it creates an object, 202 if the work is
	// done later, 204 if the response is empty, and otherwise 200. With the metadata
	// x-http-code, the core can set another status (200, 202 or 207) for one response.
	Status int
	// Bulk means that the request has several items, each of which succeeds or fails
	// separately. If some items fail, the status is 207. If all items fail, the response is the
	// error BULK_ALL_FAILED with the results of the items.
	Bulk bool
	// SometimesReplaces means that the RPC responds with 200 instead of Status to some
	// requests, because it has replaced or updated an existing object. SometimesQueued means
	// that it responds with 202 to some requests, which it executes later.
	SometimesReplaces, SometimesQueued bool
	// EventStream means that the RPC streams server-sent events until the client leaves.
	EventStream bool
	// AcceptsKey and RequiresKey are about the Idempotency-Key.
	AcceptsKey, RequiresKey bool
	// IgnoresUnknownKeys means that the RPC ignores unknown keys of a body and lists them in
	// the header Ignored-Fields. Its clients are servers of merchants, which may send fields of
	// newer versions of the API. Other RPCs respond with 400.
	IgnoresUnknownKeys bool
	// AnyOrigin means that scripts of every web origin may call the RPC and read its responses,
	// because it accepts participant tokens, and the page of a partner in a merchant's app calls
	// it. This gives a script no access of its own: the API has no cookies, and the script must
	// have a token.
	AnyOrigin bool
	// NegotiatesEncoding means that the RPC selects the encoding of the response by the header
	// Accept-Encoding, which is then required.
	NegotiatesEncoding bool
	// BodyLimit is the maximum size of a request body in bytes. The gateway refuses a larger
	// body with 413.
	BodyLimit int64
	// RawBodyTypes are the media types that a raw body can have, and DownloadType is that of a
	// download, for the documentation.
	RawBodyTypes []string
	DownloadType string
}

// exceptions contains the facts of the RPCs that are not those of most RPCs.
var exceptions = map[string]Facts{
	affiliatev1.AccountService_RegisterMerchant_FullMethodName:    {Status: http.StatusCreated},
	affiliatev1.AccountService_RegisterPartner_FullMethodName:     {Status: http.StatusCreated},
	affiliatev1.AccountService_AcceptInvite_FullMethodName:        {Status: http.StatusCreated},
	affiliatev1.AccountService_ChangeMerchantEmail_FullMethodName: {Status: http.StatusAccepted},
	affiliatev1.AccountService_ChangePartnerEmail_FullMethodName:  {Status: http.StatusAccepted},
	affiliatev1.AccountService_Logout_FullMethodName:              {Status: http.StatusNoContent},
	affiliatev1.AccountService_RemoveMerchantTotp_FullMethodName:  {Status: http.StatusNoContent},
	affiliatev1.AccountService_RemovePartnerTotp_FullMethodName:   {Status: http.StatusNoContent},

	affiliatev1.WorkspaceService_CreateInvite_FullMethodName: {Status: http.StatusCreated, AcceptsKey: true},
	affiliatev1.WorkspaceService_CreateApiKey_FullMethodName: {Status: http.StatusCreated},
	affiliatev1.WorkspaceService_RemoveMember_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.WorkspaceService_RevokeInvite_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.WorkspaceService_RevokeApiKey_FullMethodName: {Status: http.StatusNoContent},

	affiliatev1.ServiceTokenService_CreateServiceToken_FullMethodName: {Status: http.StatusCreated},
	affiliatev1.ServiceTokenService_RevokeServiceToken_FullMethodName: {Status: http.StatusNoContent},

	affiliatev1.ProgramService_CreateProgram_FullMethodName: {Status: http.StatusCreated},
	affiliatev1.ProgramService_CreateGroup_FullMethodName:   {Status: http.StatusCreated},
	affiliatev1.ProgramService_DeleteGroup_FullMethodName:   {Status: http.StatusNoContent},

	affiliatev1.ParticipantService_Apply_FullMethodName:                   {Status: http.StatusCreated},
	affiliatev1.ParticipantService_AcceptParticipantInvite_FullMethodName: {Status: http.StatusCreated},
	affiliatev1.ParticipantService_InviteParticipant_FullMethodName:       {Status: http.StatusCreated, AcceptsKey: true},
	affiliatev1.ParticipantService_CreateParticipant_FullMethodName:       {Status: http.StatusCreated, AcceptsKey: true},
	affiliatev1.ParticipantService_CreateParticipantToken_FullMethodName:  {Status: http.StatusCreated},
	affiliatev1.ParticipantService_RevokeParticipantInvite_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.ParticipantService_BulkApproveParticipants_FullMethodName: {Bulk: true},
	affiliatev1.ParticipantService_BulkRejectParticipants_FullMethodName:  {Bulk: true},

	affiliatev1.LinkService_CreateLink_FullMethodName:        {Status: http.StatusCreated},
	affiliatev1.LinkService_CreatePartnerLink_FullMethodName: {Status: http.StatusCreated, AnyOrigin: true},
	affiliatev1.LinkService_DeleteLink_FullMethodName:        {Status: http.StatusNoContent},
	affiliatev1.LinkService_DeletePartnerLink_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.LinkService_ListPartnerLinks_FullMethodName:  {AnyOrigin: true},

	affiliatev1.PromoCodeService_CreatePromoCode_FullMethodName:       {Status: http.StatusCreated},
	affiliatev1.PromoCodeService_DeletePromoCode_FullMethodName:       {Status: http.StatusNoContent},
	affiliatev1.PromoCodeService_ListPartnerPromoCodes_FullMethodName: {AnyOrigin: true},

	affiliatev1.ConversionService_ReportConversion_FullMethodName:  {Status: http.StatusCreated, AcceptsKey: true, IgnoresUnknownKeys: true},
	affiliatev1.ConversionService_RefundConversion_FullMethodName:  {Status: http.StatusCreated, SometimesQueued: true, IgnoresUnknownKeys: true},
	affiliatev1.ConversionService_ReportDispute_FullMethodName:     {Status: http.StatusCreated, SometimesReplaces: true, IgnoresUnknownKeys: true},
	affiliatev1.ConversionService_ReportConversions_FullMethodName: {Bulk: true, AcceptsKey: true, BodyLimit: 4 << 20, IgnoresUnknownKeys: true},

	affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName: {Status: http.StatusCreated, AcceptsKey: true},

	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:  {Status: http.StatusCreated, AcceptsKey: true, RequiresKey: true},
	affiliatev1.PayoutService_ListPartnerPayouts_FullMethodName: {AnyOrigin: true},

	affiliatev1.WebhookService_CreateWebhook_FullMethodName:     {Status: http.StatusCreated},
	affiliatev1.WebhookService_RetryDelivery_FullMethodName:     {Status: http.StatusAccepted},
	affiliatev1.WebhookService_RecoverDeliveries_FullMethodName: {Status: http.StatusAccepted},
	affiliatev1.WebhookService_DeleteWebhook_FullMethodName:     {Status: http.StatusNoContent},

	affiliatev1.NotificationService_CreateAnnouncement_FullMethodName:         {Status: http.StatusCreated, AcceptsKey: true},
	affiliatev1.NotificationService_CreateStreamTicket_FullMethodName:         {Status: http.StatusCreated},
	affiliatev1.NotificationService_CreatePartnerStreamTicket_FullMethodName:  {Status: http.StatusCreated},
	affiliatev1.NotificationService_StreamNotifications_FullMethodName:        {EventStream: true},
	affiliatev1.NotificationService_StreamPartnerNotifications_FullMethodName: {EventStream: true},
	affiliatev1.NotificationService_Unsubscribe_FullMethodName:                {RawBodyTypes: []string{"application/x-www-form-urlencoded", "multipart/form-data"}},

	affiliatev1.ProcessorService_ConnectProcessor_FullMethodName:      {Status: http.StatusCreated, SometimesReplaces: true},
	affiliatev1.ProcessorService_ResyncProcessor_FullMethodName:       {Status: http.StatusAccepted},
	affiliatev1.ProcessorService_DisconnectProcessor_FullMethodName:   {Status: http.StatusNoContent},
	affiliatev1.ProcessorService_ReceiveProcessorEvent_FullMethodName: {BodyLimit: 512 << 10},

	affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName: {Status: http.StatusAccepted, AcceptsKey: true, RequiresKey: true},

	affiliatev1.CommissionService_BulkApproveCommissions_FullMethodName: {Bulk: true},
	affiliatev1.CommissionService_BulkRejectCommissions_FullMethodName:  {Bulk: true},

	affiliatev1.TestModeService_DeleteTestData_FullMethodName: {SometimesQueued: true},

	affiliatev1.ExportService_ExportMerchantAccount_FullMethodName: {SometimesQueued: true},
	affiliatev1.ExportService_DownloadExport_FullMethodName:        {NegotiatesEncoding: true, DownloadType: "application/json"},

	affiliatev1.MailService_ReceiveProviderEvent_FullMethodName: {BodyLimit: 256 << 10},

	affiliatev1.PartnerService_ListPartnerPrograms_FullMethodName:    {AnyOrigin: true},
	affiliatev1.PartnerService_GetPartnerProgram_FullMethodName:      {AnyOrigin: true},
	affiliatev1.PartnerService_ListPartnerCommissions_FullMethodName: {AnyOrigin: true},
	affiliatev1.PartnerService_GetPartnerBalances_FullMethodName:     {AnyOrigin: true},
}

func factsOf(fullMethod string) Facts {
	facts := exceptions[fullMethod]
	facts.Status, facts.BodyLimit = cmp.Or(facts.Status, http.StatusOK), cmp.Or(facts.BodyLimit, defaultBodyLimit)
	facts.DownloadType = cmp.Or(facts.DownloadType, "text/csv")
	if facts.RawBodyTypes == nil {
		facts.RawBodyTypes = []string{"application/json"}
	}
	return facts
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
