package server

import (
	"fmt"
	"strings"
	"sync"

	validatepb "github.com/envoyproxy/protoc-gen-validate/validate"
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
	found := check(service, msg)
	return found.Err()
}

// ValidateItem is the validation of a request for one item of a list whose items
// are validated one by one (validate.rules, repeated.items.message.skip). Fields are
// named from the item on.
func ValidateItem(service any, item proto.Message) affiliate.Violations { return check(service, item) }

// check trims the message and reports everything that is wrong with it.
func check(service any, msg proto.Message) affiliate.Violations {
	trim(msg.ProtoReflect())
	var found affiliate.Violations
	if v, ok := msg.(interface{ ValidateAll() error }); ok {
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
	return found
}

// unreadable finds what the JSON of a gateway could not have said and a caller
// over gRPC can: NUL, which Postgres refuses in text, numbers that an enum does
// not have, and instants outside of the years 1 to 9999. Other well-known types
// are left to who understands them.
func unreadable(m protoreflect.Message, prefix string, out *affiliate.Violations) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		path := prefix + string(field.Name())
		switch {
		case validatedByItem(field):
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

// validatedByItem reports whether the items of a list are validated one by one, by
// ValidateItem.
func validatedByItem(field protoreflect.FieldDescriptor) bool {
	if !field.IsList() || field.Message() == nil {
		return false
	}
	rules, _ := proto.GetExtension(field.Options(), validatepb.E_Rules).(*validatepb.FieldRules)
	return rules.GetRepeated().GetItems().GetMessage().GetSkip()
}

func unreadableValue(field protoreflect.FieldDescriptor, value protoreflect.Value, path string, out *affiliate.Violations) {
	switch field.Kind() {
	case protoreflect.StringKind:
		if strings.ContainsRune(value.String(), 0) {
			out.Add(path, affiliate.MustNotHaveNUL)
		}
	case protoreflect.EnumKind:
		if field.Enum().Values().ByNumber(value.Enum()) == nil {
			out.Add(path, mustBeOneOf(enumWords(field.Enum(), "")))
		}
	case protoreflect.MessageKind:
		if at, ok := value.Message().Interface().(*timestamppb.Timestamp); ok && !at.IsValid() {
			out.Add(path, affiliate.MustBeTimestamp)
		}
		if field.Message().FullName().Parent() != "google.protobuf" {
			unreadable(value.Message(), path+".", out)
		}
	default:
	}
}

// texts are the text fields of a message type that arrive with white space.
type texts struct {
	trimmed  []protoreflect.FieldDescriptor // lose their outer white space
	optional []protoreflect.FieldDescriptor // are absent when they are white space alone
	messages []protoreflect.FieldDescriptor // may have such fields themselves
}

// textsByType caches texts by message type: protoreflect.FullName → texts.
var textsByType sync.Map

func textsOf(d protoreflect.MessageDescriptor) texts {
	if cached, ok := textsByType.Load(d.FullName()); ok {
		return cached.(texts)
	}
	var found texts
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		options, _ := field.Options().(*descriptorpb.FieldOptions)
		switch {
		case field.Message() != nil:
			if !field.IsList() && !field.IsMap() && field.Message().FullName().Parent() != "google.protobuf" {
				found.messages = append(found.messages, field)
			}
			continue
		case proto.HasExtension(options, affiliatev1.E_Trim):
			found.trimmed = append(found.trimmed, field)
		}
		if field.Kind() == protoreflect.StringKind && field.HasOptionalKeyword() {
			found.optional = append(found.optional, field)
		}
	}
	textsByType.Store(d.FullName(), found)
	return found
}

// trim removes the outer white space that the contract says is removed. An optional
// text that is white space alone is absent.
func trim(m protoreflect.Message) {
	fields := textsOf(m.Descriptor())
	for _, field := range fields.optional {
		if s := m.Get(field).String(); s != "" && strings.TrimSpace(s) == "" {
			m.Clear(field)
		}
	}
	for _, field := range fields.trimmed {
		if m.Has(field) {
			if s := m.Get(field).String(); s != strings.TrimSpace(s) {
				m.Set(field, protoreflect.ValueOfString(strings.TrimSpace(s)))
			}
		}
	}
	for _, field := range fields.messages {
		if m.Has(field) {
			trim(m.Mutable(field).Message())
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
		out.Add(strings.TrimSuffix(prefix, "."), notValid)
		return
	}
	name, field := protoField(one.Field(), d)
	path := prefix + name
	if cause := one.Cause(); cause != nil && field != nil && field.Message() != nil {
		flatten(cause, field.Message(), path+".", out)
		return
	}
	out.Add(path, annotationMessage(one.Reason(), field))
}

// protoField turns a Go field name with an optional index into the proto name and
// the field, which is nil for a name that the message does not have.
func protoField(goName string, d protoreflect.MessageDescriptor) (string, protoreflect.FieldDescriptor) {
	name, index, _ := strings.Cut(goName, "[")
	if index != "" {
		index = "[" + index
	}
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		if strings.EqualFold(strings.ReplaceAll(string(field.Name()), "_", ""), name) {
			return string(field.Name()) + index, field
		}
	}
	return goName, nil
}
