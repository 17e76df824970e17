package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	validatepb "github.com/envoyproxy/protoc-gen-validate/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Checker is implemented by services whose requests have validation rules that the
// annotations in the proto files cannot express. Check validates a request without the
// database. Its violations are reported together with the violations of the annotations.
type Checker interface {
	Check(req proto.Message) affiliate.Violations
}

// Prechecker is implemented by services that refuse some calls before their requests are
// validated. Precheck runs after the authorisation.
type Prechecker interface {
	Precheck(ctx context.Context, req proto.Message) error
}

// ValidateItem trims and validates one item of a list. It is for lists whose items are not
// validated with the request, because the proto file marks them with the option
// repeated.items.message.skip of validate.rules. The field paths in the violations are
// relative to the item.
func ValidateItem(service any, msg proto.Message) affiliate.Violations {
	trim(msg.ProtoReflect())
	var found affiliate.Violations
	if v, ok := msg.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			flatten(err, msg.ProtoReflect().Descriptor(), "", &found)
		}
	}
	checkValues(msg.ProtoReflect(), "", &found)
	if c, ok := service.(Checker); ok {
		reported := map[string]bool{}
		for _, v := range found {
			reported[v.Field] = true
		}
		for _, v := range c.Check(msg) {
			if !reported[v.Field] {
				found = append(found, v)
			}
		}
	}
	return found
}

// checkValues rejects three kinds of values. gRPC clients can send these values, but the
// gateway rejects them in JSON. The first kind is a text with the NUL character, which
// Postgres cannot store. The second kind is an enum number that the enum does not define.
// The third kind is a timestamp outside the years 1 to 9999. Timestamps are the only
// messages of Google's well-known types that checkValues checks.
func checkValues(m protoreflect.Message, prefix string, out *affiliate.Violations) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		path := prefix + string(field.Name())
		switch {
		case validatedByItem(field):
		case field.IsList():
			for i := range value.List().Len() {
				checkValue(field, value.List().Get(i), fmt.Sprintf("%s[%d]", path, i), out)
			}
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, element protoreflect.Value) bool {
				checkValue(field.MapKey(), key.Value(), path, out)
				checkValue(field.MapValue(), element, path, out)
				return true
			})
		default:
			checkValue(field, value, path, out)
		}
		return true
	})
}

// validatedByItem reports whether the field is a list whose items the service validates
// with ValidateItem.
func validatedByItem(field protoreflect.FieldDescriptor) bool {
	if !field.IsList() || field.Message() == nil {
		return false
	}
	rules, _ := proto.GetExtension(field.Options(), validatepb.E_Rules).(*validatepb.FieldRules)
	return rules.GetRepeated().GetItems().GetMessage().GetSkip()
}

func checkValue(field protoreflect.FieldDescriptor, value protoreflect.Value, path string, out *affiliate.Violations) {
	switch field.Kind() {
	case protoreflect.StringKind:
		if strings.ContainsRune(value.String(), 0) {
			out.Add(path, affiliate.MustNotHaveNUL)
		}
	case protoreflect.EnumKind:
		if field.Enum().Values().ByNumber(value.Enum()) == nil {
			out.Add(path, mustBeOneOf(enumNames(field.Enum(), "")))
		}
	case protoreflect.MessageKind:
		if at, ok := value.Message().Interface().(*timestamppb.Timestamp); ok && !at.IsValid() {
			out.Add(path, affiliate.MustBeTimestamp)
		}
		if field.Message().FullName().Parent() != "google.protobuf" {
			checkValues(value.Message(), path+".", out)
		}
	default:
	}
}

type textFields struct {
	trimmed  []protoreflect.FieldDescriptor // text fields that are trimmed
	optional []protoreflect.FieldDescriptor // text fields that are cleared if they are blank
	messages []protoreflect.FieldDescriptor // nested messages, and lists of them, which trim processes too
}

var textFieldsByType sync.Map

