// Package jsonscan reads JSON tokens for the HTTP servers.
//
// It accepts exactly the grammar of RFC 8259 and reports the position of a syntax error.
// Some strings cannot be stored although they are accepted: strings with NUL, with half
// of a surrogate pair or with invalid UTF-8. The scanner returns these strings with the
// reason. It does not compare keys or convert numbers; its callers do.
package jsonscan

import (
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
)

// Scanner reads the tokens of Data, starting at Pos. If a method returns ok == false, the
// text is not valid JSON at Pos, and the scanner must not be used again. For an invalid
// escape sequence, Pos is the position of the backslash.
//
// Numbers, and strings of ASCII characters without escapes, are substrings of Data. They need
// no additional memory, but as long as they are used, Data stays in memory.
type Scanner struct {
	Data string
	Pos  int
	// AnyKey makes Object and Skip accept keys that cannot be stored. If AnyKey is false, they
	// stop at such a key, and KeyFault is the reason.
	AnyKey   bool
	KeyFault string
	// TooDeep is true after Object or Skip has stopped because of more than MaxDepth levels.
	TooDeep bool
	depth   int
}

// MaxDepth bounds the nesting of objects and arrays, and with it the recursion.
const MaxDepth = 32

// Object reads an object whose opening brace is at Pos. After each key it calls the given function, which must read
// the value of the key.
func (s *Scanner) Object(value func(key string) bool) bool {
	return s.list('}', func() bool {
		if s.SkipSpace() != '"' {
			return false
		}
		key, fault, ok := s.Text()
		if fault != "" && !s.AnyKey {
			s.KeyFault = fault
			return false
		}
		return ok && s.Take(':') && value(key)
	})
}

// list reads an object or array whose opening bracket is at Pos. It calls the given function to read each item.
func (s *Scanner) list(closing byte, item func() bool) bool {
	if s.depth++; s.depth > MaxDepth {
		s.TooDeep = true
		return false
	}
	defer func() { s.depth-- }()
	s.Pos++
	if s.Take(closing) {
		return true
	}
	for item() {
		if s.Take(closing) {
			return true
		}
		if !s.Take(',') {
			return false
		}
	}
	return false
}

// Skip reads a value of any type.
func (s *Scanner) Skip() (ok bool) {
	switch s.SkipSpace() {
	case '{':
		return s.Object(func(string) bool { return s.Skip() })
	case '[':
		return s.list(']', s.Skip)
	case '"':
		_, _, ok = s.Text()
	case 't':
		ok = s.Literal("true")
	case 'f':
		ok = s.Literal("false")
	case 'n':
		ok = s.Literal("null")
	default:
		_, _, ok = s.Number()
	}
	return ok
}

// SkipSpace skips white space and returns the next byte, or 0 at the end of the text.
func (s *Scanner) SkipSpace() byte {
	for s.Pos < len(s.Data) {
		switch c := s.Data[s.Pos]; c {
		case ' ', '\t', '\n', '\r':
			s.Pos++
		default:
			return c
		}
	}
	return 0
}

// Take skips white space and then the byte c. If another byte follows the white space,
// Take returns false and does not skip that byte.
func (s *Scanner) Take(c byte) bool {
	if s.SkipSpace() != c {
		return false
	}
	s.Pos++
	return true
}

// Literal reads the given literal, which is true, false or null. It returns false if
// another text is at Pos.
func (s *Scanner) Literal(literal string) bool {
	if len(s.Data)-s.Pos < len(literal) || s.Data[s.Pos:s.Pos+len(literal)] != literal {
		return false
	}
	s.Pos += len(literal)
	return true
}

// Number reads a number. integer is false if the number has a fraction or an exponent.
func (s *Scanner) Number() (literal string, integer, ok bool) {
	start := s.Pos
	if s.at('-') {
		s.Pos++
	}
	switch {
	case s.at('0'):
		s.Pos++
	case !s.digits():
		return "", false, false
	}
	integer = true
	if s.at('.') {
		integer = false
		s.Pos++
		if !s.digits() {
			return "", false, false
		}
	}
	if s.at('e') || s.at('E') {
		integer = false
		s.Pos++
		if s.at('+') || s.at('-') {
			s.Pos++
		}
		if !s.digits() {
			return "", false, false
		}
	}
	return s.Data[start:s.Pos], integer, true
}

