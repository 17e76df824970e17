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

// decodeFull reads any JSON strictly. It adds all faults to wrong: syntax, repeated
// fields, wrong types, text that is not Unicode or holds NUL. It returns false if the
// body as a whole is wrong; then b holds the fields before the fault and wrong holds
// that fault alone.
func decodeFull(raw []byte, b *body, wrong *affiliate.Violations) (whole bool) {
	d := fullDecoder{Scanner: jsonscan.Scanner{Data: string(raw)}, body: b, wrong: wrong}
	fault := d.document()
	if !utf8.Valid(raw) {
		fault = jsonscan.NotUTF8
	}
	if fault != "" {
		*wrong = affiliate.Violations{}
		wrong.Add(affiliate.WholeBody, fault)
	}
	return fault == ""
}

// fullDecoder decodes one body. Its methods return false if the body cannot be read on:
// it is nested too deep, has an impossible name, or is no JSON at Pos.
type fullDecoder struct {
	jsonscan.Scanner
	body  *body
	wrong *affiliate.Violations
	depth int
	fault string // why reading ended, if not because of the syntax
}

// document returns the fault of the body as a whole, if there is one.
func (d *fullDecoder) document() (fault string) {
	isObject := d.Space() == '{'
	read := d.skip
	if isObject {
		read = func() bool { return d.fields("") }
	}
	switch ok := read(); {
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
func (d *fullDecoder) fields(prefix string) bool {
	seen := map[string]bool{}
	return d.object(func(name string) bool {
		path, field, c := prefix+name, fieldOf(prefix, name), d.Space()
		switch {
		case seen[name]:
			d.wrong.Add(printable(path), "must be given only once")
		case path == "utm" && c == '{':
			seen[name] = true
			return d.fields(utmPrefix)
		case path == "utm" && c != 'n':
			d.wrong.Add(path, "must be an object")
		case path != "utm" && field < 0:
			d.body.ignored = append(d.body.ignored, path)
		case c == '"':
			seen[name] = true
			return d.text(field)
		case c != 'n': // null is absent
			d.wrong.Add(path, "must be a string")
		}
		seen[name] = true
		return d.skip()
	})
}

// text reads a string into a field of the body.
func (d *fullDecoder) text(field int) bool {
	text, fault, ok := d.Text()
	if fault != "" {
		d.wrong.Add(fieldNames[field], fault)
	} else if ok {
		d.body.text[field] = text
	}
	return ok
}

// object reads an object. value reads the value of each of its fields.
func (d *fullDecoder) object(value func(name string) bool) bool {
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
func (d *fullDecoder) list(closing byte, item func() bool) bool {
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

// skip reads any value and forgets it.
func (d *fullDecoder) skip() (ok bool) {
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

// printable replaces control characters in a field's path and bounds its length, so
// that it can be part of a response.
func printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, name)
	if utf8.RuneCountInString(name) > maxWord {
		name = string([]rune(name)[:maxWord]) + "…"
	}
	return name
}
