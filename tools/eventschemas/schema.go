package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// schema is a JSON Schema 2020-12 with the keywords that events need, in the order in
// which they are written.
type schema struct {
	Dialect     string     `json:"$schema,omitempty"`
	ID          string     `json:"$id,omitempty"`
	Ref         string     `json:"$ref,omitempty"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Type        any        `json:"type,omitempty"` // a string, or a list of a string and "null"
	Const       string     `json:"const,omitempty"`
	Enum        []any      `json:"enum,omitempty"`
	Format      string     `json:"format,omitempty"`
	Pattern     string     `json:"pattern,omitempty"`
	Items       *schema    `json:"items,omitempty"`
	Properties  properties `json:"properties,omitempty"`
	Required    []string   `json:"required,omitempty"`
	MinMembers  int        `json:"minProperties,omitempty"`
	Additional  *bool      `json:"additionalProperties,omitempty"`
}

// properties is a JSON object. It keeps the order of its keys.
type properties []property

type property struct {
	name string
	schema
}

// MarshalJSON writes the properties as an object.
func (p properties) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, member := range p {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:", member.name)
		text, err := encode(member.schema)
		if err != nil {
			return nil, err
		}
		out.Write(text)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// encode is like json.Marshal, but does not escape <, > and &.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}

func render(s schema) (string, error) {
	text, err := encode(s)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return "", err
	}
	out.WriteByte('\n')
	return out.String(), nil
}

const (
	dialect = "https://json-schema.org/draft/2020-12/schema"
	// idPrefix is the prefix of the schemas' ids. The ids are URNs and not URLs, because
	// each deployment publishes its documents at another address.
	idPrefix = "urn:tributary:event:v1:"
)

// closedObject returns the schema of an object that must have all these members and must
// not have others.
func closedObject(members ...property) schema {
	s := schema{Type: "object", Properties: members, Additional: new(bool)}
	for _, member := range members {
		s.Required = append(s.Required, member.name)
	}
	return s
}

// bodySchema returns the schema of an event's whole body.
func bodySchema(kind affiliate.EventKind, object reflect.Type, src source) (schema, error) {
	after, err := objectOf(object, "", src)
	if err != nil {
		return schema{}, err
	}
	after.Description = "The object that the event is about, as it was after the event."
	changed := schema{
		Description: "The changed fields of the object, with their values before the event. Absent if no field changed.",
		Type:        "object", MinMembers: 1, Additional: new(bool),
	}
	for _, member := range after.Properties {
		ref := schema{Ref: "#/properties/data/properties/object/properties/" + member.name}
		changed.Properties = append(changed.Properties, property{member.name, ref})
	}
	data := closedObject(property{"object", after})
	data.Properties = append(data.Properties, property{"previous_attributes", changed})

	described := func(v schema, text string) schema {
		v.Description = text
		return v
	}
	s := closedObject(
		property{"id", schema{Type: "string", Pattern: "^evt_[0-9a-f]{32}$", Description: "The event's id. It is the same in every delivery and equals the header webhook-id."}},
		property{"type", schema{Const: string(kind.Name)}},
		property{"api_version", schema{Const: "v1"}},
		property{"timestamp", schema{Type: "string", Format: "date-time", Description: "The time of the event."}},
		property{"mode", described(enum([]string{string(affiliate.ModeTest), string(affiliate.ModeLive)}), "The mode of the object.")},
		property{"workspace_id", schema{Type: "string", Format: "uuid"}},
		property{"data", data},
	)
	s.Dialect, s.ID, s.Title, s.Description = dialect, idPrefix+string(kind.Name), string(kind.Name), kind.Description
	return s, nil
}

// objectOf returns the schema of a struct. structPath is the path of the struct inside
// the event's object.
func objectOf(t reflect.Type, structPath string, src source) (schema, error) {
	members, err := membersOf(t, structPath, src)
	return closedObject(members...), err
}

func membersOf(t reflect.Type, structPath string, src source) (properties, error) {
	var members properties
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			embedded, err := membersOf(field.Type, structPath, src)
			if err != nil {
				return nil, err
			}
			members = append(members, embedded...)
			continue
		}
		fieldPath := strings.TrimPrefix(structPath+"."+name, ".")
		if name == "" || name == "-" || options != "" {
			return nil, fmt.Errorf("%s.%s: every field must have a JSON name and no options", t, field.Name)
		}
		s, err := typeOf(field.Type, fieldPath, src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fieldPath, err)
		}
		s.Description = cmp.Or(pathMeaning(fieldPath), src.meaning(typeName(t), field.Name, name), meanings[name])
		if s.Description == "" {
			return nil, fmt.Errorf("%s.%s needs a comment, or meanings needs an entry for %q", t, field.Name, fieldPath)
		}
		members = append(members, property{name, s})
	}
	return members, nil
}

// pathMeaning returns the description in meanings if fieldPath is the path of a field in a
// nested object. Otherwise it returns "".
func pathMeaning(fieldPath string) string {
	if !strings.Contains(fieldPath, ".") {
		return ""
	}
	return meanings[fieldPath]
}

// typeName returns the name under which source stores a type.
func typeName(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// typeOf returns the schema of a field of type t. Timestamps and currencies are
// recognised by the names of their fields, because their Go type is string.
func typeOf(t reflect.Type, fieldPath string, src source) (schema, error) {
	name := fieldPath[strings.LastIndexByte(fieldPath, '.')+1:]
	switch {
	case t.Kind() == reflect.Pointer:
		s, err := typeOf(t.Elem(), fieldPath, src)
		return nullable(s), err
	case isID(t):
		return schema{Type: "string", Format: "uuid"}, nil
	case t == reflect.TypeFor[json.Number]():
		return schema{Type: "number"}, nil
	case t.Kind() == reflect.Bool:
		return schema{Type: "boolean"}, nil
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return schema{Type: "integer"}, nil
	case t.Kind() == reflect.Slice:
		item, err := typeOf(t.Elem(), fieldPath, src)
		return schema{Type: "array", Items: &item}, err
	case t.Kind() == reflect.Struct:
		return objectOf(t, fieldPath, src)
	case t.Kind() != reflect.String:
		return schema{}, fmt.Errorf("the type %s is not supported", t)
	case t.PkgPath() != "":
		values := src.values[typeName(t)]
		if len(values) == 0 {
			return schema{}, fmt.Errorf("%s has no constants", t)
		}
		return enum(values), nil
	case len(enums[fieldPath]) > 0:
		return enum(enums[fieldPath]), nil
	case strings.HasSuffix(name, "_at") || strings.HasSuffix(name, "_until"):
		return schema{Type: "string", Format: "date-time"}, nil
	case name == "currency":
		return schema{Type: "string", Pattern: "^[A-Z]{3}$"}, nil
	}
	return schema{Type: "string"}, nil
}

// isID reports whether the type is an affiliate.ID.
func isID(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() == 1 && t.Field(0).Type == reflect.TypeFor[uuid.UUID]()
}

func enum(values []string) schema {
	s := schema{Type: "string"}
	for _, value := range values {
		s.Enum = append(s.Enum, value)
	}
	return s
}

func nullable(s schema) schema {
	s.Type = []string{fmt.Sprint(s.Type), "null"}
	if s.Enum != nil {
		s.Enum = append(s.Enum, nil)
	}
	return s
}
