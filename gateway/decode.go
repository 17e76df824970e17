package gateway

import (
	"cmp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

// An error response repeats field names that the client sent. To bound the size of the
// response, the gateway limits their number and length. maxViolations is the maximum
// number of violations, maxFieldName the maximum length of a name in bytes, and
// maxIgnored the maximum number of ignored keys.
const (
	maxViolations = 100
	maxFieldName  = 200
	maxIgnored    = 100
)

// decoder decodes one body into one message and collects all faults of the body. It stops
// early only if the text is not valid JSON, is nested too deeply, or has maxViolations
// faults. A method returns false, or false as its result ok, if the decoder has stopped.
type decoder struct {
	jsonscan.Scanner
	depth  int
	path   []step
	faults *violations
	// earlier is the number of faults that the request had before its body was decoded.
	earlier int
	// spellings collects the keys that differ from the JSON names of their fields.
	spellings spellings
	// mask collects the paths of the fields that the body sets, for the update_mask of
	// the request. It is nil if the request has no update_mask.
	mask *[]string
	// ignored collects the paths of unknown keys. If it is nil, unknown keys are faults.
	ignored *[]string
	// items describes the list of a bulk request. It is nil for other requests.
	items *itemList
}

// itemList describes the list of a bulk request. Each item has its own result, so the
// request is not refused because of faults of an item. list is the field that contains
// the items. faults is the field into which the decoder writes the faults of the items for the core. spellings is the
// map field into which it writes the keys that differ from the JSON names of their fields.
type itemList struct {
	list, faults *fieldPlan
	spellings    protoreflect.FieldDescriptor
}

// step is one part of a JSON path: a key if isKey is true, and otherwise an index.
type step struct {
	key   string
	isKey bool
	index int
}

// decodeBody decodes a body into m, without an update mask. The map names contains the accepted
// keys. All other keys are faults. An empty body counts as an empty object.
func decodeBody(body []byte, names map[string]*fieldPlan, m protoreflect.Message, faults *violations) {
	d := decoder{faults: faults}
	d.body(body, names, m)
}

// body decodes a body into m. The map names contains the accepted keys.
func (d *decoder) body(body []byte, names map[string]*fieldPlan, m protoreflect.Message) {
	d.Scanner = jsonscan.Scanner{Data: string(body)}
	d.earlier = len(d.faults.list)
	if d.SkipSpace(); d.Pos == len(body) {
		return
	}
	isObject := d.SkipSpace() == '{'
	ok := isObject && d.object(names, m, "") || !isObject && d.skip()
	switch d.SkipSpace(); {
	case !ok:
		d.faults.incomplete = true
	case d.Pos < len(d.Data):
		d.malformed("must not continue after the JSON object")
	case !isObject:
		d.faults.incomplete = true
		d.addFault("must be a JSON object")
	}
}

func (d *decoder) addFault(message string) { d.faults.add(d.currentPath(), message) }

// currentPath returns the path of the current value, as the client spelled the keys.
func (d *decoder) currentPath() string {
	if len(d.path) == 0 {
		return affiliate.WholeBody
	}
	var b strings.Builder
	for _, s := range d.path {
		if !s.isKey {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.key)
	}
	return b.String()
}

func (d *decoder) spell(field *fieldPlan, key string) {
	if d.spellings == nil {
		d.spellings = make(spellings)
	}
	d.spellings[field.fd.FullName()] = key
}

// repeated returns the message for a key of the current object that stands for the same field as an earlier key. The
// earlier key is the parameter first.
func (d *decoder) repeated(key, first string) string {
	if key == first {
		return givenTwice
	}
	return mustNotBeWith + d.sibling(first) + ", which is the same field"
}

func (d *decoder) sibling(key string) string {
	return strings.TrimSuffix(d.currentPath(), d.path[len(d.path)-1].key) + key
}

// object decodes an object into m. prefix is the path of m in the update mask, with a dot at the end if the path is not
// empty.
func (d *decoder) object(names map[string]*fieldPlan, m protoreflect.Message, prefix string) bool {
	var keys keySet
	return d.members(func(key string) bool {
		field := names[key]
		switch {
		case field == nil && d.ignored != nil:
			return d.ignore(keys.testAndAdd(key, nil))
		case field == nil && keys.testAndAdd(key, nil):
			return d.rejectValue(givenTwice)
		case field == nil:
			return d.rejectValue(unknownField)
		case keys.testAndAdd(field.name, field):
			return d.rejectValue(d.repeated(key, cmp.Or(keys.spelled[field], field.name)))
		}
		if key != field.name {
			keys.spell(field, key)
			d.spell(field, key)
		}
		return d.field(field, m, prefix)
	})
}

// ignore skips the value of an unknown key. If the key is not repeated, it adds the path
// of the key to d.ignored.
func (d *decoder) ignore(repeated bool) bool {
	if !repeated && len(*d.ignored) < maxIgnored {
		*d.ignored = append(*d.ignored, d.currentPath())
	}
	return d.skip()
}

// field decodes the value of a field and sets it in m. A null leaves the field unset.
func (d *decoder) field(f *fieldPlan, m protoreflect.Message, prefix string) bool {
	c := d.SkipSpace()
	// An object changes only the fields that it contains, so the mask gets the paths of
	// these fields. null and all other values replace the whole field, so the mask gets
	// the path of the field itself.
	merges := c == '{' && f.message != nil && f.message.form == formObject && !f.isList && !f.isMap
	if d.mask != nil && !merges {
		*d.mask = append(*d.mask, prefix+string(f.fd.Name()))
	}
	if c == 'n' {
		if !d.Literal("null") {
			return d.invalidJSON()
		}
		return true
	}
	if f.oneof != nil {
		if other := m.WhichOneof(f.oneof); other != nil {
			return d.rejectValue(mustNotBeWith + d.sibling(cmp.Or(d.spellings[other.FullName()], other.JSONName())))
		}
	}
	switch {
	case f.isList:
		return d.listField(f, m)
	case f.isMap:
		return d.mapField(f, m)
	case f.message != nil:
		if d.mask != nil {
			prefix += string(f.fd.Name()) + "."
		}
		return d.message(f.message, m.Mutable(f.fd).Message(), prefix)
	}
	value, usable, ok := d.scalar(f)
	if usable {
		m.Set(f.fd, value)
	}
	return ok
}

// listField decodes an array. The mask already contains the path of the list, so no paths
// inside its elements are added.
func (d *decoder) listField(f *fieldPlan, m protoreflect.Message) bool {
	if d.SkipSpace() != '[' {
		return d.rejectValue(mustBeArray)
	}
	mask := d.mask
	d.mask = nil
	list := m.Mutable(f.fd).List()
	ok := d.elements(func() bool {
		var value protoreflect.Value
		var usable, ok bool
		if d.items != nil && f == d.items.list && d.SkipSpace() == '{' {
			value, usable, ok = d.bulkItem(f, list.NewElement, m)
		} else {
			value, usable, ok = d.element(f, list.NewElement)
		}
		if ok && !usable {
			// The core names the elements by their index, so no element may be missing.
			value = list.NewElement()
		}
		if ok {
			list.Append(value)
		}
		return ok
	})
	d.mask = mask
	return ok
}

// bulkItem decodes an item of a bulk request. If the item has faults, bulkItem adds
// them to the list of item faults in m. If the decoder must stop, the faults become
// faults of the request.
func (d *decoder) bulkItem(f *fieldPlan, newValue func() protoreflect.Value, m protoreflect.Message) (value protoreflect.Value, usable, ok bool) {
	requestViolations, itemViolations := d.faults, violations{singleItem: true}
	d.faults = &itemViolations
	value, usable, ok = d.element(f, newValue)
	d.faults = requestViolations
	switch {
	case !ok:
		if itemViolations.incomplete {
			requestViolations.list = requestViolations.list[:d.earlier]
		}
		n := min(len(itemViolations.list), maxViolations-len(requestViolations.list))
		requestViolations.list = append(requestViolations.list, itemViolations.list[:n]...)
	case len(itemViolations.list) > 0:
		d.failItem(m, itemViolations.list)
	}
	return value, usable, ok
}

// failItem appends the faults of the current item to the list of item faults in m.
func (d *decoder) failItem(m protoreflect.Message, itemViolations []affiliate.Violation) {
	item := d.currentPath()
	plan := d.items.faults
	faults := m.Mutable(plan.fd).List()
	for _, fault := range itemViolations {
		entry := faults.NewElement()
		set := func(name string, value protoreflect.Value) { entry.Message().Set(plan.message.names[name].fd, value) }
		set("index", protoreflect.ValueOfInt32(int32(d.path[len(d.path)-1].index))) //nolint:gosec // at most the length of a body
		set("field", protoreflect.ValueOfString(strings.TrimPrefix(strings.TrimPrefix(fault.Field, item), ".")))
		set("message", protoreflect.ValueOfString(fault.Message))
		faults.Append(entry)
	}
}

// mapField decodes a map. The mask already contains the path of the map, so no keys of
// the map are added.
func (d *decoder) mapField(f *fieldPlan, m protoreflect.Message) bool {
	if d.SkipSpace() != '{' {
		return d.rejectValue(mustBeObject)
	}
	mask := d.mask
	d.mask = nil
	dict := m.Mutable(f.fd).Map()
	var keys keySet
	ok := d.members(func(key string) bool {
		if keys.testAndAdd(key, nil) {
			return d.rejectValue(givenTwice)
		}
		value, usable, ok := d.element(f.mapValue, dict.NewValue)
		if usable {
			dict.Set(protoreflect.ValueOfString(key).MapKey(), value)
		}
		return ok
	})
	d.mask = mask
	return ok
}

// element decodes an element of a list or a value of a map. newValue returns a new
// message.
func (d *decoder) element(f *fieldPlan, newValue func() protoreflect.Value) (value protoreflect.Value, usable, ok bool) {
	if d.SkipSpace() == 'n' {
		if !d.Literal("null") {
			return value, false, d.invalidJSON()
		}
		d.addFault(mustNotBeNull)
		return value, false, true
	}
	if f.message == nil {
		return d.scalar(f)
	}
	value = newValue()
	ok = d.message(f.message, value.Message(), "")
	return value, ok, ok
}

func (d *decoder) message(plan *messagePlan, m protoreflect.Message, prefix string) bool {
	switch plan.form {
	case formTimestamp:
		if d.SkipSpace() != '"' {
			return d.rejectValue(mustBeTimestamp)
		}
		text, usable, ok := d.plainText()
		if usable {
			if fault := parseTimestamp(text, m); fault != "" {
				d.addFault(fault)
			}
		}
		return ok
	case formStruct:
		return d.structMessage(m)
	default:
		if d.SkipSpace() != '{' {
			return d.rejectValue(mustBeObject)
		}
		return d.object(plan.names, m, prefix)
	}
}

// plainText decodes a string. If the string contains characters that cannot be stored,
// plainText adds a fault and usable is false.
func (d *decoder) plainText() (text string, usable, ok bool) {
	text, fault, ok := d.Text()
	switch {
	case !ok:
		return "", false, d.invalidJSON()
	case fault != "":
		d.addFault(fault)
		return "", false, true
	}
	return text, true, true
}
