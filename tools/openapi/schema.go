package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/envoyproxy/protoc-gen-validate/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/gateway/contract"
)

// place is where a field stands: its absence is said differently.
type place int

const (
	inQuery place = iota
	// inRequest: a field may be left out or null unless it is required.
	inRequest
	// inAnswer: every field is there; what can be absent is null.
	inAnswer
)

// collect notes the messages that an answer holds.
func (b *builder) collect(desc protoreflect.MessageDescriptor) {
	if wellKnown(desc) || b.outputs[desc.FullName()] {
		return
	}
	b.outputs[desc.FullName()] = true
	for i := range desc.Fields().Len() {
		if child := messageOf(desc.Fields().Get(i)); child != nil {
			b.collect(child)
		}
	}
}

func (b *builder) output(desc protoreflect.MessageDescriptor) (string, error) {
	return b.message(string(desc.Name()), desc, inAnswer)
}

// input names a message inside a request; one that answers hold too has another
// shape there, so it gets another name.
func (b *builder) input(desc protoreflect.MessageDescriptor) (string, error) {
	name := string(desc.Name())
	if b.outputs[desc.FullName()] {
		name += "Input"
	}
	return b.message(name, desc, inRequest)
}

func (b *builder) message(name string, desc protoreflect.MessageDescriptor, at place) (string, error) {
	known, err := b.claim(name, fmt.Sprint(desc.FullName(), at))
	if known || err != nil {
		return name, err
	}
	var fields []protoreflect.FieldDescriptor
	for i := range desc.Fields().Len() {
		fields = append(fields, desc.Fields().Get(i))
	}
	text := func(field protoreflect.FieldDescriptor) string {
		return b.prose.fields[string(desc.Name())+"."+field.JSONName()]
	}
	schema, _, err := b.schema(fields, at, false, text)
	if err != nil {
		return "", err
	}
	if text := b.prose.messages[string(desc.Name())]; text != "" {
		schema = slices.Insert(schema, 1, member{"description", text})
	}
	b.schemas[name] = schema
	return name, nil
}

// requestBody makes the schema of a route's body: the request without what the
// path binds, without update_mask and without what the gateway fills in.
func (b *builder) requestBody(r contract.Route, key string) (name string, required bool, err error) {
	desc := r.RPC.Input()
	name = string(desc.Name())
	var fields []protoreflect.FieldDescriptor
	from := []string{string(desc.FullName())}
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		mask := r.Mask()
		if r.InPath(field) || mask != nil && mask.Number() == field.Number() || contract.SetByGateway(field) {
			continue
		}
		fields = append(fields, field)
		from = append(from, field.JSONName())
	}
	text := func(field protoreflect.FieldDescriptor) string { return b.prose.bodies[key+" "+field.JSONName()] }
	schema, required, err := b.schema(fields, inRequest, r.Mask() != nil, text)
	if err != nil {
		return "", false, err
	}
	origin := strings.Join(from, ",")
	if len(fields) == desc.Fields().Len() {
		// The whole message, which another request may hold as well.
		origin = fmt.Sprint(desc.FullName(), inRequest)
	}
	known, err := b.claim(name, origin)
	if err != nil {
		return "", false, err
	}
	if !known {
		b.schemas[name] = schema
	}
	return name, required, nil
}

// claim takes a schema's name for what it is made from; known tells that it was
// taken for the same thing before.
func (b *builder) claim(name, from string) (known bool, err error) {
	switch b.origin[name] {
	case "":
		b.origin[name] = from
		return false, nil
	case from:
		return true, nil
	default:
		return false, fmt.Errorf("two different schemas would be called %s", name)
	}
}

// schema describes an object of the fields. In a partial one nothing is required.
func (b *builder) schema(fields []protoreflect.FieldDescriptor, at place, partial bool, text func(protoreflect.FieldDescriptor) string) (schema object, needed bool, err error) {
	schema = object{{"type", "object"}}
	var required []string
	var properties object
	for _, field := range fields {
		must := at == inAnswer || !partial && isRequired(field)
		property, err := b.field(field, at)
		if err != nil {
			return nil, false, err
		}
		if absent := at == inAnswer && field.HasPresence() || at == inAnswer && isEnum(field) || at == inRequest && !must; absent {
			property = nullable(property)
		}
		if text := text(field); text != "" {
			property = described(property, text)
		}
		if must {
			required = append(required, field.JSONName())
		}
		set(&properties, field.JSONName(), property)
	}
	if len(required) > 0 {
		set(&schema, "required", required)
	}
	if len(properties) > 0 {
		set(&schema, "properties", properties)
	}
	if at == inRequest {
		set(&schema, "additionalProperties", false)
	}
	return schema, len(required) > 0, nil
}

func isEnum(field protoreflect.FieldDescriptor) bool {
	return field.Kind() == protoreflect.EnumKind && !field.IsList() && !field.IsMap()
}

