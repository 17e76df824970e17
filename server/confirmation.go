package server

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
)

// confirmationPhrase is the text that a caller types to confirm an erasure.
const confirmationPhrase = "DELETE"

// confirmationFields are the names of the field with the confirmation phrase. A message with
// the first of them needs the phrase; the others are aliases.
var confirmationFields = []protoreflect.Name{"confirmation", "confirm", "confirmation_phrase"}

// checkConfirmation returns CONFIRMATION_INVALID if the request needs the confirmation phrase
// and does not contain it, or contains another text under one of the names.
func checkConfirmation(req any) error {
	msg, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	m := msg.ProtoReflect()
	fields := m.Descriptor().Fields()
	if fields.ByName(confirmationFields[0]) == nil {
		return nil
	}
	confirmed := false
	for _, name := range confirmationFields {
		field := fields.ByName(name)
		if field == nil || !m.Has(field) {
			continue
		}
		if m.Get(field).String() != confirmationPhrase {
			return affiliate.Refuse(affiliate.ReasonConfirmationInvalid)
		}
		confirmed = true
	}
	if !confirmed {
		return affiliate.Refuse(affiliate.ReasonConfirmationInvalid)
	}
	return nil
}
