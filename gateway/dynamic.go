package gateway

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// structMessage decodes a google.protobuf.Struct, which is JSON without a schema. As in
// the rest of the body, it refuses repeated keys, deep nesting, invalid characters and
// integers that are too large.
func (d *decoder) structMessage(m protoreflect.Message) bool {
	if d.SkipSpace() != '{' {
		return d.rejectValue(mustBeObject)
	}
	value, ok := d.structValue()
	target, known := m.Interface().(*structpb.Struct)
	if !known {
		d.addFault("cannot be read by this server")
		return ok
	}
	target.Fields = value.GetFields()
	return ok
}

func (d *decoder) structValue() (*structpb.Struct, bool) {
	fields := make(map[string]*structpb.Value)
	p := d.open('}')
	for ; p == atItem; p = d.next('}') {
		key, fault, ok := d.member()
		_, repeated := fields[key]
		switch {
		case !ok:
		case fault != "":
			ok = d.rejectValue(fault)
		case repeated:
			ok = d.rejectValue(givenTwice)
		default:
			fields[key], ok = d.anyValue()
		}
		if !ok {
			return nil, false
		}
	}
	return &structpb.Struct{Fields: fields}, p == finished
}

func (d *decoder) listValue() (*structpb.ListValue, bool) {
	var values []*structpb.Value
	p := d.open(']')
	for ; p == atItem; p = d.next(']') {
		d.nextIndex()
		value, ok := d.anyValue()
		if !ok {
			return nil, false
		}
		values = append(values, value)
	}
	return &structpb.ListValue{Values: values}, p == finished
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
		value, fault := parseFloat(literal, protoreflect.DoubleKind)
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
