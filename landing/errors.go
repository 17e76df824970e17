package landing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
)

// The error codes that only this service has (landing.v1.ErrorReason).
const (
	reasonInvalidEmail   affiliate.Reason = "INVALID_EMAIL"
	reasonInvalidRequest affiliate.Reason = "INVALID_REQUEST"
	reasonAntiSpam       affiliate.Reason = "ANTI_SPAM_FAILED"
	reasonRateLimited    affiliate.Reason = "RATE_LIMITED"
)

// handleError writes the error response after a generated handler failed.
func (h *handler) handleError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		// The client has closed the connection, so it gets no response.
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	// Generated handlers wrap the error of a decoder in a status. The service itself returns
	// no status.
	if status.Code(err) == codes.InvalidArgument {
		err = affiliate.Refuse(reasonInvalidRequest)
	}
	h.service.refuse(r.Context(), w, err)
}

// refuse writes the response for err. If err is not an *affiliate.Error, it comes from the
// database.
func (s *Service) refuse(ctx context.Context, w http.ResponseWriter, err error) {
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) {
		refusal = affiliate.Refuse(affiliate.ReasonInternal)
		if databaseLost(err) {
			refusal = affiliate.Refuse(affiliate.ReasonServiceUnavailable)
		}
		s.log.LogAttrs(ctx, slog.LevelError, "a request failed",
			slog.String("request_id", w.Header().Get(httpedge.RequestIDHeader)), slog.Any("error", err))
	}
	if refusal.Reason == affiliate.ReasonServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	spec := errorspec.ByReason(refusal.Reason)
	message := refusal.Message
	if message == "" {
		message = spec.Message
	}
	s.metrics.rejected.WithLabelValues(string(refusal.Reason)).Inc()
	httpedge.WriteError(w, spec.HTTPStatus, refusal.Reason, message)
}

// databaseLost reports whether the database cannot be reached, or cannot run the statement
// now. It returns false if the statement itself is the reason.
func databaseLost(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return true
	}
	// The classes of SQLSTATE codes: connection exception, transaction rollback,
	// insufficient resources, object not in the needed state, operator intervention.
	return len(pgErr.Code) > 2 && slices.Contains([]string{"08", "40", "53", "55", "57"}, pgErr.Code[:2])
}

func (s *Service) reportPanic(r *http.Request, panicked any, stack []byte) {
	s.metrics.rejected.WithLabelValues(string(affiliate.ReasonInternal)).Inc()
	s.log.Error("panic", "path", r.URL.Path, "panic", fmt.Sprint(panicked), "stack", string(stack))
}
