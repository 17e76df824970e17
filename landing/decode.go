package landing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

var errMalformed = errors.New("the body is not a JSON object in UTF-8 in which each key occurs once")

// decode sets the fields of message from a JSON object. It ignores unknown keys. A value of a wrong type counts as
// absent, and so does a string that cannot be stored, because it has NUL or half of a surrogate pair. A field with the
// option any_type is an exception: instead of being absent, it gets the JSON text of such a value. The only error is
// errMalformed.
func decode(body []byte, message protoreflect.Message) error {
	d := decoder{Scanner: jsonscan.Scanner{Data: string(body), AnyKey: true}, message: message, seen: map[string]bool{}}
	if !utf8.Valid(body) || d.SkipSpace() != '{' || !d.Object(d.field) {
		return errMalformed
	}
	if d.SkipSpace(); d.Pos < len(d.Data) {
		return errMalformed
	}
	return nil
}

// decoder reads a body. Its methods return false if the text at Pos is not valid, is nested
// too deeply, or repeats a key of the body.
type decoder struct {
	jsonscan.Scanner
	message protoreflect.Message
	// seen contains the keys of the body that were read.
	seen map[string]bool
}

func (d *decoder) field(key string) bool {
	if d.seen[key] {
		return false
	}
	d.seen[key] = true
	first, start := d.SkipSpace(), d.Pos
	var text string
	var isText, ok bool
	if first == '"' {
		var fault string
		text, fault, ok = d.Text()
		isText = fault == ""
	} else {
		ok = d.Skip()
	}
	field := d.message.Descriptor().Fields().ByJSONName(key)
	if !ok || field == nil || first == 'n' {
		return ok
	}
	literal := d.Data[start:d.Pos]
	anyType, _ := proto.GetExtension(field.Options(), affiliatev1.E_AnyType).(bool)
	switch kind := field.Kind(); {
	case kind == protoreflect.StringKind && isText:
		d.message.Set(field, protoreflect.ValueOfString(text))
	case kind == protoreflect.StringKind && anyType:
		d.message.Set(field, protoreflect.ValueOfString(literal))
	case kind == protoreflect.DoubleKind || kind == protoreflect.Int32Kind:
		if first == '-' || first >= '0' && first <= '9' {
			setNumber(d.message, field, literal)
		}
	}
	return true
}

// setNumber sets a field to a number. The form of the number does not matter: 1500, 1500.0 and
// 1.5e3 are the same value. A number that the field cannot contain counts as absent.
func setNumber(message protoreflect.Message, field protoreflect.FieldDescriptor, literal string) {
	number, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return // larger than the largest float
	}
	if field.Kind() == protoreflect.DoubleKind {
		message.Set(field, protoreflect.ValueOfFloat64(number))
	} else if number == math.Trunc(number) && math.Abs(number) <= math.MaxInt32 {
		message.Set(field, protoreflect.ValueOfInt32(int32(number)))
	}
}

type codec struct{}

func (codec) ContentType(any) string { return "application/json" }

// Marshal encodes a response. The response to a POST has no body.
func (codec) Marshal(v any) ([]byte, error) {
	count, ok := v.(*landingv1.GetWaitlistCountResponse)
	if !ok {
		return nil, nil
	}
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(count)
	if err != nil {
		return nil, err
	}
	// protojson adds spaces at random.
	var compact bytes.Buffer
	err = json.Compact(&compact, text)
	return compact.Bytes(), err
}

var errUnsupported = errors.New("landing: the codec only encodes responses and decodes bodies")

// Unmarshal implements runtime.Marshaler. Generated handlers call NewDecoder instead.
func (codec) Unmarshal([]byte, any) error { return errUnsupported }

// NewEncoder implements runtime.Marshaler. Generated handlers of RPCs without streams do
// not call it.
func (codec) NewEncoder(io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(any) error { return errUnsupported })
}

func (codec) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		message, ok := v.(proto.Message)
		if !ok {
			return errUnsupported
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return decode(body, message.ProtoReflect())
	})
}

// countCacheControl lets caches keep the counter, because each visitor of the page loads it.
const countCacheControl = "public, max-age=30"

func setSuccess(_ context.Context, w http.ResponseWriter, message proto.Message) error {
	if _, ok := message.(*landingv1.GetWaitlistCountResponse); ok {
		w.Header().Set("Cache-Control", countCacheControl)
		return nil
	}
	w.Header().Del("Content-Type")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusCreated)
	return nil
}
