package collector

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

// maxDepth bounds the nesting of values, and so the recursion of the decoder.
const maxDepth = 32

const mustBeGivenOnce = "must be given only once"

// decoder reads the JSON of one body strictly. Its methods return false if the decoder
// cannot read on: the body is nested too deep, has a name that cannot be stored, or is
// not JSON at Pos.
type decoder struct {
	jsonscan.Scanner
	body       body
	violations affiliate.Violations // repeated fields, wrong types, text that cannot be stored
	fault      string               // the fault that ended reading; "" for a syntax error
	depth      int
	// seen has a bit for each field that was read, and one for utm.
	seen uint32
	// ignored contains the unknown fields.
	ignored map[string]bool
}

// document reads the whole body. It returns the fault that concerns the body as a whole,
// or "".
func (d *decoder) document() (fault string) {
	isObject := d.Space() == '{'
	ok := isObject && d.fields("") || !isObject && d.skip()
	switch {
	case d.fault != "":
		return d.fault
	case !ok:
		return "is not valid JSON at byte " + strconv.Itoa(d.Pos)
	case !isObject:
		return "must be a JSON object"
	}
	if d.Space(); d.Pos < len(d.Data) {
		return "must not continue after the JSON object"
	}
	return ""
}

// fields reads the body (prefix "") or its utm object.
func (d *decoder) fields(prefix string) bool {
	return d.object(func(name string) bool {
		c := d.Space()
		field := fieldOf(prefix, name)
		if prefix == "" && name == "utm" {
			field = fieldCount
		}
		switch {
		case field < 0:
			d.unknown(prefix + name)
		case d.seen&(1<<field) != 0:
			d.violations.Add(prefix+name, mustBeGivenOnce)
		default:
			d.seen |= 1 << field
			switch {
			case c == 'n': // null counts as absent
			case field == fieldCount && c == '{':
				return d.fields(utmPrefix)
			case field == fieldCount:
				d.violations.Add(name, "must be an object")
			case c == '"':
				return d.text(field)
			default:
				d.violations.Add(prefix+name, "must be a string")
			}
		}
		return d.skip()
	})
}

// unknown records a field that is ignored. A repeated one is a violation.
func (d *decoder) unknown(path string) {
	if d.ignored[path] {
		d.violations.Add(printableName(path), mustBeGivenOnce)
		return
	}
	if d.ignored == nil {
		d.ignored = map[string]bool{}
	}
	d.ignored[path] = true
	d.body.ignored = append(d.body.ignored, path)
}

// text reads a string into a field of the body. A text of only white space counts as
// absent.
func (d *decoder) text(field int) bool {
	text, fault, ok := d.Text()
	if fault != "" {
		d.violations.Add(fieldNames[field], fault)
	} else if ok && !blank(text) {
		d.body.text[field] = text
	}
	return ok
}

// blank reports whether text has only white space.
func blank(text string) bool {
	if text != "" && ' ' < text[0] && text[0] < utf8.RuneSelf {
		return false // most texts begin with visible ASCII
	}
	return strings.TrimSpace(text) == ""
}

// object reads an object. value reads the value of each of its fields.
func (d *decoder) object(value func(name string) bool) bool {
	return d.list('}', func() bool {
		if d.Space() != '"' {
			return false
		}
		name, fault, ok := d.Text()
		if fault != "" {
			d.fault = fault + " in the names of its fields"
			return false
		}
		return ok && d.Take(':') && value(name)
	})
}

// list reads the items of an object or array whose opening bracket is at Pos.
func (d *decoder) list(closing byte, item func() bool) bool {
	if d.depth++; d.depth > maxDepth {
		d.fault = "must not be nested deeper than " + strconv.Itoa(maxDepth) + " levels"
		return false
	}
	defer func() { d.depth-- }()
	d.Pos++
	if d.Take(closing) {
		return true
	}
	for item() {
		if d.Take(closing) {
			return true
		}
		if !d.Take(',') {
			return false
		}
	}
	return false
}

// skip skips a value of any type.
func (d *decoder) skip() (ok bool) {
	switch d.Space() {
	case '{':
		return d.object(func(string) bool { return d.skip() })
	case '[':
		return d.list(']', d.skip)
	case '"':
		_, _, ok = d.Text()
	case 't':
		ok = d.Literal("true")
	case 'f':
		ok = d.Literal("false")
	case 'n':
		ok = d.Literal("null")
	default:
		_, _, ok = d.Number()
	}
	return ok
}

// printableName replaces control characters in a field's path and bounds its length, so
// that it can be part of a response.
func printableName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, name)
	if utf8.RuneCountInString(name) > maxShortText {
		name = string([]rune(name)[:maxShortText]) + "…"
	}
	return name
}
