// Package bundle defines the records of an export of personal data and their JSON.
//
// A bundle is one JSON object. Most of its members are lists of records. A record has the
// columns of one row under their names in snake_case. Storage reads the rows into these types,
// and package server/privacy/export writes them.
//
// Records contain no secrets: no passwords, tokens, keys or digests of them. Buyers have a
// pseudonym. Some fields are internal to the merchant, such as notes about a partner. They are
// in the bundles that the merchant requests, and Prepare removes them from the bundle that a
// partner requests.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// SchemaVersion is the version of the format. Adding members and fields does not change it.
const SchemaVersion = 1

// Time is an instant in a record. Its JSON is RFC 3339 in UTC with milliseconds.
type Time time.Time //nolint:recvcheck // Scan needs a pointer, MarshalJSON a value

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + affiliate.FormatTime(time.Time(t)) + `"`), nil
}

// Scan reads the time from a column.
func (t *Time) Scan(value any) error {
	at, ok := value.(time.Time)
	if !ok {
		return fmt.Errorf("%T is not a time", value)
	}
	*t = Time(at)
	return nil
}

// Date is a day in a record. Its JSON has the form 2026-03-01.
type Date time.Time //nolint:recvcheck // Scan needs a pointer, MarshalJSON a value

// MarshalJSON implements json.Marshaler.
func (d Date) MarshalJSON() ([]byte, error) {
	return []byte(`"` + time.Time(d).UTC().Format(time.DateOnly) + `"`), nil
}

// Scan reads the day from a column.
func (d *Date) Scan(value any) error { return (*Time)(d).Scan(value) }

// preparer is a record that has internal fields or derived fields.
type preparer interface {
	// prepare sets the derived fields. If forPartner is true, it clears the internal fields.
	prepare(forPartner bool)
}

// Prepare makes a record, a pointer to one of the types of this package, ready to be written
// into a bundle of the given kind.
func Prepare(kind privacy.ExportKind, record any) {
	if r, ok := record.(preparer); ok {
		r.prepare(kind == privacy.ExportPartner)
	}
}

// customer returns the pseudonym of a buyer: the same for all records of the buyer in one
// workspace and mode. ref is the keyed hash that the service stores. The pseudonym does not
// contain it.
func customer(workspace affiliate.WorkspaceID, mode affiliate.Mode, ref *string) *string {
	if ref == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(workspace.String() + "\x00" + string(mode) + "\x00" + *ref))
	name := "customer-" + hex.EncodeToString(sum[:8])
	return &name
}
