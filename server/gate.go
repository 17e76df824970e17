package server

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// gate implements GateService. The interceptors have admitted every caller that
// reaches it.
type gate struct {
	affiliatev1.UnimplementedGateServiceServer
	// services holds the implementation of each method.
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

// Admit validates the part of a request that the gateway could decode, so that a
// client gets these faults together with those of the gateway.
func (g gate) Admit(_ context.Context, req *affiliatev1.AdmitRequest) (*affiliatev1.AdmitResponse, error) {
	response := &affiliatev1.AdmitResponse{}
	if req.GetRequest() == nil {
		return response, nil
	}
	want, err := requestOf(req.GetMethod())
	if err != nil {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err := req.GetRequest().UnmarshalTo(want); err != nil {
		return nil, affiliate.Invalid("request", "must be a request of the method")
	}
	var refused *affiliate.Error
	if errors.As(validate(g.services[req.GetMethod()], want), &refused) {
		for _, v := range refused.Violations {
			response.Violations = append(response.Violations, &affiliatev1.AdmitViolation{Field: v.Field, Message: v.Message})
		}
	}
	return response, nil
}
