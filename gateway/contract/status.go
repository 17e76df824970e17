package contract

import (
	"cmp"
	"net/http"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
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
	// EventStream means that the RPC streams server-sent events until the client disconnects.
	EventStream bool
	// AcceptsKey means that a request may have an Idempotency-Key. RequiresKey means that it must have one.
	AcceptsKey, RequiresKey bool
	// IgnoresUnknownKeys means that the RPC ignores unknown keys of a body and lists them in
	// the header Ignored-Fields. Its clients are servers of merchants, which may send fields of
	// newer versions of the API. Other RPCs respond with 400.
	IgnoresUnknownKeys bool
	// AnyOrigin means that scripts of every web origin may call the RPC and read its responses,
	// because the RPC accepts participant tokens and is called by a merchant's app that embeds
	// pages for partners. AnyOrigin alone gives a script no access: the API has no cookies, and
	// the script must have a token.
	AnyOrigin bool
	// NegotiatesEncoding means that the RPC selects the encoding of the response by the header
	// Accept-Encoding, and refuses a request without this header.
	NegotiatesEncoding bool
	// BodyLimit is the maximum size of a request body in bytes. The gateway refuses a larger
	// body with 413.
	BodyLimit int64
	// RawBodyTypes are the media types that a raw body can have. DownloadType is the media
	// type of a download. Both are for the documentation.
	RawBodyTypes []string
	DownloadType string
}

