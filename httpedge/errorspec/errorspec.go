// Package errorspec reads the HTTP status, the gRPC code and the standard message of
// every error reason from the options of two enums: affiliate.v1.ErrorReason, and
// landing.v1.ErrorReason with the reasons that only the landing service has.
//
// The core, the gateway, the landing service and the documentation use this package, so
// they all have the same values. The values do not change after the start of the process.
package errorspec

import (
	"slices"
	"strconv"
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
	byReason = index(slices.Concat(all, landing))
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

func index(specs []Spec) map[affiliate.Reason]*Spec {
	table := make(map[affiliate.Reason]*Spec)
	for i := range specs {
		table[specs[i].Reason] = &specs[i]
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

// ContextField is a fact that an error may contain. In gRPC it is a value in the metadata
// of google.rpc.ErrorInfo, in REST a field of `context`.
type ContextField struct {
	Key         string // in the metadata
	Name        string // in REST
	Number      bool   // in REST; true: a number, false: a string
	Description string
}

// contextFields does not contain retry_after, challenge and missing_permissions. REST
// responses have these values in a header and beside the error.
var contextFields = []ContextField{
	{Key: affiliate.AllowedHosts, Name: "allowedHosts", Description: "The hosts that a destination may have, separated by a comma and a space. At most ten."},
	{Key: affiliate.BooksClosedUntil, Name: "booksClosedUntil", Description: "The end of the closed periods, RFC 3339 in UTC."},
	{Key: affiliate.ProtectedCategory, Name: "category", Description: "The category of notifications that cannot be disabled."},
	{Key: affiliate.DuplicateOf, Name: "conversionId", Description: "The conversion that already has the id of the report."},
	{Key: affiliate.HoldUntil, Name: "holdUntil", Description: "The end of the hold period, RFC 3339 in UTC."},
	{Key: affiliate.GroupMembers, Name: "participants", Number: true, Description: "The number of participants in the group."},
	{Key: affiliate.ExcludedBecause, Name: "reason", Description: "The reason why no payout can be made, as in `excludedBecause` of a preview."},
	{Key: affiliate.RefundableCents, Name: "refundableCents", Number: true, Description: "The part of the sale that is not refunded yet, in minor units."},
	{Key: affiliate.CurrentStatus, Name: "status", Description: "The status of the record, which does not allow the request."},
}

// ContextFields returns all fields of `context`, ordered by name. The caller must not
// change the slice.
func ContextFields() []ContextField { return contextFields }

// Context returns the field `context` of a REST error for the metadata of
// google.rpc.ErrorInfo. It is empty if the metadata has no such field.
func Context(metadata map[string]string) map[string]any {
	facts := map[string]any{}
	for _, field := range contextFields {
		text, ok := metadata[field.Key]
		if !ok {
			continue
		}
		facts[field.Name] = text
		if number, err := strconv.ParseInt(text, 10, 64); field.Number && err == nil {
			facts[field.Name] = number
		}
	}
	return facts
}
