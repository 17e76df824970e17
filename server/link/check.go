package link

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// update is a request that changes a link, the merchant's or the partner's.
type update interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
	GetDestinationUrl() string
	GetSubId() string
	GetUtm() *affiliatev1.Utm
}

// Check reports what is wrong with a request by itself. Which hosts a link may
// lead to is known only with the programme at hand.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case creation:
		checkURL(req.GetDestinationUrl(), &found)
		if affiliate.ReservedCode(req.GetCode()) {
			found.Add("code", "must not be a reserved word")
		}
	case update:
		server.CheckMask(req, &found)
		m := req.ProtoReflect()
		if m.Has(m.Descriptor().Fields().ByName("destination_url")) {
			checkURL(req.GetDestinationUrl(), &found)
		}
	}
	return found
}

func checkURL(text string, found *affiliate.Violations) {
	if _, ok := affiliate.ParseWebURL(text); !ok {
		found.Add("destination_url", affiliate.MustBeWebURL)
	}
}
