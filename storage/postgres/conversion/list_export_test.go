package conversion

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
)

// ConversionListSQL returns the statements for a page of conversions and for the total,
// and the arguments of both.
func ConversionListSQL(scope affiliate.Scope, filter conversion.Filter, page affiliate.Page) (list, count string, args pgx.NamedArgs) {
	list, count = conversionListSQL(filter)
	return list, count, conversionListArgs(scope, filter, page)
}
