package gateway

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/gateway/contract"
)

// The JSON dialect, by rule from the descriptors.
//
// Out: every field by its json_name, zero values too; 64-bit integers are
// numbers; enums are the lower-case words of contract.Words, null when
// unspecified or unknown to this build; timestamps are RFC 3339 UTC with three
// decimals; an absent message or optional scalar is null; lists and maps are
// always there; google.protobuf.Struct is an object.
//
// In: the same shapes and nothing near them (decode.go).
//
// A type without a form (bytes, Any, Duration, a map with keys that are no
// strings, …) makes planFor fail, so a gateway that starts can print and read
// all that it routes.

// form is how a message is written.
type form uint8

const (
	formObject form = iota
	formTimestamp
	formStruct
	formMask // only as a request's update_mask, which is never in the JSON
)

// messagePlan is what the codec needs to know about a message type, found once.
type messagePlan struct {
	desc   protoreflect.MessageDescriptor
	form   form
	fields []fieldPlan
	names  map[string]*fieldPlan
	// size is how long the last one printed was: a guess for the next one.
	size atomic.Int64
}

type fieldPlan struct {
	fd   protoreflect.FieldDescriptor
	kind protoreflect.Kind
	// index is the field's place in messagePlan.fields.
	index int
	// name is the JSON name, key the same with quotes and colon.
	name string
	key  string
	// list and dict exclude each other; dict is a map with string keys whose
	// values item describes.
	list, dict bool
	item       *fieldPlan
	// nullable tells whether an absent value prints null.
	nullable bool
	// oneof is set for members of a real oneof.
	oneof   protoreflect.OneofDescriptor
	message *messagePlan
	enum    *enumPlan
}

type enumPlan struct {
	// quoted is the word in quotes, or null, by number.
	quoted map[protoreflect.EnumNumber]string
	words  map[string]protoreflect.EnumNumber
	// choices lists the words for the message to whoever sent none of them.
	choices string
}

// plans holds every messagePlan by descriptor. Descriptors live as long as the
// process, so nothing is ever dropped.
var plans sync.Map

// planFor makes or finds the plan of a message type.
func planFor(desc protoreflect.MessageDescriptor) (*messagePlan, error) {
	if plan, ok := plans.Load(desc); ok {
		return plan.(*messagePlan), nil
	}
	made := make(map[protoreflect.MessageDescriptor]*messagePlan)
	plan, err := makePlan(desc, made)
	if err != nil {
		return nil, err
	}
	// Published only when whole: another goroutine never sees a plan that is
	// still being filled.
	for d, p := range made {
		plans.LoadOrStore(d, p)
	}
	return plan, nil
}

func makePlan(desc protoreflect.MessageDescriptor, made map[protoreflect.MessageDescriptor]*messagePlan) (*messagePlan, error) {
	if plan, ok := made[desc]; ok {
		return plan, nil
	}
	plan := &messagePlan{desc: desc}
	made[desc] = plan
	switch desc.FullName() {
	case "google.protobuf.Timestamp":
		plan.form = formTimestamp
		return plan, nil
	case "google.protobuf.Struct":
		plan.form = formStruct
		return plan, nil
	case "google.protobuf.FieldMask":
		plan.form = formMask
		return plan, nil
	}
	if desc.FullName().Parent() == "google.protobuf" {
		return nil, fmt.Errorf("%s has no form in this JSON dialect", desc.FullName())
	}
	fields := desc.Fields()
	plan.fields = make([]fieldPlan, fields.Len())
	plan.names = make(map[string]*fieldPlan, fields.Len())
	for i := range plan.fields {
		field := &plan.fields[i]
		if err := field.fill(fields.Get(i), made); err != nil {
			return nil, err
		}
		field.index = i
		plan.names[field.name] = field
	}
	return plan, nil
}

func (f *fieldPlan) fill(fd protoreflect.FieldDescriptor, made map[protoreflect.MessageDescriptor]*messagePlan) error {
	f.fd, f.kind, f.name = fd, fd.Kind(), fd.JSONName()
	f.key = string(appendString(nil, f.name)) + ":"
	f.list, f.dict = fd.IsList(), fd.IsMap()
	f.nullable = fd.HasPresence()
	if oneof := fd.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		f.oneof = oneof
	}
	var err error
	switch {
	case f.dict:
		if fd.MapKey().Kind() != protoreflect.StringKind {
			return fmt.Errorf("%s: map keys must be strings", fd.FullName())
		}
		f.item = &fieldPlan{}
		return f.item.fill(fd.MapValue(), made)
	case f.kind == protoreflect.BytesKind || f.kind == protoreflect.GroupKind:
		return fmt.Errorf("%s: %s has no form in this JSON dialect", fd.FullName(), f.kind)
	case f.kind == protoreflect.EnumKind:
		f.enum, err = makeEnumPlan(fd.Enum())
	case f.kind == protoreflect.MessageKind:
		if f.message, err = makePlan(fd.Message(), made); err == nil && f.message.form == formMask && fd.Name() != contract.UpdateMask {
			err = fmt.Errorf("%s: a field mask can only be %s", fd.FullName(), contract.UpdateMask)
		}
	}
	return err
}

func makeEnumPlan(desc protoreflect.EnumDescriptor) (*enumPlan, error) {
	words, err := contract.Words(desc)
	if err != nil {
		return nil, err
	}
	plan := &enumPlan{
		quoted: make(map[protoreflect.EnumNumber]string, len(words)),
		words:  make(map[string]protoreflect.EnumNumber, len(words)),
	}
	for i, word := range words {
		plan.quoted[word.Number] = string(appendString(nil, word.Text))
		plan.words[word.Text] = word.Number
		switch {
		case i == 0:
		case i == len(words)-1:
			plan.choices += " or "
		default:
			plan.choices += ", "
		}
		plan.choices += word.Text
	}
	return plan, nil
}

// marshaler gives the dialect to the generated handlers for their answers.
// Their decoder never gets anything to read: the request has been decoded
// before them (endpoint.go).
type marshaler struct{}

var _ runtime.Marshaler = marshaler{}

// maxGuess bounds what is set aside for an answer before its length is known.
const maxGuess = 1 << 20

func (marshaler) ContentType(any) string { return "application/json" }

func (marshaler) Marshal(v any) ([]byte, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("gateway: %T is not a message", v)
	}
	plan, err := planFor(message.ProtoReflect().Descriptor())
	if err != nil {
		return nil, err
	}
	size := plan.size.Load()
	body, err := plan.append(make([]byte, 0, min(size+size/8, maxGuess)), message.ProtoReflect())
	plan.size.Store(int64(len(body)))
	return body, err
}

func (marshaler) Unmarshal([]byte, any) error {
	return fmt.Errorf("gateway: requests are decoded before the generated handlers")
}

func (marshaler) NewDecoder(io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(any) error { return io.EOF })
}

func (m marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		body, err := m.Marshal(v)
		if err == nil {
			_, err = w.Write(body)
		}
		return err
	})
}
