package gateway

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

// The JSON dialect is the set of rules that give every message its JSON form. The rules
// depend only on the descriptor of the message:
//
//   - A response contains every field under its json_name, even if the value is zero. Only a
//     field with the option omit_if_absent is left out if it is absent.
//   - 64-bit integers are numbers.
//   - Enum values are names in lower case, from contract.EnumNames. The unspecified value
//     and values that this version does not know are null.
//   - Timestamps are RFC 3339 in UTC with three decimals.
//   - An absent message or optional scalar is null.
//   - Lists and maps are always present.
//   - google.protobuf.Struct is an object.
//
// Requests have the same form (decode.go). They may also write the name of a field in the
// other spelling, in snake_case or in camelCase.
//
// planFor fails for types that the dialect does not support: scalars other than scalarKinds, maps whose keys are not
// strings, and types of google.protobuf other than Timestamp, Struct and FieldMask. New calls planFor for all routes,
// so in a running gateway every message of a route has a supported type.

type form uint8

const (
	formObject form = iota
	formTimestamp
	formStruct
	formMask // the update_mask of a request, which is never in the JSON
	formRaw  // a google.api.HttpBody, which is never in the JSON
)

// messagePlan contains precomputed data about a message type for the codec.
type messagePlan struct {
	desc   protoreflect.MessageDescriptor
	form   form
	fields []fieldPlan
	names  map[string]*fieldPlan // the fields by JSON name and by their other spellings
	// size is the length in bytes of the last encoded message of this type. The next
	// buffer is allocated with about this size.
	size atomic.Int64
}

// fieldPlan contains precomputed data about a field for the codec.
type fieldPlan struct {
	fd   protoreflect.FieldDescriptor
	kind protoreflect.Kind
	// index is the index of the field in messagePlan.fields.
	index int
	// name is the JSON name, and key is the JSON name with quotes and a colon.
	name, key string
	// isList is true for a repeated field. isMap is true for a map.
	isList, isMap bool
	// mapValue describes the values of a map.
	mapValue *fieldPlan
	// nullable is true if an absent value is encoded as null.
	nullable bool
	// omitted is true if an absent value is left out of a response.
	omitted bool
	// anyType is true if the text field has the option any_type. The field then accepts every JSON value. If the value
	// is not a string, the field contains the JSON text of the value.
	anyType bool
	// oneof is the oneof that contains the field, or nil. The oneofs that protobuf creates for
	// optional fields are ignored.
	oneof   protoreflect.OneofDescriptor
	message *messagePlan
	enum    *enumPlan
}

type enumPlan struct {
	// quoted contains the names in quotes, by number.
	quoted map[protoreflect.EnumNumber]string
	// numbers contains the numbers by name.
	numbers map[string]protoreflect.EnumNumber
	// choices lists all names, for the message about an unknown name.
	choices string
}

// plans contains every messagePlan by descriptor. Entries are never removed, because
// descriptors exist until the process ends.
var plans sync.Map

// planFor returns the plan of a message type. It creates the plan on the first call.
func planFor(desc protoreflect.MessageDescriptor) (*messagePlan, error) {
	if plan, ok := plans.Load(desc); ok {
		return plan.(*messagePlan), nil
	}
	built := make(map[protoreflect.MessageDescriptor]*messagePlan)
	plan, err := makePlan(desc, built)
	if err != nil {
		return nil, err
	}
	// Store the plans after all of them are complete, so that no goroutine uses an
	// incomplete plan.
	for d, p := range built {
		plans.LoadOrStore(d, p)
	}
	return plan, nil
}

