package e2e_test

import (
	"net/http"
	"time"
)

// outcome is what a caller is told.
type outcome struct {
	status int
	code   string // empty: a success
}

func (a answer) wantOutcome(want outcome) {
	a.t.Helper()
	switch {
	case want.code != "":
		a.wantError(want.status, want.code)
	case a.status != want.status:
		a.t.Errorf("%s: status %d, want %d; body %s", a.what, a.status, want.status, a.body)
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

// Who may call (SPEC.md sections 4 and 5).
const (
	anyone     = "anyone"
	merchants  = "merchant token"
	partners   = "partner token"
	secretKeys = "secret key"
	// readers are secret keys and merchant tokens alike.
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

// rule says what an RPC demands, and what it answers to an admitted caller who
// sends ids that do not exist and no body.
type rule struct {
	who      string
	action   string
	admitted outcome
	// foreign answers for ids of another workspace or mode where that is not 404.
	foreign outcome
	// body is what gets such ids as far as being looked up; nil: none is needed.
	body object
	// refused answers a missing or bad credential where that is not UNAUTHORIZED.
	refused outcome
	// modeless things belong to both modes of their workspace.
	modeless bool
}

// nowhere is an id of nothing.
const nowhere = "00000000-0000-7000-8000-000000000000"

// anyIDs is the body of a bulk request about things that are nowhere.
var anyIDs = object{"participantIds": []string{nowhere}}

var contract = map[string]rule{
	"CheckLiveness":  {who: anyone, admitted: ok},
	"CheckReadiness": {who: anyone, admitted: ok},

	"RegisterMerchant":       {who: anyone, admitted: invalid},
	"RegisterPartner":        {who: anyone, admitted: invalid},
	"LoginMerchant":          {who: anyone, admitted: invalid},
	"LoginPartner":           {who: anyone, admitted: invalid},
	"RefreshMerchantSession": {who: anyone, admitted: invalid},
	"RefreshPartnerSession":  {who: anyone, admitted: invalid},
	"RefreshSession":         {who: anyone, admitted: invalid},
	"Logout":                 {who: anyone, admitted: invalid},
	"AcceptInvite":           {who: anyone, admitted: invalid},

	"GetWorkspace":      {who: merchants, action: readDashboards, admitted: ok},
	"UpdateWorkspace":   {who: merchants, action: manageWorkspace, admitted: ok},
	"ListMembers":       {who: merchants, action: readDashboards, admitted: ok},
	"UpdateMember":      {who: merchants, action: manageWorkspace, admitted: invalid, body: object{"role": "viewer"}, modeless: true},
	"RemoveMember":      {who: merchants, action: manageWorkspace, admitted: notFound, modeless: true},
	"TransferOwnership": {who: merchants, action: ownWorkspace, admitted: invalid},
	"ListInvites":       {who: merchants, action: manageWorkspace, admitted: ok},
	"CreateInvite":      {who: merchants, action: manageWorkspace, admitted: invalid},
	"RevokeInvite":      {who: merchants, action: manageWorkspace, admitted: notFound, modeless: true},
	"ListAuditLog":      {who: merchants, action: manageWorkspace, admitted: ok},
	"ExportAuditLog":    {who: merchants, action: exportPersonal, admitted: ok},

	"GetApiKeys":   {who: merchants, action: readDashboards, admitted: ok},
	"CreateApiKey": {who: merchants, action: manageKeys, admitted: invalid},
	"RollApiKey":   {who: merchants, action: manageKeys, admitted: notFound},
	"RevokeApiKey": {who: merchants, action: manageKeys, admitted: notFound},

	"CreateProgram":    {who: merchants, action: runPrograms, admitted: invalid},
	"ListPrograms":     {who: merchants, action: readDashboards, admitted: ok},
	"GetProgram":       {who: merchants, action: readDashboards, admitted: notFound},
	"UpdateProgram":    {who: merchants, action: runPrograms, admitted: notFound},
	"ActivateProgram":  {who: merchants, action: runPrograms, admitted: notFound},
	"PauseProgram":     {who: merchants, action: runPrograms, admitted: notFound},
	"ArchiveProgram":   {who: merchants, action: runPrograms, admitted: notFound},
	"ListProgramRules": {who: merchants, action: readDashboards, admitted: notFound},
	"ListGroups":       {who: merchants, action: readDashboards, admitted: notFound},
	"CreateGroup":      {who: merchants, action: runPrograms, admitted: invalid, body: object{"name": "Best", "percentage": 30}},
	"UpdateGroup":      {who: merchants, action: runPrograms, admitted: notFound},
	"DeleteGroup":      {who: merchants, action: runPrograms, admitted: notFound},

	"Apply":                   {who: partners, admitted: notFound},
	"ListParticipants":        {who: merchants, action: readDashboards, admitted: notFound},
	"GetParticipant":          {who: merchants, action: readDashboards, admitted: notFound},
	"ApproveParticipant":      {who: merchants, action: runPrograms, admitted: notFound},
	"RejectParticipant":       {who: merchants, action: runPrograms, admitted: notFound},
	"SuspendParticipant":      {who: merchants, action: runPrograms, admitted: notFound},
	"ReinstateParticipant":    {who: merchants, action: runPrograms, admitted: notFound},
	"AcceptParticipantInvite": {who: partners, admitted: invalid},
	"UpdateParticipant":       {who: merchants, action: runPrograms, admitted: notFound},
	"BulkApproveParticipants": {who: merchants, action: runPrograms, admitted: invalid, body: anyIDs, foreign: allFailed},
	"BulkRejectParticipants":  {who: merchants, action: runPrograms, admitted: invalid, body: anyIDs, foreign: allFailed},
	"InviteParticipant":       {who: merchants, action: runPrograms, admitted: invalid, body: object{"email": "somebody@example.com"}},
	"ListParticipantInvites":  {who: merchants, action: readDashboards, admitted: notFound},
	"RevokeParticipantInvite": {who: merchants, action: runPrograms, admitted: notFound},

	"ListPartnerPrograms":    {who: partners, admitted: ok},
	"GetPartnerProgram":      {who: partners, admitted: notFound},
	"ListPartnerCommissions": {who: partners, admitted: ok},
	"GetPartnerBalances":     {who: partners, admitted: ok},
	"GetPartnerSummary":      {who: partners, admitted: ok},
	"GetPartnerProfile":      {who: partners, admitted: ok},
	"UpdatePartnerProfile":   {who: partners, admitted: ok},
	"SetPayoutMethod":        {who: partners, admitted: invalid},

	"ListLinks":         {who: merchants, action: readDashboards, admitted: notFound},
	"CreateLink":        {who: merchants, action: runPrograms, admitted: invalid, body: object{"participantId": nowhere, "destinationUrl": "https://shop.example/"}},
	"GetLink":           {who: merchants, action: readDashboards, admitted: notFound},
	"UpdateLink":        {who: merchants, action: runPrograms, admitted: notFound},
	"DeleteLink":        {who: merchants, action: runPrograms, admitted: notFound},
	"ListPartnerLinks":  {who: partners, admitted: ok},
	"CreatePartnerLink": {who: partners, admitted: invalid},
	"UpdatePartnerLink": {who: partners, admitted: notFound},
	"DeletePartnerLink": {who: partners, admitted: notFound},

	"ListPromoCodes":        {who: merchants, action: readDashboards, admitted: notFound},
	"CreatePromoCode":       {who: merchants, action: runPrograms, admitted: invalid, body: object{"participantId": nowhere, "code": "SAVE", "discountType": "percentage", "discountValue": 10}},
	"GetPromoCode":          {who: merchants, action: readDashboards, admitted: notFound},
	"UpdatePromoCode":       {who: merchants, action: runPrograms, admitted: notFound},
	"DeletePromoCode":       {who: merchants, action: runPrograms, admitted: notFound},
	"ListPartnerPromoCodes": {who: partners, admitted: ok},

	"ReportConversion":      {who: secretKeys, admitted: invalid, refused: badKey},
	"ReportConversions":     {who: secretKeys, admitted: invalid, refused: badKey},
	"RefundConversion":      {who: secretKeys, admitted: invalid, refused: badKey},
	"ListConversions":       {who: readers, action: readDashboards, admitted: ok, refused: badKey},
	"GetConversion":         {who: readers, action: readDashboards, admitted: notFound, refused: badKey},
	"ReattributeConversion": {who: merchants, action: review, admitted: invalid, body: object{"participant_id": nowhere, "reason": "Mistaken"}},

	"GetDecision":              {who: secretKeys, admitted: notFound, refused: badSecret},
	"FindDecision":             {who: secretKeys, admitted: invalid, refused: badSecret},
	"GetAttributedClick":       {who: secretKeys, admitted: notFound, refused: badSecret},
	"ListDecisions":            {who: secretKeys, admitted: ok, refused: badSecret},
	"SimulateAttribution":      {who: secretKeys, admitted: invalid, refused: badSecret},
	"GetConversionAttribution": {who: merchants, action: readDashboards, admitted: notFound},

	"ListCommissions":           {who: merchants, action: readDashboards, admitted: ok},
	"ListProgramCommissions":    {who: merchants, action: readDashboards, admitted: notFound, foreign: forbidden},
	"GetCommissionStats":        {who: merchants, action: readDashboards, admitted: ok},
	"GetProgramCommissionStats": {who: merchants, action: readDashboards, admitted: notFound, foreign: forbidden},
	"ExportCommissions":         {who: merchants, action: readDashboards, admitted: ok},
	"ExportProgramCommissions":  {who: merchants, action: readDashboards, admitted: notFound, foreign: forbidden},
	"GetCommission":             {who: merchants, action: readDashboards, admitted: notFound},
	"ApproveCommission":         {who: merchants, action: review, admitted: notFound},
	"ApproveCommissionEarly":    {who: merchants, action: review, admitted: invalid, body: object{"reason": "Trusted"}},
	"RejectCommission":          {who: merchants, action: review, admitted: notFound},
	"ClearCommissionReview":     {who: merchants, action: review, admitted: notFound},
	"BulkApproveCommissions":    {who: merchants, action: review, admitted: invalid, body: object{"commissionIds": []string{nowhere}}, foreign: allFailed},
	"BulkRejectCommissions":     {who: merchants, action: review, admitted: invalid, body: object{"commissionIds": []string{nowhere}}, foreign: allFailed},

	"ListLedger":        {who: merchants, action: readDashboards, admitted: notFound},
	"CreateLedgerEntry": {who: merchants, action: managePayouts, admitted: invalid, body: object{"type": "bonus", "amountCents": 100, "reason": "Thanks"}},
	"ListPartnerLedger": {who: partners, admitted: ok},

	"PreviewPayouts":     {who: merchants, action: readDashboards, admitted: ok},
	"CreatePayoutBatch":  {who: merchants, action: managePayouts, admitted: outcome{http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED"}},
	"ListPayoutBatches":  {who: merchants, action: readDashboards, admitted: ok},
	"GetPayoutBatch":     {who: merchants, action: readDashboards, admitted: notFound},
	"ConfirmPayoutBatch": {who: merchants, action: managePayouts, admitted: notFound},
	"CancelPayoutBatch":  {who: merchants, action: managePayouts, admitted: notFound},
	"ExportPayoutBatch":  {who: merchants, action: managePayouts, admitted: notFound},
	"ListPayouts":        {who: merchants, action: readDashboards, admitted: ok},
	"GetPayout":          {who: merchants, action: readDashboards, admitted: notFound},
	"MarkPayoutPaid":     {who: merchants, action: managePayouts, admitted: invalid, body: object{"reference": "tx-1"}},
	"MarkPayoutFailed":   {who: merchants, action: managePayouts, admitted: invalid, body: object{"reason": "Bounced"}},
	"RetryPayout":        {who: merchants, action: managePayouts, admitted: notFound},
	"CancelPayout":       {who: merchants, action: managePayouts, admitted: notFound},
	"ListPartnerPayouts": {who: partners, admitted: ok},

	"GetFraudPolicy":    {who: merchants, action: readDashboards, admitted: notFound},
	"PutFraudPolicy":    {who: merchants, action: runPrograms, admitted: invalid, body: object{"policy": "observe"}},
	"ListFraudEvents":   {who: merchants, action: readDashboards, admitted: ok},
	"ResolveFraudEvent": {who: merchants, action: review, admitted: invalid, body: object{"outcome": "dismissed"}},

	"ListWebhooks":        {who: merchants, action: readDashboards, admitted: ok},
	"CreateWebhook":       {who: merchants, action: manageKeys, admitted: invalid},
	"GetWebhook":          {who: merchants, action: readDashboards, admitted: noWebhook},
	"ListEventTypes":      {who: merchants, action: readDashboards, admitted: ok},
	"UpdateWebhook":       {who: merchants, action: manageKeys, admitted: noWebhook},
	"DeleteWebhook":       {who: merchants, action: manageKeys, admitted: noWebhook},
	"RotateWebhookSecret": {who: merchants, action: manageKeys, admitted: noWebhook},
	"TestWebhook":         {who: merchants, action: manageKeys, admitted: noWebhook},
	"ListDeliveries":      {who: merchants, action: readDashboards, admitted: noWebhook},
	"GetDelivery":         {who: merchants, action: readDashboards, admitted: noWebhook},
	"RetryDelivery":       {who: merchants, action: manageKeys, admitted: noWebhook},
	"RecoverDeliveries":   {who: merchants, action: manageKeys, admitted: invalid, body: object{"since": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}},
}

// takes tells whether a good credential of a kind may call.
func (r rule) takes(good string) bool {
	if r.who == readers {
		return good == secretKeys || good == merchants
	}
	return r.who == anyone || r.who == good
}

// sent is the body, as a request takes it.
func (r rule) sent() any {
	if r.body == nil {
		return nil
	}
	return r.body
}

// refusal is what the route says to a caller whose credential is missing or bad.
func (r rule) refusal() outcome {
	if r.refused != (outcome{}) {
		return r.refused
	}
	return unauthorized
}
