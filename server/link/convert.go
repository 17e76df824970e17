package link

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func (s *Service) toProto(l link.Link) *affiliatev1.Link {
	object := l.Object()
	out := &affiliatev1.Link{
		Id:             l.ID.String(),
		ProgramId:      l.Program.String(),
		ProgramName:    l.ProgramName,
		ParticipantId:  l.Participant.String(),
		PartnerName:    l.PartnerName,
		Code:           l.Code,
		DestinationUrl: l.Page,
		Url:            l.URL(),
		SubId:          object.SubID,
		Utm: &affiliatev1.Utm{
			Source: object.UTM.Source, Medium: object.UTM.Medium, Campaign: object.UTM.Campaign,
			Term: object.UTM.Term, Content: object.UTM.Content,
		},
		IsDefault:   l.IsDefault,
		Clicks:      l.Clicks,
		Conversions: l.Conversions,
		CreatedAt:   server.Timestamp(l.CreatedAt),
		UpdatedAt:   server.Timestamp(l.UpdatedAt),
	}
	if l.Destination != nil {
		out.DestinationUrl = *l.Destination
	}
	if s.host != "" {
		short := s.host + "/r/" + l.ShortKey
		out.ShortUrl = &short
	}
	return out
}

func (s *Service) response(l link.Link, err error) (*affiliatev1.Link, error) {
	if err != nil {
		return nil, err
	}
	return s.toProto(l), nil
}

func (s *Service) listResponse(links []link.Link, total int64, page affiliate.Page) *affiliatev1.ListLinksResponse {
	return &affiliatev1.ListLinksResponse{
		Data: server.ConvertAll(links, s.toProto), Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}
}

// patchOf returns the changes of the fields that the request's mask names. Check has
// validated the mask. An empty text clears the field. The mask can name the whole object
// "utm". The change then sets the UTM parameters that are present in the object and keeps
// the other parameters. If the object is absent in the request, the change clears all UTM
// parameters.
func patchOf(req updateRequest) link.Patch {
	paths, utm := req.GetUpdateMask().GetPaths(), req.GetUtm()
	text := func(path, value string) affiliate.Change[string] {
		switch {
		case !slices.Contains(paths, path):
			return affiliate.Change[string]{}
		case value == "":
			return affiliate.Clear[string]()
		}
		return affiliate.Set(value)
	}
	wholeUTM := slices.Contains(paths, "utm")
	parameter := func(path, value string) affiliate.Change[string] {
		if wholeUTM && value != "" {
			return affiliate.Set(value)
		}
		return text(path, value)
	}
	return link.Patch{
		Destination: text("destination_url", req.GetDestinationUrl()),
		SubID:       text("sub_id", req.GetSubId()),
		UTM: link.UTMPatch{
			Reset:    wholeUTM && utm == nil,
			Source:   parameter("utm.source", utm.GetSource()),
			Medium:   parameter("utm.medium", utm.GetMedium()),
			Campaign: parameter("utm.campaign", utm.GetCampaign()),
			Term:     parameter("utm.term", utm.GetTerm()),
			Content:  parameter("utm.content", utm.GetContent()),
		},
	}
}

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
