// Package errorspec reads the HTTP status, the gRPC code and the standard message of
// every error reason from the options of two enums: affiliate.v1.ErrorReason, and
// landing.v1.ErrorReason with the reasons that only the landing service has.
//
// The core, the gateway, the landing service and the documentation use this package, so
// they all have the same values. The values do not change after the start of the process.
package errorspec

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
)

// Spec is one value of ErrorReason.
type Spec struct {
	Reason affiliate.Reason
	// Value is the name of the enum value, such as ERROR_REASON_NOT_FOUND.
	Value string
	// HTTPStatus is the status of the REST response.
	HTTPStatus int
	// GRPCCode is the google.rpc.Code of the gRPC response.
	GRPCCode uint32
	// Message is the message of an error response that sets no other message.
	Message string
}

const prefix = "ERROR_REASON_"

// all and landing contain the specs in the order of their enums. byReason contains the
// specs of both.
var (
	all      = read(affiliatev1.ErrorReason(0).Descriptor())
	landing  = read(landingv1.ErrorReason(0).Descriptor())
	byReason = index(all, landing)
)

func read(enum protoreflect.EnumDescriptor) []Spec {
	values := enum.Values()
	specs := make([]Spec, 0, values.Len())
	for i := range values.Len() {
		value := values.Get(i)
		option, ok := proto.GetExtension(value.Options(), affiliatev1.E_Error).(*affiliatev1.ErrorSpec)
		if !ok || option == nil {
			continue
		}
		specs = append(specs, Spec{
			Reason:     affiliate.Reason(strings.TrimPrefix(string(value.Name()), prefix)),
			Value:      string(value.Name()),
			HTTPStatus: int(option.GetHttpStatus()),
			GRPCCode:   uint32(option.GetGrpcCode()), // #nosec G115 -- google.rpc.Code has 17 values
			Message:    option.GetMessage(),
		})
	}
	return specs
}

func index(lists ...[]Spec) map[affiliate.Reason]*Spec {
	table := make(map[affiliate.Reason]*Spec)
	for _, specs := range lists {
		for i := range specs {
			table[specs[i].Reason] = &specs[i]
		}
	}
	return table
}

// ByReason returns the Spec of a reason, or nil if no enum contains the reason.
func ByReason(reason affiliate.Reason) *Spec { return byReason[reason] }

// All returns the specs of affiliate.v1.ErrorReason in the order of the enum. The caller
// must not change the slice.
func All() []Spec { return all }

// Landing returns the specs of landing.v1.ErrorReason in the order of the enum. The caller
// must not change the slice.
func Landing() []Spec { return landing }
