package link

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
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

// Check implements server.Checker. It does not check the host of the destination. The
// transaction checks the host, because the allowed hosts are a setting of the programme in
// the database.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case createRequest:
		checkURL(req.GetDestinationUrl(), &found)
		if link.ReservedCode(req.GetCode()) {
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
