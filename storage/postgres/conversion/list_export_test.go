package conversion

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
)

// ConversionListSQL returns the statements for a page of conversions and for the total,
// and their arguments. The filter by a partner is a filter by all its participants.
func ConversionListSQL(
	scope affiliate.Scope, filter conversion.Filter, participants []affiliate.ParticipantID, page affiliate.Page,
) (list string, listArgs []any, count string, countArgs []any) {
	where := conversionConditions(scope, filter)
	list, count = conversionListSQL(&where, participants)
	return list, append(append([]any{}, where.Args...), page.Size, page.Offset()), count, where.Args
}
