package gateway

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
)

// maxDepth bounds the nesting of objects and arrays in a body.
const maxDepth = 32

// maxViolations and maxFieldName bound an error answer, which grows with what
// was sent: a body of nothing but mistakes names the first hundred.
const (
	maxViolations = 100
	maxFieldName  = 200
)

// violations collects what is wrong with one request, named as its client
// writes it.
type violations struct{ list []affiliate.Violation }

func (v *violations) add(field, message string) {
	if v.full() {
		return
	}
	if len(field) > maxFieldName {
		field = field[:maxFieldName] + "…"
	}
	v.list = append(v.list, affiliate.Violation{Field: strings.ToValidUTF8(field, "\ufffd"), Message: message})
}

func (v *violations) full() bool { return len(v.list) >= maxViolations }

// decoder reads one body into one message and notes everything that is wrong
// with it on the way. It stops early only where the text is no JSON any more,
// nests too deep, or has more faults than are worth naming.
type decoder struct {
	scanner
	depth int
	path  []step
	found *violations
	// mask collects the proto paths of the keys present; nil when the request
	// has no update_mask.
	mask *[]string
}

// step is one part of the JSON path: a key when isKey is set, else an index.
type step struct {
	key   string
	isKey bool
	index int
}

// decodeBody reads a body into m, whose accepted keys are names; every other
// key is unknown. An empty body is an empty object.
func decodeBody(body []byte, names map[string]*fieldPlan, m protoreflect.Message, mask *[]string, found *violations) {
	d := decoder{scanner: scanner{data: string(body)}, found: found, mask: mask}
	if d.space(); d.pos == len(body) {
		return
	}
	if d.space() != '{' {
		if d.skip() {
			d.end()
			d.fault("The body must be a JSON object.")
		}
		return
	}
	if d.object(names, m, "") {
		d.end()
	}
}

// end makes sure that nothing follows the value.
func (d *decoder) end() {
	if d.space(); d.pos < len(d.data) {
		d.found.add("", "The body goes on after the JSON object.")
	}
}

// fault notes a violation at the current path.
func (d *decoder) fault(message string) { d.found.add(d.where(), message) }

func (d *decoder) where() string {
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

// broken notes that the text is no JSON and ends the reading.
func (d *decoder) broken() bool {
	d.found.add("", "The body is not valid JSON at byte "+strconv.Itoa(d.pos)+".")
	return false
}

func (d *decoder) enter() bool {
	d.pos++
	if d.depth++; d.depth > maxDepth {
		d.fault("Is nested deeper than " + strconv.Itoa(maxDepth) + " levels.")
		return false
	}
	return true
}

// turn says how reading an object or array goes on.
type turn uint8

const (
	stop turn = iota // nothing more can be read
	item             // pos is on a value
	done             // pos is behind the closing bracket
)

// open enters an object or array, with pos on its bracket.
func (d *decoder) open(closing byte) turn {
	if !d.enter() {
		return stop
	}
	d.path = append(d.path, step{index: -1})
	if d.take(closing) {
		return d.close()
	}
	return item
}

// next goes from behind one value to the next one, or out.
func (d *decoder) next(closing byte) turn {
	switch {
	case d.found.full():
		return stop
	case d.take(','):
		return item
	case d.take(closing):
		return d.close()
	}
	d.broken()
	return stop
}

func (d *decoder) close() turn {
	d.path = d.path[:len(d.path)-1]
	d.depth--
	return done
}

// member reads a key up to its value. flaw tells why the key cannot be used.
func (d *decoder) member() (key, flaw string, ok bool) {
	if d.space() != '"' {
		return "", "", d.broken()
	}
	key, flaw, ok = d.text()
	if !ok || !d.take(':') {
		return "", "", d.broken()
	}
	d.path[len(d.path)-1] = step{key: key, isKey: true}
	if flaw != "" {
		flaw = "This key cannot be used: " + strings.ToLower(flaw[:1]) + flaw[1:]
	}
	return key, flaw, true
}

// element moves the path to the next index of an array.
func (d *decoder) element() { d.path[len(d.path)-1].index++ }

// skip reads past any value. What stands inside a value that is not wanted
// anyway is only checked for being JSON.
func (d *decoder) skip() bool {
	switch c := d.space(); {
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
			if d.element(); !d.skip() {
				return false
			}
		}
		return t == done
	case c == '"':
		if _, _, ok := d.text(); !ok {
			return d.broken()
		}
	case c == '-' || c >= '0' && c <= '9':
		if _, _, ok := d.number(); !ok {
			return d.broken()
		}
	case !d.word("true") && !d.word("false") && !d.word("null"):
		return d.broken()
	}
	return true
}

