package analytics

import (
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker. The reports check what only some of the routes require.
func (s *Service) Check(message proto.Message) affiliate.Violations {
	req, ok := message.(request)
	if !ok {
		return nil
	}
	_, found := analytics.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone(), s.now())
	server.CheckEnum("compare", req.GetCompare(), &found)
	server.CheckEnum("interval", req.GetInterval(), &found)
	server.CheckEnum("group_by", req.GetGroupBy(), &found)
	server.CheckEnum("format", req.GetFormat(), &found)
	return found
}