func makePlan(desc protoreflect.MessageDescriptor, built map[protoreflect.MessageDescriptor]*messagePlan) (*messagePlan, error) {
	if plan, ok := built[desc]; ok {
		return plan, nil
	}
	plan := &messagePlan{desc: desc}
	built[desc] = plan
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
	case "google.api.HttpBody":
		plan.form = formRaw
		return plan, nil
	}
	if desc.FullName().Parent() == "google.protobuf" {
		return nil, fmt.Errorf("%s is not supported in the JSON dialect", desc.FullName())
	}
	fields := desc.Fields()
	plan.fields = make([]fieldPlan, fields.Len(), fields.Len()+1)
	plan.names = make(map[string]*fieldPlan, fields.Len())
	for i := range plan.fields {
		field := &plan.fields[i]
		if err := field.fill(fields.Get(i), built); err != nil {
			return nil, err
		}
		field.index = i
		plan.names[field.name] = field
	}
	for i := range plan.fields {
		for _, name := range contract.Spellings(plan.fields[i].fd) {
			if plan.names[name] == nil {
				plan.names[name] = &plan.fields[i]
			}
		}
	}
	if key := contract.PageSizeKey(desc); key != "" {
		pageSize := *plan.names["limit"]
		pageSize.name, pageSize.key = key, string(appendString(nil, key))+":"
		plan.fields = append(plan.fields, pageSize)
	}
	return plan, nil
}

func (f *fieldPlan) fill(fd protoreflect.FieldDescriptor, built map[protoreflect.MessageDescriptor]*messagePlan) error {
	f.fd, f.kind, f.name = fd, fd.Kind(), fd.JSONName()
	f.key = string(appendString(nil, f.name)) + ":"
	f.isList, f.isMap = fd.IsList(), fd.IsMap()
	f.nullable, f.omitted = fd.HasPresence(), contract.OmitIfAbsent(fd)
	f.anyType, _ = proto.GetExtension(fd.Options(), affiliatev1.E_AnyType).(bool)
	if oneof := fd.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		f.oneof = oneof
	}
	var err error
	switch {
	case f.isMap:
		if fd.MapKey().Kind() != protoreflect.StringKind {
			return fmt.Errorf("%s: map keys must be strings", fd.FullName())
		}
		f.mapValue = &fieldPlan{}
		return f.mapValue.fill(fd.MapValue(), built)
	case f.kind == protoreflect.EnumKind:
		f.enum, err = makeEnumPlan(fd.Enum())
	case f.kind == protoreflect.MessageKind:
		if f.message, err = makePlan(fd.Message(), built); err == nil && f.message.form == formMask && fd.Name() != contract.UpdateMask {
			err = fmt.Errorf("%s: a field mask can only be %s", fd.FullName(), contract.UpdateMask)
		}
	case !slices.Contains(scalarKinds, f.kind):
		return fmt.Errorf("%s: %s is not supported in the JSON dialect", fd.FullName(), f.kind)
	}
	return err
}

// scalarKinds are the kinds of scalar fields that the dialect supports in addition to enums.
var scalarKinds = []protoreflect.Kind{
	protoreflect.StringKind, protoreflect.BoolKind, protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.DoubleKind,
}

func makeEnumPlan(desc protoreflect.EnumDescriptor) (*enumPlan, error) {
	names, err := contract.EnumNames(desc)
	if err != nil {
		return nil, err
	}
	plan := &enumPlan{
		quoted:  make(map[protoreflect.EnumNumber]string, len(names)),
		numbers: make(map[string]protoreflect.EnumNumber, len(names)),
	}
	var choices []string
	for _, name := range names {
		plan.quoted[name.Number] = string(appendString(nil, name.Text))
		plan.numbers[name.Text] = name.Number
		choices = append(choices, name.Text)
	}
	for alias, name := range contract.EnumAliases(desc) {
		plan.numbers[alias] = plan.numbers[name]
	}
	plan.choices = strings.Join(choices, ", ")
	return plan, nil
}

// marshaler encodes and decodes messages for the generated handlers. It uses the JSON
// dialect, except that it reads and writes the data of a google.api.HttpBody unchanged.
type marshaler struct{}

var (
	_ runtime.Marshaler = marshaler{}
	_ runtime.Delimited = marshaler{}
)

const maxInitialBuffer = 1 << 20

func (marshaler) ContentType(v any) string {
	if file, ok := v.(*httpbody.HttpBody); ok {
		return file.GetContentType()
	}
	return "application/json"
}