func textFieldsOf(d protoreflect.MessageDescriptor) textFields {
	if cached, ok := textFieldsByType.Load(d.FullName()); ok {
		return cached.(textFields)
	}
	var found textFields
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		options, _ := field.Options().(*descriptorpb.FieldOptions)
		switch {
		case field.Message() != nil:
			if !validatedByItem(field) && !field.IsMap() && field.Message().FullName().Parent() != "google.protobuf" {
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
	textFieldsByType.Store(d.FullName(), found)
	return found
}

// trim removes leading and trailing white space from the fields that the proto files mark
// for trimming. It clears optional text fields that consist of white space.
func trim(m protoreflect.Message) {
	fields := textFieldsOf(m.Descriptor())
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
		switch {
		case !m.Has(field):
		case field.IsList():
			for i := range m.Get(field).List().Len() {
				trim(m.Get(field).List().Get(i).Message())
			}
		default:
			trim(m.Mutable(field).Message())
		}
	}
}

// annotationError is an error of protoc-gen-validate about one field. Cause returns the
// error of a nested message.
type annotationError interface {
	Field() string
	Reason() string
	Cause() error
}

// flatten converts nested errors of protoc-gen-validate into violations with proto paths.
// The errors contain Go field names such as LineItems[0]. flatten uses the message
// descriptor d to find the proto names of these fields.
func flatten(err error, d protoreflect.MessageDescriptor, prefix string, out *affiliate.Violations) {
	if list, ok := err.(interface{ AllErrors() []error }); ok {
		for _, err := range list.AllErrors() {
			flatten(err, d, prefix, out)
		}
		return
	}
	fieldErr, ok := err.(annotationError)
	if !ok {
		out.Add(strings.TrimSuffix(prefix, "."), notValid)
		return
	}
	name, field := protoField(fieldErr.Field(), d)
	path := prefix + name
	if cause := fieldErr.Cause(); cause != nil && field != nil && field.Message() != nil {
		flatten(cause, field.Message(), path+".", out)
		return
	}
	out.Add(path, annotationMessage(fieldErr.Reason(), field))
}

// protoField returns the proto name and the descriptor of a field whose Go name is given.
// The names can contain a list index: for LineItems[0] the proto name is line_items[0].
// If the message does not have the field, protoField returns the Go name and nil.
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

// confirmationPhrase is the text that a caller types to confirm an erasure.
const confirmationPhrase = "DELETE"

// confirmationFields are the names of the field with the confirmation phrase. A message that
// has the first name needs the phrase. The other names are aliases.
var confirmationFields = []protoreflect.Name{"confirmation", "confirm", "confirmation_phrase"}

// checkConfirmation returns CONFIRMATION_INVALID if the request needs the confirmation phrase
// and does not contain it, or contains another text under one of the names.
func checkConfirmation(req proto.Message) error {
	m := req.ProtoReflect()
	fields := m.Descriptor().Fields()
	if fields.ByName(confirmationFields[0]) == nil {
		return nil
	}
	confirmed := false
	for _, name := range confirmationFields {
		field := fields.ByName(name)
		if field == nil || !m.Has(field) {
			continue
		}
		if m.Get(field).String() != confirmationPhrase {
			return affiliate.Refuse(affiliate.ReasonConfirmationInvalid)
		}
		confirmed = true
	}
	if !confirmed {
		return affiliate.Refuse(affiliate.ReasonConfirmationInvalid)
	}
	return nil
}

// Update is a request that changes the fields named in its update mask. In the request
// message, fields that identify the record have lower field numbers than the mask. Fields
// that can be changed have higher field numbers.
type Update interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
}

const maskField = "update_mask"

// CheckMask validates the update mask of a request. It adds a violation for each path in the
// mask that cannot be changed. It adds a violation for each field in the parameter required
// that is in the mask but empty in the request. If the mask is empty but the request
// contains values, it adds a violation too, because the request would change nothing.
func CheckMask(req Update, found *affiliate.Violations, required ...string) {
	m := req.ProtoReflect()
	paths := req.GetUpdateMask().GetPaths()
	for _, path := range paths {
		if !changeable(m.Descriptor(), path) {
			found.Add(maskField, fmt.Sprintf("must not name %q, which cannot be changed", path))
		}
	}
	for _, path := range required {
		if field := m.Descriptor().Fields().ByName(protoreflect.Name(path)); slices.Contains(paths, path) && (!m.Has(field) || m.Get(field).String() == "") {
			found.Add(path, affiliate.IsRequired)
		}
	}
	if len(paths) > 0 {
		return
	}
	mask := m.Descriptor().Fields().ByName(maskField)
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Number() > mask.Number() && hasContent(field, value) {
			found.Add(maskField, "must name the fields that are given")
			return false
		}
		return true
	})
}

// changeable reports whether the mask of an update may contain path. The first name in
// the path must be a field with a higher number than the mask. Nested fields are allowed,
// except the fields of list elements and of Google's well-known types.
func changeable(update protoreflect.MessageDescriptor, path string) bool {
	message, mask := update, update.Fields().ByName(maskField)
	for rest, nested := path, true; nested; {
		var name string
		name, rest, nested = strings.Cut(rest, ".")
		field := message.Fields().ByName(protoreflect.Name(name))
		if field == nil || message == update && field.Number() <= mask.Number() {
			return false
		}
		if message = field.Message(); nested && (message == nil || field.Cardinality() == protoreflect.Repeated || message.FullName().Parent() == "google.protobuf") {
			return false
		}
	}
	return true
}

// hasContent reports whether a field has a value that an update could apply. It returns
// false if the value is a message in which no field is set, neither directly nor in its
// nested messages. A JSON body can contain such an empty object, and the gateway adds no
// path for it to the mask.
func hasContent(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	if field.Message() == nil || field.Cardinality() == protoreflect.Repeated || field.Message().FullName().Parent() == "google.protobuf" {
		return true
	}
	found := false
	value.Message().Range(func(inner protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		found = hasContent(inner, value)
		return !found
	})
	return found
}
