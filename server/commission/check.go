package commission

import (
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker. It validates dates, time zones and enum values.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	if list, ok := req.(filterRequest); ok {
		_, found = affiliate.ParsePeriod(list.GetDateFrom(), list.GetDateTo(), list.GetTimezone())
		server.CheckEnum("status", list.GetStatus(), &found)
	}
	if list, ok := req.(orderRequest); ok {
		server.CheckEnum("sort_order", list.GetSortOrder(), &found)
	}
	if rejection, ok := req.(interface {
		GetCode() affiliatev1.RejectionCode
	}); ok {
		server.CheckEnum("code", rejection.GetCode(), &found)
	}
	return found
}