// exceptions contains the facts of the RPCs that differ from the defaults. factsOf adds the defaults.
var exceptions = map[string]Facts{
	affiliatev1.AccountService_RegisterMerchant_FullMethodName:    {Status: http.StatusCreated},
	affiliatev1.AccountService_RegisterPartner_FullMethodName:     {Status: http.StatusCreated},
	affiliatev1.AccountService_AcceptInvite_FullMethodName:        {Status: http.StatusCreated},
	affiliatev1.AccountService_ChangeMerchantEmail_FullMethodName: {Status: http.StatusAccepted},
	affiliatev1.AccountService_ChangePartnerEmail_FullMethodName:  {Status: http.StatusAccepted},
	affiliatev1.AccountService_Logout_FullMethodName:              {Status: http.StatusNoContent},
	affiliatev1.AccountService_RemoveMerchantTotp_FullMethodName:  {Status: http.StatusNoContent},
	affiliatev1.AccountService_RemovePartnerTotp_FullMethodName:   {Status: http.StatusNoContent},

	affiliatev1.AccountService_EndMerchantSession_FullMethodName:       {Status: http.StatusNoContent},
	affiliatev1.AccountService_EndPartnerSession_FullMethodName:        {Status: http.StatusNoContent},
	affiliatev1.AccountService_CreateDownloadTicket_FullMethodName:     {Status: http.StatusCreated},
	affiliatev1.AccountService_EndOtherMerchantSessions_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.AccountService_EndOtherPartnerSessions_FullMethodName:  {Status: http.StatusNoContent},
	affiliatev1.AccountService_ChangeMerchantPassword_FullMethodName:   {Status: http.StatusNoContent},
	affiliatev1.AccountService_ChangePartnerPassword_FullMethodName:    {Status: http.StatusNoContent},

	affiliatev1.WorkspaceService_CreateInvite_FullMethodName: {Status: http.StatusCreated, AcceptsKey: true},
	affiliatev1.WorkspaceService_CreateApiKey_FullMethodName: {Status: http.StatusCreated},
	affiliatev1.WorkspaceService_RemoveMember_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.WorkspaceService_RevokeInvite_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.WorkspaceService_RevokeApiKey_FullMethodName: {Status: http.StatusNoContent},

	affiliatev1.BrandingService_PutLogo_FullMethodName:     {BodyLimit: 256 << 10, RawBodyTypes: []string{"image/png", "image/webp"}},
	affiliatev1.BrandingService_DeleteLogo_FullMethodName:  {Status: http.StatusNoContent},
	affiliatev1.PortalService_GetPortalLogo_FullMethodName: {DownloadType: "image/png"},

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
	affiliatev1.ParticipantService_BulkUpdateParticipants_FullMethodName:  {Bulk: true},
	affiliatev1.ParticipantService_BulkInviteParticipants_FullMethodName:  {Bulk: true},

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

	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:            {Status: http.StatusCreated, AcceptsKey: true, RequiresKey: true},
	affiliatev1.PayoutService_WithdrawPayoutMethodProposal_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.PayoutService_ListPartnerPayouts_FullMethodName:           {AnyOrigin: true},
	affiliatev1.PayoutService_GetPartnerPayout_FullMethodName:             {AnyOrigin: true},

	affiliatev1.AnalyticsService_GetPartnerAnalyticsSummary_FullMethodName:    {AnyOrigin: true},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsTimeseries_FullMethodName: {AnyOrigin: true},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsBreakdown_FullMethodName:  {AnyOrigin: true},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsFunnel_FullMethodName:     {AnyOrigin: true},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsCohorts_FullMethodName:    {AnyOrigin: true},

	affiliatev1.WebhookService_CreateWebhook_FullMethodName:     {Status: http.StatusCreated},
	affiliatev1.WebhookService_RetryDelivery_FullMethodName:     {Status: http.StatusAccepted},
	affiliatev1.WebhookService_RecoverDeliveries_FullMethodName: {Status: http.StatusAccepted},
	affiliatev1.WebhookService_DeleteWebhook_FullMethodName:     {Status: http.StatusNoContent},

	affiliatev1.NotificationService_CreateAnnouncement_FullMethodName:         {Status: http.StatusCreated, AcceptsKey: true},
	affiliatev1.NotificationService_CreateStreamTicket_FullMethodName:         {Status: http.StatusCreated},
	affiliatev1.NotificationService_CreatePartnerStreamTicket_FullMethodName:  {Status: http.StatusCreated},
	affiliatev1.NotificationService_StreamNotifications_FullMethodName:        {EventStream: true},
	affiliatev1.NotificationService_StreamPartnerNotifications_FullMethodName: {EventStream: true},
	affiliatev1.NotificationService_Unsubscribe_FullMethodName: {
		RawBodyTypes: []string{"application/x-www-form-urlencoded", "multipart/form-data"},
	},

	affiliatev1.ProcessorService_ConnectProcessor_FullMethodName:      {Status: http.StatusCreated, SometimesReplaces: true},
	affiliatev1.ProcessorService_ResyncProcessor_FullMethodName:       {Status: http.StatusAccepted},
	affiliatev1.ProcessorService_DisconnectProcessor_FullMethodName:   {Status: http.StatusNoContent},
	affiliatev1.ProcessorService_ReceiveProcessorEvent_FullMethodName: {BodyLimit: 512 << 10},

	affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName: {Status: http.StatusAccepted, AcceptsKey: true, RequiresKey: true},

	affiliatev1.CommissionService_BulkApproveCommissions_FullMethodName: {Bulk: true},
	affiliatev1.CommissionService_BulkRejectCommissions_FullMethodName:  {Bulk: true},
	affiliatev1.FraudService_BulkResolveFraudEvents_FullMethodName:      {Bulk: true},
	affiliatev1.PayoutService_BulkMarkPayoutsPaid_FullMethodName:        {Bulk: true},
	affiliatev1.PayoutService_BulkMarkPayoutsFailed_FullMethodName:      {Bulk: true},

	affiliatev1.TestModeService_DeleteTestData_FullMethodName: {SometimesQueued: true},

	affiliatev1.ExportService_ExportMerchantAccount_FullMethodName: {SometimesQueued: true},
	affiliatev1.ExportService_DownloadExport_FullMethodName:        {NegotiatesEncoding: true, DownloadType: "application/json"},

	affiliatev1.MailService_ReceiveProviderEvent_FullMethodName: {BodyLimit: 256 << 10},

	affiliatev1.PartnerService_ListPartnerPrograms_FullMethodName:         {AnyOrigin: true},
	affiliatev1.PartnerService_GetPartnerProgram_FullMethodName:           {AnyOrigin: true},
	affiliatev1.PartnerService_ListPartnerCommissions_FullMethodName:      {AnyOrigin: true},
	affiliatev1.PartnerService_GetPartnerBalances_FullMethodName:          {AnyOrigin: true},
	affiliatev1.PartnerService_GetPartnerCommission_FullMethodName:        {AnyOrigin: true},
	affiliatev1.PartnerService_SetPayoutMethod_FullMethodName:             {AnyOrigin: true},
	affiliatev1.PartnerService_DeclinePayoutMethodProposal_FullMethodName: {Status: http.StatusNoContent},
	affiliatev1.PartnerService_ExportPartnerCommissions_FullMethodName:    {AnyOrigin: true},
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

// csvRows contains the response messages that are also available as CSV. The value is the name of the list whose
// elements become the rows. The request has the field "format", whose value "csv" selects CSV.
var csvRows = map[protoreflect.FullName]protoreflect.Name{
	"affiliate.v1.AnalyticsTimeseries": "points",
	"affiliate.v1.AnalyticsBreakdown":  "rows",
}

// CSVRows returns the list of a response whose elements are the rows of a CSV table, or nil if
// the response is not available as CSV.
func CSVRows(response protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	return response.Fields().ByName(csvRows[response.FullName()])
}

// specificReasons lists the error reasons that are specific to an RPC, by the RPC's full
// method name. It omits the reasons that many RPCs share: an invalid credential, a rate
// limit, an invalid request or an unknown id in the path.
var specificReasons = map[string][]affiliate.Reason{
	affiliatev1.HealthService_CheckReadiness_FullMethodName: {affiliate.ReasonServiceUnavailable},

	affiliatev1.AccountService_RegisterMerchant_FullMethodName:       {affiliate.ReasonRegistrationClosed, affiliate.ReasonEmailTaken},
	affiliatev1.AccountService_RegisterPartner_FullMethodName:        {affiliate.ReasonRegistrationClosed, affiliate.ReasonEmailTaken},
	affiliatev1.AccountService_LoginMerchant_FullMethodName:          {affiliate.ReasonInvalidCredentials, affiliate.ReasonSecondFactorRequired},
	affiliatev1.AccountService_LoginPartner_FullMethodName:           {affiliate.ReasonInvalidCredentials, affiliate.ReasonSecondFactorRequired},
	affiliatev1.AccountService_RefreshMerchantSession_FullMethodName: {affiliate.ReasonRefreshTokenInvalid},
	affiliatev1.AccountService_RefreshPartnerSession_FullMethodName:  {affiliate.ReasonRefreshTokenInvalid},
	affiliatev1.AccountService_RefreshSession_FullMethodName:         {affiliate.ReasonRefreshTokenInvalid},
	affiliatev1.AccountService_AcceptInvite_FullMethodName:           {affiliate.ReasonNotFound, affiliate.ReasonEmailTaken},
	affiliatev1.AccountService_VerifyEmail_FullMethodName:            {affiliate.ReasonVerificationToken},
	affiliatev1.AccountService_ResetMerchantPassword_FullMethodName:  {affiliate.ReasonResetToken},
	affiliatev1.AccountService_ResetPartnerPassword_FullMethodName:   {affiliate.ReasonResetToken},
	affiliatev1.AccountService_ChangeMerchantEmail_FullMethodName:    {affiliate.ReasonInvalidCredentials},
	affiliatev1.AccountService_ChangePartnerEmail_FullMethodName:     {affiliate.ReasonInvalidCredentials},
	affiliatev1.AccountService_ChangeMerchantPassword_FullMethodName: {affiliate.ReasonInvalidCredentials},
	affiliatev1.AccountService_ChangePartnerPassword_FullMethodName:  {affiliate.ReasonInvalidCredentials},

	affiliatev1.AccountService_LoginMerchantSecondFactor_FullMethodName:   {affiliate.ReasonInvalidCredentials, affiliate.ReasonChallengeInvalid},
	affiliatev1.AccountService_LoginPartnerSecondFactor_FullMethodName:    {affiliate.ReasonInvalidCredentials, affiliate.ReasonChallengeInvalid},
	affiliatev1.AccountService_EnrollMerchantTotp_FullMethodName:          {affiliate.ReasonInvalidCredentials, affiliate.ReasonSecondFactorState},
	affiliatev1.AccountService_EnrollPartnerTotp_FullMethodName:           {affiliate.ReasonInvalidCredentials, affiliate.ReasonSecondFactorState},
	affiliatev1.AccountService_ConfirmMerchantTotp_FullMethodName:         {affiliate.ReasonInvalidCredentials, affiliate.ReasonSecondFactorState},
	affiliatev1.AccountService_ConfirmPartnerTotp_FullMethodName:          {affiliate.ReasonInvalidCredentials, affiliate.ReasonSecondFactorState},
	affiliatev1.AccountService_RemoveMerchantTotp_FullMethodName:          {affiliate.ReasonInvalidCredentials, affiliate.ReasonSecondFactorState},
	affiliatev1.AccountService_RemovePartnerTotp_FullMethodName:           {affiliate.ReasonInvalidCredentials, affiliate.ReasonSecondFactorState},
	affiliatev1.PartnerService_SetPayoutMethod_FullMethodName:             {affiliate.ReasonInvalidCredentials},
	affiliatev1.PartnerService_ConfirmPayoutMethodProposal_FullMethodName: {affiliate.ReasonInvalidCredentials},
	affiliatev1.PayoutService_ProposePayoutMethod_FullMethodName:          {affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased},

	affiliatev1.WorkspaceService_UpdateWorkspace_FullMethodName:       {affiliate.ReasonPeriodClosed},
	affiliatev1.WorkspaceService_UpdateMember_FullMethodName:          {affiliate.ReasonLastOwner},
	affiliatev1.WorkspaceService_RemoveMember_FullMethodName:          {affiliate.ReasonLastOwner},
	affiliatev1.WorkspaceService_TransferOwnership_FullMethodName:     {affiliate.ReasonNotFound},
	affiliatev1.WorkspaceService_CreateInvite_FullMethodName:          {affiliate.ReasonEmailTaken, affiliate.ReasonEmailNotVerified},
	affiliatev1.WorkspaceService_CreateApiKey_FullMethodName:          {affiliate.ReasonAPIKeyLimitExceeded},
	affiliatev1.ServiceTokenService_CreateServiceToken_FullMethodName: {affiliate.ReasonAPIKeyLimitExceeded},
	affiliatev1.ServiceTokenService_RollServiceToken_FullMethodName:   {affiliate.ReasonAPIKeyLimitExceeded},
	affiliatev1.WorkspaceService_RollApiKey_FullMethodName:            {affiliate.ReasonAPIKeyLimitExceeded},

	affiliatev1.BrandingService_PutBranding_FullMethodName:      {affiliate.ReasonSlugTaken},
	affiliatev1.PortalService_GetPortalLogo_FullMethodName:      {affiliate.ReasonNotFound},
	affiliatev1.PortalService_GetPortalProgram_FullMethodName:   {affiliate.ReasonNotFound},
	affiliatev1.PortalService_LookupPortalInvite_FullMethodName: {affiliate.ReasonNotFound},
	affiliatev1.ProgramService_CreateProgram_FullMethodName:     {affiliate.ReasonSlugTaken},
	affiliatev1.ProgramService_UpdateProgram_FullMethodName:     {affiliate.ReasonSlugTaken, affiliate.ReasonProgramStateInvalid},
	affiliatev1.ProgramService_ActivateProgram_FullMethodName:   {affiliate.ReasonProgramStateInvalid},
	affiliatev1.ProgramService_PauseProgram_FullMethodName:      {affiliate.ReasonProgramStateInvalid},
	affiliatev1.ProgramService_ArchiveProgram_FullMethodName:    {affiliate.ReasonProgramStateInvalid},
	affiliatev1.ProgramService_CreateGroup_FullMethodName:       {affiliate.ReasonProgramStateInvalid},
	affiliatev1.ProgramService_UpdateGroup_FullMethodName:       {affiliate.ReasonProgramStateInvalid},
	affiliatev1.ProgramService_DeleteGroup_FullMethodName:       {affiliate.ReasonGroupInUse},

	affiliatev1.ParticipantService_Apply_FullMethodName: {affiliate.ReasonTermsChanged, affiliate.ReasonApplicationDuplicate, affiliate.ReasonReferralCodeTaken},
	affiliatev1.ParticipantService_AcceptParticipantInvite_FullMethodName: {
		affiliate.ReasonNotFound, affiliate.ReasonTermsChanged, affiliate.ReasonApplicationDuplicate, affiliate.ReasonReferralCodeTaken,
	},
	affiliatev1.ParticipantService_AcceptParticipation_FullMethodName:    {affiliate.ReasonTermsChanged, affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased},
	affiliatev1.ParticipantService_DeclineParticipation_FullMethodName:   {affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased},
	affiliatev1.ParticipantService_CreateParticipantToken_FullMethodName: {affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased},
	affiliatev1.ParticipantService_CreateParticipant_FullMethodName: {
		affiliate.ReasonReferralCodeTaken, affiliate.ReasonApplicationDuplicate, affiliate.ReasonExternalIDTaken, affiliate.ReasonProgramStateInvalid,
		affiliate.ReasonEmailNotVerified,
	},
	affiliatev1.ParticipantService_ApproveParticipant_FullMethodName:   {affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased},
	affiliatev1.ParticipantService_RejectParticipant_FullMethodName:    {affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased},
	affiliatev1.ParticipantService_SuspendParticipant_FullMethodName:   {affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased},
	affiliatev1.ParticipantService_ReinstateParticipant_FullMethodName: {affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased},
	affiliatev1.ParticipantService_UpdateParticipant_FullMethodName: {
		affiliate.ReasonReferralCodeTaken, affiliate.ReasonExternalIDTaken, affiliate.ReasonParticipantErased,
	},
	affiliatev1.ParticipantService_InviteParticipant_FullMethodName: {
		affiliate.ReasonReferralCodeTaken, affiliate.ReasonApplicationDuplicate, affiliate.ReasonProgramStateInvalid,
		affiliate.ReasonEmailNotVerified,
	},

	affiliatev1.LinkService_CreateLink_FullMethodName:        createLinkReasons,
	affiliatev1.LinkService_UpdateLink_FullMethodName:        {affiliate.ReasonParticipantErased, affiliate.ReasonProgramStateInvalid},
	affiliatev1.LinkService_DeleteLink_FullMethodName:        {affiliate.ReasonParticipantErased},
	affiliatev1.LinkService_CreatePartnerLink_FullMethodName: append([]affiliate.Reason{affiliate.ReasonNotFound}, createLinkReasons...),
	affiliatev1.LinkService_UpdatePartnerLink_FullMethodName: {affiliate.ReasonParticipantErased, affiliate.ReasonProgramStateInvalid},
	affiliatev1.LinkService_DeletePartnerLink_FullMethodName: {affiliate.ReasonParticipantErased},

	affiliatev1.PromoCodeService_CreatePromoCode_FullMethodName: {
		affiliate.ReasonPromoCodeTaken, affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased,
		affiliate.ReasonProgramStateInvalid,
	},
	affiliatev1.PromoCodeService_UpdatePromoCode_FullMethodName: {affiliate.ReasonParticipantErased},

	affiliatev1.ConversionService_ReportConversion_FullMethodName: {
		affiliate.ReasonConversionDuplicate, affiliate.ReasonNoAttributionSignal, affiliate.ReasonModeMismatch,
	},
	affiliatev1.ConversionService_RefundConversion_FullMethodName: {affiliate.ReasonRefundDuplicate, affiliate.ReasonRefundExceedsAmount},
	affiliatev1.ConversionService_ReportDispute_FullMethodName: {
		affiliate.ReasonNotFound, affiliate.ReasonDisputeDuplicate, affiliate.ReasonDisputeExceedsAmount,
	},
	affiliatev1.ConversionService_ReattributeConversion_FullMethodName: {affiliate.ReasonParticipantErased},
	affiliatev1.AttributionService_SimulateAttribution_FullMethodName:  {affiliate.ReasonNoAttributionSignal, affiliate.ReasonModeMismatch},
	affiliatev1.AttributionService_FindDecision_FullMethodName:         {affiliate.ReasonNotFound},

	affiliatev1.CommissionService_ApproveCommission_FullMethodName: {affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionHoldActive},
	affiliatev1.CommissionService_ApproveCommissionEarly_FullMethodName: {
		affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionNeedsReview, affiliate.ReasonCommissionHoldNotActive,
	},
	affiliatev1.CommissionService_RejectCommission_FullMethodName:      {affiliate.ReasonCommissionTerminal},
	affiliatev1.CommissionService_ClearCommissionReview_FullMethodName: {affiliate.ReasonCommissionNotFlagged},

	affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName: {affiliate.ReasonParticipantErased, affiliate.ReasonPeriodClosed},

	affiliatev1.ExportService_ExportPartnerAccount_FullMethodName: {affiliate.ReasonExportTooLarge},
	affiliatev1.ExportService_ExportParticipant_FullMethodName: {
		affiliate.ReasonExportForbidden, affiliate.ReasonParticipantNotFound, affiliate.ReasonParticipantErased, affiliate.ReasonExportTooLarge,
	},
	affiliatev1.ExportService_DownloadExport_FullMethodName: {affiliate.ReasonExportExpired},

	affiliatev1.MailService_ReceiveProviderEvent_FullMethodName: {affiliate.ReasonInvalidSignature},

	affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName: {
		affiliate.ReasonFeatureDisabled, affiliate.ReasonConfirmationInvalid, affiliate.ReasonActiveOperationConflict,
	},
	affiliatev1.BuyerErasureService_ListBuyerErasures_FullMethodName: {affiliate.ReasonFeatureDisabled},
	affiliatev1.BuyerErasureService_GetBuyerErasure_FullMethodName:   {affiliate.ReasonFeatureDisabled, affiliate.ReasonOperationNotFound},

	affiliatev1.ProcessorService_ConnectProcessor_FullMethodName: {
		affiliate.ReasonProcessorKeyInvalid, affiliate.ReasonModeMismatch, affiliate.ReasonProcessorPermissionMissing,
		affiliate.ReasonProcessorAlreadyConnected, affiliate.ReasonProcessorEndpointRejected, affiliate.ReasonServiceUnavailable,
	},
	affiliatev1.ProcessorService_ReceiveProcessorEvent_FullMethodName:         {affiliate.ReasonInvalidSignature, affiliate.ReasonRateLimitExceeded},
	affiliatev1.NotificationLogService_GetNotificationLogEntry_FullMethodName: {affiliate.ReasonNotificationLogNotFound},
	affiliatev1.TestModeService_DeleteTestData_FullMethodName:                 {affiliate.ReasonResetInProgress},

	affiliatev1.ErasureService_EraseParticipant_FullMethodName: {
		affiliate.ReasonConfirmationInvalid, affiliate.ReasonAccessDenied, affiliate.ReasonParticipantNotFound,
		affiliate.ReasonAlreadyErased, affiliate.ReasonErasureBlockedPayout,
	},
	affiliatev1.ErasureService_ErasePartnerAccount_FullMethodName: {
		affiliate.ReasonConfirmationInvalid, affiliate.ReasonPartnerNotFound, affiliate.ReasonAlreadyErased, affiliate.ReasonErasureBlockedPayout,
	},
	affiliatev1.ErasureService_EraseMerchantAccount_FullMethodName: {
		affiliate.ReasonConfirmationInvalid, affiliate.ReasonMerchantNotFound, affiliate.ReasonAlreadyErased,
		affiliate.ReasonBillingSubscriptionActive, affiliate.ReasonErasureBlockedPayout,
	},

	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:  {affiliate.ReasonPayoutState},
	affiliatev1.PayoutService_ConfirmPayoutBatch_FullMethodName: {affiliate.ReasonPayoutState},
	affiliatev1.PayoutService_CancelPayoutBatch_FullMethodName:  {affiliate.ReasonPayoutState},
	affiliatev1.PayoutService_ProcessPayoutBatch_FullMethodName: {affiliate.ReasonPayoutState},
	affiliatev1.PayoutService_ExportPayoutBatch_FullMethodName:  {affiliate.ReasonPayoutState},
	affiliatev1.PayoutService_MarkPayoutPaid_FullMethodName:     {affiliate.ReasonPayoutState, affiliate.ReasonPeriodClosed},
	affiliatev1.PayoutService_MarkPayoutFailed_FullMethodName:   {affiliate.ReasonPayoutState},
	affiliatev1.PayoutService_RetryPayout_FullMethodName:        {affiliate.ReasonPayoutState},
	affiliatev1.PayoutService_CancelPayout_FullMethodName:       {affiliate.ReasonPayoutState},

	affiliatev1.FraudService_ResolveFraudEvent_FullMethodName: {affiliate.ReasonFraudEventResolved},

	affiliatev1.NotificationService_UpdateNotificationPreferences_FullMethodName:        {affiliate.ReasonCategoryProtected},
	affiliatev1.NotificationService_UpdatePartnerNotificationPreferences_FullMethodName: {affiliate.ReasonCategoryProtected},
	affiliatev1.NotificationService_Unsubscribe_FullMethodName:                          {affiliate.ReasonUnsubscribeToken, affiliate.ReasonUnsupportedMediaType},
	affiliatev1.NotificationService_CreateAnnouncement_FullMethodName:                   {affiliate.ReasonProgramStateInvalid},

	affiliatev1.WebhookService_CreateWebhook_FullMethodName: {
		affiliate.ReasonWebhookLimitExceeded, affiliate.ReasonWebhookURLNotHTTPS,
		affiliate.ReasonWebhookURLPrivateIP, affiliate.ReasonWebhookURLUnresolvable,
	},
	affiliatev1.WebhookService_RetryDelivery_FullMethodName:     {affiliate.ReasonWebhookDisabled},
	affiliatev1.WebhookService_RecoverDeliveries_FullMethodName: {affiliate.ReasonWebhookDisabled},
}

var createLinkReasons = []affiliate.Reason{
	affiliate.ReasonLinkLimitExceeded, affiliate.ReasonReferralCodeTaken,
	affiliate.ReasonParticipantState, affiliate.ReasonParticipantErased, affiliate.ReasonProgramStateInvalid,
}

// ErrorReasons returns the error reasons that are specific to an RPC. The caller must not
// change the list.
func ErrorReasons(fullMethod string) []affiliate.Reason { return specificReasons[fullMethod] }
