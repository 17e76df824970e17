package gateway

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Messages about single values, the same for bodies and queries.
const (
	mustBeInteger   = "Must be an integer number."
	mustBeNumber    = "Must be a number."
	mustBeBool      = "Must be true or false."
	mustBeString    = "Must be a string."
	mustBeObject    = "Must be an object."
	mustBeArray     = "Must be an array."
	mustBeTimestamp = "Must be a timestamp like 2026-01-31T12:00:00Z."
	mustNotBeNull   = "Must not be null."
	outOfRange      = "Is out of range."
	unknownField    = "Is not a field of this request."
	givenTwice      = "Is given more than once."
)

// maxInteger is the largest integer that every JSON reader represents exactly. A
// larger one may have been changed before it arrived.
const maxInteger = 1 << 53

// integer reads the literal of a JSON integer for a field of that kind.
func integer(literal string, kind protoreflect.Kind) (protoreflect.Value, string) {
	n, err := strconv.ParseInt(literal, 10, 64)
	if err != nil || n > maxInteger || n < -maxInteger {
		return protoreflect.Value{}, outOfRange
	}
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if n < math.MinInt32 || n > math.MaxInt32 {
			return protoreflect.Value{}, outOfRange
		}
		return protoreflect.ValueOfInt32(int32(n)), ""
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if n < 0 || n > math.MaxUint32 {
			return protoreflect.Value{}, outOfRange
		}
		return protoreflect.ValueOfUint32(uint32(n)), ""
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if n < 0 {
			return protoreflect.Value{}, outOfRange
		}
		return protoreflect.ValueOfUint64(uint64(n)), ""
	default:
		return protoreflect.ValueOfInt64(n), ""
	}
}

// float reads the literal of a JSON number for a float or double field.
func float(literal string, kind protoreflect.Kind) (protoreflect.Value, string) {
	if kind == protoreflect.FloatKind {
		f, err := strconv.ParseFloat(literal, 32)
		if err != nil {
			return protoreflect.Value{}, outOfRange
		}
		return protoreflect.ValueOfFloat32(float32(f)), ""
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return protoreflect.Value{}, outOfRange
	}
	return protoreflect.ValueOfFloat64(f), ""
}

func (p *enumPlan) parse(word string) (protoreflect.Value, string) {
	number, ok := p.words[word]
	if !ok {
		return protoreflect.Value{}, "Must be " + p.choices + "."
	}
	return protoreflect.ValueOfEnum(number), ""
}

// parseTimestamp sets m from an RFC 3339 text. Package time also accepts one-digit
// hours and comma fractions; the positions of the separators exclude them.
func parseTimestamp(text string, m protoreflect.Message) string {
	if len(text) < len("2006-01-02T15:04:05Z") || text[13] != ':' || text[19] == ',' {
		return mustBeTimestamp
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return mustBeTimestamp
	}
	ts := timestamppb.New(t)
	if ts.CheckValid() != nil {
		return outOfRange
	}
	if target, ok := m.Interface().(*timestamppb.Timestamp); ok {
		target.Seconds, target.Nanos = ts.GetSeconds(), ts.GetNanos()
		return ""
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(ts.GetSeconds()))
	m.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(ts.GetNanos()))
	return ""
}

func isInteger(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint32Kind, protoreflect.Fixed32Kind,
		protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return true
	default:
		return false
	}
}

// scalar reads a value that is neither a message nor null. usable means that the
// value fits the field, ok that reading can continue.
func (d *decoder) scalar(f *fieldPlan) (value protoreflect.Value, usable, ok bool) {
	c := d.Space()
	var wrong string
	switch {
	case f.kind == protoreflect.StringKind || f.kind == protoreflect.EnumKind:
		if c != '"' {
			return value, false, d.refuse(mustBeString)
		}
		text, usable, ok := d.plainText()
		if !usable {
			return value, false, ok
		}
		if f.kind == protoreflect.StringKind {
			return protoreflect.ValueOfString(text), true, true
		}
		value, wrong = f.enum.parse(text)
	case f.kind == protoreflect.BoolKind:
		is := c == 't'
		if c != 't' && c != 'f' {
			return value, false, d.refuse(mustBeBool)
		}
		if !d.Literal(strconv.FormatBool(is)) {
			return value, false, d.broken()
		}
		return protoreflect.ValueOfBool(is), true, true
	case c == '-' || c >= '0' && c <= '9':
		literal, whole, ok := d.Number()
		switch {
		case !ok:
			return value, false, d.broken()
		case !isInteger(f.kind):
			value, wrong = float(literal, f.kind)
		case whole:
			value, wrong = integer(literal, f.kind)
		default:
			wrong = mustBeInteger
		}
	case isInteger(f.kind):
		return value, false, d.refuse(mustBeInteger)
	default:
		return value, false, d.refuse(mustBeNumber)
	}
	if wrong != "" {
		d.fault(wrong)
	}
	return value, wrong == "", true
}

// usableUTF8 makes a text from a path valid for a proto string and for Postgres.
// The replacement character keeps it different from every existing id.
func usableUTF8(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}