// Delimiter is empty, because the pieces of a stream are parts of one file.
func (marshaler) Delimiter() []byte { return nil }

func (marshaler) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *httpbody.HttpBody:
		return v.GetData(), nil
	case map[string]proto.Message:
		// This is the error that grpc-gateway writes after a failed stream.
		// handleStreamError has already written the error response.
		return nil, nil
	case browserResponse:
		return v.append(nil)
	case proto.Message:
		plan, err := planFor(v.ProtoReflect().Descriptor())
		if err != nil {
			return nil, err
		}
		size := plan.size.Load()
		body, err := plan.append(make([]byte, 0, min(size+size/8, maxInitialBuffer)), v.ProtoReflect())
		plan.size.Store(int64(len(body)))
		return body, err
	}
	return nil, fmt.Errorf("gateway: %T is not a message", v)
}

func (m marshaler) NewEncoder(w io.Writer) runtime.Encoder { return newEncoder(w, m.Marshal) }

func newEncoder(w io.Writer, marshal func(any) ([]byte, error)) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		body, err := marshal(v)
		if err == nil {
			_, err = w.Write(body)
		}
		return err
	})
}

// requestBody is the body of a request, which the middleware readBody has read. It also gives the decoder access to
// the call, which has the accepted keys and collects faults and ignored keys.
type requestBody struct {
	call *call
	data []byte
}

// errInvalid makes a generated handler stop if its request cannot be decoded. The faults
// are in the call.
var errInvalid = errors.New("the request is not valid")

// Read always returns io.EOF, because the decoder uses data directly.
func (*requestBody) Read([]byte) (int, error) { return 0, io.EOF }

// WriteTo writes nothing. io.Copy uses it and then needs no buffer when a generated
// handler reads the rest of the body.
func (*requestBody) WriteTo(io.Writer) (int64, error) { return 0, nil }

func (*requestBody) Close() error { return nil }

// NewDecoder implements runtime.Marshaler. For a requestBody, the decoder applies the
// settings of the route and adds the faults to the call.
func (m marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, ok := r.(*requestBody)
		if !ok {
			data, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			return m.Unmarshal(data, v)
		}
		switch v := v.(type) {
		case **httpbody.HttpBody:
			*v = &httpbody.HttpBody{ContentType: body.call.request.Header.Get("Content-Type"), Data: body.data}
		case proto.Message:
			body.call.decode(body.data, v.ProtoReflect())
		default:
			return fmt.Errorf("gateway: %T is not a message", v)
		}
		if len(body.call.faults.list) > 0 {
			return errInvalid
		}
		return nil
	})
}

// decode decodes the body into m. If m has an update_mask, decode sets the mask to the paths of the fields in the body.
func (c *call) decode(data []byte, m protoreflect.Message) {
	var mask, ignored *[]string
	if c.route.mask != nil {
		mask = new([]string)
	}
	if c.route.IgnoresUnknownKeys {
		ignored = &c.ignored
	}
	d := decoder{faults: &c.faults, mask: mask, ignored: ignored, items: c.route.items}
	d.body(data, c.route.body, m)
	c.spellings = d.spellings
	if c.route.items != nil {
		for field, key := range d.spellings {
			m.Mutable(c.route.items.spellings).Map().Set(protoreflect.ValueOfString(string(field.Name())).MapKey(), protoreflect.ValueOfString(key))
		}
	}
	if mask != nil {
		m.Set(c.route.mask, protoreflect.ValueOfMessage((&fieldmaskpb.FieldMask{Paths: *mask}).ProtoReflect()))
	}
	c.decoded = m
	httpedge.SetIgnoredFields(c.Header(), c.ignored)
}

// Unmarshal implements runtime.Marshaler. It accepts every key of the message.
func (marshaler) Unmarshal(data []byte, v any) error {
	message, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("gateway: %T is not a message", v)
	}
	m := message.ProtoReflect()
	plan, err := planFor(m.Descriptor())
	if err != nil {
		return err
	}
	var faults violations
	if decodeBody(data, plan.names, m, &faults); len(faults.list) > 0 {
		return errInvalid
	}
	return nil
}
