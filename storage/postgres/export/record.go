package export

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// SchemaVersion is the version of the format of bundles. Adding members and fields does not
// change it.
const SchemaVersion = 1

// Record is a record of a bundle: the columns of one row under their names. It contains no
// secrets: no passwords, tokens, keys or digests of them. Buyers have a pseudonym.
type Record []Field

// Field is a member of a record. Its value is nil, a bool, an integer, a text, a list of
// texts, JSON or the bytes of an encrypted value. Instants are texts in RFC 3339 with
// milliseconds (UTC), days have the form 2026-03-01.
type Field struct {
	Name  string
	Value any
}

// Take removes the last field from the record and returns its value.
func (r *Record) Take() any {
	last := len(*r) - 1
	value := (*r)[last].Value
	*r = (*r)[:last]
	return value
}

// pairSeparator is between the two texts of a position. The first text does not contain it.
const pairSeparator = "/"

// readRecords reads the rows of a statement whose last columns are the position.
func readRecords(rows pgx.Rows, positionColumns int) (records []Record, positions []privacy.ExportPosition, err error) {
	defer rows.Close()
	columns := rows.FieldDescriptions()
	columns = columns[:len(columns)-positionColumns]
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, nil, err
		}
		record := make(Record, len(columns))
		for i, c := range columns {
			record[i] = Field{c.Name, values[i]}
			switch v := values[i].(type) {
			case nil:
			case [16]byte:
				record[i].Value = uuid.UUID(v)
			case time.Time:
				record[i].Value = affiliate.FormatTime(v)
				if c.DataTypeOID == pgtype.DateOID {
					record[i].Value = v.Format(time.DateOnly)
				}
			default:
				if c.DataTypeOID == pgtype.JSONBOID || c.DataTypeOID == pgtype.JSONOID {
					record[i].Value = json.RawMessage(bytes.Clone(rows.RawValues()[i]))
				}
			}
		}
		records, positions = append(records, record), append(positions, position(values[len(columns):]))
	}
	return records, positions, rows.Err()
}

// position returns the position of a record from the columns of the order of its statement. It
// joins two texts with pairSeparator.
func position(columns []any) (p privacy.ExportPosition) {
	for _, value := range columns {
		switch v := value.(type) {
		case [16]byte:
			p.ID = v
		case time.Time:
			p.At = v
		case int32:
			p.Number = int64(v)
		case int64:
			p.Number = v
		case []byte:
			p.Text = hex.EncodeToString(v)
		case string:
			if p.Text != "" {
				p.Text += pairSeparator
			}
			p.Text += v
		}
	}
	return p
}
