package errorspec

import (
	"strconv"

	"github.com/tributary-hq/tributary/affiliate"
)

// ContextField is a fact that an error may contain. In gRPC it is a value in the metadata
// of google.rpc.ErrorInfo, in REST a field of `context`.
type ContextField struct {
	Key         string // in the metadata
	Name        string // in REST
	Number      bool   // false: a string
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
