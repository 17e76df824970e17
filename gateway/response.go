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

	"github.com/tributary-hq/tributary/gateway/contract"
)

// statusMetadata is the metadata key with which the core sets the HTTP status of one
// successful response, if it is not the usual status of the route.
const statusMetadata = "x-http-code"

// errHead ends a download before its first piece is written if the request is a HEAD
// request.
var errHead = errors.New("the response to HEAD has no body")

// setSuccess sets the status of a response without an error. The core can replace the
// status of the route by another 2xx status.
func setSuccess(ctx context.Context, w http.ResponseWriter, message proto.Message) error {
	c := callFrom(ctx)
	md, _ := runtime.ServerMetadataFromContext(ctx)
	if values := md.HeaderMD[statusMetadata]; len(values) > 0 {
		if code, err := strconv.Atoi(values[0]); err == nil && code >= 200 && code <= 299 {
			c.successStatus = code
		}
	}
	if piece, ok := message.(*httpbody.HttpBody); ok && c.request.Method == http.MethodHead {
		w.Header().Set("Content-Type", piece.GetContentType())
		w.WriteHeader(c.successStatus)
		return errHead
	}
	return nil
}

// handleStreamError ends a download that failed. For errHead, and for a stream of events
// that ends because the process stops, it writes nothing. If no piece was sent, it writes an error response. Otherwise it closes the connection,
// because a truncated file must not look complete. After handleStreamError returns,
// grpc-gateway writes an error of its own, which has no effect because the call is
// complete.
func (g *gateway) handleStreamError(ctx context.Context, err error) *status.Status {
	c := callFrom(ctx)
	switch {
	case errors.Is(err, errHead) || contract.EventStream(c.route.FullMethod) && g.stopping():
	case c.status == 0:
		g.refuseStatus(c, err)
	default:
		if c.request.Context().Err() == nil {
			g.Log.ErrorContext(ctx, "a stream failed", "request_id", c.id, "method", c.route.FullMethod, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	c.complete = true
	return status.Convert(err)
}

// stopping reports whether the process has begun to stop.
func (g *gateway) stopping() bool {
	select {
	case <-g.Stopping:
		return true
	default:
		return false
	}
}
