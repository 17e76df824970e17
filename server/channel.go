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

// channel connects a gateway with the core in the same process.
//
// A unary call runs the interceptors and the handler in the goroutine of its
// caller, so it costs neither a goroutine, a growing stack, nor a copy of the
// messages. A handler has to observe its context, because the caller waits for it
// in any case. Streams go through inprocgrpc, which gives each a goroutine.
type channel struct {
	*inprocgrpc.Channel
	intercept grpc.UnaryServerInterceptor
	stats     stats.Handler // nil: none
	unary     map[string]unaryMethod
}

type unaryMethod struct {
	service any
	handler grpc.MethodHandler
}

// inProcessPeer is the peer of every call of a channel. What it says about the
// client in the metadata is trusted.
var inProcessPeer = &peer.Peer{Addr: inProcessAddress{}}

type inProcessAddress struct{}

func (inProcessAddress) Network() string { return inProcessNetwork }
func (inProcessAddress) String() string  { return inProcessNetwork }

func newChannel(f *frame, handler stats.Handler) *channel {
	streams := (&inprocgrpc.Channel{}).
		WithCloner(inprocgrpc.CopyFunc(handOver)).
		WithServerStreamInterceptor(f.interceptStream)
	if handler != nil {
		streams = streams.WithServerStatsHandler(handler)
	}
	return &channel{Channel: streams, intercept: f.links, stats: handler, unary: map[string]unaryMethod{}}
}

// RegisterService adds the methods of a service.
func (c *channel) RegisterService(desc *grpc.ServiceDesc, service any) {
	c.Channel.RegisterService(desc, service)
	for _, method := range desc.Methods {
		c.unary["/"+desc.ServiceName+"/"+method.MethodName] = unaryMethod{service, method.Handler}
	}
}

// Invoke implements grpc.ClientConnInterface. Of the call options it supports
// grpc.Header and grpc.Trailer, the two that generated handlers need.
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
	if c.stats != nil {
		ctx = c.stats.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: name})
	}
	result, err := method.handler(method.service, ctx, func(message any) error { return handOver(message, request) }, c.intercept)
	if c.stats != nil {
		c.stats.HandleRPC(ctx, &stats.End{BeginTime: begin, EndTime: time.Now(), Error: err})
	}
	if err != nil {
		return err
	}
	return handOver(response, result)
}

// transportStream collects the headers and trailers of one call. Only the
// goroutine of the call uses it.
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

// handOver moves the content of a message to the other side of the channel
// without a deep copy. A gateway makes a request for one call, and a handler a
// response for one caller, so no one else holds either of them.
func handOver(out, in any) error {
	from, to := in.(proto.Message).ProtoReflect(), out.(proto.Message).ProtoReflect()
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return nil
}
