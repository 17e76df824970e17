package landing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
)

// codec implements runtime.Marshaler.
type codec struct{}

// ContentType implements runtime.Marshaler.
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

// NewDecoder returns a decoder of a request body.
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

// setSuccess sets the status and the headers of a response without an error.
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
