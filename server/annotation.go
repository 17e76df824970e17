package server

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// annotationMessages turn the sentences of protoc-gen-validate into the style of
// the API: a predicate that says what is accepted.
var annotationMessages = []struct {
	reason  *regexp.Regexp
	message string
}{
	{regexp.MustCompile(`^value is required$`), "is required"},
	{regexp.MustCompile(`^value must be a valid UUID.*`), "must be a UUID"},
	{regexp.MustCompile(`^value must be a valid email address.*`), "must be an e-mail address"},
	{regexp.MustCompile(`^value must be (?:a valid URI|absolute).*`), "must be an absolute URL"},
	{regexp.MustCompile(`^value length must be between (\d+) and (\d+) (?:runes|characters), inclusive$`), "must have $1 to $2 characters"},
	{regexp.MustCompile(`^value length must be at least 1 runes$`), "must not be empty"},
	{regexp.MustCompile(`^value length must be at least (\d+) runes$`), "must have at least $1 characters"},
	{regexp.MustCompile(`^value length must be at most (\d+) runes$`), "must have at most $1 characters"},
	{regexp.MustCompile(`^value length must be (\d+) runes$`), "must have $1 characters"},
	{regexp.MustCompile(`^value length must be at most (\d+) bytes$`), "must have at most $1 bytes"},
	{regexp.MustCompile(`^value length must be between (\d+) and (\d+) bytes, inclusive$`), "must have $1 to $2 bytes"},
	{regexp.MustCompile(`^value must be inside range \[(\S+), (\S+)\]$`), "must be from $1 to $2"},
	{regexp.MustCompile(`^value must be greater than or equal to (\S+)$`), "must be at least $1"},
	{regexp.MustCompile(`^value must be less than or equal to (\S+)$`), "must be at most $1"},
	{regexp.MustCompile(`^value must contain between (\d+) and (\d+) items, inclusive$`), "must have $1 to $2 items"},
	{regexp.MustCompile(`^value must contain at least (\d+) item\(s\)$`), "must have at least $1 items"},
	{regexp.MustCompile(`^value must contain no more than (\d+) item\(s\)$`), "must have at most $1 items"},
	{regexp.MustCompile(`^value must contain (?:no more than|at most) (\d+) pair\(s\)$`), "must have at most $1 keys"},
	{regexp.MustCompile(`^repeated value must contain unique items$`), "must not repeat an item"},
	{regexp.MustCompile(`^value does not match regex pattern "(.*)"$`), "must match the pattern $1"},
	{regexp.MustCompile(`^value must equal (.*)$`), "must be $1"},
}

// annotationList is what protoc-gen-validate says of a list of values.
var annotationList = regexp.MustCompile(`^value must (not )?be in list \[(.*)\]$`)

// annotationMessage says in the API's words what an annotation of a field found.
func annotationMessage(reason string, field protoreflect.FieldDescriptor) string {
	if field != nil && field.Enum() != nil {
		return "must be one of " + strings.Join(enumWords(field.Enum(), reason), ", ")
	}
	if list := annotationList.FindStringSubmatch(reason); list != nil {
		values := strings.Join(strings.Fields(list[2]), ", ")
		if list[1] != "" {
			return "must not be one of " + values
		}
		return "must be one of " + values
	}
	for _, m := range annotationMessages {
		if m.reason.MatchString(reason) {
			return plainNumbers(m.reason.ReplaceAllString(reason, m.message))
		}
	}
	return strings.TrimPrefix(reason, "value ")
}

var powerOfTen = regexp.MustCompile(`\d+e\+\d+\b`)

// plainNumbers writes numbers such as 1e+12 with all their digits.
func plainNumbers(message string) string {
	return powerOfTen.ReplaceAllStringFunc(message, func(text string) string {
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return text
		}
		return strconv.FormatFloat(number, 'f', -1, 64)
	})
}

// enumWords are the words of an enum that a field accepts: those of the list in
// reason, or all.
func enumWords(enum protoreflect.EnumDescriptor, reason string) []string {
	var listed []string
	list := annotationList.FindStringSubmatch(reason)
	if list != nil {
		listed = strings.Fields(list[2])
	}
	var words []string
	for i := range enum.Values().Len() {
		value := enum.Values().Get(i)
		named := slices.Contains(listed, string(value.Name()))
		if value.Number() == 0 || list != nil && list[1] == "" && !named || list != nil && list[1] != "" && named {
			continue
		}
		words = append(words, strings.ToLower(strings.TrimPrefix(string(value.Name()), enumPrefix(enum))))
	}
	return words
}
