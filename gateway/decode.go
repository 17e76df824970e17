package gateway

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

// maxDepth bounds the nesting of objects and arrays in a body.
const maxDepth = 32

// maxViolations and maxFieldName bound an error response, because the client
// chooses the names. maxIgnored bounds the ignored keys for the same reason.
const (
	maxViolations = 100
	maxFieldName  = 200
	maxIgnored    = 100
)

// violations collects the faults of one request, or of one item of a bulk request. The
// field names have the spelling of the client. A message is the part of the sentence
// after the field name.
type violations struct {
	list []affiliate.Violation
	// ofItem is true for the faults of an item. Then add keeps only the first faults, and
	// the decoder reads on, because other items follow.
	ofItem bool
}

func (v *violations) add(field, message string) {
	// The core reports up to affiliate.MaxItemViolations faults of an item. One more
	// fault shows the core that there are more.
	if v.ofItem && len(v.list) > affiliate.MaxItemViolations {
		return
	}
	v.addLast(field, message)
}

// addLast adds the fault that ends the decoding. It adds the fault even if the item
// already has the maximum number of faults.
func (v *violations) addLast(field, message string) {
	if len(v.list) >= maxViolations {
		return
	}
	if len(field) > maxFieldName {
		field = field[:maxFieldName] + "…"
	}
	v.list = append(v.list, affiliate.Violation{Field: strings.ToValidUTF8(field, "\ufffd"), Message: message})
}

// names reports whether a field has a fault.
func (v *violations) names(field string) bool {
	return slices.ContainsFunc(v.list, func(fault affiliate.Violation) bool { return fault.Field == field })
}

// full reports whether the list cannot take more faults, so that the decoder can stop.
func (v *violations) full() bool { return !v.ofItem && len(v.list) >= maxViolations }

// decoder decodes one body into one message and collects every fault. It stops early only
// if the text is not JSON, nests too deep, or has maxViolations faults.
type decoder struct {
	jsonscan.Scanner
	depth int
	path  []step
	found *violations
	// mask collects the proto paths of the keys in the body. It is nil if the request has
	// no update_mask.
	mask *[]string
	// ignored collects the paths of unknown keys. If it is nil, unknown keys are faults.
	ignored *[]string
	// items is the list whose items fail separately. It is nil for most requests.
	items *itemList
}

// itemList is the list of a bulk request. Each item has its own result (DECISIONS.md
// section 17.7). The decoder adds the faults of an item to the field faults of the same
// message, for the core. They do not refuse the request.
type itemList struct {
	list, faults *fieldPlan
}

// step is one part of the JSON path: a key when isKey is set, else an index.
type step struct {
	key   string
	isKey bool
	index int
}

// decodeBody decodes a body into m, without an update mask. It accepts the keys in names.
// All other keys are faults. An empty body counts as an empty object.
func decodeBody(body []byte, names map[string]*fieldPlan, m protoreflect.Message, found *violations) {
	d := decoder{found: found}
	d.body(body, names, m)
}

// body decodes a body into m with the settings of the decoder.
func (d *decoder) body(body []byte, names map[string]*fieldPlan, m protoreflect.Message) {
	d.Scanner = jsonscan.Scanner{Data: string(body)}
	if d.Space(); d.Pos == len(body) {
		return
	}
	if d.Space() != '{' {
		if d.skip() {
			d.end()
			d.fault("must be a JSON object")
		}
		return
	}
	if d.object(names, m, "") {
		d.end()
	}
}

// end adds a fault if other text follows the value.
func (d *decoder) end() {
	if d.Space(); d.Pos < len(d.Data) {
		d.found.add(affiliate.WholeBody, "must not continue after the JSON object")
	}
}

// fault adds a violation at the current path.
func (d *decoder) fault(message string) { d.found.add(d.where(), message) }

