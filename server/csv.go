package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/csv"
)

// NameCSV sets the header with the file name of a CSV table, <subject>-<mode>-<date>.csv.
func NameCSV(ctx context.Context, subject string, mode affiliate.Mode, at time.Time) {
	_ = grpc.SetHeader(ctx, csvName(subject, mode, at)) // fails only after the response was sent
}

func csvName(subject string, mode affiliate.Mode, at time.Time) metadata.MD {
	return metadata.Pairs("content-disposition", fmt.Sprintf(`attachment; filename="%s-%s-%s.csv"`, subject, mode, at.Format(time.DateOnly)))
}

// StreamCSV sends a CSV table as the response to a streaming call. The file name in the
// response is <subject>-<mode>-<date>.csv. The first row of the table contains the names
// in columns. The function rows writes all other rows.
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
