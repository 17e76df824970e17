package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/httpedge/csv"
)

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

// ContentType implements runtime.Marshaler.
func (csvMarshaler) ContentType(any) string { return csv.ContentType }

// Marshal implements runtime.Marshaler.
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

// NewEncoder implements runtime.Marshaler.
func (m csvMarshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		table, err := m.Marshal(v)
		if err == nil {
			_, err = w.Write(table)
		}
		return err
	})
}