func (s *Scanner) at(c byte) bool { return s.Pos < len(s.Data) && s.Data[s.Pos] == c }

func (s *Scanner) digits() bool {
	start := s.Pos
	for s.Pos < len(s.Data) && s.Data[s.Pos] >= '0' && s.Data[s.Pos] <= '9' {
		s.Pos++
	}
	return s.Pos > start
}

// Faults of strings that cannot be stored: Postgres does not store NUL, and proto strings
// must be UTF-8. The faults are messages for affiliate.Violation.
const (
	NotUTF8       = "must be valid UTF-8"
	LoneSurrogate = "must not contain half of a surrogate pair"
	ContainsNUL   = affiliate.MustNotHaveNUL
)

// Text reads a string. Pos must be at its opening quote. If the string cannot be stored,
// fault is one of the constants above.
func (s *Scanner) Text() (value, fault string, ok bool) {
	s.Pos++
	start := s.Pos
	for s.Pos < len(s.Data) {
		c := s.Data[s.Pos]
		switch {
		case c == '"':
			value = s.Data[start:s.Pos]
			s.Pos++
			return value, "", true
		case c == '\\' || c >= utf8.RuneSelf:
			return s.escapedText(start)
		case c < ' ':
			return "", "", false
		}
		s.Pos++
	}
	return "", "", false
}

// escapedText continues Text at the first escape or non-ASCII byte.
func (s *Scanner) escapedText(start int) (value, fault string, ok bool) {
	out := append(make([]byte, 0, s.Pos-start+32), s.Data[start:s.Pos]...)
	setFault := func(message string) {
		if fault == "" {
			fault = message
		}
	}
	for s.Pos < len(s.Data) {
		c := s.Data[s.Pos]
		switch {
		case c == '"':
			s.Pos++
			return string(out), fault, true
		case c < ' ':
			return "", "", false
		case c == '\\':
			backslash := s.Pos
			r, ok := s.escape()
			if !ok {
				s.Pos = backslash
				return "", "", false
			}
			switch {
			case r == 0:
				setFault(ContainsNUL)
			case utf16.IsSurrogate(r):
				setFault(LoneSurrogate)
			}
			out = utf8.AppendRune(out, r)
		case c < utf8.RuneSelf:
			out = append(out, c)
			s.Pos++
		default:
			r, size := utf8.DecodeRuneInString(s.Data[s.Pos:])
			if r == utf8.RuneError && size == 1 {
				setFault(NotUTF8)
			}
			out = utf8.AppendRune(out, r)
			s.Pos += size
		}
	}
	return "", "", false
}

// escape reads an escape sequence. If two \u escapes form a surrogate pair, it reads both
// and returns the rune that they encode. A half of a pair is returned unchanged.
func (s *Scanner) escape() (rune, bool) {
	if s.Pos+1 >= len(s.Data) {
		return 0, false
	}
	c := s.Data[s.Pos+1]
	s.Pos += 2
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
	default:
		return 0, false
	}
	first, ok := s.hex4()
	if !ok || !utf16.IsSurrogate(first) {
		return first, ok
	}
	if s.Pos+1 < len(s.Data) && s.Data[s.Pos] == '\\' && s.Data[s.Pos+1] == 'u' {
		afterFirst := s.Pos
		s.Pos += 2
		if second, ok := s.hex4(); ok {
			if combined := utf16.DecodeRune(first, second); combined != utf8.RuneError {
				return combined, true
			}
		}
		s.Pos = afterFirst
	}
	return first, true
}

func (s *Scanner) hex4() (rune, bool) {
	if len(s.Data)-s.Pos < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s.Data[s.Pos+i]
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	s.Pos += 4
	return r, true
}
