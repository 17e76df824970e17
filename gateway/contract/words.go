package contract

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Word is one value of an enum as clients write it.
type Word struct {
	Number protoreflect.EnumNumber
	Text   string
}

// Words turns COMMISSION_STATUS_PENDING into pending: the values in lower case
// without the prefix that the zero value X_UNSPECIFIED shows. The zero value
// itself has no word: it is null.
func Words(enum protoreflect.EnumDescriptor) ([]Word, error) {
	values := enum.Values()
	zero := values.ByNumber(0)
	if zero == nil {
		return nil, fmt.Errorf("enum %s has no zero value", enum.FullName())
	}
	prefix, ok := strings.CutSuffix(string(zero.Name()), "UNSPECIFIED")
	if !ok {
		return nil, fmt.Errorf("enum %s: the zero value must end in UNSPECIFIED", enum.FullName())
	}
	words := make([]Word, 0, values.Len()-1)
	for i := range values.Len() {
		value := values.Get(i)
		if value.Number() == 0 {
			continue
		}
		text, ok := strings.CutPrefix(string(value.Name()), prefix)
		if !ok || text == "" {
			return nil, fmt.Errorf("enum value %s lacks the prefix %s", value.FullName(), prefix)
		}
		words = append(words, Word{value.Number(), strings.ToLower(text)})
	}
	return words, nil
}