// nullable lets the property be null. A reference cannot say so itself: next to
// $ref everything is ignored.
func nullable(property object) object {
	if property.get("$ref") != nil {
		return object{{"nullable", true}, {"allOf", []object{property}}}
	}
	out := slices.Clone(property)
	for i, m := range out {
		if words, ok := m.value.([]string); ok && m.key == "enum" {
			values := make([]any, 0, len(words)+1)
			for _, word := range words {
				values = append(values, word)
			}
			out[i].value = append(values, nil)
		}
	}
	set(&out, "nullable", true)
	return out
}

func described(property object, text string) object {
	if property.get("$ref") != nil {
		property = object{{"allOf", []object{property}}}
	}
	return append(slices.Clone(property), member{"description", text})
}

func (b *builder) field(field protoreflect.FieldDescriptor, at place) (object, error) {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Rules).(*validate.FieldRules)
	switch {
	case field.IsList():
		items, err := b.value(field, at, rules.GetRepeated().GetItems())
		if err != nil {
			return nil, err
		}
		schema := object{{"type", "array"}, {"items", items}}
		if r := rules.GetRepeated(); r != nil {
			bound(&schema, "minItems", r.MinItems)
			bound(&schema, "maxItems", r.MaxItems)
		}
		return schema, nil
	case field.IsMap():
		values, err := b.value(field.MapValue(), at, rules.GetMap().GetValues())
		if err != nil {
			return nil, err
		}
		schema := object{{"type", "object"}, {"additionalProperties", values}}
		if r := rules.GetMap(); r != nil {
			bound(&schema, "maxProperties", r.MaxPairs)
		}
		return schema, nil
	default:
		return b.value(field, at, rules)
	}
}

func (b *builder) value(field protoreflect.FieldDescriptor, at place, rules *validate.FieldRules) (object, error) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return stringSchema(rules.GetString_()), nil
	case protoreflect.BoolKind:
		return object{{"type", "boolean"}}, nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		schema := object{{"type", "integer"}, {"format", "int32"}}
		if r := rules.GetInt32(); r != nil {
			bound(&schema, "minimum", r.Gte)
			bound(&schema, "maximum", r.Lte)
		}
		return schema, nil
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		schema := object{{"type", "integer"}, {"format", "int64"}}
		if r := rules.GetInt64(); r != nil {
			bound(&schema, "minimum", r.Gte)
			bound(&schema, "maximum", r.Lte)
		}
		return schema, nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return object{{"type", "integer"}, {"minimum", 0}}, nil
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		schema := object{{"type", "number"}, {"format", field.Kind().String()}}
		if r := rules.GetDouble(); r != nil {
			bound(&schema, "minimum", r.Gte)
			bound(&schema, "maximum", r.Lte)
		}
		return schema, nil
	case protoreflect.EnumKind:
		words, err := contract.EnumNames(field.Enum())
		if err != nil {
			return nil, err
		}
		var texts []string
		for _, word := range words {
			texts = append(texts, word.Text)
		}
		return object{{"type", "string"}, {"enum", texts}}, nil
	case protoreflect.MessageKind:
		switch field.Message().FullName() {
		case "google.protobuf.Timestamp":
			return object{{"type", "string"}, {"format", "date-time"}}, nil
		case "google.protobuf.Struct":
			return object{{"type", "object"}, {"additionalProperties", true}}, nil
		}
		if wellKnown(field.Message()) {
			break
		}
		describe := b.input
		if at == inAnswer {
			describe = b.output
		}
		name, err := describe(field.Message())
		return reference(name), err
	default:
	}
	return nil, fmt.Errorf("%s has no form in the API's JSON", field.FullName())
}

func stringSchema(rules *validate.StringRules) object {
	schema := object{{"type", "string"}}
	switch {
	case rules.GetEmail():
		set(&schema, "format", "email")
	case rules.GetUuid():
		set(&schema, "format", "uuid")
	}
	if rules != nil {
		bound(&schema, "minLength", rules.MinLen)
		bound(&schema, "maxLength", rules.MaxLen)
		bound(&schema, "pattern", rules.Pattern)
	}
	if len(rules.GetIn()) > 0 {
		set(&schema, "enum", rules.GetIn())
	}
	return schema
}

func bound[T any](schema *object, key string, value *T) {
	if value != nil {
		set(schema, key, *value)
	}
}

// isRequired reads off the validation rules that the zero value is refused.
func isRequired(field protoreflect.FieldDescriptor) bool {
	if field.HasOptionalKeyword() {
		return false
	}
	rules, _ := proto.GetExtension(field.Options(), validate.E_Rules).(*validate.FieldRules)
	return rules.GetString_().GetMinLen() > 0 || rules.GetString_().GetEmail() || rules.GetString_().GetUuid() ||
		slices.Contains(rules.GetEnum().GetNotIn(), 0) || rules.GetMessage().GetRequired() ||
		rules.GetRepeated().GetMinItems() > 0
}

func wellKnown(desc protoreflect.MessageDescriptor) bool {
	return desc.FullName().Parent() == "google.protobuf"
}

func messageOf(field protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	if field.IsMap() {
		return field.MapValue().Message()
	}
	return field.Message()
}
