package server

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

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
	if c, ok := service.(Checker); ok {
		annotated := map[string]bool{}
		for _, v := range found {
			annotated[v.Field] = true
		}
		for _, v := range c.Check(msg) {
			if !annotated[v.Field] {
				found = append(found, v)
			}
		}
	}
	return found.Err()
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
