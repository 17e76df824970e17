package server

import (
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// policies has the policy of every method that the core serves, except GateService/Admit,
// gRPC reflection and the streaming health check. The request of an Admit call names
// another method, and the policy of that method applies.
var policies = markReads(map[string]Policy{
	affiliatev1.HealthService_CheckLiveness_FullMethodName:  unauthenticated(ZoneNone),
	affiliatev1.HealthService_CheckReadiness_FullMethodName: unauthenticated(ZoneNone),

	// These two methods are available on the private port only. Orchestrators that
	// support gRPC health checks call them.
	healthpb.Health_Check_FullMethodName: unauthenticated(ZoneNone),
	healthpb.Health_List_FullMethodName:  unauthenticated(ZoneNone),

	affiliatev1.AccountService_RegisterMerchant_FullMethodName:       unauthenticated(ZoneAuth),
	affiliatev1.AccountService_RegisterPartner_FullMethodName:        unauthenticated(ZoneAuth),
	affiliatev1.AccountService_LoginMerchant_FullMethodName:          unauthenticated(ZoneAuth),
	affiliatev1.AccountService_LoginPartner_FullMethodName:           unauthenticated(ZoneAuth),
	affiliatev1.AccountService_RefreshMerchantSession_FullMethodName: unauthenticated(ZoneAuth),
	affiliatev1.AccountService_RefreshPartnerSession_FullMethodName:  unauthenticated(ZoneAuth),
	affiliatev1.AccountService_RefreshSession_FullMethodName:         unauthenticated(ZoneAuth),
	affiliatev1.AccountService_Logout_FullMethodName:                 unauthenticated(ZoneAuth),
	affiliatev1.AccountService_AcceptInvite_FullMethodName:           unauthenticated(ZoneAuth),

	affiliatev1.AccountService_VerifyEmail_FullMethodName:                unauthenticated(ZoneAuth),
	affiliatev1.AccountService_ResendMerchantVerification_FullMethodName: member(readDashboards).inAuthZone().limitedPerAccount(ZoneResend),
	affiliatev1.AccountService_ResendPartnerVerification_FullMethodName:  partner().inAuthZone().limitedPerAccount(ZoneResend),
	affiliatev1.AccountService_ForgotMerchantPassword_FullMethodName:     unauthenticated(ZoneAuth),
	affiliatev1.AccountService_ForgotPartnerPassword_FullMethodName:      unauthenticated(ZoneAuth),
	affiliatev1.AccountService_ResetMerchantPassword_FullMethodName:      unauthenticated(ZoneAuth),
	affiliatev1.AccountService_ResetPartnerPassword_FullMethodName:       unauthenticated(ZoneAuth),
	affiliatev1.AccountService_ChangeMerchantEmail_FullMethodName:        member(readDashboards).inAuthZone(),
	affiliatev1.AccountService_ChangePartnerEmail_FullMethodName:         partner().inAuthZone(),
	affiliatev1.AccountService_LoginMerchantSecondFactor_FullMethodName:  unauthenticated(ZoneAuth),
	affiliatev1.AccountService_LoginPartnerSecondFactor_FullMethodName:   unauthenticated(ZoneAuth),
	affiliatev1.AccountService_EnrollMerchantTotp_FullMethodName:         member(readDashboards).inAuthZone().withoutFactor(),
	affiliatev1.AccountService_EnrollPartnerTotp_FullMethodName:          partner().inAuthZone(),
	affiliatev1.AccountService_ConfirmMerchantTotp_FullMethodName:        member(readDashboards).inAuthZone().withoutFactor(),
	affiliatev1.AccountService_ConfirmPartnerTotp_FullMethodName:         partner().inAuthZone(),
	affiliatev1.AccountService_RemoveMerchantTotp_FullMethodName:         member(readDashboards).inAuthZone(),
	affiliatev1.AccountService_RemovePartnerTotp_FullMethodName:          partner().inAuthZone(),

	affiliatev1.WorkspaceService_GetWorkspace_FullMethodName:      merchant(readDashboards),
	affiliatev1.WorkspaceService_UpdateWorkspace_FullMethodName:   merchant(manageWorkspace).serviceMode(affiliate.ModeLive),
	affiliatev1.WorkspaceService_ListMembers_FullMethodName:       member(readDashboards),
	affiliatev1.WorkspaceService_UpdateMember_FullMethodName:      member(manageWorkspace),
	affiliatev1.WorkspaceService_RemoveMember_FullMethodName:      member(readDashboards),
	affiliatev1.WorkspaceService_TransferOwnership_FullMethodName: member(ownWorkspace),
	affiliatev1.WorkspaceService_ListInvites_FullMethodName:       member(manageWorkspace),
	affiliatev1.WorkspaceService_CreateInvite_FullMethodName:      member(manageWorkspace).acceptsKey(),
	affiliatev1.WorkspaceService_RevokeInvite_FullMethodName:      member(manageWorkspace),
	affiliatev1.WorkspaceService_ListAuditLog_FullMethodName:      merchant(manageWorkspace),
	affiliatev1.WorkspaceService_ExportAuditLog_FullMethodName:    merchant(exportPersonal),
	affiliatev1.WorkspaceService_GetApiKeys_FullMethodName:        merchant(readDashboards),
	affiliatev1.WorkspaceService_CreateApiKey_FullMethodName:      merchant(manageKeys).verified(VerifiedForLive),
	affiliatev1.WorkspaceService_RollApiKey_FullMethodName:        merchant(manageKeys),
	affiliatev1.WorkspaceService_RevokeApiKey_FullMethodName:      merchant(manageKeys),

	affiliatev1.ServiceTokenService_ListServiceTokens_FullMethodName:  member(manageWorkspace),
	affiliatev1.ServiceTokenService_CreateServiceToken_FullMethodName: member(manageWorkspace).verified(VerifiedAlways),
	affiliatev1.ServiceTokenService_RollServiceToken_FullMethodName:   member(manageWorkspace),
	affiliatev1.ServiceTokenService_RevokeServiceToken_FullMethodName: member(manageWorkspace),

	affiliatev1.ProgramService_CreateProgram_FullMethodName:    merchant(runPrograms),
	affiliatev1.ProgramService_ListPrograms_FullMethodName:     merchant(readDashboards),
	affiliatev1.ProgramService_GetProgram_FullMethodName:       merchant(readDashboards),
	affiliatev1.ProgramService_UpdateProgram_FullMethodName:    merchant(runPrograms),
	affiliatev1.ProgramService_ActivateProgram_FullMethodName:  merchant(runPrograms).verified(VerifiedForLive),
	affiliatev1.ProgramService_PauseProgram_FullMethodName:     merchant(runPrograms),
	affiliatev1.ProgramService_ArchiveProgram_FullMethodName:   merchant(runPrograms),
	affiliatev1.ProgramService_ListProgramRules_FullMethodName: merchant(readDashboards),
	affiliatev1.ProgramService_ListGroups_FullMethodName:       merchant(readDashboards),
	affiliatev1.ProgramService_CreateGroup_FullMethodName:      merchant(runPrograms),
	affiliatev1.ProgramService_UpdateGroup_FullMethodName:      merchant(runPrograms),
	affiliatev1.ProgramService_DeleteGroup_FullMethodName:      merchant(runPrograms),

	affiliatev1.ParticipantService_Apply_FullMethodName:                   partner(),
	affiliatev1.ParticipantService_AcceptParticipantInvite_FullMethodName: partner(),
	affiliatev1.ParticipantService_AcceptParticipation_FullMethodName:     partner(),
	affiliatev1.ParticipantService_DeclineParticipation_FullMethodName:    partner(),
	affiliatev1.ParticipantService_CreateParticipant_FullMethodName:       merchant(runPrograms).acceptsKey(),
	affiliatev1.ParticipantService_CreateParticipantToken_FullMethodName:  merchant(runPrograms),
	affiliatev1.ParticipantService_ListParticipants_FullMethodName:        merchant(readDashboards),
	affiliatev1.ParticipantService_GetParticipant_FullMethodName:          merchant(readDashboards),
	affiliatev1.ParticipantService_ApproveParticipant_FullMethodName:      merchant(runPrograms),
	affiliatev1.ParticipantService_RejectParticipant_FullMethodName:       merchant(runPrograms),
	affiliatev1.ParticipantService_SuspendParticipant_FullMethodName:      merchant(runPrograms),
	affiliatev1.ParticipantService_ReinstateParticipant_FullMethodName:    merchant(runPrograms),
	affiliatev1.ParticipantService_UpdateParticipant_FullMethodName:       merchant(runPrograms),
	affiliatev1.ParticipantService_BulkApproveParticipants_FullMethodName: merchant(runPrograms),
	affiliatev1.ParticipantService_BulkRejectParticipants_FullMethodName:  merchant(runPrograms),
	affiliatev1.ParticipantService_InviteParticipant_FullMethodName:       merchant(runPrograms).acceptsKey(),
	affiliatev1.ParticipantService_ListParticipantInvites_FullMethodName:  merchant(readDashboards),
	affiliatev1.ParticipantService_RevokeParticipantInvite_FullMethodName: merchant(runPrograms),

	affiliatev1.PartnerService_ListPartnerPrograms_FullMethodName:    participation(),
	affiliatev1.PartnerService_GetPartnerProgram_FullMethodName:      participation(),
	affiliatev1.PartnerService_ListPartnerCommissions_FullMethodName: participation(),
	affiliatev1.PartnerService_GetPartnerBalances_FullMethodName:     participation(),
	affiliatev1.PartnerService_GetPartnerProfile_FullMethodName:      partner(),
	affiliatev1.PartnerService_UpdatePartnerProfile_FullMethodName:   partner(),
	affiliatev1.PartnerService_SetPayoutMethod_FullMethodName:        partner().verified(VerifiedAlways),

	affiliatev1.LinkService_ListLinks_FullMethodName:         merchant(readDashboards),
	affiliatev1.LinkService_CreateLink_FullMethodName:        merchant(runPrograms),
	affiliatev1.LinkService_GetLink_FullMethodName:           merchant(readDashboards),
	affiliatev1.LinkService_UpdateLink_FullMethodName:        merchant(runPrograms),
	affiliatev1.LinkService_DeleteLink_FullMethodName:        merchant(runPrograms),
	affiliatev1.LinkService_ListPartnerLinks_FullMethodName:  participation(),
	affiliatev1.LinkService_CreatePartnerLink_FullMethodName: participation(),
	affiliatev1.LinkService_UpdatePartnerLink_FullMethodName: partner(),
	affiliatev1.LinkService_DeletePartnerLink_FullMethodName: partner(),

	affiliatev1.PromoCodeService_ListPromoCodes_FullMethodName:        merchant(readDashboards),
	affiliatev1.PromoCodeService_CreatePromoCode_FullMethodName:       merchant(runPrograms),
	affiliatev1.PromoCodeService_GetPromoCode_FullMethodName:          merchant(readDashboards),
	affiliatev1.PromoCodeService_UpdatePromoCode_FullMethodName:       merchant(runPrograms),
	affiliatev1.PromoCodeService_DeletePromoCode_FullMethodName:       merchant(runPrograms),
	affiliatev1.PromoCodeService_ListPartnerPromoCodes_FullMethodName: participation(),

	affiliatev1.ConversionService_ReportConversion_FullMethodName:      secret(ZoneConversions, affiliate.ReasonInvalidAPIKey).acceptsKey(),
	affiliatev1.ConversionService_ReportConversions_FullMethodName:     secret(ZoneGeneral, affiliate.ReasonInvalidAPIKey).acceptsKey(),
	affiliatev1.ConversionService_RefundConversion_FullMethodName:      secret(ZoneGeneral, affiliate.ReasonInvalidAPIKey),
	affiliatev1.ConversionService_ReportDispute_FullMethodName:         secret(ZoneGeneral, affiliate.ReasonInvalidAPIKey),
	affiliatev1.ConversionService_ListConversions_FullMethodName:       secretOrMerchant(readDashboards, affiliate.ReasonInvalidAPIKey),
	affiliatev1.ConversionService_GetConversion_FullMethodName:         secretOrMerchant(readDashboards, affiliate.ReasonInvalidAPIKey),
	affiliatev1.ConversionService_ReattributeConversion_FullMethodName: merchant(review),

	affiliatev1.CustomerService_UpdateCustomer_FullMethodName: secretOrMerchant(runPrograms, affiliate.ReasonInvalidAPIKey),

	affiliatev1.AttributionService_GetDecision_FullMethodName:              secret(ZoneGeneral, affiliate.ReasonInvalidSecretKey),
	affiliatev1.AttributionService_FindDecision_FullMethodName:             secret(ZoneGeneral, affiliate.ReasonInvalidSecretKey),
	affiliatev1.AttributionService_GetAttributedClick_FullMethodName:       secret(ZoneGeneral, affiliate.ReasonInvalidSecretKey),
	affiliatev1.AttributionService_ListDecisions_FullMethodName:            secret(ZoneGeneral, affiliate.ReasonInvalidSecretKey),
	affiliatev1.AttributionService_SimulateAttribution_FullMethodName:      secret(ZoneGeneral, affiliate.ReasonInvalidSecretKey),
	affiliatev1.AttributionService_GetConversionAttribution_FullMethodName: merchant(readDashboards),

	affiliatev1.AnalyticsService_GetAnalyticsSummary_FullMethodName:           merchant(readDashboards),
	affiliatev1.AnalyticsService_GetAnalyticsTimeseries_FullMethodName:        merchant(readDashboards),
	affiliatev1.AnalyticsService_GetAnalyticsBreakdown_FullMethodName:         merchant(readDashboards),
	affiliatev1.AnalyticsService_GetAnalyticsFunnel_FullMethodName:            merchant(readDashboards),
	affiliatev1.AnalyticsService_GetAnalyticsCohorts_FullMethodName:           merchant(readDashboards),
	affiliatev1.AnalyticsService_GetProgramAnalyticsSummary_FullMethodName:    merchant(readDashboards),
	affiliatev1.AnalyticsService_GetProgramAnalyticsTimeseries_FullMethodName: merchant(readDashboards),
	affiliatev1.AnalyticsService_GetProgramAnalyticsBreakdown_FullMethodName:  merchant(readDashboards),
	affiliatev1.AnalyticsService_GetProgramAnalyticsFunnel_FullMethodName:     merchant(readDashboards),
	affiliatev1.AnalyticsService_GetProgramAnalyticsCohorts_FullMethodName:    merchant(readDashboards),
	affiliatev1.AnalyticsService_GetPartnerAnalyticsSummary_FullMethodName:    partner(),
	affiliatev1.AnalyticsService_GetPartnerAnalyticsTimeseries_FullMethodName: partner(),
	affiliatev1.AnalyticsService_GetPartnerAnalyticsBreakdown_FullMethodName:  partner(),
	affiliatev1.AnalyticsService_GetPartnerAnalyticsFunnel_FullMethodName:     partner(),
	affiliatev1.AnalyticsService_GetPartnerAnalyticsCohorts_FullMethodName:    partner(),

	affiliatev1.CommissionService_ListCommissions_FullMethodName:           merchant(readDashboards),
	affiliatev1.CommissionService_ListProgramCommissions_FullMethodName:    merchant(readDashboards),
	affiliatev1.CommissionService_GetCommissionStats_FullMethodName:        merchant(readDashboards),
	affiliatev1.CommissionService_GetProgramCommissionStats_FullMethodName: merchant(readDashboards),
	affiliatev1.CommissionService_ExportCommissions_FullMethodName:         merchant(readDashboards),
	affiliatev1.CommissionService_ExportProgramCommissions_FullMethodName:  merchant(readDashboards),
	affiliatev1.CommissionService_GetCommission_FullMethodName:             merchant(readDashboards),
	affiliatev1.CommissionService_ApproveCommission_FullMethodName:         merchant(review),
	affiliatev1.CommissionService_ApproveCommissionEarly_FullMethodName:    merchant(review),
	affiliatev1.CommissionService_RejectCommission_FullMethodName:          merchant(review),
	affiliatev1.CommissionService_ClearCommissionReview_FullMethodName:     merchant(review),
	affiliatev1.CommissionService_BulkApproveCommissions_FullMethodName:    merchant(review),
	affiliatev1.CommissionService_BulkRejectCommissions_FullMethodName:     merchant(review),

	affiliatev1.LedgerService_ListLedger_FullMethodName:         merchant(readDashboards),
	affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName:  merchant(managePayouts).acceptsKey(),
	affiliatev1.LedgerService_ListLedgerBalances_FullMethodName: merchant(readDashboards),
	affiliatev1.LedgerService_ExportLedger_FullMethodName:       merchant(managePayouts),
	affiliatev1.LedgerService_ListPartnerLedger_FullMethodName:  partner(),

	affiliatev1.PayoutService_PreviewPayouts_FullMethodName:     merchant(readDashboards),
	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:  merchant(managePayouts).acceptsKey(),
	affiliatev1.PayoutService_ListPayoutBatches_FullMethodName:  merchant(readDashboards),
	affiliatev1.PayoutService_ListPayouts_FullMethodName:        merchant(readDashboards),
	affiliatev1.PayoutService_GetPayout_FullMethodName:          merchant(readDashboards),
	affiliatev1.PayoutService_GetPayoutBatch_FullMethodName:     merchant(readDashboards),
	affiliatev1.PayoutService_ConfirmPayoutBatch_FullMethodName: merchant(managePayouts).verified(VerifiedForLive).movesPayouts(),
	affiliatev1.PayoutService_CancelPayoutBatch_FullMethodName:  merchant(managePayouts),
	affiliatev1.PayoutService_ProcessPayoutBatch_FullMethodName: merchant(managePayouts).movesPayouts(),
	affiliatev1.PayoutService_ExportPayoutBatch_FullMethodName:  merchant(managePayouts).movesPayouts(),
	affiliatev1.PayoutService_MarkPayoutPaid_FullMethodName:     merchant(managePayouts).movesPayouts(),
	affiliatev1.PayoutService_MarkPayoutFailed_FullMethodName:   merchant(managePayouts).movesPayouts(),
	affiliatev1.PayoutService_RetryPayout_FullMethodName:        merchant(managePayouts).movesPayouts(),
	affiliatev1.PayoutService_CancelPayout_FullMethodName:       merchant(managePayouts),
	affiliatev1.PayoutService_ListPartnerPayouts_FullMethodName: participation(),

	affiliatev1.NotificationService_ListNotifications_FullMethodName:                    member(readDashboards),
	affiliatev1.NotificationService_CountUnreadNotifications_FullMethodName:             member(readDashboards),
	affiliatev1.NotificationService_ReadNotification_FullMethodName:                     member(readDashboards),
	affiliatev1.NotificationService_ReadAllNotifications_FullMethodName:                 member(readDashboards),
	affiliatev1.NotificationService_DismissNotification_FullMethodName:                  member(readDashboards),
	affiliatev1.NotificationService_DismissReadNotifications_FullMethodName:             member(readDashboards),
	affiliatev1.NotificationService_GetNotificationPreferences_FullMethodName:           member(readDashboards),
	affiliatev1.NotificationService_UpdateNotificationPreferences_FullMethodName:        member(readDashboards),
	affiliatev1.NotificationService_ListPartnerNotifications_FullMethodName:             partner(),
	affiliatev1.NotificationService_CountPartnerUnreadNotifications_FullMethodName:      partner(),
	affiliatev1.NotificationService_ReadPartnerNotification_FullMethodName:              partner(),
	affiliatev1.NotificationService_ReadAllPartnerNotifications_FullMethodName:          partner(),
	affiliatev1.NotificationService_DismissPartnerNotification_FullMethodName:           partner(),
	affiliatev1.NotificationService_DismissReadPartnerNotifications_FullMethodName:      partner(),
	affiliatev1.NotificationService_GetPartnerNotificationPreferences_FullMethodName:    partner(),
	affiliatev1.NotificationService_UpdatePartnerNotificationPreferences_FullMethodName: partner(),
	affiliatev1.NotificationService_StreamNotifications_FullMethodName:                  lasting(member(readDashboards)),
	affiliatev1.NotificationService_StreamPartnerNotifications_FullMethodName:           lasting(partner()),
	affiliatev1.NotificationService_CreateStreamTicket_FullMethodName:                   member(readDashboards).withoutFactor(),
	affiliatev1.NotificationService_CreatePartnerStreamTicket_FullMethodName:            partner(),
	affiliatev1.NotificationService_Unsubscribe_FullMethodName:                          unauthenticated(ZoneUnsubscribe),
	affiliatev1.NotificationService_CreateAnnouncement_FullMethodName:                   merchant(runPrograms).acceptsKey(),

	affiliatev1.FraudService_GetFraudPolicy_FullMethodName:    merchant(readDashboards),
	affiliatev1.FraudService_PutFraudPolicy_FullMethodName:    merchant(runPrograms),
	affiliatev1.FraudService_ListFraudEvents_FullMethodName:   merchant(readDashboards),
	affiliatev1.FraudService_ResolveFraudEvent_FullMethodName: merchant(review),

	affiliatev1.MailService_ReceiveProviderEvent_FullMethodName: unauthenticated(ZoneMailProvider),

	affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName: merchant(exportPersonal).limitedPerWorkspace(ZoneBuyerErasure).
		serviceMode(affiliate.ModeLive).acceptsKey(),
	affiliatev1.BuyerErasureService_GetBuyerErasure_FullMethodName: merchant(exportPersonal),

	affiliatev1.ProcessorService_ConnectProcessor_FullMethodName:       member(manageKeys),
	affiliatev1.ProcessorService_GetProcessorConnection_FullMethodName: merchant(readDashboards),
	affiliatev1.ProcessorService_DisconnectProcessor_FullMethodName:    merchant(manageKeys),
	affiliatev1.ProcessorService_ResyncProcessor_FullMethodName:        merchant(manageKeys),
	affiliatev1.ProcessorService_ListProcessorEvents_FullMethodName:    merchant(readDashboards),
	// A processor sends the events of all merchants from few addresses, so a limit per
	// address would delay them. The work on an event is limited by the queue.
	affiliatev1.ProcessorService_ReceiveProcessorEvent_FullMethodName: unauthenticated(ZoneNone),

	affiliatev1.NotificationLogService_ListNotificationLog_FullMethodName:     merchant(readMailLog),
	affiliatev1.NotificationLogService_GetNotificationLogEntry_FullMethodName: merchant(readMailLog),

	affiliatev1.ErasureService_EraseParticipant_FullMethodName:     merchant(exportPersonal).limitedPerAccount(ZoneErasure),
	affiliatev1.ErasureService_ErasePartnerAccount_FullMethodName:  partner().limitedPerAccount(ZoneErasure).forErased(),
	affiliatev1.ErasureService_EraseMerchantAccount_FullMethodName: member(ownWorkspace).limitedPerAccount(ZoneErasure).forErased(),

	affiliatev1.TestModeService_DeleteTestData_FullMethodName:      merchant(manageWorkspace).serviceMode(affiliate.ModeTest).ignoringMode(),
	affiliatev1.ExportService_ExportPartnerAccount_FullMethodName:  partner().limitedPerAccount(ZoneExport),
	affiliatev1.ExportService_ExportParticipant_FullMethodName:     merchant(exportPersonal).limitedPerAccount(ZoneExport),
	affiliatev1.ExportService_ExportMerchantAccount_FullMethodName: member(exportPersonal).limitedPerAccount(ZoneExport),
	affiliatev1.ExportService_DownloadExport_FullMethodName:        unauthenticated(ZoneGeneral),

	affiliatev1.WebhookService_ListWebhooks_FullMethodName:        merchant(readDashboards),
	affiliatev1.WebhookService_CreateWebhook_FullMethodName:       merchant(manageKeys),
	affiliatev1.WebhookService_GetWebhook_FullMethodName:          merchant(readDashboards),
	affiliatev1.WebhookService_ListEventTypes_FullMethodName:      merchant(readDashboards),
	affiliatev1.WebhookService_UpdateWebhook_FullMethodName:       merchant(manageKeys),
	affiliatev1.WebhookService_DeleteWebhook_FullMethodName:       merchant(manageKeys),
	affiliatev1.WebhookService_RotateWebhookSecret_FullMethodName: merchant(manageKeys),
	affiliatev1.WebhookService_TestWebhook_FullMethodName:         merchant(manageKeys),
	affiliatev1.WebhookService_ListDeliveries_FullMethodName:      merchant(readDashboards),
	affiliatev1.WebhookService_GetDelivery_FullMethodName:         merchant(readDashboards),
	affiliatev1.WebhookService_RetryDelivery_FullMethodName:       merchant(manageKeys),
	affiliatev1.WebhookService_RecoverDeliveries_FullMethodName:   merchant(manageKeys),
})

func markReads(policies map[string]Policy) map[string]Policy {
	for name, policy := range policies {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")))
		if err != nil {
			continue // the policy is not about a method of this service's protos
		}
		rule, _ := proto.GetExtension(found.Options(), annotations.E_Http).(*annotations.HttpRule)
		policy.Reads = rule.GetGet() != ""
		policies[name] = policy
	}
	return policies
}
