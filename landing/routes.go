package landing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

// The paths of the health checks. They are not in the proto, because they are the same as
// those of the core's API.
const (
	livePath  = "/api/v1/health"
	readyPath = "/api/v1/health/ready"
)

// routes returns the HTTP methods of each path, sorted. The paths of the forms come from
// the proto.
func routes() map[string][]string {
	table := map[string][]string{livePath: {http.MethodGet, http.MethodHead}, readyPath: {http.MethodGet, http.MethodHead}}
	methods := landingv1.File_landing_v1_landing_proto.Services().ByName("LandingService").Methods()
	for i := range methods.Len() {
		rule, _ := proto.GetExtension(methods.Get(i).Options(), annotations.E_Http).(*annotations.HttpRule)
		if path := rule.GetPost(); path != "" {
			table[path] = append(table[path], http.MethodPost)
		} else {
			table[rule.GetGet()] = append(table[rule.GetGet()], http.MethodGet, http.MethodHead)
		}
	}
	for path := range table {
		table[path] = append(table[path], http.MethodOptions)
		slices.Sort(table[path])
	}
	return table
}

// readyTimeout bounds the check whether the database responds.
const readyTimeout = 500 * time.Millisecond

// serveHealth responds to a health check. The metric of rejected requests does not count
// health checks.
func (s *Service) serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == readyPath {
		if err := s.Ready(r.Context()); err != nil {
			w.Header().Set("Retry-After", "1")
			httpedge.WriteError(w, http.StatusServiceUnavailable, affiliate.ReasonServiceUnavailable, err.Error())
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status":"ok"}`+"\n")
}

var errNotReady = errors.New("postgres is not reachable")

// Ready returns errNotReady if the database does not respond.
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if s.store.Ping(ctx) != nil {
		return errNotReady
	}
	return nil
}
