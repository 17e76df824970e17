package gateway

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/httpedge/csv"
)

func appendJSON(b []byte, m protoreflect.Message) ([]byte, error) {
	plan, err := planFor(m.Descriptor())
	if err != nil {
		return nil, err
	}
	return plan.append(b, m)
}

func (p *messagePlan) append(b []byte, m protoreflect.Message) ([]byte, error) {
	switch p.form {
	case formTimestamp:
		return appendTimestamp(b, m.Interface().(*timestamppb.Timestamp))
	case formStruct:
		return appendStruct(b, m.Interface().(*structpb.Struct))
	case formMask, formRaw:
		return nil, fmt.Errorf("%s must not be in a response", p.desc.FullName())
	default:
		return p.appendObject(b, m)
	}
}

func (p *messagePlan) appendObject(b []byte, m protoreflect.Message) ([]byte, error) {
	b = append(b, '{')
	var err error
	first := true
	for i := range p.fields {
		field := &p.fields[i]
		if field.omitted && !m.Has(field.fd) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, field.key...)
		switch {
		case field.isList:
			b, err = field.appendList(b, m.Get(field.fd).List())
		case field.isMap:
			b, err = field.appendMap(b, m.Get(field.fd).Map())
		case field.nullable && !m.Has(field.fd):
			b = append(b, "null"...)
		default:
			b, err = field.appendValue(b, m.Get(field.fd))
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (f *fieldPlan) appendList(b []byte, list protoreflect.List) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = f.appendValue(b, list.Get(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendMap appends a map. It sorts the keys, so that equal messages give equal JSON.
func (f *fieldPlan) appendMap(b []byte, dict protoreflect.Map) ([]byte, error) {
	keys := make([]string, 0, dict.Len())
	dict.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key.String())
		return true
	})
	slices.Sort(keys)
	b = append(b, '{')
	var err error
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		value := dict.Get(protoreflect.ValueOfString(key).MapKey())
		if b, err = f.mapValue.appendValue(b, value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (f *fieldPlan) appendValue(b []byte, v protoreflect.Value) ([]byte, error) {
	switch f.kind {
	case protoreflect.StringKind:
		return appendString(b, v.String()), nil
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool()), nil
	case protoreflect.EnumKind:
		name, ok := f.enum.quoted[v.Enum()]
		if !ok {
			name = "null"
		}
		return append(b, name...), nil
	case protoreflect.MessageKind:
		return f.message.append(b, v.Message())
	case protoreflect.DoubleKind:
		return appendFloat(b, v.Float())
	default:
		return strconv.AppendInt(b, v.Int(), 10), nil
	}
}

func appendFloat(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v cannot be written as JSON", f)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64), nil
}

// appendTimestamp appends a timestamp, truncated to milliseconds. It does not round,
// because the result must not be later than the stored time.
func appendTimestamp(b []byte, ts *timestamppb.Timestamp) ([]byte, error) {
	if err := ts.CheckValid(); err != nil {
		return nil, err
	}
	return append(affiliate.AppendTime(append(b, '"'), ts.AsTime()), '"'), nil
}

func appendStruct(b []byte, s *structpb.Struct) ([]byte, error) {
	fields := s.GetFields()
	b = append(b, '{')
	var err error
	for i, key := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		if b, err = appendDynamic(b, fields[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendDynamic(b []byte, value *structpb.Value) ([]byte, error) {
	switch kind := value.GetKind().(type) {
	case *structpb.Value_StringValue:
		return appendString(b, kind.StringValue), nil
	case *structpb.Value_NumberValue:
		return appendFloat(b, kind.NumberValue)
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(b, kind.BoolValue), nil
	case *structpb.Value_StructValue:
		return appendStruct(b, kind.StructValue)
	case *structpb.Value_ListValue:
		b = append(b, '[')
		var err error
		for i, item := range kind.ListValue.GetValues() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendDynamic(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	default:
		return append(b, "null"...), nil
	}
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. It replaces invalid UTF-8 with U+FFFD, so that
// every response is valid JSON.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

const csvMediaType = "text/csv"

// selectCSV makes the mux encode the response as CSV if the query asks for it. The mux selects
// the encoding by the header Accept of r. Headers of the client do not reach the mux.
func (c *call) selectCSV(r *http.Request) {
	if contract.CSVRows(c.route.RPC.Output()) == nil {
		return
	}
	format := c.route.RPC.Input().Fields().ByName("format")
	if value := format.Enum().Values().ByNumber(c.decoded.Get(format).Enum()); value != nil && strings.HasSuffix(string(value.Name()), "_CSV") {
		r.Header = http.Header{"Accept": {csvMediaType}}
	}
}

// csvMarshaler encodes a message as a CSV table of its list of rows. The columns are the fields
// of a row, with their names in JSON. An absent value is an empty cell. The marshaler decodes
// requests like marshaler.
type csvMarshaler struct{ marshaler }

func (csvMarshaler) ContentType(any) string { return csv.ContentType }

func (csvMarshaler) Marshal(v any) ([]byte, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("gateway: %T is not a message", v)
	}
	m := message.ProtoReflect()
	list := contract.CSVRows(m.Descriptor())
	if list == nil {
		return nil, fmt.Errorf("gateway: %s has no list of rows", m.Descriptor().FullName())
	}
	var table []byte
	w := csv.NewWriter(func(chunk []byte) error { table = append(table, chunk...); return nil })
	columns := list.Message().Fields()
	names := make([]string, columns.Len())
	for i := range names {
		names[i] = columns.Get(i).JSONName()
	}
	if err := w.Header(names...); err != nil {
		return nil, err
	}
	rows := m.Get(list).List()
	for i := range rows.Len() {
		row := rows.Get(i).Message()
		for j := range columns.Len() {
			if err := writeCell(w, row, columns.Get(j)); err != nil {
				return nil, err
			}
		}
		if err := w.EndRow(); err != nil {
			return nil, err
		}
	}
	return table, w.Flush()
}

func writeCell(w *csv.Writer, row protoreflect.Message, column protoreflect.FieldDescriptor) error {
	switch value := row.Get(column); {
	case column.HasPresence() && !row.Has(column):
		w.Empty()
	case column.Kind() == protoreflect.StringKind:
		w.Text(value.String())
	case column.Kind() == protoreflect.Int64Kind:
		w.Int(value.Int())
	case column.Kind() == protoreflect.DoubleKind:
		w.Float(value.Float())
	case column.Message() != nil:
		at, ok := value.Message().Interface().(*timestamppb.Timestamp)
		if !ok {
			return fmt.Errorf("gateway: %s cannot be a cell of a CSV table", column.FullName())
		}
		w.Time(at.AsTime())
	default:
		return fmt.Errorf("gateway: %s cannot be a cell of a CSV table", column.FullName())
	}
	return nil
}

func (m csvMarshaler) NewEncoder(w io.Writer) runtime.Encoder { return newEncoder(w, m.Marshal) }
