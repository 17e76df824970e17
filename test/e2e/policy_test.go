package e2e_test

import "net/http"

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
	badKey       = outcome{http.StatusUnauthorized, "INVALID_API_KEY"}
	forbidden    = outcome{http.StatusForbidden, "FORBIDDEN"}
	notFound     = outcome{http.StatusNotFound, "NOT_FOUND"}
)

// Who may call (SPEC.md sections 4 and 5).
const (
	anyone     = "anyone"
	merchants  = "merchant token"
	partners   = "partner token"
	secretKeys = "secret key"
)

// Rows of the role matrix (DECISIONS.md section 11).
const (
	readDashboards = "read all dashboards"
	runPrograms    = "programmes, partners, links, codes"
	review         = "approve / reject / override / review"
	manageKeys     = "webhooks, API keys, processor"
)

var allRoles = []string{"owner", "admin", "manager", "finance", "developer", "viewer"}

var matrix = map[string][]string{
	readDashboards: allRoles,
	runPrograms:    {"owner", "admin", "manager"},
	review:         {"owner", "admin", "manager", "finance"},
	manageKeys:     {"owner", "admin", "developer"},
}

// rule says what an RPC demands, and what it answers to an admitted caller who
// sends ids that do not exist and no body.
type rule struct {
	who      string
	action   string
	admitted outcome
	// foreign answers for another workspace's ids where that is not 404.
	foreign outcome
}

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

	"GetApiKeys":   {who: merchants, action: readDashboards, admitted: ok},
	"CreateApiKey": {who: merchants, action: manageKeys, admitted: invalid},

	"CreateProgram":   {who: merchants, action: runPrograms, admitted: invalid},
	"ListPrograms":    {who: merchants, action: readDashboards, admitted: ok},
	"GetProgram":      {who: merchants, action: readDashboards, admitted: notFound},
	"UpdateProgram":   {who: merchants, action: runPrograms, admitted: notFound},
	"ActivateProgram": {who: merchants, action: runPrograms, admitted: notFound},
	"PauseProgram":    {who: merchants, action: runPrograms, admitted: notFound},
	"ArchiveProgram":  {who: merchants, action: runPrograms, admitted: notFound},

	"Apply":                {who: partners, admitted: notFound},
	"ListParticipants":     {who: merchants, action: readDashboards, admitted: notFound},
	"GetParticipant":       {who: merchants, action: readDashboards, admitted: notFound},
	"ApproveParticipant":   {who: merchants, action: runPrograms, admitted: notFound},
	"RejectParticipant":    {who: merchants, action: runPrograms, admitted: notFound},
	"SuspendParticipant":   {who: merchants, action: runPrograms, admitted: notFound},
	"ReinstateParticipant": {who: merchants, action: runPrograms, admitted: notFound},

	"ReportConversion": {who: secretKeys, admitted: invalid},

	"ListCommissions":        {who: merchants, action: readDashboards, admitted: ok},
	"ListProgramCommissions": {who: merchants, action: readDashboards, admitted: notFound, foreign: forbidden},
	"GetCommission":          {who: merchants, action: readDashboards, admitted: notFound},
	"ApproveCommission":      {who: merchants, action: review, admitted: notFound},
	"RejectCommission":       {who: merchants, action: review, admitted: notFound},
}

// refusal is what the route says to a caller whose credential is missing or bad.
func (r rule) refusal() outcome {
	if r.who == secretKeys {
		return badKey
	}
	return unauthorized
}
