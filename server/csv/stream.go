package csv

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
)

// Stream answers with a table: its attachment is called <what>-<mode>-<date>.csv
// and its first row are the columns. rows writes the others.
func Stream(
	stream grpc.ServerStreamingServer[httpbody.HttpBody], what string, mode affiliate.Mode, at time.Time, columns []string, rows func(w *Writer) error,
) error {
	name := fmt.Sprintf(`attachment; filename="%s-%s-%s.csv"`, what, mode, at.Format(time.DateOnly))
	if err := stream.SetHeader(metadata.Pairs("content-disposition", name)); err != nil {
		return err
	}
	w := NewWriter(func(chunk []byte) error {
		return stream.Send(&httpbody.HttpBody{ContentType: ContentType, Data: chunk})
	})
	if err := w.Header(columns...); err != nil {
		return err
	}
	if err := rows(w); err != nil {
		return err
	}
	return w.Flush()
}
