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

func (a response) wantOutcome(want outcome) {
	a.t.Helper()
	switch {
	case want.code != "":
		a.wantError(want.status, want.code)
	case a.status != want.status:
		a.t.Errorf("%s: status %d, want %d; body %s", a.request, a.status, want.status, a.body)
	}
}

var (
	ok           = outcome{status: http.StatusOK}
	invalid      = outcome{http.StatusBadRequest, "VALIDATION_ERROR"}
	unauthorized = outcome{http.StatusUnauthorized, "UNAUTHORIZED"}
	badSecret    = outcome{http.StatusUnauthorized, "INVALID_SECRET_KEY"}
	badKey       = outcome{http.StatusUnauthorized, "INVALID_API_KEY"}
	forbidden    = outcome{http.StatusForbidden, "FORBIDDEN"}
	notFound     = outcome{http.StatusNotFound, "NOT_FOUND"}
	noWebhook    = outcome{http.StatusNotFound, "WEBHOOK_NOT_FOUND"}
	allFailed    = outcome{http.StatusUnprocessableEntity, "BULK_ALL_FAILED"}
)

// The kinds of credential that a route accepts (SPEC.md sections 4 and 5).
const (
	anyone     = "anyone"
	merchants  = "merchant token"
	partners   = "partner token"
	secretKeys = "secret key"
	// readers means that the route accepts secret keys and merchant tokens.
	readers = "secret key or merchant token"
)

// Rows of the role matrix (DECISIONS.md section 11).
const (
	readDashboards  = "read all dashboards"
	runPrograms     = "programmes, partners, links, codes"
	review          = "approve / reject / override / review"
	managePayouts   = "payouts confirm, mark paid"
	manageKeys      = "webhooks, API keys, processor"
	manageWorkspace = "members, settings"
	exportPersonal  = "exports of personal data, participant and buyer erasure"
	ownWorkspace    = "account erasure, ownership"
)

var allRoles = []string{"owner", "admin", "manager", "finance", "developer", "viewer"}

var matrix = map[string][]string{
	readDashboards:  allRoles,
	runPrograms:     {"owner", "admin", "manager"},
	review:          {"owner", "admin", "manager", "finance"},
	managePayouts:   {"owner", "admin", "finance"},
	manageKeys:      {"owner", "admin", "developer"},
	manageWorkspace: {"owner", "admin"},
	exportPersonal:  {"owner", "admin"},
	ownWorkspace:    {"owner"},
}

// rule describes the access to an RPC.
type rule struct {
	accepts    string
	permission string
	// admitted is the outcome for an allowed caller who sends unknown ids and no body.
	admitted outcome
	// foreign is the outcome for ids of another workspace or mode, if it is not 404.
	foreign outcome
	// body is a valid request body. Without it the route would return a validation error
	// before it looks for the ids. nil means that no body is necessary.
	body object
	// rejected is the outcome for a missing or invalid credential, if it is not
	// UNAUTHORIZED.
	rejected outcome
	// modeless means that the resources of the route belong to both modes of a
	// workspace.
	modeless bool
}

// unknownID is an id that does not exist.
const unknownID = "00000000-0000-7000-8000-000000000000"

// anyIDs is the body of a bulk request with an id that does not exist.
var anyIDs = object{"participantIds": []string{unknownID}}

