package server

import (
	"context"
	"time"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// channel is a gRPC client connection from a gateway to a core in the same process.
//
// A unary call runs the interceptors and the handler in the goroutine that calls Invoke.
// This is cheaper than a new goroutine, whose stack must grow, and needs no copy of the
// messages. Invoke returns when the handler returns, so a handler must return soon after
// its context has ended. Streaming calls use inprocgrpc, which starts a goroutine for
// each stream.
type channel struct {
	*inprocgrpc.Channel
	intercept grpc.UnaryServerInterceptor
	stats     statsHandlers
	unary     map[string]unaryMethod
}

type unaryMethod struct {
	service any
	handler grpc.MethodHandler
}

// inProcessPeer is the peer of every call through a channel. The server recognises these
// calls by this peer and trusts the client address and the request id in their metadata.
var inProcessPeer = &peer.Peer{Addr: inProcessAddress{}}

type inProcessAddress struct{}

func (inProcessAddress) Network() string { return inProcessNetwork }
func (inProcessAddress) String() string  { return inProcessNetwork }

func newChannel(p *pipeline, handlers statsHandlers) *channel {
	streams := (&inprocgrpc.Channel{}).
		WithCloner(inprocgrpc.CopyFunc(moveMessage)).
		WithServerStreamInterceptor(p.interceptStream).
		WithServerStatsHandler(handlers)
	return &channel{Channel: streams, intercept: p.unary, stats: handlers, unary: map[string]unaryMethod{}}
}

func (c *channel) RegisterService(desc *grpc.ServiceDesc, service any) {
	c.Channel.RegisterService(desc, service)
	for _, method := range desc.Methods {
		c.unary["/"+desc.ServiceName+"/"+method.MethodName] = unaryMethod{service, method.Handler}
	}
}

// Invoke implements grpc.ClientConnInterface. It supports the call options grpc.Header
// and grpc.Trailer, which the generated gateway handlers need, and ignores the others.
func (c *channel) Invoke(ctx context.Context, name string, request, response any, options ...grpc.CallOption) error {
	method, ok := c.unary[name]
	if !ok {
		return status.Errorf(codes.Unimplemented, "method %s is not served", name)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	transport := &transportStream{method: name}
	for _, option := range options {
		switch option := option.(type) {
		case grpc.HeaderCallOption:
			defer func() { *option.HeaderAddr = transport.header }()
		case grpc.TrailerCallOption:
			defer func() { *option.TrailerAddr = transport.trailer }()
		}
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx = peer.NewContext(metadata.NewIncomingContext(ctx, md), inProcessPeer)
	ctx = grpc.NewContextWithServerTransportStream(ctx, transport)
	begin := time.Now()
	ctx = c.stats.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: name})
	result, err := method.handler(method.service, ctx, func(message any) error { return moveMessage(message, request) }, c.intercept)
	c.stats.HandleRPC(ctx, &stats.End{BeginTime: begin, EndTime: time.Now(), Error: err})
	if err != nil {
		return err
	}
	return moveMessage(response, result)
}

// transportStream stores the headers and trailers that the handler and the interceptors
// of one call set. It needs no lock, because one goroutine runs the whole call.
type transportStream struct {
	method          string
	header, trailer metadata.MD
}

func (s *transportStream) Method() string { return s.method }

func (s *transportStream) SetHeader(md metadata.MD) error {
	if s.header == nil {
		s.header = md
	} else {
		s.header = metadata.Join(s.header, md)
	}
	return nil
}

func (s *transportStream) SendHeader(md metadata.MD) error { return s.SetHeader(md) }

func (s *transportStream) SetTrailer(md metadata.MD) error {
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// moveMessage sets the fields of an empty destination to those of the source. Nested
// values are not copied, so the two messages share them. This is safe, because the gateway
// uses each request for one call and a handler creates a new response for each call.
func moveMessage(destination, source any) error {
	from, to := source.(proto.Message).ProtoReflect(), destination.(proto.Message).ProtoReflect()
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return nil
}
