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

// parseQuery validates a query string. The map names contains the parameters of the route, with
// one entry for each accepted spelling. parseQuery returns the values by JSON name, and
// for each field the spelling that the client used. An empty value counts as absent.
//
// parseQuery adds every fault to faults: unknown parameters, repeated parameters,
// parameters in two spellings and invalid values. It sets the valid values in message,
// which has the route's input type.
func parseQuery(raw string, names map[string]*fieldPlan, message protoreflect.Message, faults *violations) (url.Values, spellings) {
	form, spelled := make(url.Values), make(spellings)
	for raw != "" && !faults.full() {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		field, fault := names[name], ""
		switch {
		case nameErr != nil:
			name, fault = rawName, "is not a well-formed parameter name"
		case name == "":
			fault = "must not have a parameter without a name"
		case field == nil:
			fault = "is not a parameter of this route"
		default:
			earlier, repeated := spelled[field.fd.FullName()]
			if !repeated {
				spelled[field.fd.FullName()] = name
			}
			switch {
			case repeated && earlier != name:
				fault = mustNotBeWith + earlier + ", which is the same parameter"
			case repeated && !field.isList:
				fault = givenTwice
			case valueErr != nil:
				fault = "must be well-formed percent-encoding"
			case !utf8.ValidString(value):
				fault = jsonscan.NotUTF8
			case strings.IndexByte(value, 0) >= 0:
				fault = jsonscan.ContainsNUL
			case value != "":
				if fault = field.setText(message, value); fault == "" {
					form[field.name] = append(form[field.name], value)
				}
			}
		}
		if fault != "" {
			faults.add(name, fault)
		}
	}
	return form, spelled
}

// queryParser sets the fields of a request from the values that parseQuery returned.
type queryParser struct{}

// useQueryParser installs queryParser in grpc-gateway. grpc-gateway has one parser for
// the whole process, so useQueryParser installs it only once, and the parser cannot
// depend on a gateway or a route.
var useQueryParser = sync.OnceFunc(func() { runtime.NewServeMux(runtime.SetQueryParameterParser(queryParser{})) })

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
			if fault := plan.names[name].setText(m, text); fault != "" {
				return errInvalid
			}
		}
	}
	return nil
}

func (f *fieldPlan) inQuery() bool {
	return !f.isMap && (f.message == nil || f.message.form == formTimestamp && !f.isList)
}

// setText sets the field to a value of the query. If the field is a list, it appends the
// value. If the text is invalid, it returns the message of the fault.
func (f *fieldPlan) setText(m protoreflect.Message, text string) (fault string) {
	var value protoreflect.Value
	switch {
	case f.message != nil:
		value = m.NewField(f.fd)
		fault = parseTimestamp(text, value.Message())
	case f.kind == protoreflect.StringKind:
		value = protoreflect.ValueOfString(text)
	case f.kind == protoreflect.EnumKind:
		value, fault = f.enum.parse(text)
	case f.kind == protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return mustBeBool
		}
		value = protoreflect.ValueOfBool(text == "true")
	default:
		value, fault = f.parseNumber(text)
	}
	switch {
	case fault != "":
	case f.isList:
		m.Mutable(f.fd).List().Append(value)
	default:
		m.Set(f.fd, value)
	}
	return fault
}

func (f *fieldPlan) parseNumber(text string) (value protoreflect.Value, fault string) {
	s := jsonscan.Scanner{Data: text}
	literal, whole, ok := s.Number()
	ok = ok && s.Pos == len(text)
	switch {
	case isInteger(f.kind) && (!ok || !whole):
		return value, mustBeInteger
	case !ok:
		return value, mustBeNumber
	case isInteger(f.kind):
		return parseInteger(literal, f.kind)
	default:
		return parseFloat(literal)
	}
}
