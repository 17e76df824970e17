package server

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// gate implements GateService. A gateway calls GateService when it cannot decode all
// fields of an HTTP request. The call runs the interceptors with the policy of the method
// that the HTTP request was for, so the caller is checked before the response says
// anything about the fields.
type gate struct {
	affiliatev1.UnimplementedGateServiceServer
	// services maps a method's full name to the service that implements it.
	services map[string]any
}

func newGate(services []Service) gate {
	g := gate{services: map[string]any{}}
	for _, service := range services {
		for _, method := range service.Desc.Methods {
			g.services["/"+service.Desc.ServiceName+"/"+method.MethodName] = service.Impl
		}
		for _, stream := range service.Desc.Streams {
			g.services["/"+service.Desc.ServiceName+"/"+stream.StreamName] = service.Impl
		}
	}
	return g
}

// Admit validates the fields of a request that the gateway could decode, and returns
// their violations. The gateway adds violations for the fields that it could not decode
// and reports all violations together.
func (g gate) Admit(ctx context.Context, req *affiliatev1.AdmitRequest) (*affiliatev1.AdmitResponse, error) {
	found := checkKeyAccepted(ctx, admissionFrom(ctx).policy)
	if req.GetRequest() == nil {
		return admitResponse(found), nil
	}
	decoded, err := requestOf(req.GetMethod())
	if err != nil {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err := req.GetRequest().UnmarshalTo(decoded); err != nil {
		return nil, affiliate.Invalid("request", "must be a request of the method")
	}
	return admitResponse(append(validate(g.services[req.GetMethod()], decoded), found...)), nil
}

func admitResponse(found affiliate.Violations) *affiliatev1.AdmitResponse {
	response := &affiliatev1.AdmitResponse{}
	for _, v := range found {
		response.Violations = append(response.Violations, &affiliatev1.AdmitViolation{Field: v.Field, Message: v.Message})
	}
	return response
}
