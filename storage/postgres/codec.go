package postgres

import (
	"encoding"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// idCodec is pgx's uuid codec with a faster path for the service's id types. Without
// it, pgx would inspect the type of each value and convert it through text.
type idCodec struct{ pgtype.UUIDCodec }

// PlanEncode returns the plan for sending a value.
func (c idCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(encoding.BinaryMarshaler); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

type idPlan struct{}

// Encode appends the sixteen bytes of the id.
func (idPlan) Encode(value any, buf []byte) ([]byte, error) {
	id, err := value.(encoding.BinaryMarshaler).MarshalBinary()
	return append(buf, id...), err
}

// PlanScan returns the plan for receiving a value.
func (c idCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(encoding.BinaryUnmarshaler); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

// Scan reads the sixteen bytes of the id. Null becomes the zero id.
func (idPlan) Scan(src []byte, target any) error {
	if src == nil {
		src = make([]byte, 16)
	}
	return target.(encoding.BinaryUnmarshaler).UnmarshalBinary(src)
}

// registerTypes registers idCodec on a new connection, and a codec that returns times in UTC.
func registerTypes(m *pgtype.Map) {
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: idCodec{}}
	m.RegisterType(id)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: id}})
	at := &pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}}
	m.RegisterType(at)
	m.RegisterType(&pgtype.Type{Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID, Codec: &pgtype.ArrayCodec{ElementType: at}})
}
