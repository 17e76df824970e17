package gateway

import (
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON tokens. It is strict to RFC 8259 and knows nothing of
// messages. A method that returns ok == false has met text that is no JSON;
// pos is then where, and nothing more can be read.
//
// Values are parts of data wherever it has no escapes, so they cost no memory
// of their own and keep data alive as long as one of them lives.
type scanner struct {
	data string
	pos  int
}

// space skips white space and returns the byte after it, 0 at the end.
func (s *scanner) space() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// take skips white space and then c, if it is c that comes.
func (s *scanner) take(c byte) bool {
	if s.space() != c {
		return false
	}
	s.pos++
	return true
}

// word reads true, false or null.
func (s *scanner) word(w string) bool {
	if len(s.data)-s.pos < len(w) || s.data[s.pos:s.pos+len(w)] != w {
		return false
	}
	s.pos += len(w)
	return true
}

// number reads a number; integer is false when it has a fraction or an exponent.
func (s *scanner) number() (literal string, integer, ok bool) {
	start := s.pos
	if s.at('-') {
		s.pos++
	}
	switch {
	case s.at('0'):
		s.pos++
	case !s.digits():
		return "", false, false
	}
	integer = true
	if s.at('.') {
		integer = false
		s.pos++
		if !s.digits() {
			return "", false, false
		}
	}
	if s.at('e') || s.at('E') {
		integer = false
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if !s.digits() {
			return "", false, false
		}
	}
	return s.data[start:s.pos], integer, true
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

// What can be wrong with the characters of a string that is well-formed JSON.
// Postgres stores no NUL, and proto strings are UTF-8.
const (
	notUTF8       = "Is not valid UTF-8."
	loneSurrogate = "Holds half of a surrogate pair."
	holdsNUL      = "Must not hold the NUL character."
)

// text reads a string, with pos on its opening quote. fault names what makes it
// unusable though it is JSON.
func (s *scanner) text() (value, fault string, ok bool) {
	s.pos++
	start := s.pos
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			value = s.data[start:s.pos]
			s.pos++
			return value, "", true
		case c == '\\' || c >= utf8.RuneSelf:
			return s.slowText(start)
		case c < ' ':
			return "", "", false
		}
		s.pos++
	}
	return "", "", false
}

// slowText goes on where text met an escape or a byte beyond ASCII.
func (s *scanner) slowText(start int) (value, fault string, ok bool) {
	out := append(make([]byte, 0, s.pos-start+32), s.data[start:s.pos]...)
	note := func(what string) {
		if fault == "" {
			fault = what
		}
	}
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.pos++
			return string(out), fault, true
		case c < ' ':
			return "", "", false
		case c == '\\':
			r, ok := s.escape()
			if !ok {
				return "", "", false
			}
			switch {
			case r == 0:
				note(holdsNUL)
			case utf16.IsSurrogate(r):
				note(loneSurrogate)
			}
			out = utf8.AppendRune(out, r)
		case c < utf8.RuneSelf:
			out = append(out, c)
			s.pos++
		default:
			r, size := utf8.DecodeRuneInString(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				note(notUTF8)
			}
			out = utf8.AppendRune(out, r)
			s.pos += size
		}
	}
	return "", "", false
}

// escape reads what follows a backslash; two \u escapes that make a pair are
// one rune, a half comes back as itself.
func (s *scanner) escape() (rune, bool) {
	if s.pos+1 >= len(s.data) {
		return 0, false
	}
	c := s.data[s.pos+1]
	s.pos += 2
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
	if s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u' {
		after := s.pos
		s.pos += 2
		second, ok := s.hex4()
		if !ok {
			return 0, false
		}
		if whole := utf16.DecodeRune(first, second); whole != utf8.RuneError {
			return whole, true
		}
		s.pos = after
	}
	return first, true
}

func (s *scanner) hex4() (rune, bool) {
	if len(s.data)-s.pos < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s.data[s.pos+i]
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
	s.pos += 4
	return r, true
}