var contract = map[string]rule{
	"CheckLiveness":  {accepts: anyone, admitted: ok},
	"CheckReadiness": {accepts: anyone, admitted: ok},

	"RegisterMerchant":       {accepts: anyone, admitted: invalid},
	"RegisterPartner":        {accepts: anyone, admitted: invalid},
	"LoginMerchant":          {accepts: anyone, admitted: invalid},
	"LoginPartner":           {accepts: anyone, admitted: invalid},
	"RefreshMerchantSession": {accepts: anyone, admitted: invalid},
	"RefreshPartnerSession":  {accepts: anyone, admitted: invalid},
	"RefreshSession":         {accepts: anyone, admitted: invalid},
	"Logout":                 {accepts: anyone, admitted: invalid},
	"AcceptInvite":           {accepts: anyone, admitted: invalid},

	"GetWorkspace":      {accepts: merchants, permission: readDashboards, admitted: ok},
	"UpdateWorkspace":   {accepts: merchants, permission: manageWorkspace, admitted: ok},
	"ListMembers":       {accepts: merchants, permission: readDashboards, admitted: ok},
	"UpdateMember":      {accepts: merchants, permission: manageWorkspace, admitted: invalid, body: object{"role": "viewer"}, modeless: true},
	"RemoveMember":      {accepts: merchants, permission: manageWorkspace, admitted: notFound, modeless: true},
	"TransferOwnership": {accepts: merchants, permission: ownWorkspace, admitted: invalid},
	"ListInvites":       {accepts: merchants, permission: manageWorkspace, admitted: ok},
	"CreateInvite":      {accepts: merchants, permission: manageWorkspace, admitted: invalid},
	"RevokeInvite":      {accepts: merchants, permission: manageWorkspace, admitted: notFound, modeless: true},
	"ListAuditLog":      {accepts: merchants, permission: manageWorkspace, admitted: ok},
	"ExportAuditLog":    {accepts: merchants, permission: exportPersonal, admitted: ok},

	"GetApiKeys":   {accepts: merchants, permission: readDashboards, admitted: ok},
	"CreateApiKey": {accepts: merchants, permission: manageKeys, admitted: invalid},
	"RollApiKey":   {accepts: merchants, permission: manageKeys, admitted: notFound},
	"RevokeApiKey": {accepts: merchants, permission: manageKeys, admitted: notFound},

	"CreateProgram":    {accepts: merchants, permission: runPrograms, admitted: invalid},
	"ListPrograms":     {accepts: merchants, permission: readDashboards, admitted: ok},
	"GetProgram":       {accepts: merchants, permission: readDashboards, admitted: notFound},
	"UpdateProgram":    {accepts: merchants, permission: runPrograms, admitted: notFound},
	"ActivateProgram":  {accepts: merchants, permission: runPrograms, admitted: notFound},
	"PauseProgram":     {accepts: merchants, permission: runPrograms, admitted: notFound},
	"ArchiveProgram":   {accepts: merchants, permission: runPrograms, admitted: notFound},
	"ListProgramRules": {accepts: merchants, permission: readDashboards, admitted: notFound},
	"ListGroups":       {accepts: merchants, permission: readDashboards, admitted: notFound},
	"CreateGroup":      {accepts: merchants, permission: runPrograms, admitted: invalid, body: object{"name": "Best", "percentage": 30}},
	"UpdateGroup":      {accepts: merchants, permission: runPrograms, admitted: notFound},
	"DeleteGroup":      {accepts: merchants, permission: runPrograms, admitted: notFound},

	"Apply":                   {accepts: partners, admitted: notFound},
	"ListParticipants":        {accepts: merchants, permission: readDashboards, admitted: notFound},
	"GetParticipant":          {accepts: merchants, permission: readDashboards, admitted: notFound},
	"ApproveParticipant":      {accepts: merchants, permission: runPrograms, admitted: notFound},
	"RejectParticipant":       {accepts: merchants, permission: runPrograms, admitted: notFound},
	"SuspendParticipant":      {accepts: merchants, permission: runPrograms, admitted: notFound},
	"ReinstateParticipant":    {accepts: merchants, permission: runPrograms, admitted: notFound},
	"AcceptParticipantInvite": {accepts: partners, admitted: invalid},
	"UpdateParticipant":       {accepts: merchants, permission: runPrograms, admitted: notFound},
	"BulkApproveParticipants": {accepts: merchants, permission: runPrograms, admitted: invalid, body: anyIDs, foreign: allFailed},
	"BulkRejectParticipants":  {accepts: merchants, permission: runPrograms, admitted: invalid, body: anyIDs, foreign: allFailed},
	"InviteParticipant":       {accepts: merchants, permission: runPrograms, admitted: invalid, body: object{"email": "somebody@example.com"}},
	"ListParticipantInvites":  {accepts: merchants, permission: readDashboards, admitted: notFound},
	"RevokeParticipantInvite": {accepts: merchants, permission: runPrograms, admitted: notFound},

	"ListPartnerPrograms":    {accepts: partners, admitted: ok},
	"GetPartnerProgram":      {accepts: partners, admitted: notFound},
	"ListPartnerCommissions": {accepts: partners, admitted: ok},
	"GetPartnerBalances":     {accepts: partners, admitted: ok},
	"GetPartnerSummary":      {accepts: partners, admitted: ok},
	"GetPartnerProfile":      {accepts: partners, admitted: ok},
	"UpdatePartnerProfile":   {accepts: partners, admitted: ok},
	"SetPayoutMethod":        {accepts: partners, admitted: invalid},

	"ListLinks":         {accepts: merchants, permission: readDashboards, admitted: notFound},
	"CreateLink":        {accepts: merchants, permission: runPrograms, admitted: invalid, body: object{"participantId": unknownID, "destinationUrl": "https://shop.example/"}},
	"GetLink":           {accepts: merchants, permission: readDashboards, admitted: notFound},
	"UpdateLink":        {accepts: merchants, permission: runPrograms, admitted: notFound},
	"DeleteLink":        {accepts: merchants, permission: runPrograms, admitted: notFound},
	"ListPartnerLinks":  {accepts: partners, admitted: ok},
	"CreatePartnerLink": {accepts: partners, admitted: invalid},
	"UpdatePartnerLink": {accepts: partners, admitted: notFound},
	"DeletePartnerLink": {accepts: partners, admitted: notFound},

	"ListPromoCodes":        {accepts: merchants, permission: readDashboards, admitted: notFound},
	"CreatePromoCode":       {accepts: merchants, permission: runPrograms, admitted: invalid, body: object{"participantId": unknownID, "code": "SAVE", "discountType": "percentage", "discountValue": 10}},
	"GetPromoCode":          {accepts: merchants, permission: readDashboards, admitted: notFound},
	"UpdatePromoCode":       {accepts: merchants, permission: runPrograms, admitted: notFound},
	"DeletePromoCode":       {accepts: merchants, permission: runPrograms, admitted: notFound},
	"ListPartnerPromoCodes": {accepts: partners, admitted: ok},

	"ReportConversion":      {accepts: secretKeys, admitted: invalid, rejected: badKey},
	"ReportConversions":     {accepts: secretKeys, admitted: invalid, rejected: badKey},
	"RefundConversion":      {accepts: secretKeys, admitted: invalid, rejected: badKey},
	"ListConversions":       {accepts: readers, permission: readDashboards, admitted: ok, rejected: badKey},
	"GetConversion":         {accepts: readers, permission: readDashboards, admitted: notFound, rejected: badKey},
	"ReattributeConversion": {accepts: merchants, permission: review, admitted: invalid, body: object{"participant_id": unknownID, "reason": "Mistaken"}},

	"GetDecision":              {accepts: secretKeys, admitted: notFound, rejected: badSecret},
	"FindDecision":             {accepts: secretKeys, admitted: invalid, rejected: badSecret},
	"GetAttributedClick":       {accepts: secretKeys, admitted: notFound, rejected: badSecret},
	"ListDecisions":            {accepts: secretKeys, admitted: ok, rejected: badSecret},
	"SimulateAttribution":      {accepts: secretKeys, admitted: invalid, rejected: badSecret},
	"GetConversionAttribution": {accepts: merchants, permission: readDashboards, admitted: notFound},

	"ListCommissions":           {accepts: merchants, permission: readDashboards, admitted: ok},
	"ListProgramCommissions":    {accepts: merchants, permission: readDashboards, admitted: notFound, foreign: forbidden},
	"GetCommissionStats":        {accepts: merchants, permission: readDashboards, admitted: ok},
	"GetProgramCommissionStats": {accepts: merchants, permission: readDashboards, admitted: notFound, foreign: forbidden},
	"ExportCommissions":         {accepts: merchants, permission: readDashboards, admitted: ok},
	"ExportProgramCommissions":  {accepts: merchants, permission: readDashboards, admitted: notFound, foreign: forbidden},
	"GetCommission":             {accepts: merchants, permission: readDashboards, admitted: notFound},
	"ApproveCommission":         {accepts: merchants, permission: review, admitted: notFound},
	"ApproveCommissionEarly":    {accepts: merchants, permission: review, admitted: invalid, body: object{"reason": "Trusted"}},
	"RejectCommission":          {accepts: merchants, permission: review, admitted: notFound},
	"ClearCommissionReview":     {accepts: merchants, permission: review, admitted: notFound},
	"BulkApproveCommissions":    {accepts: merchants, permission: review, admitted: invalid, body: object{"commissionIds": []string{unknownID}}, foreign: allFailed},
	"BulkRejectCommissions":     {accepts: merchants, permission: review, admitted: invalid, body: object{"commissionIds": []string{unknownID}}, foreign: allFailed},

	"ListLedger":        {accepts: merchants, permission: readDashboards, admitted: notFound},
	"CreateLedgerEntry": {accepts: merchants, permission: managePayouts, admitted: invalid, body: object{"type": "bonus", "amountCents": 100, "reason": "Thanks"}},
	"ListPartnerLedger": {accepts: partners, admitted: ok},

	"PreviewPayouts":     {accepts: merchants, permission: readDashboards, admitted: ok},
	"CreatePayoutBatch":  {accepts: merchants, permission: managePayouts, admitted: outcome{http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED"}},
	"ListPayoutBatches":  {accepts: merchants, permission: readDashboards, admitted: ok},
	"GetPayoutBatch":     {accepts: merchants, permission: readDashboards, admitted: notFound},
	"ConfirmPayoutBatch": {accepts: merchants, permission: managePayouts, admitted: notFound},
	"CancelPayoutBatch":  {accepts: merchants, permission: managePayouts, admitted: notFound},
	"ExportPayoutBatch":  {accepts: merchants, permission: managePayouts, admitted: notFound},
	"ListPayouts":        {accepts: merchants, permission: readDashboards, admitted: ok},
	"GetPayout":          {accepts: merchants, permission: readDashboards, admitted: notFound},
	"MarkPayoutPaid":     {accepts: merchants, permission: managePayouts, admitted: invalid, body: object{"reference": "tx-1"}},
	"MarkPayoutFailed":   {accepts: merchants, permission: managePayouts, admitted: invalid, body: object{"reason": "Bounced"}},
	"RetryPayout":        {accepts: merchants, permission: managePayouts, admitted: notFound},
	"CancelPayout":       {accepts: merchants, permission: managePayouts, admitted: notFound},
	"ListPartnerPayouts": {accepts: partners, admitted: ok},

	"GetFraudPolicy":    {accepts: merchants, permission: readDashboards, admitted: notFound},
	"PutFraudPolicy":    {accepts: merchants, permission: runPrograms, admitted: invalid, body: object{"policy": "observe"}},
	"ListFraudEvents":   {accepts: merchants, permission: readDashboards, admitted: ok},
	"ResolveFraudEvent": {accepts: merchants, permission: review, admitted: invalid, body: object{"outcome": "dismissed"}},

	"ListWebhooks":        {accepts: merchants, permission: readDashboards, admitted: ok},
	"CreateWebhook":       {accepts: merchants, permission: manageKeys, admitted: invalid},
	"GetWebhook":          {accepts: merchants, permission: readDashboards, admitted: noWebhook},
	"ListEventTypes":      {accepts: merchants, permission: readDashboards, admitted: ok},
	"UpdateWebhook":       {accepts: merchants, permission: manageKeys, admitted: noWebhook},
	"DeleteWebhook":       {accepts: merchants, permission: manageKeys, admitted: noWebhook},
	"RotateWebhookSecret": {accepts: merchants, permission: manageKeys, admitted: noWebhook},
	"TestWebhook":         {accepts: merchants, permission: manageKeys, admitted: noWebhook},
	"ListDeliveries":      {accepts: merchants, permission: readDashboards, admitted: noWebhook},
	"GetDelivery":         {accepts: merchants, permission: readDashboards, admitted: noWebhook},
	"RetryDelivery":       {accepts: merchants, permission: manageKeys, admitted: noWebhook},
	"RecoverDeliveries":   {accepts: merchants, permission: manageKeys, admitted: invalid, body: object{"since": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}},
}

// allows reports whether a valid credential of a kind may call the RPC.
func (r rule) allows(good string) bool {
	if r.accepts == readers {
		return good == secretKeys || good == merchants
	}
	return r.accepts == anyone || r.accepts == good
}

// requestBody returns the body as the argument of a request.
func (r rule) requestBody() any {
	if r.body == nil {
		return nil
	}
	return r.body
}

// rejection returns the outcome for a missing or invalid credential.
func (r rule) rejection() outcome {
	if r.rejected != (outcome{}) {
		return r.rejected
	}
	return unauthorized
}
