package contract

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// EnumName is one value of an enum in the spelling of the REST API.
type EnumName struct {
	Number protoreflect.EnumNumber
	Text   string
}

// EnumNames returns the values of an enum with their names in the REST API. These names
// are in lower case and have no prefix: COMMISSION_STATUS_PENDING becomes pending. The
// prefix is the name of the zero value without UNSPECIFIED. The result does not contain
// the zero value, which is null in the REST API.
func EnumNames(enum protoreflect.EnumDescriptor) ([]EnumName, error) {
	values := enum.Values()
	zero := values.ByNumber(0)
	if zero == nil {
		return nil, fmt.Errorf("enum %s has no zero value", enum.FullName())
	}
	prefix, ok := strings.CutSuffix(string(zero.Name()), "UNSPECIFIED")
	if !ok {
		return nil, fmt.Errorf("enum %s: the zero value must end in UNSPECIFIED", enum.FullName())
	}
	names := make([]EnumName, 0, values.Len()-1)
	for i := range values.Len() {
		value := values.Get(i)
		if value.Number() == 0 {
			continue
		}
		text, ok := strings.CutPrefix(string(value.Name()), prefix)
		if !ok || text == "" {
			return nil, fmt.Errorf("enum value %s lacks the prefix %s", value.FullName(), prefix)
		}
		names = append(names, EnumName{value.Number(), strings.ToLower(text)})
	}
	return names, nil
}

// enumAliases are further names of enum values in requests, by enum.
var enumAliases = map[protoreflect.FullName]map[string]string{
	"affiliate.v1.AnalyticsDimension": {"partner": "participant"},
}

// EnumAliases returns further names that requests may use for the values of an enum. A key
// is such a name, and its value the name in EnumNames.
func EnumAliases(enum protoreflect.EnumDescriptor) map[string]string {
	return enumAliases[enum.FullName()]
}
