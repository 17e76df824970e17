package server

import (
	"cmp"
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
//
// A method that accepts a MerchantToken but no ServiceToken is about the caller's account, determines
// who has access to the workspace, connects a payment processor, or exports or erases the workspace.
var policies = completed(map[string]Policy{
	affiliatev1.HealthService_CheckLiveness_FullMethodName:  {Accept: NoCredential},
	affiliatev1.HealthService_CheckReadiness_FullMethodName: {Accept: NoCredential},
	affiliatev1.InstanceService_GetInstance_FullMethodName:  {Accept: NoCredential, Zone: ZoneGeneral},

	// These two methods are available on the private port only. Orchestrators that
	// support gRPC health checks call them.
	healthpb.Health_Check_FullMethodName: {Accept: NoCredential},
	healthpb.Health_List_FullMethodName:  {Accept: NoCredential},

	affiliatev1.AccountService_RegisterMerchant_FullMethodName:       {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_RegisterPartner_FullMethodName:        {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_LoginMerchant_FullMethodName:          {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_LoginPartner_FullMethodName:           {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_RefreshMerchantSession_FullMethodName: {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_RefreshPartnerSession_FullMethodName:  {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_RefreshSession_FullMethodName:         {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_Logout_FullMethodName:                 {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_AcceptInvite_FullMethodName:           {Accept: NoCredential, Zone: ZoneAuth},

	// The first two methods count their calls themselves (server/account/browser.go).
	affiliatev1.AccountService_BindBrowser_FullMethodName:         {Accept: NoCredential},
	affiliatev1.AccountService_RenewBrowserSession_FullMethodName: {Accept: NoCredential},
	affiliatev1.AccountService_EndBrowserSession_FullMethodName:   {Accept: NoCredential, Zone: ZoneAuth},

	affiliatev1.AccountService_VerifyEmail_FullMethodName: {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_ResendMerchantVerification_FullMethodName: {
		Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth, AccountZone: ZoneResend,
	},
	affiliatev1.AccountService_ResendPartnerVerification_FullMethodName: {Accept: PartnerToken, Zone: ZoneAuth, AccountZone: ZoneResend},
	affiliatev1.AccountService_ForgotMerchantPassword_FullMethodName:    {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_ForgotPartnerPassword_FullMethodName:     {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_ResetMerchantPassword_FullMethodName:     {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_ResetPartnerPassword_FullMethodName:      {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_ChangeMerchantEmail_FullMethodName:       {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth},
	affiliatev1.AccountService_ChangePartnerEmail_FullMethodName:        {Accept: PartnerToken, Zone: ZoneAuth},
	affiliatev1.AccountService_LoginMerchantSecondFactor_FullMethodName: {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_LoginPartnerSecondFactor_FullMethodName:  {Accept: NoCredential, Zone: ZoneAuth},
	affiliatev1.AccountService_EnrollMerchantTotp_FullMethodName:        {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth, WithoutFactor: true},
	affiliatev1.AccountService_EnrollPartnerTotp_FullMethodName:         {Accept: PartnerToken, Zone: ZoneAuth},
	affiliatev1.AccountService_ConfirmMerchantTotp_FullMethodName:       {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth, WithoutFactor: true},
	affiliatev1.AccountService_ConfirmPartnerTotp_FullMethodName:        {Accept: PartnerToken, Zone: ZoneAuth},
	affiliatev1.AccountService_RemoveMerchantTotp_FullMethodName:        {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth},
	affiliatev1.AccountService_RemovePartnerTotp_FullMethodName:         {Accept: PartnerToken, Zone: ZoneAuth},
	affiliatev1.AccountService_ListMerchantSessions_FullMethodName:      {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth},
	affiliatev1.AccountService_ListPartnerSessions_FullMethodName:       {Accept: PartnerToken, Zone: ZoneAuth},
	affiliatev1.AccountService_EndMerchantSession_FullMethodName:        {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth},
	affiliatev1.AccountService_EndPartnerSession_FullMethodName:         {Accept: PartnerToken, Zone: ZoneAuth},
	affiliatev1.AccountService_CreateDownloadTicket_FullMethodName:      {Accept: MerchantToken, Action: readDashboards, WithoutFactor: true},
	affiliatev1.AccountService_EndOtherMerchantSessions_FullMethodName:  {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth},
	affiliatev1.AccountService_EndOtherPartnerSessions_FullMethodName:   {Accept: PartnerToken, Zone: ZoneAuth},
	affiliatev1.AccountService_ChangeMerchantPassword_FullMethodName:    {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth},
	affiliatev1.AccountService_ChangePartnerPassword_FullMethodName:     {Accept: PartnerToken, Zone: ZoneAuth},
	affiliatev1.AccountService_UpdateMerchantAccount_FullMethodName:     {Accept: MerchantToken, Action: readDashboards, Zone: ZoneAuth},

	affiliatev1.WorkspaceService_GetWorkspace_FullMethodName:      {Accept: merchants, Action: readDashboards},
	affiliatev1.WorkspaceService_UpdateWorkspace_FullMethodName:   {Accept: merchants, Action: manageWorkspace, ServiceMode: affiliate.ModeLive},
	affiliatev1.WorkspaceService_ListMembers_FullMethodName:       {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.WorkspaceService_UpdateMember_FullMethodName:      {Accept: MerchantToken, Action: manageWorkspace},
	affiliatev1.WorkspaceService_RemoveMember_FullMethodName:      {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.WorkspaceService_TransferOwnership_FullMethodName: {Accept: MerchantToken, Action: ownWorkspace},
	affiliatev1.WorkspaceService_ListInvites_FullMethodName:       {Accept: MerchantToken, Action: manageWorkspace},
	affiliatev1.WorkspaceService_CreateInvite_FullMethodName:      {Accept: MerchantToken, Action: manageWorkspace, AcceptsKey: true},
	affiliatev1.WorkspaceService_RevokeInvite_FullMethodName:      {Accept: MerchantToken, Action: manageWorkspace},
	affiliatev1.WorkspaceService_ListAuditLog_FullMethodName:      {Accept: merchants, Action: manageWorkspace},
	affiliatev1.WorkspaceService_ExportAuditLog_FullMethodName:    {Accept: merchants, Action: exportPersonal},
	affiliatev1.WorkspaceService_GetApiKeys_FullMethodName:        {Accept: merchants, Action: readDashboards},
	affiliatev1.WorkspaceService_CreateApiKey_FullMethodName:      {Accept: merchants, Action: manageKeys, Verified: VerifiedForLive},
	affiliatev1.WorkspaceService_RollApiKey_FullMethodName:        {Accept: merchants, Action: manageKeys},
	affiliatev1.WorkspaceService_RevokeApiKey_FullMethodName:      {Accept: merchants, Action: manageKeys},

	affiliatev1.BrandingService_GetBranding_FullMethodName: {Accept: merchants, Action: readDashboards},
	affiliatev1.BrandingService_PutBranding_FullMethodName: {Accept: merchants, Action: manageWorkspace, ServiceMode: affiliate.ModeLive},
	affiliatev1.BrandingService_PutLogo_FullMethodName:     {Accept: merchants, Action: manageWorkspace, ServiceMode: affiliate.ModeLive},
	affiliatev1.BrandingService_DeleteLogo_FullMethodName:  {Accept: merchants, Action: manageWorkspace, ServiceMode: affiliate.ModeLive},

	affiliatev1.PortalService_GetPortalLogo_FullMethodName:    {Accept: NoCredential, Zone: ZoneGeneral},
	affiliatev1.PortalService_GetPortalProgram_FullMethodName: {Accept: NoCredential, Zone: ZoneGeneral},
	// The zone limits how many tokens an address can try.
	affiliatev1.PortalService_LookupPortalInvite_FullMethodName: {Accept: NoCredential, Zone: ZoneAuth},

	affiliatev1.ServiceTokenService_ListServiceTokens_FullMethodName:  {Accept: MerchantToken, Action: manageWorkspace},
	affiliatev1.ServiceTokenService_CreateServiceToken_FullMethodName: {Accept: MerchantToken, Action: manageWorkspace, Verified: VerifiedAlways},
	affiliatev1.ServiceTokenService_RollServiceToken_FullMethodName:   {Accept: MerchantToken, Action: manageWorkspace},
	affiliatev1.ServiceTokenService_RevokeServiceToken_FullMethodName: {Accept: MerchantToken, Action: manageWorkspace},

	affiliatev1.ProgramService_CreateProgram_FullMethodName:       {Accept: merchants, Action: runPrograms},
	affiliatev1.ProgramService_ListPrograms_FullMethodName:        {Accept: merchants, Action: readDashboards},
	affiliatev1.ProgramService_GetProgram_FullMethodName:          {Accept: merchants, Action: readDashboards},
	affiliatev1.ProgramService_UpdateProgram_FullMethodName:       {Accept: merchants, Action: runPrograms},
	affiliatev1.ProgramService_ActivateProgram_FullMethodName:     {Accept: merchants, Action: runPrograms, Verified: VerifiedForLive},
	affiliatev1.ProgramService_PauseProgram_FullMethodName:        {Accept: merchants, Action: runPrograms},
	affiliatev1.ProgramService_ArchiveProgram_FullMethodName:      {Accept: merchants, Action: runPrograms},
	affiliatev1.ProgramService_ListProgramRules_FullMethodName:    {Accept: merchants, Action: readDashboards},
	affiliatev1.ProgramService_PreviewProgramRules_FullMethodName: {Accept: merchants, Action: runPrograms, Reads: true},
	affiliatev1.ProgramService_ListGroups_FullMethodName:          {Accept: merchants, Action: readDashboards},
	affiliatev1.ProgramService_CreateGroup_FullMethodName:         {Accept: merchants, Action: runPrograms},
	affiliatev1.ProgramService_UpdateGroup_FullMethodName:         {Accept: merchants, Action: runPrograms},
	affiliatev1.ProgramService_DeleteGroup_FullMethodName:         {Accept: merchants, Action: runPrograms},

	affiliatev1.ParticipantService_Apply_FullMethodName:                   {Accept: PartnerToken},
	affiliatev1.ParticipantService_AcceptParticipantInvite_FullMethodName: {Accept: PartnerToken},
	affiliatev1.ParticipantService_AcceptParticipation_FullMethodName:     {Accept: PartnerToken},
	affiliatev1.ParticipantService_DeclineParticipation_FullMethodName:    {Accept: PartnerToken},
	affiliatev1.ParticipantService_CreateParticipant_FullMethodName:       {Accept: merchants, Action: runPrograms, AcceptsKey: true},
	affiliatev1.ParticipantService_CreateParticipantToken_FullMethodName:  {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_ListParticipants_FullMethodName:        {Accept: merchants, Action: readDashboards},
	affiliatev1.ParticipantService_ListPartners_FullMethodName:            {Accept: merchants, Action: readDashboards},
	affiliatev1.ParticipantService_ExportPartners_FullMethodName:          {Accept: merchants, Action: readDashboards},
	affiliatev1.ParticipantService_GetParticipant_FullMethodName:          {Accept: merchants, Action: readDashboards},
	affiliatev1.ParticipantService_ApproveParticipant_FullMethodName:      {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_RejectParticipant_FullMethodName:       {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_SuspendParticipant_FullMethodName:      {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_ReinstateParticipant_FullMethodName:    {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_UpdateParticipant_FullMethodName:       {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_BulkApproveParticipants_FullMethodName: {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_BulkRejectParticipants_FullMethodName:  {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_BulkUpdateParticipants_FullMethodName:  {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_BulkInviteParticipants_FullMethodName:  {Accept: merchants, Action: runPrograms},
	affiliatev1.ParticipantService_InviteParticipant_FullMethodName:       {Accept: merchants, Action: runPrograms, AcceptsKey: true},
	affiliatev1.ParticipantService_ListParticipantInvites_FullMethodName:  {Accept: merchants, Action: readDashboards},
	affiliatev1.ParticipantService_RevokeParticipantInvite_FullMethodName: {Accept: merchants, Action: runPrograms},

	affiliatev1.PartnerService_ListPartnerPrograms_FullMethodName:         {Accept: participations},
	affiliatev1.PartnerService_GetPartnerProgram_FullMethodName:           {Accept: participations},
	affiliatev1.PartnerService_ListPartnerCommissions_FullMethodName:      {Accept: participations},
	affiliatev1.PartnerService_GetPartnerCommission_FullMethodName:        {Accept: participations},
	affiliatev1.PartnerService_GetPartnerBalances_FullMethodName:          {Accept: participations},
	affiliatev1.PartnerService_GetPartnerProfile_FullMethodName:           {Accept: PartnerToken},
	affiliatev1.PartnerService_UpdatePartnerProfile_FullMethodName:        {Accept: PartnerToken},
	affiliatev1.PartnerService_ExportPartnerCommissions_FullMethodName:    {Accept: participations},
	affiliatev1.PartnerService_LookupPartnerConversion_FullMethodName:     {Accept: PartnerToken},
	affiliatev1.PartnerService_ListPayoutMethodProposals_FullMethodName:   {Accept: PartnerToken},
	affiliatev1.PartnerService_ConfirmPayoutMethodProposal_FullMethodName: {Accept: PartnerToken, Verified: VerifiedAlways},
	affiliatev1.PartnerService_DeclinePayoutMethodProposal_FullMethodName: {Accept: PartnerToken},
	affiliatev1.PartnerService_SetPayoutMethod_FullMethodName:             {Accept: participations, Verified: VerifiedAlways},

	affiliatev1.LinkService_ListLinks_FullMethodName:         {Accept: merchants, Action: readDashboards},
	affiliatev1.LinkService_CreateLink_FullMethodName:        {Accept: merchants, Action: runPrograms},
	affiliatev1.LinkService_GetLink_FullMethodName:           {Accept: merchants, Action: readDashboards},
	affiliatev1.LinkService_UpdateLink_FullMethodName:        {Accept: merchants, Action: runPrograms},
	affiliatev1.LinkService_DeleteLink_FullMethodName:        {Accept: merchants, Action: runPrograms},
	affiliatev1.LinkService_ListPartnerLinks_FullMethodName:  {Accept: participations},
	affiliatev1.LinkService_CreatePartnerLink_FullMethodName: {Accept: participations},
	affiliatev1.LinkService_UpdatePartnerLink_FullMethodName: {Accept: PartnerToken},
	affiliatev1.LinkService_DeletePartnerLink_FullMethodName: {Accept: PartnerToken},

	affiliatev1.PromoCodeService_ListPromoCodes_FullMethodName:        {Accept: merchants, Action: readDashboards},
	affiliatev1.PromoCodeService_CreatePromoCode_FullMethodName:       {Accept: merchants, Action: runPrograms},
	affiliatev1.PromoCodeService_GetPromoCode_FullMethodName:          {Accept: merchants, Action: readDashboards},
	affiliatev1.PromoCodeService_UpdatePromoCode_FullMethodName:       {Accept: merchants, Action: runPrograms},
	affiliatev1.PromoCodeService_DeletePromoCode_FullMethodName:       {Accept: merchants, Action: runPrograms},
	affiliatev1.PromoCodeService_ListPartnerPromoCodes_FullMethodName: {Accept: participations},

	affiliatev1.ConversionService_ReportConversion_FullMethodName: {
		Accept: SecretKey, Zone: ZoneConversions, Refusal: affiliate.ReasonInvalidAPIKey, AcceptsKey: true,
	},
	affiliatev1.ConversionService_ReportConversions_FullMethodName: {Accept: SecretKey, Refusal: affiliate.ReasonInvalidAPIKey, AcceptsKey: true},
	affiliatev1.ConversionService_RefundConversion_FullMethodName: {
		Accept: SecretKey | merchants, Action: review, Refusal: affiliate.ReasonInvalidAPIKey,
	},
	affiliatev1.ConversionService_ReportDispute_FullMethodName: {Accept: SecretKey, Refusal: affiliate.ReasonInvalidAPIKey},
	affiliatev1.ConversionService_ListConversions_FullMethodName: {
		Accept: SecretKey | merchants, Action: readDashboards, Refusal: affiliate.ReasonInvalidAPIKey,
	},
	affiliatev1.ConversionService_GetConversion_FullMethodName: {
		Accept: SecretKey | merchants, Action: readDashboards, Refusal: affiliate.ReasonInvalidAPIKey,
	},
	affiliatev1.ConversionService_ReattributeConversion_FullMethodName: {Accept: merchants, Action: review},

	affiliatev1.CustomerService_UpdateCustomer_FullMethodName: {Accept: SecretKey | merchants, Action: runPrograms, Refusal: affiliate.ReasonInvalidAPIKey},

	affiliatev1.AttributionService_GetDecision_FullMethodName:              {Accept: SecretKey | merchants, Action: readDashboards, Refusal: affiliate.ReasonInvalidSecretKey},
	affiliatev1.AttributionService_FindDecision_FullMethodName:             {Accept: SecretKey | merchants, Action: readDashboards, Refusal: affiliate.ReasonInvalidSecretKey},
	affiliatev1.AttributionService_GetAttributedClick_FullMethodName:       {Accept: SecretKey | merchants, Action: readDashboards, Refusal: affiliate.ReasonInvalidSecretKey},
	affiliatev1.AttributionService_ListDecisions_FullMethodName:            {Accept: SecretKey | merchants, Action: readDashboards, Refusal: affiliate.ReasonInvalidSecretKey},
	affiliatev1.AttributionService_SimulateAttribution_FullMethodName:      {Accept: SecretKey | merchants, Action: readDashboards, Refusal: affiliate.ReasonInvalidSecretKey, Reads: true},
	affiliatev1.AttributionService_GetConversionAttribution_FullMethodName: {Accept: merchants, Action: readDashboards},
	affiliatev1.AttributionService_ListConversionDecisions_FullMethodName:  {Accept: merchants, Action: readDashboards},

	affiliatev1.AnalyticsService_GetAnalyticsSummary_FullMethodName:           {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetAnalyticsTimeseries_FullMethodName:        {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetAnalyticsBreakdown_FullMethodName:         {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetAnalyticsFunnel_FullMethodName:            {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetAnalyticsCohorts_FullMethodName:           {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetProgramAnalyticsSummary_FullMethodName:    {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetProgramAnalyticsTimeseries_FullMethodName: {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetProgramAnalyticsBreakdown_FullMethodName:  {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetProgramAnalyticsFunnel_FullMethodName:     {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetProgramAnalyticsCohorts_FullMethodName:    {Accept: merchants, Action: readDashboards},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsSummary_FullMethodName:    {Accept: participations},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsTimeseries_FullMethodName: {Accept: participations},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsBreakdown_FullMethodName:  {Accept: participations},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsFunnel_FullMethodName:     {Accept: participations},
	affiliatev1.AnalyticsService_GetPartnerAnalyticsCohorts_FullMethodName:    {Accept: participations},

	affiliatev1.CommissionService_ListCommissions_FullMethodName:           {Accept: merchants, Action: readDashboards},
	affiliatev1.CommissionService_ListProgramCommissions_FullMethodName:    {Accept: merchants, Action: readDashboards},
	affiliatev1.CommissionService_GetCommissionStats_FullMethodName:        {Accept: merchants, Action: readDashboards},
	affiliatev1.CommissionService_GetProgramCommissionStats_FullMethodName: {Accept: merchants, Action: readDashboards},
	affiliatev1.CommissionService_ExportCommissions_FullMethodName:         {Accept: merchants, Action: readDashboards},
	affiliatev1.CommissionService_ExportProgramCommissions_FullMethodName:  {Accept: merchants, Action: readDashboards},
	affiliatev1.CommissionService_GetCommission_FullMethodName:             {Accept: merchants, Action: readDashboards},
	affiliatev1.CommissionService_ApproveCommission_FullMethodName:         {Accept: merchants, Action: review},
	affiliatev1.CommissionService_ApproveCommissionEarly_FullMethodName:    {Accept: merchants, Action: review},
	affiliatev1.CommissionService_RejectCommission_FullMethodName:          {Accept: merchants, Action: review},
	affiliatev1.CommissionService_ClearCommissionReview_FullMethodName:     {Accept: merchants, Action: review},
	affiliatev1.CommissionService_BulkApproveCommissions_FullMethodName:    {Accept: merchants, Action: review},
	affiliatev1.CommissionService_BulkRejectCommissions_FullMethodName:     {Accept: merchants, Action: review},

	affiliatev1.LedgerService_ListLedger_FullMethodName:         {Accept: merchants, Action: readDashboards},
	affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName:  {Accept: merchants, Action: managePayouts, AcceptsKey: true},
	affiliatev1.LedgerService_ListLedgerBalances_FullMethodName: {Accept: merchants, Action: readDashboards},
	affiliatev1.LedgerService_ExportLedger_FullMethodName:       {Accept: merchants, Action: managePayouts},
	affiliatev1.LedgerService_ListPartnerLedger_FullMethodName:  {Accept: PartnerToken},

	affiliatev1.PayoutService_PreviewPayouts_FullMethodName:               {Accept: merchants, Action: readDashboards},
	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:            {Accept: merchants, Action: managePayouts, AcceptsKey: true},
	affiliatev1.PayoutService_ListPayoutBatches_FullMethodName:            {Accept: merchants, Action: readDashboards},
	affiliatev1.PayoutService_ListPayouts_FullMethodName:                  {Accept: merchants, Action: readDashboards},
	affiliatev1.PayoutService_GetPayout_FullMethodName:                    {Accept: merchants, Action: readDashboards},
	affiliatev1.PayoutService_GetPayoutBatch_FullMethodName:               {Accept: merchants, Action: readDashboards},
	affiliatev1.PayoutService_ConfirmPayoutBatch_FullMethodName:           {Accept: merchants, Action: managePayouts, Verified: VerifiedForLive, Payouts: true},
	affiliatev1.PayoutService_CancelPayoutBatch_FullMethodName:            {Accept: merchants, Action: managePayouts},
	affiliatev1.PayoutService_ProcessPayoutBatch_FullMethodName:           {Accept: merchants, Action: managePayouts, Payouts: true},
	affiliatev1.PayoutService_ExportPayoutBatch_FullMethodName:            {Accept: merchants, Action: managePayouts, Payouts: true},
	affiliatev1.PayoutService_MarkPayoutPaid_FullMethodName:               {Accept: merchants, Action: managePayouts, Payouts: true},
	affiliatev1.PayoutService_MarkPayoutFailed_FullMethodName:             {Accept: merchants, Action: managePayouts, Payouts: true},
	affiliatev1.PayoutService_BulkMarkPayoutsPaid_FullMethodName:          {Accept: merchants, Action: managePayouts, Payouts: true},
	affiliatev1.PayoutService_BulkMarkPayoutsFailed_FullMethodName:        {Accept: merchants, Action: managePayouts, Payouts: true},
	affiliatev1.PayoutService_RetryPayout_FullMethodName:                  {Accept: merchants, Action: managePayouts, Payouts: true},
	affiliatev1.PayoutService_CancelPayout_FullMethodName:                 {Accept: merchants, Action: managePayouts},
	affiliatev1.PayoutService_ProposePayoutMethod_FullMethodName:          {Accept: merchants, Action: managePayouts},
	affiliatev1.PayoutService_WithdrawPayoutMethodProposal_FullMethodName: {Accept: merchants, Action: managePayouts},
	affiliatev1.PayoutService_ListPartnerPayouts_FullMethodName:           {Accept: participations},
	affiliatev1.PayoutService_GetPartnerPayout_FullMethodName:             {Accept: participations},

	affiliatev1.NotificationService_ListNotifications_FullMethodName:                    {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.NotificationService_CountUnreadNotifications_FullMethodName:             {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.NotificationService_ReadNotification_FullMethodName:                     {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.NotificationService_ReadAllNotifications_FullMethodName:                 {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.NotificationService_DismissNotification_FullMethodName:                  {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.NotificationService_DismissReadNotifications_FullMethodName:             {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.NotificationService_GetNotificationPreferences_FullMethodName:           {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.NotificationService_UpdateNotificationPreferences_FullMethodName:        {Accept: MerchantToken, Action: readDashboards},
	affiliatev1.NotificationService_ListPartnerNotifications_FullMethodName:             {Accept: PartnerToken},
	affiliatev1.NotificationService_CountPartnerUnreadNotifications_FullMethodName:      {Accept: PartnerToken},
	affiliatev1.NotificationService_ReadPartnerNotification_FullMethodName:              {Accept: PartnerToken},
	affiliatev1.NotificationService_ReadAllPartnerNotifications_FullMethodName:          {Accept: PartnerToken},
	affiliatev1.NotificationService_DismissPartnerNotification_FullMethodName:           {Accept: PartnerToken},
	affiliatev1.NotificationService_DismissReadPartnerNotifications_FullMethodName:      {Accept: PartnerToken},
	affiliatev1.NotificationService_GetPartnerNotificationPreferences_FullMethodName:    {Accept: PartnerToken},
	affiliatev1.NotificationService_UpdatePartnerNotificationPreferences_FullMethodName: {Accept: PartnerToken},
	affiliatev1.NotificationService_StreamNotifications_FullMethodName:                  {Accept: MerchantToken, Action: readDashboards, Lasting: true},
	affiliatev1.NotificationService_StreamPartnerNotifications_FullMethodName:           {Accept: PartnerToken, Lasting: true},
	affiliatev1.NotificationService_CreateStreamTicket_FullMethodName:                   {Accept: MerchantToken, Action: readDashboards, WithoutFactor: true},
	affiliatev1.NotificationService_CreatePartnerStreamTicket_FullMethodName:            {Accept: PartnerToken},
	affiliatev1.NotificationService_Unsubscribe_FullMethodName:                          {Accept: NoCredential, Zone: ZoneUnsubscribe},
	affiliatev1.NotificationService_ListAnnouncements_FullMethodName:                    {Accept: merchants, Action: readDashboards},
	affiliatev1.NotificationService_CreateAnnouncement_FullMethodName:                   {Accept: merchants, Action: runPrograms, AcceptsKey: true},

	affiliatev1.FraudService_GetFraudPolicy_FullMethodName:         {Accept: merchants, Action: readDashboards},
	affiliatev1.FraudService_PutFraudPolicy_FullMethodName:         {Accept: merchants, Action: runPrograms},
	affiliatev1.FraudService_ListFraudEvents_FullMethodName:        {Accept: merchants, Action: readDashboards},
	affiliatev1.FraudService_GetFraudEvent_FullMethodName:          {Accept: merchants, Action: readDashboards},
	affiliatev1.FraudService_BulkResolveFraudEvents_FullMethodName: {Accept: merchants, Action: review},
	affiliatev1.FraudService_ResolveFraudEvent_FullMethodName:      {Accept: merchants, Action: review},

	affiliatev1.MailService_ReceiveProviderEvent_FullMethodName: {Accept: NoCredential, Zone: ZoneMailProvider},

	affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName: {
		Accept: merchants, Action: exportPersonal, WorkspaceZone: ZoneBuyerErasure, ServiceMode: affiliate.ModeLive, AcceptsKey: true,
	},
	affiliatev1.BuyerErasureService_ListBuyerErasures_FullMethodName: {Accept: merchants, Action: exportPersonal},
	affiliatev1.BuyerErasureService_GetBuyerErasure_FullMethodName:   {Accept: merchants, Action: exportPersonal},

	affiliatev1.SearchService_Search_FullMethodName: {Accept: merchants, Action: readDashboards},

	affiliatev1.ProcessorService_ConnectProcessor_FullMethodName:          {Accept: MerchantToken, Action: manageKeys},
	affiliatev1.ProcessorService_GetProcessorConnection_FullMethodName:    {Accept: merchants, Action: readDashboards},
	affiliatev1.ProcessorService_UpdateProcessorConnection_FullMethodName: {Accept: merchants, Action: manageKeys},
	affiliatev1.ProcessorService_DisconnectProcessor_FullMethodName:       {Accept: merchants, Action: manageKeys},
	affiliatev1.ProcessorService_ResyncProcessor_FullMethodName:           {Accept: merchants, Action: manageKeys},
	affiliatev1.ProcessorService_ListProcessorEvents_FullMethodName:       {Accept: merchants, Action: readDashboards},
	// A processor sends the events of all merchants from few addresses, so a limit per
	// address would delay them. The work on an event is limited by the queue.
	affiliatev1.ProcessorService_ReceiveProcessorEvent_FullMethodName: {Accept: NoCredential},

	affiliatev1.NotificationLogService_ListNotificationLog_FullMethodName:     {Accept: merchants, Action: readMailLog},
	affiliatev1.NotificationLogService_GetNotificationLogEntry_FullMethodName: {Accept: merchants, Action: readMailLog},

	affiliatev1.ErasureService_EraseParticipant_FullMethodName:     {Accept: merchants, Action: exportPersonal, AccountZone: ZoneErasure},
	affiliatev1.ErasureService_ErasePartnerAccount_FullMethodName:  {Accept: PartnerToken, AccountZone: ZoneErasure, Erased: true},
	affiliatev1.ErasureService_EraseMerchantAccount_FullMethodName: {Accept: MerchantToken, Action: ownWorkspace, AccountZone: ZoneErasure, Erased: true},

	affiliatev1.TestModeService_DeleteTestData_FullMethodName: {
		Accept: merchants, Action: manageWorkspace, ServiceMode: affiliate.ModeTest, IgnoresMode: true,
	},
	affiliatev1.ExportService_ExportPartnerAccount_FullMethodName:  {Accept: PartnerToken, AccountZone: ZoneExport},
	affiliatev1.ExportService_ExportParticipant_FullMethodName:     {Accept: merchants, Action: exportPersonal, AccountZone: ZoneExport},
	affiliatev1.ExportService_ExportMerchantAccount_FullMethodName: {Accept: MerchantToken, Action: exportPersonal, AccountZone: ZoneExport},
	affiliatev1.ExportService_DownloadExport_FullMethodName:        {Accept: NoCredential, Zone: ZoneGeneral},

	affiliatev1.WebhookService_ListWebhooks_FullMethodName:        {Accept: merchants, Action: readDashboards},
	affiliatev1.WebhookService_CreateWebhook_FullMethodName:       {Accept: merchants, Action: manageKeys},
	affiliatev1.WebhookService_GetWebhook_FullMethodName:          {Accept: merchants, Action: readDashboards},
	affiliatev1.WebhookService_ListEventTypes_FullMethodName:      {Accept: merchants, Action: readDashboards},
	affiliatev1.WebhookService_UpdateWebhook_FullMethodName:       {Accept: merchants, Action: manageKeys},
	affiliatev1.WebhookService_DeleteWebhook_FullMethodName:       {Accept: merchants, Action: manageKeys},
	affiliatev1.WebhookService_RotateWebhookSecret_FullMethodName: {Accept: merchants, Action: manageKeys},
	affiliatev1.WebhookService_TestWebhook_FullMethodName:         {Accept: merchants, Action: manageKeys},
	affiliatev1.WebhookService_ListDeliveries_FullMethodName:      {Accept: merchants, Action: readDashboards},
	affiliatev1.WebhookService_GetDelivery_FullMethodName:         {Accept: merchants, Action: readDashboards},
	affiliatev1.WebhookService_RetryDelivery_FullMethodName:       {Accept: merchants, Action: manageKeys},
	affiliatev1.WebhookService_RecoverDeliveries_FullMethodName:   {Accept: merchants, Action: manageKeys},
})

// completed sets the default values of methods that require a credential: their zone is the
// general zone, and their refusal is UNAUTHORIZED. It also sets Policy.Reads of the methods
// whose REST route is a GET. Other methods that change nothing set it themselves.
func completed(policies map[string]Policy) map[string]Policy {
	for name, policy := range policies {
		if policy.Accept&NoCredential == 0 {
			policy.Zone, policy.Refusal = cmp.Or(policy.Zone, ZoneGeneral), cmp.Or(policy.Refusal, affiliate.ReasonUnauthorized)
		}
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")))
		if err == nil { // only a method with a descriptor can have a REST route
			rule, _ := proto.GetExtension(found.Options(), annotations.E_Http).(*annotations.HttpRule)
			policy.Reads = policy.Reads || rule.GetGet() != ""
		}
		policies[name] = policy
	}
	return policies
}
