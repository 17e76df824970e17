package gateway

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
)

// Messages about single values in bodies and queries.
const (
	mustBeInteger   = "must be an integer"
	mustBeNumber    = "must be a number"
	mustBeBool      = "must be true or false"
	mustBeString    = "must be a string"
	mustBeObject    = "must be an object"
	mustBeArray     = "must be an array"
	mustBeTimestamp = affiliate.MustBeTimestamp
	mustNotBeNull   = "must not be null"
	unknownField    = "is not a field of this request"
	givenTwice      = "must be given only once"
	// mustNotBeWith is followed by the name of the other field.
	mustNotBeWith = "must not be given together with "
)

// maxInteger is the largest integer that every JSON parser represents exactly. A larger
// integer may have been changed before the gateway received it.
const maxInteger = 1 << 53

func parseInteger(literal string, kind protoreflect.Kind) (value protoreflect.Value, fault string) {
	var lowest, highest int64 = -maxInteger, maxInteger
	if kind == protoreflect.Int32Kind {
		lowest, highest = math.MinInt32, math.MaxInt32
	}
	n, err := strconv.ParseInt(literal, 10, 64)
	if err != nil || n < lowest || n > highest {
		return value, fmt.Sprintf("must be from %d to %d", lowest, highest)
	}
	if kind == protoreflect.Int32Kind {
		return protoreflect.ValueOfInt32(int32(n)), ""
	}
	return protoreflect.ValueOfInt64(n), ""
}

func parseFloat(literal string) (protoreflect.Value, string) {
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return protoreflect.Value{}, "must fit in a 64-bit floating-point number"
	}
	return protoreflect.ValueOfFloat64(f), ""
}

func (p *enumPlan) parse(name string) (protoreflect.Value, string) {
	number, ok := p.numbers[name]
	if !ok {
		return protoreflect.Value{}, "must be one of " + p.choices
	}
	return protoreflect.ValueOfEnum(number), ""
}

// parseTimestamp sets m from an RFC 3339 text. Package time also accepts hours with one
// digit and a comma before the fraction, so parseTimestamp first checks for both.
func parseTimestamp(text string, m protoreflect.Message) string {
	if len(text) < len("2006-01-02T15:04:05Z") || text[13] != ':' || text[19] == ',' {
		return mustBeTimestamp
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return mustBeTimestamp
	}
	ts := timestamppb.New(t)
	if ts.CheckValid() != nil {
		return "must be a timestamp of the years 1 to 9999"
	}
	target := m.Interface().(*timestamppb.Timestamp)
	target.Seconds, target.Nanos = ts.GetSeconds(), ts.GetNanos()
	return ""
}

func isInteger(kind protoreflect.Kind) bool {
	return kind == protoreflect.Int32Kind || kind == protoreflect.Int64Kind
}

// scalar decodes a value that is neither a message nor null. usable is true if the value
// is valid for the field. ok is true if the decoder can continue.
func (d *decoder) scalar(f *fieldPlan) (value protoreflect.Value, usable, ok bool) {
	c := d.SkipSpace()
	var fault string
	switch {
	case f.kind == protoreflect.StringKind || f.kind == protoreflect.EnumKind:
		switch {
		case c != '"' && f.anyType:
			start := d.Pos
			ok := d.skip()
			return protoreflect.ValueOfString(d.Data[start:d.Pos]), ok, ok
		case c != '"':
			return value, false, d.rejectValue(mustBeString)
		}
		text, usable, ok := d.plainText()
		if !usable {
			return value, false, ok
		}
		if f.kind == protoreflect.StringKind {
			return protoreflect.ValueOfString(text), true, true
		}
		value, fault = f.enum.parse(text)
	case f.kind == protoreflect.BoolKind:
		isTrue := c == 't'
		if c != 't' && c != 'f' {
			return value, false, d.rejectValue(mustBeBool)
		}
		if !d.Literal(strconv.FormatBool(isTrue)) {
			return value, false, d.invalidJSON()
		}
		return protoreflect.ValueOfBool(isTrue), true, true
	case c == '-' || c >= '0' && c <= '9':
		literal, whole, ok := d.Number()
		switch {
		case !ok:
			return value, false, d.invalidJSON()
		case !isInteger(f.kind):
			value, fault = parseFloat(literal)
		case whole:
			value, fault = parseInteger(literal, f.kind)
		default:
			fault = mustBeInteger
		}
	case isInteger(f.kind):
		return value, false, d.rejectValue(mustBeInteger)
	default:
		return value, false, d.rejectValue(mustBeNumber)
	}
	if fault != "" {
		d.addFault(fault)
	}
	return value, fault == "", true
}

// replaceUnusable replaces bytes of a path parameter that a proto string or Postgres
// cannot store. Ids never contain the replacement character, so the result is an unknown
// id.
func replaceUnusable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// structMessage decodes a google.protobuf.Struct, which is JSON without a schema. As in
// the rest of the body, it refuses repeated keys, deep nesting, invalid characters and
// integers that are too large.
func (d *decoder) structMessage(m protoreflect.Message) bool {
	if d.SkipSpace() != '{' {
		return d.rejectValue(mustBeObject)
	}
	value, ok := d.structValue()
	m.Interface().(*structpb.Struct).Fields = value.GetFields()
	return ok
}

func (d *decoder) structValue() (*structpb.Struct, bool) {
	fields := make(map[string]*structpb.Value)
	ok := d.members(func(key string) (ok bool) {
		if _, repeated := fields[key]; repeated {
			return d.rejectValue(givenTwice)
		}
		fields[key], ok = d.anyValue()
		return ok
	})
	return &structpb.Struct{Fields: fields}, ok
}

func (d *decoder) listValue() (*structpb.ListValue, bool) {
	var values []*structpb.Value
	ok := d.elements(func() bool {
		value, ok := d.anyValue()
		values = append(values, value)
		return ok
	})
	return &structpb.ListValue{Values: values}, ok
}

// anyValue decodes a value of any type. If the value is invalid, it adds a fault and
// returns null.
func (d *decoder) anyValue() (*structpb.Value, bool) {
	null := structpb.NewNullValue()
	switch c := d.SkipSpace(); {
	case c == '{':
		value, ok := d.structValue()
		return structpb.NewStructValue(value), ok
	case c == '[':
		value, ok := d.listValue()
		return structpb.NewListValue(value), ok
	case c == '"':
		text, usable, ok := d.plainText()
		if !usable {
			return null, ok
		}
		return structpb.NewStringValue(text), true
	case c == '-' || c >= '0' && c <= '9':
		literal, whole, ok := d.Number()
		if !ok {
			return null, d.invalidJSON()
		}
		value, fault := parseFloat(literal)
		if whole && fault == "" {
			_, fault = parseInteger(literal, protoreflect.Int64Kind)
		}
		if fault != "" {
			d.addFault(fault)
			return null, true
		}
		return structpb.NewNumberValue(value.Float()), true
	case d.Literal("true"):
		return structpb.NewBoolValue(true), true
	case d.Literal("false"):
		return structpb.NewBoolValue(false), true
	case d.Literal("null"):
		return null, true
	}
	return null, d.invalidJSON()
}
