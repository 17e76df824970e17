package gateway

import (
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

// parseQuery validates a query string. names contains the parameters of the route, by
// every spelling. parseQuery returns the values by JSON name, and the client's spelling
// of each field. An empty value counts as absent.
//
// It adds every fault to found: unknown parameters, repeated parameters, parameters in
// two spellings and invalid values. scratch is a message of the route's input type, which
// receives the valid values.
func parseQuery(raw string, names map[string]*fieldPlan, scratch protoreflect.Message, found *violations) (url.Values, map[protoreflect.Name]string) {
	form, written := make(url.Values), make(map[protoreflect.Name]string)
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
			found.add(rawName, "is not a well-formed parameter name")
			continue
		}
		field, ok := names[name]
		if name == "" {
			found.add(name, "must not have a parameter without a name")
			continue
		}
		if !ok {
			found.add(name, "is not a parameter of this route")
			continue
		}
		earlier, repeated := written[field.fd.Name()]
		switch {
		case !repeated:
			written[field.fd.Name()] = name
		case earlier != name:
			found.add(name, mustNotBeWith+earlier+", which is the same parameter")
			continue
		case !field.list:
			found.add(name, givenTwice)
			continue
		}
		switch {
		case valueErr != nil:
			found.add(name, "must be well-formed percent-encoding")
		case !utf8.ValidString(value):
			found.add(name, jsonscan.NotUTF8)
		case strings.IndexByte(value, 0) >= 0:
			found.add(name, jsonscan.ContainsNUL)
		case value == "":
		default:
			if wrong := field.setText(scratch, value); wrong != "" {
				found.add(name, wrong)
				continue
			}
			form[field.name] = append(form[field.name], value)
		}
	}
	return form, written
}

// queryParser sets the fields of a request from the values that parseQuery returned.
type queryParser struct{}

// useQueryParser installs queryParser. grpc-gateway has one parser for the whole process,
// so the parser is set once and cannot depend on a gateway or a route.
var useQueryParser = sync.OnceFunc(func() { runtime.NewServeMux(runtime.SetQueryParameterParser(queryParser{})) })

// Parse implements runtime.QueryParameterParser.
func (queryParser) Parse(message proto.Message, values url.Values, _ *utilities.DoubleArray) error {
	if len(values) == 0 {
		return nil
	}
	m := message.ProtoReflect()
	plan, err := planFor(m.Descriptor())
	if err != nil {
		return err
	}
	for name, texts := range values {
		for _, text := range texts {
			if wrong := plan.names[name].setText(m, text); wrong != "" {
				return errInvalid
			}
		}
	}
	return nil
}

// inQuery reports whether a field can be a query parameter.
func (f *fieldPlan) inQuery() bool {
	return !f.dict && (f.message == nil || f.message.form == formTimestamp)
}

// setText sets the field to a value of the query. It appends the value to a list. If the
// text is invalid, it returns the message of the fault.
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
		value, wrong = f.parseNumber(text)
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

func (f *fieldPlan) parseNumber(text string) (value protoreflect.Value, wrong string) {
	s := jsonscan.Scanner{Data: text}
	literal, whole, ok := s.Number()
	ok = ok && s.Pos == len(text)
	switch {
	case isInteger(f.kind) && (!ok || !whole):
		return value, mustBeInteger
	case !ok:
		return value, mustBeNumber
	case isInteger(f.kind):
		return integer(literal, f.kind)
	default:
		return float(literal, f.kind)
	}
}
