package workspace

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.UpdateWorkspaceRequest:
		server.CheckMask(req, &found, "name", "currency", "timezone", "books_closed_until")
		server.CheckName("name", req.GetName(), &found)
		checkSettings(req, &found)
	case *affiliatev1.CreateInviteRequest:
		checkAddress("email", req.GetEmail(), &found)
	case *affiliatev1.CreateApiKeyRequest:
		if req.GetExpiresAt() != nil && !req.GetExpiresAt().AsTime().After(s.now()) {
			found.Add("expires_at", affiliate.MustBeInFuture)
		}
	case auditRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	}
	return found
}

func checkSettings(req *affiliatev1.UpdateWorkspaceRequest, found *affiliate.Violations) {
	if currency := req.GetCurrency(); currency != "" {
		if _, ok := affiliate.ParseCurrency(currency); !ok {
			found.Add("currency", affiliate.MustBeCurrency)
		}
	}
	if timezone := req.GetTimezone(); timezone != "" && !account.ValidTimezone(timezone) {
		found.Add("timezone", affiliate.MustBeTimezone)
	}
	for i, origin := range req.GetAllowedOrigins() {
		if _, ok := affiliate.ParseOrigin(origin); !ok {
			found.Add(fmt.Sprintf("allowed_origins[%d]", i), "must be an origin, for example https://shop.example.com or https://*.example.com")
		}
	}
	if req.TestMailRedirect != nil {
		checkAddress("test_mail_redirect", req.GetTestMailRedirect(), found)
	}
}

func checkAddress(field, email string, found *affiliate.Violations) {
	if !account.BareAddress(email) {
		found.Add(field, affiliate.MustBeEmail)
	}
}
