package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// downloadWrite is how long a client may take to read one piece of a file. The
// server's own write timeout bounds whole answers, which a file may outlast.
const downloadWrite = 30 * time.Second

var downloadStream = &grpc.StreamDesc{ServerStreams: true}

// download answers with a file that the core streams, piece by piece, so that
// its size never shows in memory. A refusal before the first piece has its
// envelope. What goes wrong later breaks the connection off: a file that is cut
// must not look whole.
func (g *gateway) download(c *call) {
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(c.request.Context(), c.metadata))
	defer cancel()
	stream, err := g.Conn.NewStream(ctx, downloadStream, c.route.FullMethod)
	if err == nil {
		err = stream.SendMsg(c.message.Interface())
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		g.refuseStatus(c, err)
		return
	}
	// The server's write timeout bounds answers that are made in one go. Over
	// HTTP/2 it resets the stream when it passes, whether or not anybody writes.
	writer := http.NewResponseController(c.outer)
	_ = writer.SetWriteDeadline(time.Time{})
	var piece httpbody.HttpBody
	err = stream.RecvMsg(&piece)
	if md, headerErr := stream.Header(); headerErr == nil {
		copyAnswerHeaders(c, md)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.Header().Del("Content-Disposition")
		g.refuseStatus(c, err)
		return
	}
	c.Header().Set("Content-Type", piece.GetContentType())
	for ; err == nil; err = stream.RecvMsg(&piece) {
		_ = writer.SetWriteDeadline(time.Now().Add(downloadWrite))
		if _, err := c.Write(piece.GetData()); err != nil {
			return // the client has left, or takes too long
		}
		_ = writer.SetWriteDeadline(time.Time{})
		if c.request.Method == http.MethodHead {
			return
		}
		piece.Reset()
	}
	if !errors.Is(err, io.EOF) {
		if c.request.Context().Err() == nil {
			g.Log.ErrorContext(c.request.Context(), "a download broke off", "request_id", c.id,
				"method", c.route.FullMethod, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}