// where returns the current path in the spelling of the client.
func (d *decoder) where() string {
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

// broken adds the fault that the text is not JSON. It returns false, which ends the
// decoding.
func (d *decoder) broken() bool {
	d.found.addLast(affiliate.WholeBody, "is not valid JSON at byte "+strconv.Itoa(d.Pos))
	return false
}

func (d *decoder) enter() bool {
	d.Pos++
	if d.depth++; d.depth > maxDepth {
		d.found.addLast(d.where(), "must not be nested deeper than "+strconv.Itoa(maxDepth)+" levels")
		return false
	}
	return true
}

// progress is the state of reading an object or array.
type progress uint8

const (
	stop progress = iota // the decoding has ended
	item                 // Pos is on a value
	done                 // Pos is after the closing bracket
)

// open enters an object or array whose bracket is at Pos.
func (d *decoder) open(closing byte) progress {
	if !d.enter() {
		return stop
	}
	d.path = append(d.path, step{index: -1})
	if d.Take(closing) {
		return d.close()
	}
	return item
}

// next moves from the end of a value to the next value or past the closing bracket.
func (d *decoder) next(closing byte) progress {
	switch {
	case d.found.full():
		return stop
	case d.Take(','):
		return item
	case d.Take(closing):
		return d.close()
	}
	d.broken()
	return stop
}

func (d *decoder) close() progress {
	d.path = d.path[:len(d.path)-1]
	d.depth--
	return done
}

// member reads a key and the colon after it. flaw is the message of a fault if the key
// cannot be used.
func (d *decoder) member() (key, flaw string, ok bool) {
	if d.Space() != '"' {
		return "", "", d.broken()
	}
	key, flaw, ok = d.Text()
	if !ok || !d.Take(':') {
		return "", "", d.broken()
	}
	d.path[len(d.path)-1] = step{key: key, isKey: true}
	if flaw != "" {
		flaw = flaw + " in its name"
	}
	return key, flaw, true
}

// nextIndex moves the path to the next index of an array.
func (d *decoder) nextIndex() { d.path[len(d.path)-1].index++ }

// skip skips a value. It checks only that the value is JSON and not nested too deep.
func (d *decoder) skip() bool {
	switch c := d.Space(); {
	case c == '{':
		t := d.open('}')
		for ; t == item; t = d.next('}') {
			if _, _, ok := d.member(); !ok || !d.skip() {
				return false
			}
		}
		return t == done
	case c == '[':
		t := d.open(']')
		for ; t == item; t = d.next(']') {
			if d.nextIndex(); !d.skip() {
				return false
			}
		}
		return t == done
	case c == '"':
		if _, _, ok := d.Text(); !ok {
			return d.broken()
		}
	case c == '-' || c >= '0' && c <= '9':
		if _, _, ok := d.Number(); !ok {
			return d.broken()
		}
	case !d.Literal("true") && !d.Literal("false") && !d.Literal("null"):
		return d.broken()
	}
	return true
}

// refuse adds a fault for the value at Pos and skips the value.
func (d *decoder) refuse(message string) bool {
	d.fault(message)
	return d.skip()
}

// keySet contains the keys of an object that have been read.
type keySet struct {
	fields [2]uint64
	// others contains unknown keys and fields after the 128th.
	others map[string]bool
}

// testAndAdd reports whether the key was read before and adds it to the set.
func (s *keySet) testAndAdd(key string, field *fieldPlan) bool {
	if field != nil && field.index < 64*len(s.fields) {
		word, bit := &s.fields[field.index/64], uint64(1)<<(field.index%64)
		repeated := *word&bit != 0
		*word |= bit
		return repeated
	}
	if s.others == nil {
		s.others = make(map[string]bool)
	}
	repeated := s.others[key]
	s.others[key] = true
	return repeated
}

// object decodes an object into m. prefix is the proto path of m for the update mask.
func (d *decoder) object(names map[string]*fieldPlan, m protoreflect.Message, prefix string) bool {
	var keys keySet
	t := d.open('}')
	for ; t == item; t = d.next('}') {
		key, flaw, ok := d.member()
		if !ok {
			return false
		}
		field := names[key]
		switch {
		case flaw != "":
			ok = d.refuse(flaw)
		case field == nil && d.ignored != nil:
			ok = d.ignore(keys.testAndAdd(key, nil))
		case keys.testAndAdd(key, field):
			ok = d.refuse(givenTwice)
		case field == nil:
			ok = d.refuse(unknownField)
		default:
			ok = d.field(field, m, prefix)
		}
		if !ok {
			return false
		}
	}
	return t == done
}

// ignore skips the value of an unknown key. It adds the key to the ignored keys unless
// the key is repeated.
func (d *decoder) ignore(repeated bool) bool {
	if !repeated && len(*d.ignored) < maxIgnored {
		*d.ignored = append(*d.ignored, d.where())
	}
	return d.skip()
}

func (d *decoder) field(f *fieldPlan, m protoreflect.Message, prefix string) bool {
	c := d.Space()
	// An object changes only the fields that it contains, so the mask gets its keys. null
	// and all other values replace the whole field.
	merges := c == '{' && f.message != nil && f.message.form == formObject && !f.list && !f.dict
	if d.mask != nil && !merges {
		*d.mask = append(*d.mask, prefix+string(f.fd.Name()))
	}
	if c == 'n' {
		if !d.Literal("null") {
			return d.broken()
		}
		return true
	}
	if f.oneof != nil {
		if other := m.WhichOneof(f.oneof); other != nil {
			object := strings.TrimSuffix(d.where(), d.path[len(d.path)-1].key)
			return d.refuse(mustNotBeWith + object + other.JSONName())
		}
	}
	switch {
	case f.list:
		return d.list(f, m)
	case f.dict:
		return d.dict(f, m)
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

// list decodes an array. The mask contains the list as a whole and no keys of its
// elements.
func (d *decoder) list(f *fieldPlan, m protoreflect.Message) bool {
	if d.Space() != '[' {
		return d.refuse(mustBeArray)
	}
	mask := d.mask
	d.mask = nil
	list := m.Mutable(f.fd).List()
	t := d.open(']')
	for ; t == item; t = d.next(']') {
		d.nextIndex()
		var value protoreflect.Value
		var usable, ok bool
		if d.items != nil && f == d.items.list && d.Space() == '{' {
			value, usable, ok = d.batchItem(f, list.NewElement, m)
		} else {
			value, usable, ok = d.element(f, list.NewElement)
		}
		if usable {
			list.Append(value)
		}
		if !ok {
			return false
		}
	}
	d.mask = mask
	return t == done
}

// batchItem decodes an item of a bulk request. If the item has faults, batchItem adds
// them to the list of item faults in m and returns an empty item. Faults that end the
// decoding become faults of the request.
func (d *decoder) batchItem(f *fieldPlan, newValue func() protoreflect.Value, m protoreflect.Message) (value protoreflect.Value, usable, ok bool) {
	ofRequest, ofItem := d.found, violations{ofItem: true}
	d.found = &ofItem
	value, usable, ok = d.element(f, newValue)
	d.found = ofRequest
	switch {
	case !ok:
		room := min(len(ofItem.list), maxViolations-len(ofRequest.list))
		ofRequest.list = append(ofRequest.list, ofItem.list[:room]...)
	case len(ofItem.list) > 0:
		d.failItem(m, ofItem.list)
		value = newValue()
	}
	return value, usable, ok
}

// failItem appends the faults of the current item to the list of item faults.
func (d *decoder) failItem(m protoreflect.Message, found []affiliate.Violation) {
	item := d.where()
	plan := d.items.faults
	faults := m.Mutable(plan.fd).List()
	for _, fault := range found {
		entry := faults.NewElement()
		set := func(name string, value protoreflect.Value) { entry.Message().Set(plan.message.names[name].fd, value) }
		set("index", protoreflect.ValueOfInt32(int32(d.path[len(d.path)-1].index))) //nolint:gosec // at most the length of a body
		set("field", protoreflect.ValueOfString(strings.TrimPrefix(strings.TrimPrefix(fault.Field, item), ".")))
		set("message", protoreflect.ValueOfString(fault.Message))
		faults.Append(entry)
	}
}

// dict decodes a map. The mask contains the map as a whole and none of its keys.
func (d *decoder) dict(f *fieldPlan, m protoreflect.Message) bool {
	if d.Space() != '{' {
		return d.refuse(mustBeObject)
	}
	mask := d.mask
	d.mask = nil
	dict := m.Mutable(f.fd).Map()
	var keys keySet
	t := d.open('}')
	for ; t == item; t = d.next('}') {
		key, flaw, ok := d.member()
		switch {
		case !ok:
		case flaw != "":
			ok = d.refuse(flaw)
		case keys.testAndAdd(key, nil):
			ok = d.refuse(givenTwice)
		default:
			var value protoreflect.Value
			var usable bool
			if value, usable, ok = d.element(f.item, dict.NewValue); usable {
				dict.Set(protoreflect.ValueOfString(key).MapKey(), value)
			}
		}
		if !ok {
			return false
		}
	}
	d.mask = mask
	return t == done
}

// element decodes an element of a list or a value of a map. newValue returns a new
// message.
func (d *decoder) element(f *fieldPlan, newValue func() protoreflect.Value) (value protoreflect.Value, usable, ok bool) {
	if d.Space() == 'n' {
		if !d.Literal("null") {
			return value, false, d.broken()
		}
		d.fault(mustNotBeNull)
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
		if d.Space() != '"' {
			return d.refuse(mustBeTimestamp)
		}
		text, usable, ok := d.plainText()
		if usable {
			if wrong := parseTimestamp(text, m); wrong != "" {
				d.fault(wrong)
			}
		}
		return ok
	case formStruct:
		return d.dynamic(m)
	default:
		if d.Space() != '{' {
			return d.refuse(mustBeObject)
		}
		return d.object(plan.names, m, prefix)
	}
}

// plainText reads a string. If it contains characters that cannot be stored, plainText
// adds a fault and returns usable == false.
func (d *decoder) plainText() (text string, usable, ok bool) {
	text, flaw, ok := d.Text()
	switch {
	case !ok:
		return "", false, d.broken()
	case flaw != "":
		d.fault(flaw)
		return "", false, true
	}
	return text, true, true
}
