package servertest

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// WantMessage reports an error if the response of a call is not equal to want.
func WantMessage(t testing.TB, call string, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("%s returned %v\nwant %v", call, got, want)
	}
}

// WantFields compares the fields that are set in want with the same fields of got and
// reports each difference. Fields that are not set in want can have any value in got.
// The parameter name describes got in the messages.
func WantFields(t testing.TB, name string, got, want proto.Message) {
	t.Helper()
	wantFields(t, name, got.ProtoReflect(), want.ProtoReflect())
}

func wantFields(t testing.TB, name string, got, want protoreflect.Message) {
	t.Helper()
	want.Range(func(field protoreflect.FieldDescriptor, wanted protoreflect.Value) bool {
		t.Helper()
		path := name + "." + string(field.Name())
		switch value := got.Get(field); {
		case !got.Has(field):
			t.Errorf("%s is not set, want %s", path, text(field, wanted))
		case field.Message() != nil && !field.IsList() && field.ParentFile().Package() == field.Message().ParentFile().Package():
			wantFields(t, path, value.Message(), wanted.Message())
		case !value.Equal(wanted):
			t.Errorf("%s is %s, want %s", path, text(field, value), text(field, wanted))
		}
		return true
	})
}

// text returns the value of a field as text for the message of a failure.
func text(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	if field.IsList() {
		texts := make([]string, value.List().Len())
		for i := range texts {
			texts[i] = elementText(field, value.List().Get(i))
		}
		return fmt.Sprintf("%q", texts)
	}
	return elementText(field, value)
}

func elementText(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch {
	case field.Message() != nil:
		return fmt.Sprint(value.Message().Interface())
	case field.Enum() != nil:
		return string(field.Enum().Values().ByNumber(value.Enum()).Name())
	}
	return fmt.Sprint(value.Interface())
}
