package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/csv"
)

// streamTimeout is the longest time of a streaming call without Policy.Lasting. These calls are
// downloads, and the database statement of a download has the same timeout.
const streamTimeout = 10 * time.Minute

// lastingMargin is added to the life of an access token to get the timeout of calls that
// last until the token expires (Policy.Lasting). These calls end before the timeout.
const lastingMargin = time.Minute

// interceptStream runs the interceptors of unary calls for a call of a server-streaming
// method. The call has one request and many responses. interceptStream receives the
// request and passes it to the interceptors. The handler then receives the same request
// from RecvMsg. Methods without a policy run without the interceptors. These are health
// watches and reflection, which are available on the private port only.
func (p *pipeline) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	if _, ok := policies[info.FullMethod]; !ok {
		return p.guardStream(srv, stream, info, next)
	}
	request, err := requestOf(info.FullMethod)
	if err != nil {
		return err
	}
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	unary := &grpc.UnaryServerInfo{Server: srv, FullMethod: info.FullMethod}
	ctx := context.WithValue(stream.Context(), streamKey{}, true)
	ctx = grpc.NewContextWithServerTransportStream(ctx, headerStream{stream, info.FullMethod})
	_, err = p.unary(ctx, request, unary, func(ctx context.Context, request any) (any, error) {
		return nil, next(srv, &replayedStream{ServerStream: stream, ctx: ctx, request: request.(proto.Message)})
	})
	return err
}

// guardStream runs a streaming method that has no policy. If the method panics, the
// stream ends with an error and the process continues.
func (p *pipeline) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer p.catch(stream.Context(), info.FullMethod, status.Error(codes.Internal, "internal error"), &err)
	return next(srv, stream)
}

func requestOf(fullMethod string) (proto.Message, error) {
	// The name of /package.Service/Method in the registry is package.Service.Method.
	name := strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", fullMethod, err)
	}
	method, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is not a method", fullMethod)
	}
	input, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", fullMethod, err)
	}
	return input.New().Interface(), nil
}

type streamKey struct{}

// headerStream implements grpc.ServerTransportStream for a stream, so that the
// interceptors can call grpc.SetHeader.
type headerStream struct {
	grpc.ServerStream
	method string
}

func (s headerStream) Method() string                  { return s.method }
func (s headerStream) SetTrailer(md metadata.MD) error { s.ServerStream.SetTrailer(md); return nil }

// replayedStream is the stream that the handler uses. Its first RecvMsg returns the request
// that interceptStream has already received.
type replayedStream struct {
	grpc.ServerStream
	ctx     context.Context
	request proto.Message
}

func (s *replayedStream) Context() context.Context { return s.ctx }

// RecvMsg returns the received request when it is called for the first time. Later calls
// read from the stream.
func (s *replayedStream) RecvMsg(into any) error {
	if s.request == nil {
		return s.ServerStream.RecvMsg(into)
	}
	message, ok := into.(proto.Message)
	if !ok {
		return affiliate.Refuse(affiliate.ReasonInternal)
	}
	proto.Merge(message, s.request)
	s.request = nil
	return nil
}

// NameCSV sets the header with the file name of a CSV table, <subject>-<mode>-<date>.csv.
func NameCSV(ctx context.Context, subject string, mode affiliate.Mode, at time.Time) {
	_ = grpc.SetHeader(ctx, csvName(subject, mode, at)) // fails only after the response was sent
}

func csvName(subject string, mode affiliate.Mode, at time.Time) metadata.MD {
	return metadata.Pairs("content-disposition", fmt.Sprintf(`attachment; filename="%s-%s-%s.csv"`, subject, mode, at.Format(time.DateOnly)))
}

// StreamCSV sends a CSV table as the response to a streaming call. The file name in the
// response is <subject>-<mode>-<date>.csv. The first row of the table contains the names in
// the parameter columns. The function rows writes all other rows.
func StreamCSV(
	stream grpc.ServerStreamingServer[httpbody.HttpBody], subject string, mode affiliate.Mode, at time.Time, columns []string, rows func(w *csv.Writer) error,
) error {
	if err := stream.SetHeader(csvName(subject, mode, at)); err != nil {
		return err
	}
	w := csv.NewWriter(func(chunk []byte) error {
		return stream.Send(&httpbody.HttpBody{ContentType: csv.ContentType, Data: chunk})
	})
	if err := w.Header(columns...); err != nil {
		return err
	}
	if err := rows(w); err != nil {
		return err
	}
	return w.Flush()
}
