package gateway

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// dynamic reads a google.protobuf.Struct, which is JSON without a schema. The general
// rules of the dialect apply here too: repeated keys, depth, characters and large
// integers.
func (d *decoder) dynamic(m protoreflect.Message) bool {
	if d.Space() != '{' {
		return d.refuse(mustBeObject)
	}
	value, ok := d.structure()
	target, known := m.Interface().(*structpb.Struct)
	if !known {
		d.fault("cannot be read by this server")
		return ok
	}
	target.Fields = value.GetFields()
	return ok
}

func (d *decoder) structure() (*structpb.Struct, bool) {
	fields := make(map[string]*structpb.Value)
	t := d.open('}')
	for ; t == item; t = d.next('}') {
		key, flaw, ok := d.member()
		_, repeated := fields[key]
		switch {
		case !ok:
		case flaw != "":
			ok = d.refuse(flaw)
		case repeated:
			ok = d.refuse(givenTwice)
		default:
			fields[key], ok = d.anything()
		}
		if !ok {
			return nil, false
		}
	}
	return &structpb.Struct{Fields: fields}, t == done
}

func (d *decoder) series() (*structpb.ListValue, bool) {
	var values []*structpb.Value
	t := d.open(']')
	for ; t == item; t = d.next(']') {
		d.nextIndex()
		value, ok := d.anything()
		if !ok {
			return nil, false
		}
		values = append(values, value)
	}
	return &structpb.ListValue{Values: values}, t == done
}

// anything reads a value of any type. For an invalid value, it adds a fault and returns
// null.
func (d *decoder) anything() (*structpb.Value, bool) {
	null := structpb.NewNullValue()
	switch c := d.Space(); {
	case c == '{':
		value, ok := d.structure()
		return structpb.NewStructValue(value), ok
	case c == '[':
		value, ok := d.series()
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
			return null, d.broken()
		}
		value, wrong := float(literal, protoreflect.DoubleKind)
		if whole && wrong == "" {
			_, wrong = integer(literal, protoreflect.Int64Kind)
		}
		if wrong != "" {
			d.fault(wrong)
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
	return null, d.broken()
}
