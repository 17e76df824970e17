package servertest

import (
	"context"
	"encoding/csv"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Download is the stream that receives a file from a service. It records the header and
// the chunks.
type Download struct {
	grpc.ServerStream
	ctx    context.Context
	Header metadata.MD
	Chunks []*httpbody.HttpBody
	// SendError is the error that Send returns.
	SendError error
}

// NewDownload returns a Download for a call with the given context.
func NewDownload(ctx context.Context) *Download { return &Download{ctx: ctx} }

// Context returns the context of the call.
func (d *Download) Context() context.Context { return d.ctx }

// SetHeader adds md to the header.
func (d *Download) SetHeader(md metadata.MD) error {
	d.Header = metadata.Join(d.Header, md)
	return nil
}

// Send records a chunk, and returns SendError.
func (d *Download) Send(chunk *httpbody.HttpBody) error {
	d.Chunks = append(d.Chunks, chunk)
	return d.SendError
}

// Text returns the whole file.
func (d *Download) Text() string {
	var text strings.Builder
	for _, chunk := range d.Chunks {
		text.Write(chunk.Data)
	}
	return text.String()
}

// Rows returns the rows of a CSV file with its header.
func (d *Download) Rows(t testing.TB) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(d.Text())).ReadAll()
	if err != nil {
		t.Fatalf("the file is not CSV: %v\n%s", err, d.Text())
	}
	return rows
}
