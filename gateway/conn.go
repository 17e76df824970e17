package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// channel is the way from the generated handlers to the core. They hand it an
// empty message and metadata of grpc-gateway's making; it sends the call's
// message and metadata, so what the core gets is exactly what endpoint.go
// decoded and headers.go allows.
type channel struct {
	core    grpc.ClientConnInterface
	timeout time.Duration
}

func (ch channel) Invoke(ctx context.Context, method string, _, reply any, options ...grpc.CallOption) error {
	c := callFrom(ctx)
	ctx, cancel := bounded(metadata.NewOutgoingContext(ctx, c.metadata), ch.timeout)
	defer cancel()
	return ch.core.Invoke(ctx, method, c.message.Interface(), reply, options...)
}

func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

// NewStream has no timeout: a stream lasts as long as its client listens.
func (ch channel) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	c := callFrom(ctx)
	stream, err := ch.core.NewStream(metadata.NewOutgoingContext(ctx, c.metadata), desc, method, options...)
	if err != nil {
		return nil, err
	}
	return clientStream{stream, c}, nil
}

type clientStream struct {
	grpc.ClientStream
	call *call
}

func (s clientStream) SendMsg(any) error { return s.ClientStream.SendMsg(s.call.message.Interface()) }
