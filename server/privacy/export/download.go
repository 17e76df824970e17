package export

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
)

// acceptEncoding is the metadata key with the header Accept-Encoding of the request.
const acceptEncoding = "x-accept-encoding"

// The encodings of a download.
const (
	gzip     = "gzip"
	identity = "identity"
)

// DownloadExport sends the file of the export to which the token belongs.
func (s *Service) DownloadExport(req *affiliatev1.DownloadExportRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	ctx := stream.Context()
	e, err := exports.ExportOfToken(ctx, s.DB, privacy.DigestExportToken(req.GetToken()), s.now())
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return affiliate.Refuse(affiliate.ReasonExportExpired)
	}
	if err != nil {
		return err
	}
	encoding, err := negotiate(ctx)
	if err != nil {
		return err
	}
	headers := []string{"content-disposition", fmt.Sprintf(`attachment; filename="%s"`, e.FileName()), "x-vary", "Accept-Encoding"}
	if encoding == gzip {
		headers = append(headers, "x-content-encoding", gzip)
	}
	if err := stream.SetHeader(metadata.Pairs(headers...)); err != nil {
		return err
	}
	send := func(data []byte) error {
		return stream.Send(&httpbody.HttpBody{ContentType: "application/json", Data: data})
	}
	if encoding == gzip {
		return s.sendGzip(ctx, e, send)
	}
	return s.sendText(ctx, e, send)
}

func (s *Service) sendGzip(ctx context.Context, e privacy.Export, send func([]byte) error) error {
	for number := range e.Progress.Chunks {
		piece, err := s.openPiece(ctx, e, number)
		if err != nil {
			return err
		}
		if number == 0 {
			piece = append(append([]byte{}, gzipHeader...), piece...)
		}
		if err := send(piece); err != nil {
			return err
		}
	}
	return send(gzipTrailer(e.Progress))
}

func (s *Service) sendText(ctx context.Context, e privacy.Export, send func([]byte) error) error {
	for number := range e.Progress.Chunks {
		piece, err := s.openPiece(ctx, e, number)
		if err != nil {
			return err
		}
		text, err := decompress(piece)
		if err != nil {
			return fmt.Errorf("decompress piece %d of export %s: %w", number, e.ID, err)
		}
		if err := send(text); err != nil {
			return err
		}
	}
	return nil
}

// openPiece returns a piece, decrypted. Errors: EXPORT_EXPIRED if the export was deleted in
// the meantime.
func (s *Service) openPiece(ctx context.Context, e privacy.Export, number int) ([]byte, error) {
	sealed, err := exports.Chunk(ctx, s.DB, e.ID, number)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil, affiliate.Refuse(affiliate.ReasonExportExpired)
	}
	if err != nil {
		return nil, err
	}
	piece, err := s.Seal.Open(sealed, pieceName(e.ID, number))
	if err != nil {
		return nil, fmt.Errorf("decrypt piece %d of export %s: %w", number, e.ID, err)
	}
	return piece, nil
}

// negotiate returns the encoding that the caller prefers (RFC 9110 section 12.5.3).
func negotiate(ctx context.Context) (encoding string, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get(acceptEncoding)
	if len(values) == 0 {
		return "", affiliate.Invalid("Accept-Encoding", "must be present")
	}
	weights := weightsOf(strings.Join(values, ","))
	forGzip, forIdentity := weights.weightOf(gzip, "x-gzip"), weights.weightOf(identity)
	if _, ok := weights[identity]; !ok && forIdentity == 0 && !weights.excludesRest() {
		// Without a weight, identity is acceptable, but any encoding with a weight is better.
		forIdentity = leastWeight
	}
	switch {
	case forGzip == 0 && forIdentity == 0:
		return "", affiliate.Invalid("Accept-Encoding", "must accept gzip or identity")
	case forGzip >= forIdentity:
		return gzip, nil
	}
	return identity, nil
}

// leastWeight is smaller than each weight that a header can contain, except 0.
const leastWeight = 0.0001

// weights maps the encodings of an Accept-Encoding header, in lower case, to their weights.
type weights map[string]float64

func weightsOf(header string) weights {
	found := weights{}
	for element := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(element, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" {
			continue
		}
		weight := 1.0
		if key, value, ok := strings.Cut(strings.TrimSpace(parameters), "="); ok && strings.EqualFold(strings.TrimSpace(key), "q") {
			parsed, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(parsed >= 0 && parsed <= 1) {
				parsed = 0
			}
			weight = parsed
		}
		found[name] = max(found[name], weight)
	}
	return found
}

// weightOf returns the weight of an encoding that has one of the names. An encoding that is not in
// the header has the weight of *, or 0.
func (w weights) weightOf(names ...string) float64 {
	for _, name := range names {
		if weight, ok := w[name]; ok {
			return weight
		}
	}
	return w["*"]
}

// excludesRest reports whether the encodings that are not in the header are not acceptable.
func (w weights) excludesRest() bool {
	weight, ok := w["*"]
	return ok && weight == 0
}
