package gateway

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

// invalidJSON adds the fault that the text at Pos is not valid JSON. It returns false,
// because the decoder must stop.
func (d *decoder) invalidJSON() bool {
	return d.malformed("is not valid JSON at byte " + strconv.Itoa(d.Pos))
}

// malformed adds a fault of the whole body and removes the other faults of the body. They
// may be consequences of the error in the JSON text, and the rest of the text is unknown.
func (d *decoder) malformed(message string) bool {
	if d.faults.singleItem {
		d.faults.list = nil
	} else {
		d.faults.list = d.faults.list[:d.earlier]
	}
	d.faults.addLast(affiliate.WholeBody, message)
	d.faults.incomplete = true
	return false
}

// inBrackets calls the given function for each item of the object or array whose opening bracket is at Pos.
func (d *decoder) inBrackets(closing byte, item func() bool) bool {
	d.Pos++
	if d.depth++; d.depth > jsonscan.MaxDepth {
		d.faults.addLast(d.currentPath(), "must not be nested deeper than "+strconv.Itoa(jsonscan.MaxDepth)+" levels")
		return false
	}
	d.path = append(d.path, step{index: -1})
	for more := !d.Take(closing); more; {
		switch {
		case !item() || d.faults.full():
			return false
		case d.Take(','):
		case d.Take(closing):
			more = false
		default:
			return d.invalidJSON()
		}
	}
	d.path = d.path[:len(d.path)-1]
	d.depth--
	return true
}

// members calls the given function for each key of an object. The function must decode or skip the value of the key.
func (d *decoder) members(value func(key string) bool) bool {
	return d.inBrackets('}', func() bool {
		key, fault, ok := d.member()
		if ok && fault != "" {
			return d.rejectValue(fault + " in its name")
		}
		return ok && value(key)
	})
}

// elements calls the given function for each element of an array.
func (d *decoder) elements(element func() bool) bool {
	return d.inBrackets(']', func() bool {
		d.path[len(d.path)-1].index++
		return element()
	})
}

// member reads a key of an object and the colon after the key. If the key contains text
// that cannot be stored, fault is the message.
func (d *decoder) member() (key, fault string, ok bool) {
	if d.SkipSpace() != '"' {
		return "", "", d.invalidJSON()
	}
	key, fault, ok = d.Text()
	if !ok || !d.Take(':') {
		return "", "", d.invalidJSON()
	}
	d.path[len(d.path)-1] = step{key: key, isKey: true}
	return key, fault, true
}

// skip skips a value. It only checks that the value is valid JSON and is not nested too
// deeply.
func (d *decoder) skip() bool {
	switch c := d.SkipSpace(); {
	case c == '{':
		return d.inBrackets('}', func() bool { _, _, ok := d.member(); return ok && d.skip() })
	case c == '[':
		return d.elements(d.skip)
	case c == '"':
		if _, _, ok := d.Text(); !ok {
			return d.invalidJSON()
		}
	case c == '-' || c >= '0' && c <= '9':
		if _, _, ok := d.Number(); !ok {
			return d.invalidJSON()
		}
	case !d.Literal("true") && !d.Literal("false") && !d.Literal("null"):
		return d.invalidJSON()
	}
	return true
}

func (d *decoder) rejectValue(message string) bool {
	d.addFault(message)
	return d.skip()
}

// violations collects the faults of one request, or of one item of a bulk request. A
// fault is an affiliate.Violation: a field name and a message. The field names have the
// spelling of the client. A message is the part of the sentence after the field name.
type violations struct {
	list []affiliate.Violation
	// singleItem is true for the faults of one item of a bulk request. In this case, add
	// keeps only the first faults, and the decoder continues, because other items follow.
	singleItem bool
	// incomplete is true if a part of the request was not decoded, so that the core cannot
	// validate the request.
	incomplete bool
}

func (v *violations) add(field, message string) {
	// The core reports up to affiliate.MaxItemViolations faults of an item. Keep one more
	// fault, which shows the core that the item has further faults.
	if v.singleItem && len(v.list) > affiliate.MaxItemViolations {
		return
	}
	v.addLast(field, message)
}

// addLast adds a fault after which the decoder stops. Unlike add, it adds the fault even
// if the item already has the maximum number of faults.
func (v *violations) addLast(field, message string) {
	if len(v.list) >= maxViolations {
		return
	}
	if len(field) > maxFieldName {
		field = field[:maxFieldName] + "…"
	}
	v.list = append(v.list, affiliate.Violation{Field: strings.ToValidUTF8(field, "\ufffd"), Message: message})
}

// explain reports whether a violation about the given fields can be a consequence of a
// value that was not decoded. This is the case if one of the fields has a fault or contains a field with a fault. The
// faults of unknown keys are ignored, because no rule reads the value of an unknown key.
func (v *violations) explain(fields []string) bool {
	return slices.ContainsFunc(v.list, func(fault affiliate.Violation) bool {
		return fault.Message != unknownField && fault.Affects(fields)
	})
}

// full reports whether no more faults can be added. In that case the decoder can stop.
func (v *violations) full() bool { return !v.singleItem && len(v.list) >= maxViolations }

// spellings contains the names that the client used for fields. It has all names in a query, and the names in a body
// that differ from the names in responses. If the elements of a list spell a field in several ways, spellings
// contains one of these names.
type spellings map[protoreflect.FullName]string

type keySet struct {
	fields [2]uint64
	// others contains unknown keys and fields after the 128th.
	others map[string]bool
	// spelled contains the keys that differ from the JSON names of their fields.
	spelled map[*fieldPlan]string
}

// testAndAdd reports whether the key was read before and adds it to the set.
func (s *keySet) testAndAdd(key string, field *fieldPlan) bool {
	if field != nil && field.index < 64*len(s.fields) {
		bits, bit := &s.fields[field.index/64], uint64(1)<<(field.index%64)
		repeated := *bits&bit != 0
		*bits |= bit
		return repeated
	}
	if s.others == nil {
		s.others = make(map[string]bool)
	}
	repeated := s.others[key]
	s.others[key] = true
	return repeated
}

// spell stores the key that the client used for a field, if the key differs from the JSON name of the field.
func (s *keySet) spell(field *fieldPlan, key string) {
	if s.spelled == nil {
		s.spelled = make(map[*fieldPlan]string)
	}
	s.spelled[field] = key
}
