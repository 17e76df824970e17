// Package portal serves what the portal shows to visitors without an account.
//
// The package guarantees that its responses contain only data that the merchant has published,
// and that the response for a record that is not public is the same as for a record that does not
// exist.
package portal

import (
	"encoding/hex"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Service implements affiliate.v1.PortalService.
type Service struct {
	affiliatev1.UnimplementedPortalServiceServer
	db        *postgres.DB
	publicURL string
	now       func() time.Time
}

// New returns a Service. publicURL is the base URL of the REST API; if it is empty, the addresses
// of logos are paths. now is the clock.
func New(db *postgres.DB, publicURL string, now func() time.Time) *Service {
	return &Service{db: db, publicURL: strings.TrimSuffix(publicURL, "/"), now: now}
}

// GetPortalLogo sends the file of a logo.
func (s *Service) GetPortalLogo(req *affiliatev1.GetPortalLogoRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	digest, err := hex.DecodeString(req.GetDigest())
	if err != nil {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	file, err := accounts.LogoPNG(stream.Context(), s.db, digest)
	if err != nil {
		return err
	}
	if err := stream.SetHeader(metadata.Pairs("cache-control", "public, max-age=31536000, immutable")); err != nil {
		return err
	}
	return stream.Send(&httpbody.HttpBody{ContentType: "image/png", Data: file})
}
