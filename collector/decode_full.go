package collector

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
)

// maxDepth bounds the nesting of values, and so the recursion of the parser.
const maxDepth = 32

// bodyField names the body as a whole in a violation.
const bodyField = "body"

// decodeFull reads any JSON strictly. It adds all faults to wrong: syntax, repeated
// fields, wrong types, text that is not Unicode or holds NUL. It returns false if the
// body could not be read to its end; then b holds the fields before the fault and
// wrong holds that fault alone.
func decodeFull(raw []byte, b *body, wrong *affiliate.Violations) (whole bool) {
	if !utf8.Valid(raw) {
		wrong.Add(bodyField, "must be valid UTF-8")
		// Only the public key of such a body is used.
		raw = []byte(strings.ToValidUTF8(string(raw), "\uFFFD"))
	}
	p := parser{s: string(raw)}
	top, err := p.document()
	switch {
	case err != nil:
		wrong.Add(bodyField, err.Error())
	case top.kind != kindObject:
		wrong.Add(bodyField, "must be a JSON object")
	}
	whole = len(*wrong) == 0
	interpret(top, b, "", wrong)
	if !whole {
		*wrong = (*wrong)[:1]
	}
	return whole
}

func interpret(object value, b *body, prefix string, wrong *affiliate.Violations) {
	seen := make(map[string]bool, len(object.members))
	for _, m := range object.members {
		path := prefix + m.name
		if seen[m.name] {
			wrong.Add(printable(path), "must not be repeated")
			continue
		}
		seen[m.name] = true
		if prefix == "" && m.name == "utm" {
			switch m.value.kind {
			case kindNull:
			case kindObject:
				interpret(m.value, b, utmPrefix, wrong)
			default:
				wrong.Add(path, "must be an object")
			}
			continue
		}
		field := fieldOf(prefix, m.name)
		switch {
		case field < 0:
			b.ignored = append(b.ignored, path)
		case m.value.kind == kindNull: // absent
		case m.value.kind != kindString:
			wrong.Add(path, "must be a string")
		case m.value.fault != "":
			wrong.Add(path, m.value.fault)
		default:
			b.text[field] = m.value.text
		}
	}
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

type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

type value struct {
	kind kind
	text string
	// fault is the reason why a string of valid syntax is refused.
	fault   string
	members []member
}

type member struct {
	name  string
	value value
}

// parser reads RFC 8259 and nothing more.
type parser struct {
	s     string
	at    int
	depth int
}

var (
	errEnd   = errors.New("is not valid JSON: it ends too early")
	errDepth = fmt.Errorf("must not be nested deeper than %d levels", maxDepth)
)

func (p *parser) syntax() error {
	if p.at >= len(p.s) {
		return errEnd
	}
	return fmt.Errorf("is not valid JSON at byte %d", p.at)
}

func (p *parser) document() (value, error) {
	v, err := p.value()
	if err != nil {
		return v, err
	}
	if p.space(); p.at != len(p.s) {
		return v, errors.New("must hold nothing after the JSON object")
	}
	return v, nil
}

func (p *parser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) next(c byte) bool {
	p.space()
	if p.at < len(p.s) && p.s[p.at] == c {
		p.at++
		return true
	}
	return false
}

// value reads one value. With an error it returns the part before the fault.
func (p *parser) value() (v value, err error) {
	p.space()
	if p.at >= len(p.s) {
		return v, errEnd
	}
	switch c := p.s[p.at]; {
	case c == '{' || c == '[':
		if p.depth++; p.depth > maxDepth {
			return v, errDepth
		}
		defer func() { p.depth-- }()
		p.at++
		if c == '{' {
			return p.object()
		}
		return value{kind: kindArray}, p.array()
	case c == '"':
		text, fault, err := p.text()
		return value{kind: kindString, text: text, fault: fault}, err
	case c == '-' || '0' <= c && c <= '9':
		return value{kind: kindNumber}, p.number()
	}
	for word, kind := range map[string]kind{"true": kindBool, "false": kindBool, "null": kindNull} {
		if strings.HasPrefix(p.s[p.at:], word) {
			p.at += len(word)
			return value{kind: kind}, nil
		}
	}
	return v, p.syntax()
}

func (p *parser) object() (value, error) {
	v := value{kind: kindObject}
	if p.next('}') {
		return v, nil
	}
	for {
		p.space()
		if p.at >= len(p.s) || p.s[p.at] != '"' {
			return v, p.syntax()
		}
		name, fault, err := p.text()
		if err != nil {
			return v, err
		}
		if fault != "" {
			return v, errors.New("has a field name that " + fault)
		}
		if !p.next(':') {
			return v, p.syntax()
		}
		inner, err := p.value()
		if err != nil {
			return v, err
		}
		v.members = append(v.members, member{name, inner})
		if p.next('}') {
			return v, nil
		}
		if !p.next(',') {
			return v, p.syntax()
		}
	}
}

func (p *parser) array() error {
	if p.next(']') {
		return nil
	}
	for {
		if _, err := p.value(); err != nil {
			return err
		}
		if p.next(']') {
			return nil
		}
		if !p.next(',') {
			return p.syntax()
		}
	}
}

func (p *parser) number() error {
	digits := func() bool {
		start := p.at
		for p.at < len(p.s) && '0' <= p.s[p.at] && p.s[p.at] <= '9' {
			p.at++
		}
		return p.at > start
	}
	if p.s[p.at] == '-' {
		p.at++
	}
	if p.at < len(p.s) && p.s[p.at] == '0' {
		p.at++
	} else if !digits() {
		return p.syntax()
	}
	if p.at < len(p.s) && p.s[p.at] == '.' {
		if p.at++; !digits() {
			return p.syntax()
		}
	}
	if p.at < len(p.s) && (p.s[p.at] == 'e' || p.s[p.at] == 'E') {
		if p.at++; p.at < len(p.s) && (p.s[p.at] == '+' || p.s[p.at] == '-') {
			p.at++
		}
		if !digits() {
			return p.syntax()
		}
	}
	return nil
}

// text reads a string. fault is the reason why a string of valid syntax is refused.
func (p *parser) text() (text, fault string, err error) {
	p.at++ // the quote
	var out strings.Builder
	for {
		if p.at >= len(p.s) {
			return "", "", errEnd
		}
		switch c := p.s[p.at]; {
		case c == '"':
			p.at++
			return out.String(), fault, nil
		case c < ' ':
			return "", "", p.syntax()
		case c != '\\':
			out.WriteByte(c)
			p.at++
		default:
			r, ok := p.escape()
			if !ok {
				return "", "", p.syntax()
			}
			switch {
			case r == 0:
				fault = "must not hold the NUL character"
			case utf16.IsSurrogate(r):
				fault = "must not hold half of a surrogate pair"
			}
			out.WriteRune(r)
		}
	}
}

// escape reads one escape sequence, or two that are a surrogate pair.
func (p *parser) escape() (rune, bool) {
	if p.at+1 >= len(p.s) {
		p.at = len(p.s)
		return 0, false
	}
	c := p.s[p.at+1]
	if c == 'u' {
		r, ok := p.hex(p.at)
		if !ok {
			return 0, false
		}
		p.at += 6
		if utf16.IsSurrogate(r) && strings.HasPrefix(p.s[p.at:], `\u`) {
			if low, ok := p.hex(p.at); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					p.at += 6
					return pair, true
				}
			}
		}
		return r, true
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, false
	}
	p.at += 2
	return rune("\"\\/\b\f\n\r\t"[i]), true
}

func (p *parser) hex(at int) (rune, bool) {
	if at+6 > len(p.s) {
		return 0, false
	}
	digits := p.s[at+2 : at+6]
	// ParseUint would take an underscore or a sign.
	for i := range len(digits) {
		if letter := digits[i] | 0x20; (digits[i] < '0' || digits[i] > '9') && (letter < 'a' || letter > 'f') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	return rune(n), err == nil
}
