package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// logInterval is the minimum time between two log lines about the receiver.
	logInterval = time.Minute
	// maxResponse is the maximum number of bytes that are read from a response. The content
	// is discarded, but a connection can be reused only if it was read.
	maxResponse = 64 << 10
)

// exportedAttributes are the attributes of spans that leave the process. The libraries set
// more attributes. Some of these contain personal data: the address and the user agent of a
// client, and paths, which can contain tokens. db.query.text has no values,
// because they are parameters, which otelpgx does not record.
var exportedAttributes = []string{
	"db.collection.name", "db.operation.batch.size", "db.operation.name", "db.query.text", "db.redis.num_cmd",
	"db.system", "db.system.name", "error.type", "http.request.body.size", "http.request.method",
	"http.response.body.size", "http.response.status_code", "http.route", "pgx.operation.type",
	"pgx.rows_affected", "pgx.sql_state", "rpc.method", "rpc.response.status_code", "rpc.system.name",
	"tributary.click.id", "tributary.conversion.id", "tributary.delivery.id", "tributary.event.id",
	"tributary.webhook.attempt", "url.scheme",
}

// client sends spans in the protocol OTLP over HTTP. The client of OpenTelemetry is not
// used, because it imports gRPC (docs/adr/0016-own-client-for-traces.md).
type client struct {
	url      string
	http     *http.Client
	queue    *queue
	log      *slog.Logger
	now      func() time.Time
	lastLine atomic.Int64 // time of the last log line, in Unix nanoseconds
}

func (*client) Start(context.Context) error { return nil }

func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It makes one attempt. If the receiver does not
// accept the spans, UploadTraces drops them, because spans are not worth a queue that grows
// while the receiver is away.
func (c *client) UploadTraces(ctx context.Context, resources []*tracepb.ResourceSpans) error {
	n := 0
	for _, r := range resources {
		for _, scope := range r.GetScopeSpans() {
			n += len(scope.GetSpans())
			for _, span := range scope.GetSpans() {
				redact(span)
			}
		}
	}
	// TracesData has the same encoding as ExportTraceServiceRequest.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: resources})
	if err == nil {
		err = c.post(ctx, body)
	}
	c.queue.sent(n, err)
	if now := c.now().UnixNano(); err != nil {
		if last := c.lastLine.Load(); now-last >= int64(logInterval) && c.lastLine.CompareAndSwap(last, now) {
			c.log.LogAttrs(ctx, slog.LevelWarn, "traces cannot be exported and are dropped", slog.Any("error", err))
		}
	}
	return nil
}

func (c *client) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := c.http.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err // the URL can contain a password
		}
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxResponse))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%w: status %d", errStatus, response.StatusCode)
	}
	return nil
}

// redact removes from a span what must not leave the process: all attributes that are not
// in exportedAttributes, the messages of errors, which can contain values of a request, and
// the trace state, which comes from the client.
func redact(span *tracepb.Span) {
	span.Attributes = slices.DeleteFunc(span.GetAttributes(), func(a *commonpb.KeyValue) bool { return !slices.Contains(exportedAttributes, a.GetKey()) })
	span.Events, span.TraceState = nil, ""
	if span.GetStatus() != nil {
		span.Status.Message = ""
	}
	for _, link := range span.GetLinks() {
		link.Attributes, link.TraceState = nil, ""
	}
}
