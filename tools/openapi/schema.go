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

// place says in which part of the API a field is used. Each part describes absent fields
// in a different way.
type place int

const (
	inQuery place = iota
	// inRequest: a field may be absent or null unless it is required.
	inRequest
	// inResponse: every field is present. Fields without a value are null.
	inResponse
)

// collect adds a response message, and all messages in its fields, to b.outputs.
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
	return b.message(string(desc.Name()), desc, inResponse)
}

// input adds the schema of a message in a request and returns the schema's name. If the
// message is also part of responses, the name ends with Input, because the two schemas
// are different.
func (b *builder) input(desc protoreflect.MessageDescriptor) (string, error) {
	name := string(desc.Name())
	if b.outputs[desc.FullName()] {
		name += "Input"
	}
	return b.message(name, desc, inRequest)
}

func (b *builder) message(name string, desc protoreflect.MessageDescriptor, at place) (string, error) {
	exists, err := b.claim(name, fmt.Sprint(desc.FullName(), at))
	if exists || err != nil {
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
	if key := contract.PageSizeKey(desc); key != "" && at == inResponse {
		addPageSize(schema, key)
	}
	if text := b.prose.messages[string(desc.Name())]; text != "" {
		schema = slices.Insert(schema, 1, member{"description", text})
	}
	b.schemas[name] = schema
	return name, nil
}

// addPageSize adds the property that repeats the limit of a list to the schema of the list.
func addPageSize(schema object, key string) {
	for i, m := range schema {
		switch value := m.value.(type) {
		case object:
			limit, _ := value.get("limit").(object)
			set(&value, key, limit)
			schema[i].value = value
		case []string:
			schema[i].value = append(value, key)
		}
	}
}

// requestBody adds the schema of a route's body: the request message without the fields
// of the path, without update_mask and without the fields that the gateway sets.
func (b *builder) requestBody(r contract.Route, key string) (name string, required bool, err error) {
	desc := r.RPC.Input()
	name = string(desc.Name())
	var fields []protoreflect.FieldDescriptor
	parts := []string{string(desc.FullName())}
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		mask := r.Mask()
		if r.InPath(field) || mask != nil && mask.Number() == field.Number() || contract.SetByGateway(field) {
			continue
		}
		fields = append(fields, field)
		parts = append(parts, field.JSONName())
	}
	text := func(field protoreflect.FieldDescriptor) string { return b.prose.bodies[key+" "+field.JSONName()] }
	schema, required, err := b.schema(fields, inRequest, r.Mask() != nil, text)
	if err != nil {
		return "", false, err
	}
	origin := strings.Join(parts, ",")
	if len(fields) == desc.Fields().Len() {
		// The body is the whole message, so another request may contain the same schema.
		origin = fmt.Sprint(desc.FullName(), inRequest)
	}
	exists, err := b.claim(name, origin)
	if err != nil {
		return "", false, err
	}
	if !exists {
		b.schemas[name] = schema
	}
	return name, required, nil
}

// claim reserves the name of a schema. The origin is the source of the schema, such as a
// message. exists reports whether the name was reserved for the same origin before. For
// another origin, claim returns an error.
func (b *builder) claim(name, origin string) (exists bool, err error) {
	switch b.origin[name] {
	case "":
		b.origin[name] = origin
		return false, nil
	case origin:
		return true, nil
	default:
		return false, fmt.Errorf("two different schemas would have the name %s", name)
	}
}

// schema describes an object with the fields. If partial is set, no field is required, as
// in a PATCH request. hasRequired reports whether a field is required.
func (b *builder) schema(fields []protoreflect.FieldDescriptor, at place, partial bool, text func(protoreflect.FieldDescriptor) string) (schema object, hasRequired bool, err error) {
	schema = object{{"type", "object"}}
	var required []string
	var properties object
	for _, field := range fields {
		omitted := at == inResponse && contract.OmitIfAbsent(field)
		alwaysPresent := at == inResponse && !omitted || at != inResponse && !partial && isRequired(field)
		property, err := b.field(field, at)
		if err != nil {
			return nil, false, err
		}
		mayBeNull := at == inRequest && !alwaysPresent || at == inResponse && !omitted && (field.HasPresence() || isEnum(field))
		if mayBeNull {
			property = nullable(property)
		}
		if text := text(field); text != "" {
			property = described(property, text)
		}
		if alwaysPresent {
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

// nullable returns the schema of a property that may also be null. A reference is put
// into an allOf, because OpenAPI ignores all members next to $ref.
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

// described adds a description to the schema of a property.
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
			setOptional(&schema, "minItems", r.MinItems)
			setOptional(&schema, "maxItems", r.MaxItems)
		}
		return schema, nil
	case field.IsMap():
		values, err := b.value(field.MapValue(), at, rules.GetMap().GetValues())
		if err != nil {
			return nil, err
		}
		schema := object{{"type", "object"}, {"additionalProperties", values}}
		if r := rules.GetMap(); r != nil {
			setOptional(&schema, "maxProperties", r.MaxPairs)
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
			setOptional(&schema, "minimum", r.Gte)
			setOptional(&schema, "maximum", r.Lte)
		}
		return schema, nil
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		schema := object{{"type", "integer"}, {"format", "int64"}}
		if r := rules.GetInt64(); r != nil {
			setOptional(&schema, "minimum", r.Gte)
			setOptional(&schema, "maximum", r.Lte)
		}
		return schema, nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return object{{"type", "integer"}, {"minimum", 0}}, nil
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		schema := object{{"type", "number"}, {"format", field.Kind().String()}}
		if r := rules.GetDouble(); r != nil {
			setOptional(&schema, "minimum", r.Gte)
			setOptional(&schema, "maximum", r.Lte)
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
		if at == inResponse {
			describe = b.output
		}
		name, err := describe(field.Message())
		return reference(name), err
	default:
	}
	return nil, fmt.Errorf("%s has a type that the JSON of the API does not support", field.FullName())
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
		setOptional(&schema, "minLength", rules.MinLen)
		setOptional(&schema, "maxLength", rules.MaxLen)
		setOptional(&schema, "pattern", rules.Pattern)
	}
	if len(rules.GetIn()) > 0 {
		set(&schema, "enum", rules.GetIn())
	}
	return schema
}

// setOptional sets a member of the schema, unless value is nil.
func setOptional[T any](schema *object, key string, value *T) {
	if value != nil {
		set(schema, key, *value)
	}
}

// isRequired reports whether the validation rules reject the zero value of the field.
func isRequired(field protoreflect.FieldDescriptor) bool {
	if field.HasOptionalKeyword() {
		return false
	}
	rules, _ := proto.GetExtension(field.Options(), validate.E_Rules).(*validate.FieldRules)
	return rules.GetString_().GetMinLen() > 0 || rules.GetString_().GetEmail() || rules.GetString_().GetUuid() ||
		slices.Contains(rules.GetEnum().GetNotIn(), 0) || rules.GetMessage().GetRequired() ||
		rules.GetRepeated().GetMinItems() > 0 || rules.GetInt32().GetGte() > 0 || rules.GetDouble().GetGte() > 0
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
