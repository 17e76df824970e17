package gateway

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// pageSizeAlias is the second name of pageSize.
const (
	pageSize      = "pageSize"
	pageSizeAlias = "limit"
)

// bindQuery reads a query string into m by the JSON names in names; every other
// parameter is a violation. An empty value is absent. aliased tells whether the
// client wrote limit for pageSize, so that later violations can too.
//
// It stands in for a runtime.QueryParameterParser, which is one for the whole
// process and never learns which route it works for.
func bindQuery(raw string, names map[string]*fieldPlan, m protoreflect.Message, found *violations) (aliased bool) {
	// given holds the name under which each field came first.
	var given map[*fieldPlan]string
	for raw != "" && !found.full() {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if nameErr != nil {
			found.add(rawName, "Is not a well-formed parameter name.")
			continue
		}
		field, ok := names[name]
		if !ok && name == pageSizeAlias {
			if field, ok = names[pageSize]; ok {
				aliased = true
			}
		}
		if !ok {
			found.add(name, "Is not a parameter of this route.")
			continue
		}
		if before, twice := given[field]; twice && !field.list {
			if before == name {
				found.add(name, givenTwice)
			} else {
				found.add(name, "Is the same parameter as "+before+"; give one of them.")
			}
			continue
		}
		if given == nil {
			given = make(map[*fieldPlan]string)
		}
		given[field] = name
		switch {
		case valueErr != nil:
			found.add(name, "Is not well-formed.")
		case !utf8.ValidString(value):
			found.add(name, notUTF8)
		case strings.IndexByte(value, 0) >= 0:
			found.add(name, holdsNUL)
		case value == "":
		default:
			if message := field.setText(m, value); message != "" {
				found.add(name, message)
			}
		}
	}
	return aliased
}

// inQuery tells whether a field can be written as a query parameter.
func (f *fieldPlan) inQuery() bool {
	return !f.dict && (f.message == nil || f.message.form == formTimestamp)
}

// setText sets the field, or appends to it, from its text in a query.
func (f *fieldPlan) setText(m protoreflect.Message, text string) (wrong string) {
	var value protoreflect.Value
	switch {
	case f.message != nil:
		if f.list {
			value = m.Mutable(f.fd).List().NewElement()
		} else {
			value = m.NewField(f.fd)
		}
		wrong = parseTimestamp(text, value.Message())
	case f.kind == protoreflect.StringKind:
		value = protoreflect.ValueOfString(text)
	case f.kind == protoreflect.EnumKind:
		value, wrong = f.enum.parse(text)
	case f.kind == protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return mustBeBool
		}
		value = protoreflect.ValueOfBool(text == "true")
	default:
		s := scanner{data: text}
		literal, whole, ok := s.number()
		ok = ok && s.pos == len(text)
		switch {
		case isInteger(f.kind) && (!ok || !whole):
			return mustBeInteger
		case !ok:
			return mustBeNumber
		case isInteger(f.kind):
			value, wrong = integer(literal, f.kind)
		default:
			value, wrong = float(literal, f.kind)
		}
	}
	switch {
	case wrong != "":
	case f.list:
		m.Mutable(f.fd).List().Append(value)
	default:
		m.Set(f.fd, value)
	}
	return wrong
}
