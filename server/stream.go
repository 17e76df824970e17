package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tributary-hq/tributary/affiliate"
)

// streamTimeout ends a download; its statement has as long (RELIABILITY.md 6).
const streamTimeout = 10 * time.Minute

// interceptStream takes a server-streaming method of ours through the same links
// as any other call: it receives the one request, runs the chain on it, and lets
// the handler receive it again. What the private port serves besides our methods
// (health watches, reflection) passes.
func (f *frame) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	if _, ours := policies[info.FullMethod]; !ours {
		return f.guardStream(srv, stream, info, next)
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
	_, err = f.links(ctx, request, unary, func(ctx context.Context, request any) (any, error) {
		return nil, next(srv, &replayed{ServerStream: stream, ctx: ctx, request: request.(proto.Message)})
	})
	return err
}

// guardStream keeps a panic of a stream that is none of ours in its stream.
func (f *frame) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f.logPanic(stream.Context(), info.FullMethod, p)
			err = status.Error(codes.Internal, "internal error")
		}
	}()
	return next(srv, stream)
}

// requestOf makes an empty request of a method.
func requestOf(fullMethod string) (proto.Message, error) {
	// /package.Service/Method is package.Service.Method there.
	name := strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", fullMethod, err)
	}
	method, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no method", fullMethod)
	}
	input, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", fullMethod, err)
	}
	return input.New().Interface(), nil
}

type streamKey struct{}

// headerStream lets the links set headers as they do for any call.
type headerStream struct {
	grpc.ServerStream
	method string
}

func (s headerStream) Method() string                  { return s.method }
func (s headerStream) SetTrailer(md metadata.MD) error { s.ServerStream.SetTrailer(md); return nil }

// replayed gives the handler the request that the links have seen, once.
type replayed struct {
	grpc.ServerStream
	ctx     context.Context
	request proto.Message
}

// Context is the links' one.
func (s *replayed) Context() context.Context { return s.ctx }

// RecvMsg hands the request over.
func (s *replayed) RecvMsg(into any) error {
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
