package collector

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

const mustBeGivenOnce = "must be given only once"

// decoder parses the JSON body of one request and accepts only valid JSON. Its methods
// return false if it must stop: the values are nested too deeply, a field name contains
// text that cannot be stored, or the text at Pos is not valid JSON.
type decoder struct {
	jsonscan.Scanner
	body       clickBody
	violations affiliate.Violations // repeated fields, wrong types, text that cannot be stored
	// seen has one bit per field: bit i is set after the field with the index i was read.
	// The bit fieldCount stands for the utm object.
	seen uint32
	// ignored contains the paths of the unknown fields that were read.
	ignored map[string]bool
}

// document parses the whole body. It returns a fault if the body as a whole is invalid,
// and otherwise "".
func (d *decoder) document() (fault string) {
	isObject := d.SkipSpace() == '{'
	ok := isObject && d.fields("") || !isObject && d.Skip()
	switch {
	case d.KeyFault != "":
		return d.KeyFault + " in the names of its fields"
	case d.TooDeep:
		return "must not be nested deeper than " + strconv.Itoa(jsonscan.MaxDepth) + " levels"
	case !ok:
		return "is not valid JSON at byte " + strconv.Itoa(d.Pos)
	case !isObject:
		return "must be a JSON object"
	}
	if d.SkipSpace(); d.Pos < len(d.Data) {
		return "must not continue after the JSON object"
	}
	return ""
}

// fields parses the fields of the body (if prefix is "") or of its utm object (if prefix
// is utmPrefix).
func (d *decoder) fields(prefix string) bool {
	return d.Object(func(name string) bool {
		c := d.SkipSpace()
		field := fieldOf(prefix, name)
		if prefix == "" && name == "utm" {
			field = fieldCount
		}
		switch {
		case field < 0:
			d.ignoreField(prefix + name)
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
		return d.Skip()
	})
}

// ignoreField notes that the body has an unknown field, which the collector ignores. If
// the body has the same unknown field twice, that is a violation.
func (d *decoder) ignoreField(path string) {
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

// text parses a string and stores it in the given field of the body. A string that
// contains only white space counts as absent.
func (d *decoder) text(field int) bool {
	text, fault, ok := d.Text()
	if fault != "" {
		d.violations.Add(fieldNames[field], fault)
	} else if ok && !blank(text) {
		d.body.text[field] = text
	}
	return ok
}

func blank(text string) bool {
	if text != "" && ' ' < text[0] && text[0] < utf8.RuneSelf {
		return false // most texts begin with visible ASCII
	}
	return strings.TrimSpace(text) == ""
}

// printableName makes the path of a field suitable for a response: it replaces control
// characters and bounds the length.
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
