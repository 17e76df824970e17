package server

import (
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Checker is what a service has whose requests obey rules that the contract's
// annotations cannot say. It looks at the request alone; its findings are
// reported together with the annotations'.
type Checker interface {
	Check(req proto.Message) affiliate.Violations
}

// validate trims what the contract says is trimmed, and then reports everything
// that is wrong with the request at once.
func validate(service any, req any) error {
	msg, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	trim(msg.ProtoReflect())
	var found affiliate.Violations
	if v, ok := req.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			flatten(err, msg.ProtoReflect().Descriptor(), "", &found)
		}
	}
	unreadable(msg.ProtoReflect(), "", &found)
	if c, ok := service.(Checker); ok {
		named := map[string]bool{}
		for _, v := range found {
			named[v.Field] = true
		}
		for _, v := range c.Check(msg) {
			if !named[v.Field] {
				found = append(found, v)
			}
		}
	}
	return found.Err()
}

// unreadable finds what the JSON of a gateway could not have said and a caller
// over gRPC can: NUL, which Postgres refuses in text, numbers that an enum does
// not have, and instants outside of the years 1 to 9999. Other well-known types
// are left to who understands them.
func unreadable(m protoreflect.Message, prefix string, out *affiliate.Violations) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		path := prefix + string(field.Name())
		switch {
		case field.IsList():
			for i := range value.List().Len() {
				unreadableValue(field, value.List().Get(i), fmt.Sprintf("%s[%d]", path, i), out)
			}
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, element protoreflect.Value) bool {
				unreadableValue(field.MapKey(), key.Value(), path, out)
				unreadableValue(field.MapValue(), element, path, out)
				return true
			})
		default:
			unreadableValue(field, value, path, out)
		}
		return true
	})
}

func unreadableValue(field protoreflect.FieldDescriptor, value protoreflect.Value, path string, out *affiliate.Violations) {
	switch field.Kind() {
	case protoreflect.StringKind:
		if strings.ContainsRune(value.String(), 0) {
			out.Add(path, "must not contain NUL")
		}
	case protoreflect.EnumKind:
		if field.Enum().Values().ByNumber(value.Enum()) == nil {
			out.Add(path, "is not a known value")
		}
	case protoreflect.MessageKind:
		if at, ok := value.Message().Interface().(*timestamppb.Timestamp); ok && !at.IsValid() {
			out.Add(path, "must be an RFC 3339 timestamp")
		}
		if field.Message().FullName().Parent() != "google.protobuf" {
			unreadable(value.Message(), path+".", out)
		}
	default:
	}
}

// trimmed remembers, by message type, which fields lose their outer white space.
var trimmed sync.Map // protoreflect.FullName → []protoreflect.FieldDescriptor

func trim(m protoreflect.Message) {
	d := m.Descriptor()
	cached, ok := trimmed.Load(d.FullName())
	if !ok {
		var fields []protoreflect.FieldDescriptor
		for i := range d.Fields().Len() {
			field := d.Fields().Get(i)
			options, _ := field.Options().(*descriptorpb.FieldOptions)
			if proto.HasExtension(options, affiliatev1.E_Trim) {
				fields = append(fields, field)
			}
		}
		cached, _ = trimmed.LoadOrStore(d.FullName(), fields)
	}
	for _, field := range cached.([]protoreflect.FieldDescriptor) {
		if m.Has(field) {
			if s := m.Get(field).String(); s != strings.TrimSpace(s) {
				m.Set(field, protoreflect.ValueOfString(strings.TrimSpace(s)))
			}
		}
	}
}

// annotationError is what protoc-gen-validate reports for one field.
type annotationError interface {
	Field() string
	Reason() string
	Cause() error
}

// flatten turns nested reports into violations with proto paths. The reports
// name fields by their Go names (LineItems[0]), which only the descriptor can
// turn back.
func flatten(err error, d protoreflect.MessageDescriptor, prefix string, out *affiliate.Violations) {
	if many, ok := err.(interface{ AllErrors() []error }); ok {
		for _, one := range many.AllErrors() {
			flatten(one, d, prefix, out)
		}
		return
	}
	one, ok := err.(annotationError)
	if !ok {
		out.Add(prefix, err.Error())
		return
	}
	name, message := protoField(one.Field(), d)
	path := prefix + name
	if cause := one.Cause(); cause != nil && message != nil {
		flatten(cause, message, path+".", out)
		return
	}
	out.Add(path, one.Reason())
}

// protoField turns a Go field name with an optional index into the proto name,
// and gives the message that the field holds, if it holds one.
func protoField(goName string, d protoreflect.MessageDescriptor) (string, protoreflect.MessageDescriptor) {
	name, index, _ := strings.Cut(goName, "[")
	if index != "" {
		index = "[" + index
	}
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		if strings.EqualFold(strings.ReplaceAll(string(field.Name()), "_", ""), name) {
			return string(field.Name()) + index, field.Message()
		}
	}
	return goName, nil
}
