package server

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
)

// annotationMessages translates error messages of protoc-gen-validate into messages of
// this API. protoc-gen-validate generates the validation code for the annotations in the
// proto files. Messages of this API start with a verb and state which values are
// accepted. In a message, $1 and $2 are the groups of the regular expression.
var annotationMessages = []struct {
	reason  *regexp.Regexp
	message string
}{
	{regexp.MustCompile(`^value is required$`), affiliate.IsRequired},
	{regexp.MustCompile(`^value must be a valid UUID.*`), affiliate.MustBeUUID},
	{regexp.MustCompile(`^value must be a valid email address.*`), affiliate.MustBeEmail},
	{regexp.MustCompile(`^value must be (?:a valid URI|absolute).*`), "must be an absolute URL"},
	{regexp.MustCompile(`^value length must be between (\d+) and (\d+) (?:runes|characters), inclusive$`), "must have $1 to $2 characters"},
	{regexp.MustCompile(`^value length must be at least 1 runes$`), affiliate.MustNotBeEmpty},
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
	{regexp.MustCompile(`^value must equal (.*)$`), "must be $1"},
}

// patternReason matches the error message of protoc-gen-validate for a text that violates
// a regular expression. The group is that regular expression as a Go string literal.
var patternReason = regexp.MustCompile(`^value does not match regex pattern (".*")$`)

var patternMessages = map[string]string{
	`^[A-Z]{2}$`:                             "must be an ISO 3166 country code of 2 capital letters",
	`^[A-Z]{3}$`:                             "must be an ISO 4217 currency code of 3 capital letters",
	`^[A-Za-z]{3}$`:                          affiliate.MustBeCurrency,
	`^[A-Za-z0-9_-]{3,50}$`:                  "must be 3 to 50 letters, digits, hyphens and underscores",
	`^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$`: "must be 1 to 64 lower-case letters, digits and hyphens without a hyphen at either end",
	`^[a-zA-Z][a-zA-Z0-9_-]{0,31}$`:          "must be 1 to 32 letters, digits, hyphens and underscores and begin with a letter",
	`^[a-z_]+\.([a-z_]+|\*)$`:                "must be an action such as commission.approved, or all actions of a noun such as commission.*",
	`^[a-z0-9][a-z0-9-]{1,38}[a-z0-9]$`:      "must be 3 to 40 lower-case letters, digits and hyphens without a hyphen at either end",
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`:           "must be a date of the form YYYY-MM-DD",
	`^#[0-9A-Fa-f]{6}$`:                      "must be a colour of the form #rrggbb",
	`^[a-z_]{1,64}$`:                         "must be 1 to 64 lower-case letters and underscores",
	`^evt_[0-9a-f]{32}$`:                     "must be evt_ and 32 lower-case hexadecimal digits",
	`^[0-9]{0,18}$`:                          "must be the id of an event of the stream",
}

// listReason matches the error messages of protoc-gen-validate about a list of accepted
// values and about a list of forbidden values.
var listReason = regexp.MustCompile(`^value must (not )?be in list \[(.*)\]$`)

// annotationMessage returns the API's message for an error of protoc-gen-validate. reason
// is the error's message. field is the field with the error, or nil if it is unknown.
func annotationMessage(reason string, field protoreflect.FieldDescriptor) string {
	if field != nil && field.Enum() != nil {
		return mustBeOneOf(enumNames(field.Enum(), reason))
	}
	if list := listReason.FindStringSubmatch(reason); list != nil {
		values := strings.Fields(list[2])
		if list[1] != "" {
			return "must not be one of " + strings.Join(values, ", ")
		}
		return mustBeOneOf(values)
	}
	for _, m := range annotationMessages {
		if m.reason.MatchString(reason) {
			return plainNumbers(m.reason.ReplaceAllString(reason, m.message))
		}
	}
	if literal := patternReason.FindStringSubmatch(reason); literal != nil {
		pattern, err := strconv.Unquote(literal[1])
		if message, ok := patternMessages[pattern]; ok && err == nil {
			return message
		}
	}
	return notValid
}

// notValid is the message for a validation error that none of the tables above contains.
// A test checks that the tables contain the errors of all annotations in the proto files.
const notValid = "is not valid"

func mustBeOneOf(values []string) string { return "must be one of " + strings.Join(values, ", ") }

var powerOfTen = regexp.MustCompile(`\d+e\+\d+\b`)

// plainNumbers replaces numbers such as 1e+12 in a message by all their digits.
func plainNumbers(message string) string {
	return powerOfTen.ReplaceAllStringFunc(message, func(text string) string {
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return text
		}
		return strconv.FormatFloat(number, 'f', -1, 64)
	})
}

// enumNames returns the API's names of the enum values that a field accepts. reason is
// the error message. If it contains a list of accepted or forbidden values, enumNames
// applies the list. Otherwise the field accepts all values except the unspecified value,
// which no field accepts.
func enumNames(enum protoreflect.EnumDescriptor, reason string) []string {
	var listed []string
	list := listReason.FindStringSubmatch(reason)
	if list != nil {
		listed = strings.Fields(list[2])
	}
	var names []string
	for i := range enum.Values().Len() {
		value := enum.Values().Get(i)
		inList := slices.Contains(listed, string(value.Name()))
		if value.Number() == 0 || list != nil && list[1] == "" && !inList || list != nil && list[1] != "" && inList {
			continue
		}
		names = append(names, strings.ToLower(strings.TrimPrefix(string(value.Name()), enumPrefix(enum))))
	}
	return names
}
