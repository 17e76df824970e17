package link

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// updateRequest is the request of a merchant or a partner to change a link.
type updateRequest interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
	GetDestinationUrl() string
	GetSubId() string
	GetUtm() *affiliatev1.Utm
}

// Check validates req as far as that is possible without the database. The store checks
// the host of the destination, because the programme lists the allowed hosts.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case createRequest:
		checkURL(req.GetDestinationUrl(), &found)
		if affiliate.ReservedCode(req.GetCode()) {
			found.Add("code", "must not be a reserved word")
		}
	case updateRequest:
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
