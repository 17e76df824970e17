package workspace

import (
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// patchOf returns the changes of the settings that the request's mask names. Check has
// validated the mask.
func patchOf(req *affiliatev1.UpdateWorkspaceRequest) account.WorkspacePatch {
	var patch account.WorkspacePatch
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "name":
			patch.Name = affiliate.Set(req.GetName())
		case "currency":
			currency, _ := affiliate.ParseCurrency(req.GetCurrency())
			patch.Currency = affiliate.Set(currency)
		case "timezone":
			patch.Timezone = affiliate.Set(req.GetTimezone())
		case "allowed_origins":
			patch.AllowedOrigins = affiliate.Set(normalOrigins(req.GetAllowedOrigins()))
		case "origin_policy":
			patch.OriginPolicy = affiliate.Clear[account.OriginPolicy]()
			if policy := server.EnumName(req.GetOriginPolicy()); policy != "" {
				patch.OriginPolicy = affiliate.Set(account.OriginPolicy(policy))
			}
		case "payout_approval", "payout_approval.second_person_above_cents":
			patch.SecondPersonAboveCents = affiliate.Clear[int64]()
			if approval := req.GetPayoutApproval(); approval != nil && approval.SecondPersonAboveCents != nil {
				patch.SecondPersonAboveCents = affiliate.Set(approval.GetSecondPersonAboveCents())
			}
		case "require_second_factor":
			patch.RequireSecondFactor = affiliate.Set(req.GetRequireSecondFactor())
		case "retain_payee_years":
			patch.RetainPayeeYears = affiliate.Set(int(req.GetRetainPayeeYears()))
		case "test_mail_redirect":
			patch.TestMailRedirect = affiliate.Clear[string]()
			if req.TestMailRedirect != nil {
				patch.TestMailRedirect = affiliate.Set(strings.ToLower(req.GetTestMailRedirect()))
			}
		}
	}
	return patch
}

// booksClosedUntilOf returns the date or time up to which the request closes the books. It
// is empty if the request's mask does not name the field.
func booksClosedUntilOf(req *affiliatev1.UpdateWorkspaceRequest) string {
	if !slices.Contains(req.GetUpdateMask().GetPaths(), "books_closed_until") {
		return ""
	}
	return req.GetBooksClosedUntil()
}

// normalOrigins returns the origins in normalised form and without duplicates, in their
// original order. Check has rejected invalid origins.
func normalOrigins(origins []string) []string {
	normal := make([]string, 0, len(origins))
	for _, origin := range origins {
		if o, ok := affiliate.ParseOrigin(origin); ok && !slices.Contains(normal, o) {
			normal = append(normal, o)
		}
	}
	return normal
}
