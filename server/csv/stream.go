package csv

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
)

// Stream sends a CSV table as the response to a streaming call. The file name in the
// response is <subject>-<mode>-<date>.csv. The first row of the table contains the names
// in columns. The function rows writes all other rows.
func Stream(
	stream grpc.ServerStreamingServer[httpbody.HttpBody], subject string, mode affiliate.Mode, at time.Time, columns []string, rows func(w *Writer) error,
) error {
	name := fmt.Sprintf(`attachment; filename="%s-%s-%s.csv"`, subject, mode, at.Format(time.DateOnly))
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
