package partner

import (
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.ListPartnerCommissionsRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	case *affiliatev1.UpdatePartnerProfileRequest:
		checkProfile(req, &found)
	case *affiliatev1.SetPayoutMethodRequest:
		_, found = payoutAccount(req)
	}
	return found
}

func checkProfile(req *affiliatev1.UpdatePartnerProfileRequest, found *affiliate.Violations) {
	server.CheckMask(req, found, "name")
	server.CheckName("name", req.GetName(), found)
	if req.WebsiteUrl != nil {
		if _, ok := affiliate.ParseWebURL(req.GetWebsiteUrl()); !ok {
			found.Add("website_url", affiliate.MustBeWebURL)
		}
	}
}

// patchOf returns the changes of the fields that are listed in the request's mask. Check
// has validated the mask.
func patchOf(req *affiliatev1.UpdatePartnerProfileRequest) partner.ProfilePatch {
	var patch partner.ProfilePatch
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "name":
			patch.Name = affiliate.Set(req.GetName())
		case "country":
			patch.Country = setOrClear(req.Country)
		case "company_name":
			patch.CompanyName = setOrClear(req.CompanyName)
		case "website_url":
			patch.WebsiteURL = setOrClear(req.WebsiteUrl)
		}
	}
	return patch
}

// setOrClear returns a change that sets a field to value. If value is nil or empty, the
// change clears the field.
func setOrClear(value *string) affiliate.Change[string] {
	if value == nil || *value == "" {
		return affiliate.Clear[string]()
	}
	return affiliate.Set(*value)
}

// payoutAccount returns the payout account in the request, and its violations.
func payoutAccount(req *affiliatev1.SetPayoutMethodRequest) (payout.Account, affiliate.Violations) {
	return payout.ParsePayoutAccount(payout.Method(server.EnumName(req.GetMethod())), req.Account, req.AccountHolder)
}
