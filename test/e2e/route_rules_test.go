package e2e_test

import (
	"net/http"
	"time"
)

// outcome is the expected status and error code of a response.
type outcome struct {
	status int
	code   string // empty for success
}

// wantOutcome checks the status and the error code of the response.
func (r response) wantOutcome(want outcome) {
	r.t.Helper()
	switch {
	case want.code != "":
		r.wantError(want.status, want.code)
	case r.status != want.status:
		r.t.Errorf("%s: status %d, want %d; body %s", r.request, r.status, want.status, r.body)
	}
}

var (
	ok           = outcome{status: http.StatusOK}
	created      = outcome{status: http.StatusCreated}
	noContent    = outcome{status: http.StatusNoContent}
	invalid      = outcome{http.StatusBadRequest, "VALIDATION_ERROR"}
	unauthorized = outcome{http.StatusUnauthorized, "UNAUTHORIZED"}
	badSecret    = outcome{http.StatusUnauthorized, "INVALID_SECRET_KEY"}
	badKey       = outcome{http.StatusUnauthorized, "INVALID_API_KEY"}
	forbidden    = outcome{http.StatusForbidden, "FORBIDDEN"}
	notFound     = outcome{http.StatusNotFound, "NOT_FOUND"}
	noWebhook    = outcome{http.StatusNotFound, "WEBHOOK_NOT_FOUND"}
	noLogEntry   = outcome{http.StatusNotFound, "NOTIFICATION_LOG_NOT_FOUND"}
	noOperation  = outcome{http.StatusNotFound, "OPERATION_NOT_FOUND"}
	noKey        = outcome{http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED"}
	unconfirmed  = outcome{http.StatusBadRequest, "CONFIRMATION_INVALID"}
	accessDenied = outcome{http.StatusForbidden, "ACCESS_DENIED"}
	allFailed    = outcome{http.StatusUnprocessableEntity, "BULK_ALL_FAILED"}

	noExport        = outcome{http.StatusNotFound, "EXPORT_EXPIRED"}
	noParticipant   = outcome{http.StatusNotFound, "PARTICIPANT_NOT_FOUND"}
	foreignToExport = outcome{http.StatusForbidden, "EXPORT_FORBIDDEN"}
)

// These constants are the kinds of credential that a route accepts
// (docs/merchant/authentication.md).
const (
	anyone = "anyone"
	// members are members of a workspace. merchants also include service tokens.
	members   = "member"
	merchants = "merchant token"
	partners  = "partner token"
	// participations are partners and participant tokens.
	participations = "partner token or participant token"
	secretKeys     = "secret key"
	// serviceTokens is only a kind of credential. No route accepts nothing else.
	serviceTokens = "service token"
	// participantTokens is only a kind of credential too.
	participantTokens = "participant token"
	// secretKeysOrMerchants means that a route accepts secret keys, merchant tokens and
	// service tokens.
	secretKeysOrMerchants = "secret key or merchant token"
)

// These constants are the permissions of the role matrix (docs/contract.md#permissions).
const (
	readDashboards  = "read all dashboards"
	runPrograms     = "programmes, partners, links, codes"
	review          = "approve / reject / override / review"
	managePayouts   = "payouts confirm, mark paid"
	manageKeys      = "webhooks, API keys, processor"
	readMailLog     = "notification log"
	manageWorkspace = "members, settings"
	exportPersonal  = "exports of personal data, participant and buyer erasure"
	ownWorkspace    = "account erasure, ownership"
)

var allRoles = []string{"owner", "admin", "manager", "finance", "developer", "viewer"}

// rolesByPermission maps each permission to the roles that have it.
var rolesByPermission = map[string][]string{
	readDashboards:  allRoles,
	runPrograms:     {"owner", "admin", "manager"},
	review:          {"owner", "admin", "manager", "finance"},
	managePayouts:   {"owner", "admin", "finance"},
	manageKeys:      {"owner", "admin", "developer"},
	readMailLog:     {"owner", "admin", "developer"},
	manageWorkspace: {"owner", "admin"},
	exportPersonal:  {"owner", "admin"},
	ownWorkspace:    {"owner"},
}

// rule describes which clients may call an RPC, and the outcome of such calls.
type rule struct {
	accepts    string
	permission string
	// allowedOutcome is the outcome for a client that has the permission, but sends ids
	// that do not exist and no body.
	allowedOutcome outcome
	// foreignOutcome is the outcome for ids of another workspace or mode. Default: 404.
	foreignOutcome outcome
	// body is a valid request body. It is nil if the route also searches for the ids of a
	// request without a body. The other routes return a validation error first.
	body object
	// rejectedOutcome is the outcome for a missing or invalid credential. Default:
	// UNAUTHORIZED.
	rejectedOutcome outcome
	// sharedByModes means that the resources of the route belong to the workspace, so
	// that both modes can use them.
	sharedByModes bool
	// tokenMode is the mode that a service token must have. If it is empty, the route
	// accepts tokens of both modes.
	tokenMode string
	// movesPayouts means that a service token must have the permission to move payouts. If the
	// workspace requires a second factor, a member needs one even if the route only reads.
	movesPayouts bool
}

// unknownID is an id that does not exist.
const unknownID = "00000000-0000-7000-8000-000000000000"

// unknownParticipants is the body of a bulk request with an id that does not exist.
var unknownParticipants = object{"participantIds": []string{unknownID}}

// routeRules maps the name of each RPC to its rule.
var routeRules = map[string]rule{
	"CheckLiveness":  {accepts: anyone, allowedOutcome: ok},
	"CheckReadiness": {accepts: anyone, allowedOutcome: ok},
	"GetInstance":    {accepts: anyone, allowedOutcome: ok},

	"RegisterMerchant":       {accepts: anyone, allowedOutcome: invalid},
	"RegisterPartner":        {accepts: anyone, allowedOutcome: invalid},
	"LoginMerchant":          {accepts: anyone, allowedOutcome: invalid},
	"LoginPartner":           {accepts: anyone, allowedOutcome: invalid},
	"RefreshMerchantSession": {accepts: anyone, allowedOutcome: invalid},
	"RefreshPartnerSession":  {accepts: anyone, allowedOutcome: invalid},
	"RefreshSession":         {accepts: anyone, allowedOutcome: invalid},
	"Logout":                 {accepts: anyone, allowedOutcome: invalid},
	"AcceptInvite":           {accepts: anyone, allowedOutcome: invalid},

	"VerifyEmail":                {accepts: anyone, allowedOutcome: invalid},
	"ResendMerchantVerification": {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"ResendPartnerVerification":  {accepts: partners, allowedOutcome: ok},
	"LoginMerchantSecondFactor":  {accepts: anyone, allowedOutcome: invalid},
	"LoginPartnerSecondFactor":   {accepts: anyone, allowedOutcome: invalid},
	"EnrollMerchantTotp":         {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"EnrollPartnerTotp":          {accepts: partners, allowedOutcome: ok},
	"ConfirmMerchantTotp":        {accepts: members, permission: readDashboards, allowedOutcome: invalid},
	"ConfirmPartnerTotp":         {accepts: partners, allowedOutcome: invalid},
	"RemoveMerchantTotp":         {accepts: members, permission: readDashboards, allowedOutcome: invalid},
	"RemovePartnerTotp":          {accepts: partners, allowedOutcome: invalid},
	"ListMerchantSessions":       {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"ListPartnerSessions":        {accepts: partners, allowedOutcome: ok},
	"EndMerchantSession":         {accepts: members, permission: readDashboards, allowedOutcome: notFound, sharedByModes: true},
	"EndPartnerSession":          {accepts: partners, allowedOutcome: notFound, sharedByModes: true},
	"CreateDownloadTicket":       {accepts: members, permission: readDashboards, allowedOutcome: created},
	"EndOtherMerchantSessions":   {accepts: members, permission: readDashboards, allowedOutcome: noContent},
	"EndOtherPartnerSessions":    {accepts: partners, allowedOutcome: noContent},
	"ChangeMerchantPassword":     {accepts: members, permission: readDashboards, allowedOutcome: invalid},
	"ChangePartnerPassword":      {accepts: partners, allowedOutcome: invalid},
	"UpdateMerchantAccount":      {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"ForgotMerchantPassword":     {accepts: anyone, allowedOutcome: invalid},
	"ForgotPartnerPassword":      {accepts: anyone, allowedOutcome: invalid},
	"ResetMerchantPassword":      {accepts: anyone, allowedOutcome: invalid},
	"ResetPartnerPassword":       {accepts: anyone, allowedOutcome: invalid},
	"ChangeMerchantEmail":        {accepts: members, permission: readDashboards, allowedOutcome: invalid},
	"ChangePartnerEmail":         {accepts: partners, allowedOutcome: invalid},

	"GetWorkspace":      {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"UpdateWorkspace":   {accepts: merchants, permission: manageWorkspace, allowedOutcome: ok, tokenMode: "live"},
	"ListMembers":       {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"UpdateMember":      {accepts: members, permission: manageWorkspace, allowedOutcome: invalid, body: object{"role": "viewer"}, sharedByModes: true},
	"RemoveMember":      {accepts: members, permission: manageWorkspace, allowedOutcome: notFound, sharedByModes: true},
	"TransferOwnership": {accepts: members, permission: ownWorkspace, allowedOutcome: invalid},
	"ListInvites":       {accepts: members, permission: manageWorkspace, allowedOutcome: ok},
	"CreateInvite":      {accepts: members, permission: manageWorkspace, allowedOutcome: invalid},
	"RevokeInvite":      {accepts: members, permission: manageWorkspace, allowedOutcome: notFound, sharedByModes: true},
	"ListAuditLog":      {accepts: merchants, permission: manageWorkspace, allowedOutcome: ok},
	"ExportAuditLog":    {accepts: merchants, permission: exportPersonal, allowedOutcome: ok},

	"GetBranding": {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"PutBranding": {accepts: merchants, permission: manageWorkspace, allowedOutcome: invalid, tokenMode: "live"},
	"PutLogo":     {accepts: merchants, permission: manageWorkspace, allowedOutcome: invalid, tokenMode: "live"},
	"DeleteLogo":  {accepts: merchants, permission: manageWorkspace, allowedOutcome: noContent, tokenMode: "live"},

	"GetPortalLogo":      {accepts: anyone, allowedOutcome: notFound, sharedByModes: true},
	"GetPortalProgram":   {accepts: anyone, allowedOutcome: notFound, sharedByModes: true},
	"LookupPortalInvite": {accepts: anyone, allowedOutcome: invalid},

	"ListServiceTokens":  {accepts: members, permission: manageWorkspace, allowedOutcome: ok},
	"CreateServiceToken": {accepts: members, permission: manageWorkspace, allowedOutcome: invalid},
	"RollServiceToken":   {accepts: members, permission: manageWorkspace, allowedOutcome: notFound, sharedByModes: true},
	"RevokeServiceToken": {accepts: members, permission: manageWorkspace, allowedOutcome: notFound, sharedByModes: true},

	"GetApiKeys":   {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"CreateApiKey": {accepts: merchants, permission: manageKeys, allowedOutcome: invalid},
	"RollApiKey":   {accepts: merchants, permission: manageKeys, allowedOutcome: notFound},
	"RevokeApiKey": {accepts: merchants, permission: manageKeys, allowedOutcome: notFound},

	"CreateProgram":       {accepts: merchants, permission: runPrograms, allowedOutcome: invalid},
	"ListPrograms":        {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetProgram":          {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"UpdateProgram":       {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"ActivateProgram":     {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"PauseProgram":        {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"ArchiveProgram":      {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"ListProgramRules":    {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"PreviewProgramRules": {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"example": object{"amountCents": 5000}}},
	"ListGroups":          {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"CreateGroup":         {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"name": "Best", "percentage": 30}},
	"UpdateGroup":         {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"DeleteGroup":         {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},

	"Apply":                   {accepts: partners, allowedOutcome: notFound},
	"AcceptParticipation":     {accepts: partners, allowedOutcome: notFound},
	"DeclineParticipation":    {accepts: partners, allowedOutcome: notFound},
	"CreateParticipant":       {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"email": "somebody@example.com", "name": "Somebody"}},
	"CreateParticipantToken":  {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"ListParticipants":        {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"ListPartners":            {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"ExportPartners":          {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetParticipant":          {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"ApproveParticipant":      {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"RejectParticipant":       {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"SuspendParticipant":      {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"ReinstateParticipant":    {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"AcceptParticipantInvite": {accepts: partners, allowedOutcome: invalid},
	"UpdateParticipant":       {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"BulkApproveParticipants": {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: unknownParticipants, foreignOutcome: allFailed},
	"BulkRejectParticipants":  {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: unknownParticipants, foreignOutcome: allFailed},
	"BulkUpdateParticipants":  {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"participantIds": []string{unknownID}, "addTags": []string{"vip"}}},
	"BulkInviteParticipants":  {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"invites": []object{{"email": "somebody@example.com"}}}},
	"InviteParticipant":       {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"email": "somebody@example.com"}},
	"ListParticipantInvites":  {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"RevokeParticipantInvite": {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},

	"ListPartnerPrograms":         {accepts: participations, allowedOutcome: ok},
	"GetPartnerProgram":           {accepts: participations, allowedOutcome: notFound},
	"ListPartnerCommissions":      {accepts: participations, allowedOutcome: ok},
	"GetPartnerCommission":        {accepts: participations, allowedOutcome: notFound},
	"GetPartnerBalances":          {accepts: participations, allowedOutcome: ok},
	"ExportPartnerCommissions":    {accepts: participations, allowedOutcome: ok},
	"LookupPartnerConversion":     {accepts: partners, allowedOutcome: invalid},
	"GetPartnerProfile":           {accepts: partners, allowedOutcome: ok},
	"UpdatePartnerProfile":        {accepts: partners, allowedOutcome: ok},
	"ListPayoutMethodProposals":   {accepts: partners, allowedOutcome: ok},
	"ConfirmPayoutMethodProposal": {accepts: partners, allowedOutcome: notFound},
	"DeclinePayoutMethodProposal": {accepts: partners, allowedOutcome: notFound},
	"SetPayoutMethod":             {accepts: participations, allowedOutcome: invalid},

	"ListLinks":         {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"CreateLink":        {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"participantId": unknownID, "destinationUrl": "https://shop.example/"}},
	"GetLink":           {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"UpdateLink":        {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"DeleteLink":        {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"ListPartnerLinks":  {accepts: participations, allowedOutcome: ok},
	"CreatePartnerLink": {accepts: participations, allowedOutcome: invalid},
	"UpdatePartnerLink": {accepts: partners, allowedOutcome: notFound},
	"DeletePartnerLink": {accepts: partners, allowedOutcome: notFound},

	"ListPromoCodes":        {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"CreatePromoCode":       {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"participantId": unknownID, "code": "SAVE", "discountType": "percentage", "discountValue": 10}},
	"GetPromoCode":          {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"UpdatePromoCode":       {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"DeletePromoCode":       {accepts: merchants, permission: runPrograms, allowedOutcome: notFound},
	"ListPartnerPromoCodes": {accepts: participations, allowedOutcome: ok},

	"ReportConversion":      {accepts: secretKeys, allowedOutcome: invalid, rejectedOutcome: badKey},
	"ReportConversions":     {accepts: secretKeys, allowedOutcome: invalid, rejectedOutcome: badKey},
	"RefundConversion":      {accepts: secretKeysOrMerchants, permission: review, allowedOutcome: invalid, rejectedOutcome: badKey},
	"ReportDispute":         {accepts: secretKeys, allowedOutcome: invalid, rejectedOutcome: badKey},
	"ListConversions":       {accepts: secretKeysOrMerchants, permission: readDashboards, allowedOutcome: ok, rejectedOutcome: badKey},
	"GetConversion":         {accepts: secretKeysOrMerchants, permission: readDashboards, allowedOutcome: notFound, rejectedOutcome: badKey},
	"ReattributeConversion": {accepts: merchants, permission: review, allowedOutcome: invalid, body: object{"participant_id": unknownID, "reason": "Mistaken"}},

	"UpdateCustomer": {accepts: secretKeysOrMerchants, permission: runPrograms, allowedOutcome: notFound, rejectedOutcome: badKey},

	"GetDecision":              {accepts: secretKeysOrMerchants, permission: readDashboards, allowedOutcome: notFound, rejectedOutcome: badSecret},
	"FindDecision":             {accepts: secretKeysOrMerchants, permission: readDashboards, allowedOutcome: invalid, rejectedOutcome: badSecret},
	"GetAttributedClick":       {accepts: secretKeysOrMerchants, permission: readDashboards, allowedOutcome: notFound, rejectedOutcome: badSecret},
	"ListDecisions":            {accepts: secretKeysOrMerchants, permission: readDashboards, allowedOutcome: ok, rejectedOutcome: badSecret},
	"SimulateAttribution":      {accepts: secretKeysOrMerchants, permission: readDashboards, allowedOutcome: invalid, rejectedOutcome: badSecret},
	"GetConversionAttribution": {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"ListConversionDecisions":  {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},

	"GetAnalyticsSummary":           {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetAnalyticsTimeseries":        {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetAnalyticsBreakdown":         {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetAnalyticsFunnel":            {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetAnalyticsCohorts":           {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetProgramAnalyticsSummary":    {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"GetProgramAnalyticsTimeseries": {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"GetProgramAnalyticsBreakdown":  {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"GetProgramAnalyticsFunnel":     {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"GetProgramAnalyticsCohorts":    {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"GetPartnerAnalyticsSummary":    {accepts: participations, allowedOutcome: ok},
	"GetPartnerAnalyticsTimeseries": {accepts: participations, allowedOutcome: ok},
	"GetPartnerAnalyticsBreakdown":  {accepts: participations, allowedOutcome: ok},
	"GetPartnerAnalyticsFunnel":     {accepts: participations, allowedOutcome: ok},
	"GetPartnerAnalyticsCohorts":    {accepts: participations, allowedOutcome: ok},

	"ListCommissions":           {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"ListProgramCommissions":    {accepts: merchants, permission: readDashboards, allowedOutcome: notFound, foreignOutcome: forbidden},
	"GetCommissionStats":        {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetProgramCommissionStats": {accepts: merchants, permission: readDashboards, allowedOutcome: notFound, foreignOutcome: forbidden},
	"ExportCommissions":         {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"ExportProgramCommissions":  {accepts: merchants, permission: readDashboards, allowedOutcome: notFound, foreignOutcome: forbidden},
	"GetCommission":             {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"ApproveCommission":         {accepts: merchants, permission: review, allowedOutcome: notFound},
	"ApproveCommissionEarly":    {accepts: merchants, permission: review, allowedOutcome: invalid, body: object{"reason": "Trusted"}},
	"RejectCommission":          {accepts: merchants, permission: review, allowedOutcome: notFound},
	"ClearCommissionReview":     {accepts: merchants, permission: review, allowedOutcome: notFound},
	"BulkApproveCommissions":    {accepts: merchants, permission: review, allowedOutcome: invalid, body: object{"commissionIds": []string{unknownID}}, foreignOutcome: allFailed},
	"BulkRejectCommissions":     {accepts: merchants, permission: review, allowedOutcome: invalid, body: object{"commissionIds": []string{unknownID}}, foreignOutcome: allFailed},

	"ListLedger":         {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"CreateLedgerEntry":  {accepts: merchants, permission: managePayouts, allowedOutcome: invalid, body: object{"type": "bonus", "amountCents": 100, "reason": "Thanks"}},
	"ListLedgerBalances": {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"ExportLedger":       {accepts: merchants, permission: managePayouts, allowedOutcome: ok},
	"ListPartnerLedger":  {accepts: partners, allowedOutcome: ok},

	"PreviewPayouts":               {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"CreatePayoutBatch":            {accepts: merchants, permission: managePayouts, allowedOutcome: outcome{http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED"}},
	"ListPayoutBatches":            {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetPayoutBatch":               {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"ConfirmPayoutBatch":           {accepts: merchants, permission: managePayouts, allowedOutcome: notFound, movesPayouts: true},
	"CancelPayoutBatch":            {accepts: merchants, permission: managePayouts, allowedOutcome: notFound},
	"ProcessPayoutBatch":           {accepts: merchants, permission: managePayouts, allowedOutcome: notFound, movesPayouts: true},
	"ExportPayoutBatch":            {accepts: merchants, permission: managePayouts, allowedOutcome: notFound, movesPayouts: true},
	"ListPayouts":                  {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetPayout":                    {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"MarkPayoutPaid":               {accepts: merchants, permission: managePayouts, allowedOutcome: invalid, body: object{"reference": "tx-1"}, movesPayouts: true},
	"MarkPayoutFailed":             {accepts: merchants, permission: managePayouts, allowedOutcome: invalid, body: object{"reason": "Bounced"}, movesPayouts: true},
	"BulkMarkPayoutsPaid":          {accepts: merchants, permission: managePayouts, allowedOutcome: invalid, movesPayouts: true, body: object{"payouts": []object{{"payoutId": unknownID, "reference": "r"}}}, foreignOutcome: allFailed},
	"BulkMarkPayoutsFailed":        {accepts: merchants, permission: managePayouts, allowedOutcome: invalid, movesPayouts: true, body: object{"payouts": []object{{"payoutId": unknownID, "reason": "r"}}}, foreignOutcome: allFailed},
	"RetryPayout":                  {accepts: merchants, permission: managePayouts, allowedOutcome: notFound, movesPayouts: true},
	"CancelPayout":                 {accepts: merchants, permission: managePayouts, allowedOutcome: notFound},
	"ProposePayoutMethod":          {accepts: merchants, permission: managePayouts, allowedOutcome: invalid, body: object{"method": "manual"}},
	"WithdrawPayoutMethodProposal": {accepts: merchants, permission: managePayouts, allowedOutcome: notFound},
	"ListPartnerPayouts":           {accepts: participations, allowedOutcome: ok},
	"GetPartnerPayout":             {accepts: participations, allowedOutcome: notFound},

	"ListNotifications":                    {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"CountUnreadNotifications":             {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"ReadNotification":                     {accepts: members, permission: readDashboards, allowedOutcome: notFound},
	"ReadAllNotifications":                 {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"DismissNotification":                  {accepts: members, permission: readDashboards, allowedOutcome: notFound},
	"DismissReadNotifications":             {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"GetNotificationPreferences":           {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"UpdateNotificationPreferences":        {accepts: members, permission: readDashboards, allowedOutcome: invalid},
	"ListPartnerNotifications":             {accepts: partners, allowedOutcome: ok},
	"CountPartnerUnreadNotifications":      {accepts: partners, allowedOutcome: ok},
	"ReadPartnerNotification":              {accepts: partners, allowedOutcome: notFound},
	"ReadAllPartnerNotifications":          {accepts: partners, allowedOutcome: ok},
	"DismissPartnerNotification":           {accepts: partners, allowedOutcome: notFound},
	"DismissReadPartnerNotifications":      {accepts: partners, allowedOutcome: ok},
	"GetPartnerNotificationPreferences":    {accepts: partners, allowedOutcome: ok},
	"UpdatePartnerNotificationPreferences": {accepts: partners, allowedOutcome: invalid},
	"StreamNotifications":                  {accepts: members, permission: readDashboards, allowedOutcome: ok},
	"CreateStreamTicket":                   {accepts: members, permission: readDashboards, allowedOutcome: created},
	"StreamPartnerNotifications":           {accepts: partners, allowedOutcome: ok},
	"CreatePartnerStreamTicket":            {accepts: partners, allowedOutcome: created},
	"Unsubscribe":                          {accepts: anyone, allowedOutcome: invalid, sharedByModes: true},
	"ListAnnouncements":                    {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"CreateAnnouncement":                   {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"title": "News", "body": "The shop has new beans."}},

	"GetFraudPolicy":         {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"PutFraudPolicy":         {accepts: merchants, permission: runPrograms, allowedOutcome: invalid, body: object{"policy": "observe"}},
	"ListFraudEvents":        {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"GetFraudEvent":          {accepts: merchants, permission: readDashboards, allowedOutcome: notFound},
	"BulkResolveFraudEvents": {accepts: merchants, permission: review, allowedOutcome: invalid, body: object{"eventIds": []string{unknownID}, "outcome": "dismissed"}, foreignOutcome: allFailed},
	"ResolveFraudEvent":      {accepts: merchants, permission: review, allowedOutcome: invalid, body: object{"outcome": "dismissed"}},

	"ReceiveProviderEvent":    {accepts: anyone, allowedOutcome: notFound, sharedByModes: true},
	"ListNotificationLog":     {accepts: merchants, permission: readMailLog, allowedOutcome: ok},
	"GetNotificationLogEntry": {accepts: merchants, permission: readMailLog, allowedOutcome: noLogEntry, sharedByModes: true},

	"EraseBuyer":           {accepts: merchants, permission: exportPersonal, allowedOutcome: noKey, sharedByModes: true, tokenMode: "live"},
	"ListBuyerErasures":    {accepts: merchants, permission: exportPersonal, allowedOutcome: ok},
	"GetBuyerErasure":      {accepts: merchants, permission: exportPersonal, allowedOutcome: noOperation, sharedByModes: true},
	"EraseParticipant":     {accepts: merchants, permission: exportPersonal, allowedOutcome: unconfirmed, foreignOutcome: accessDenied, body: confirmed},
	"ErasePartnerAccount":  {accepts: partners, allowedOutcome: unconfirmed},
	"EraseMerchantAccount": {accepts: members, permission: ownWorkspace, allowedOutcome: unconfirmed},

	"Search": {accepts: merchants, permission: readDashboards, allowedOutcome: invalid},

	"ConnectProcessor":          {accepts: members, permission: manageKeys, allowedOutcome: invalid},
	"GetProcessorConnection":    {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"UpdateProcessorConnection": {accepts: merchants, permission: manageKeys, allowedOutcome: notFound},
	"DisconnectProcessor":       {accepts: merchants, permission: manageKeys, allowedOutcome: notFound},
	"ResyncProcessor":           {accepts: merchants, permission: manageKeys, allowedOutcome: invalid},
	"ListProcessorEvents":       {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"ReceiveProcessorEvent":     {accepts: anyone, allowedOutcome: notFound, sharedByModes: true},

	"DeleteTestData":        {accepts: merchants, permission: manageWorkspace, allowedOutcome: ok, sharedByModes: true, tokenMode: "test"},
	"ExportPartnerAccount":  {accepts: partners, allowedOutcome: ok},
	"ExportParticipant":     {accepts: merchants, permission: exportPersonal, allowedOutcome: foreignToExport, foreignOutcome: foreignToExport},
	"ExportMerchantAccount": {accepts: members, permission: exportPersonal, allowedOutcome: ok},
	"DownloadExport":        {accepts: anyone, allowedOutcome: noExport, sharedByModes: true},

	"ListWebhooks":        {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"CreateWebhook":       {accepts: merchants, permission: manageKeys, allowedOutcome: invalid},
	"GetWebhook":          {accepts: merchants, permission: readDashboards, allowedOutcome: noWebhook},
	"ListEventTypes":      {accepts: merchants, permission: readDashboards, allowedOutcome: ok},
	"UpdateWebhook":       {accepts: merchants, permission: manageKeys, allowedOutcome: noWebhook},
	"DeleteWebhook":       {accepts: merchants, permission: manageKeys, allowedOutcome: noWebhook},
	"RotateWebhookSecret": {accepts: merchants, permission: manageKeys, allowedOutcome: noWebhook},
	"TestWebhook":         {accepts: merchants, permission: manageKeys, allowedOutcome: noWebhook},
	"ListDeliveries":      {accepts: merchants, permission: readDashboards, allowedOutcome: noWebhook},
	"GetDelivery":         {accepts: merchants, permission: readDashboards, allowedOutcome: noWebhook},
	"RetryDelivery":       {accepts: merchants, permission: manageKeys, allowedOutcome: noWebhook},
	"RecoverDeliveries":   {accepts: merchants, permission: manageKeys, allowedOutcome: invalid, body: object{"since": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}},
}

// allows reports whether the RPC accepts valid credentials of the kind.
func (r rule) allows(kind string) bool {
	switch {
	case r.accepts == anyone:
		return true
	case r.accepts == secretKeysOrMerchants && kind == secretKeys:
		return true
	case kind == merchants:
		return r.accepts == merchants || r.accepts == members || r.accepts == secretKeysOrMerchants
	case kind == partners || kind == participantTokens:
		return r.accepts == participations || r.accepts == kind
	case kind == serviceTokens:
		return r.accepts == merchants || r.accepts == secretKeysOrMerchants
	}
	return r.accepts == kind
}

// requestBody returns body, or an untyped nil if there is no body.
func (r rule) requestBody() any {
	if r.body == nil {
		return nil
	}
	return r.body
}

// credentialOutcome returns the outcome for a missing or invalid credential.
func (r rule) credentialOutcome() outcome {
	if r.rejectedOutcome != (outcome{}) {
		return r.rejectedOutcome
	}
	return unauthorized
}
