// Package errorspec reads the HTTP status, the gRPC code and the standard message of
// every error reason from the options of the ErrorReason enum.
//
// The core, the gateway and the documentation use this package, so they all have the same
// values. The values do not change after the start of the process.
package errorspec

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
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

// all contains the specs in the order of the enum.
var all, byReason = read()

func read() ([]Spec, map[affiliate.Reason]*Spec) {
	values := affiliatev1.ErrorReason(0).Descriptor().Values()
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
	table := make(map[affiliate.Reason]*Spec, len(specs))
	for i := range specs {
		table[specs[i].Reason] = &specs[i]
	}
	return specs, table
}

// ByReason returns the Spec of a reason, or nil if the enum does not contain the reason.
func ByReason(reason affiliate.Reason) *Spec { return byReason[reason] }

// All returns all specs in the order of the enum. The caller must not change the slice.
func All() []Spec { return all }