// refuse notes why the value at pos cannot be taken and skips it.
func (d *decoder) refuse(message string) bool {
	d.fault(message)
	return d.skip()
}

// seen remembers which keys of an object have come.
type seen struct {
	fields [2]uint64
	// others are keys that are no fields, and fields beyond the 128th.
	others map[string]bool
}

// before tells whether the key has come before.
func (s *seen) before(key string, field *fieldPlan) bool {
	if field != nil && field.index < 64*len(s.fields) {
		word, bit := &s.fields[field.index/64], uint64(1)<<(field.index%64)
		before := *word&bit != 0
		*word |= bit
		return before
	}
	if s.others == nil {
		s.others = make(map[string]bool)
	}
	before := s.others[key]
	s.others[key] = true
	return before
}

// object reads an object into m. prefix is the proto path of m for the mask.
func (d *decoder) object(names map[string]*fieldPlan, m protoreflect.Message, prefix string) bool {
	var keys seen
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
		case keys.before(key, field):
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

func (d *decoder) field(f *fieldPlan, m protoreflect.Message, prefix string) bool {
	c := d.space()
	// A present object merges, so its own keys make the mask; null and anything
	// else replaces the whole field.
	merges := c == '{' && f.message != nil && f.message.form == formObject && !f.list && !f.dict
	if d.mask != nil && !merges {
		*d.mask = append(*d.mask, prefix+string(f.fd.Name()))
	}
	if c == 'n' {
		if !d.word("null") {
			return d.broken()
		}
		return true
	}
	if f.oneof != nil {
		if other := m.WhichOneof(f.oneof); other != nil {
			return d.refuse("Cannot be given together with " + other.JSONName() + ".")
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

// list and dict go into the mask whole, so what is inside is not noted.
func (d *decoder) list(f *fieldPlan, m protoreflect.Message) bool {
	if d.space() != '[' {
		return d.refuse(mustBeArray)
	}
	mask := d.mask
	d.mask = nil
	list := m.Mutable(f.fd).List()
	t := d.open(']')
	for ; t == item; t = d.next(']') {
		d.element()
		value, usable, ok := d.one(f, list.NewElement)
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

func (d *decoder) dict(f *fieldPlan, m protoreflect.Message) bool {
	if d.space() != '{' {
		return d.refuse(mustBeObject)
	}
	mask := d.mask
	d.mask = nil
	dict := m.Mutable(f.fd).Map()
	var keys seen
	t := d.open('}')
	for ; t == item; t = d.next('}') {
		key, flaw, ok := d.member()
		switch {
		case !ok:
		case flaw != "":
			ok = d.refuse(flaw)
		case keys.before(key, nil):
			ok = d.refuse(givenTwice)
		default:
			var value protoreflect.Value
			var usable bool
			if value, usable, ok = d.one(f.item, dict.NewValue); usable {
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

// one reads one element of a list or one value of a map.
func (d *decoder) one(f *fieldPlan, fresh func() protoreflect.Value) (value protoreflect.Value, usable, ok bool) {
	if d.space() == 'n' {
		if !d.word("null") {
			return value, false, d.broken()
		}
		d.fault(mustNotBeNull)
		return value, false, true
	}
	if f.message == nil {
		return d.scalar(f)
	}
	value = fresh()
	ok = d.message(f.message, value.Message(), "")
	return value, ok, ok
}

func (d *decoder) message(plan *messagePlan, m protoreflect.Message, prefix string) bool {
	switch plan.form {
	case formTimestamp:
		if d.space() != '"' {
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
		if d.space() != '{' {
			return d.refuse(mustBeObject)
		}
		return d.object(plan.names, m, prefix)
	}
}

// plainText reads a string and notes when its characters cannot be used.
func (d *decoder) plainText() (text string, usable, ok bool) {
	text, flaw, ok := d.text()
	switch {
	case !ok:
		return "", false, d.broken()
	case flaw != "":
		d.fault(flaw)
		return "", false, true
	}
	return text, true, true
}
