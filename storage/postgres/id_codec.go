package postgres

import (
	"encoding"

	"github.com/jackc/pgx/v5/pgtype"
)

// idCodec is pgx's codec of uuid, with a short way for our ids: pgx would find out
// for each of them anew what it is, by way of a text.
type idCodec struct{ pgtype.UUIDCodec }

// PlanEncode plans how a value is sent.
func (c idCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(encoding.BinaryMarshaler); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

type idPlan struct{}

// Encode sends the sixteen bytes.
func (idPlan) Encode(value any, buf []byte) ([]byte, error) {
	id, err := value.(encoding.BinaryMarshaler).MarshalBinary()
	return append(buf, id...), err
}

// PlanScan plans how a value is received.
func (c idCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(encoding.BinaryUnmarshaler); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

// Scan reads the sixteen bytes; nothing is the zero id.
func (idPlan) Scan(src []byte, target any) error {
	if src == nil {
		src = make([]byte, 16)
	}
	return target.(encoding.BinaryUnmarshaler).UnmarshalBinary(src)
}

// registerIDs is for a new connection.
func registerIDs(m *pgtype.Map) {
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: idCodec{}}
	m.RegisterType(id)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: id}})
}
