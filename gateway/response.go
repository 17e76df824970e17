package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// statusMetadata is the metadata in which the core chooses another success status
// for one response.
const statusMetadata = "x-http-code"

// errHead ends the stream of a HEAD request at its first piece.
var errHead = errors.New("HEAD needs no pieces")

// setSuccess sets the status of a success: the route's, or the core's choice. It
// ignores a choice that is not 2xx.
func setSuccess(ctx context.Context, w http.ResponseWriter, message proto.Message) error {
	c := callFrom(ctx)
	md, _ := runtime.ServerMetadataFromContext(ctx)
	if values := md.HeaderMD[statusMetadata]; len(values) > 0 {
		if code, err := strconv.Atoi(values[0]); err == nil && code >= 200 && code <= 299 {
			c.success = code
		}
	}
	if piece, ok := message.(*httpbody.HttpBody); ok && c.request.Method == http.MethodHead {
		w.Header().Set("Content-Type", piece.GetContentType())
		w.WriteHeader(c.success)
		return errHead
	}
	return nil
}

// handleStreamError ends a stream that failed. Before the first piece the client
// gets the envelope. Later the connection is cut, because a truncated file must
// not look complete. grpc-gateway writes an error of its own after it returns,
// which the closed call drops.
func (g *gateway) handleStreamError(ctx context.Context, err error) *status.Status {
	c := callFrom(ctx)
	switch {
	case errors.Is(err, errHead):
	case c.status == 0:
		g.refuseStatus(c, err)
	default:
		if c.request.Context().Err() == nil {
			g.Log.ErrorContext(ctx, "a stream failed", "request_id", c.id, "method", c.route.FullMethod, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	c.closed = true
	return status.Convert(err)
}
