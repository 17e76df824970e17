package tributary

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// IdempotencyKey is the metadata key under which a call sends its idempotency key. If the
// service accepts a key for the call and the caller's context has none, the client
// creates one. Set your own key if you want to repeat the call after a restart of your
// program.
const IdempotencyKey = "idempotency-key"

// idempotent lists the calls that accept an idempotency key.
var idempotent = map[string]bool{
	affiliatev1.ConversionService_ReportConversion_FullMethodName:     true,
	affiliatev1.ConversionService_ReportConversions_FullMethodName:    true,
	affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName:        true,
	affiliatev1.NotificationService_CreateAnnouncement_FullMethodName: true,
	affiliatev1.ParticipantService_CreateParticipant_FullMethodName:   true,
	affiliatev1.ParticipantService_InviteParticipant_FullMethodName:   true,
	affiliatev1.WorkspaceService_CreateInvite_FullMethodName:          true,
	affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName:        true,
	affiliatev1.BuyerErasureService_EraseBuyer_FullMethodName:         true,
}

func (o Options) addDeadline(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if _, ok := ctx.Deadline(); !ok {
		limited, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		ctx = limited
	}
	return invoke(ctx, method, request, response, conn, opts...)
}

func (o Options) addIdempotencyKey(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if idempotent[method] && !hasIdempotencyKey(ctx) {
		ctx = metadata.AppendToOutgoingContext(ctx, IdempotencyKey, uuid.NewString())
	}
	return invoke(ctx, method, request, response, conn, opts...)
}

func hasIdempotencyKey(ctx context.Context) bool {
	sent, _ := metadata.FromOutgoingContext(ctx)
	return len(sent.Get(IdempotencyKey)) > 0
}

// The waits between attempts if the service requests no wait.
const (
	firstWait   = 250 * time.Millisecond
	longestWait = 8 * time.Second
)

// repeat sends a call. If the call fails and a second execution is allowed (waitAfter),
// repeat waits and sends the call again. The client does not use the retry policy of
// grpc-go, because that policy does not read the wait that the service requests
// (retry_after in ErrorInfo).
func (o Options) repeat(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	for attempt := 1; ; attempt++ {
		err := invoke(ctx, method, request, response, conn, opts...)
		wait, again := waitAfter(ctx, method, err, attempt)
		if !again || attempt >= o.Attempts {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// waitAfter returns how long to wait before a failed call is sent again, and whether it
// may be sent again.
func waitAfter(ctx context.Context, method string, err error, attempt int) (time.Duration, bool) {
	info := errorInfo(err)
	switch {
	case info.GetReason() == "RATE_LIMIT_EXCEEDED":
	case status.Code(err) == codes.Unavailable && (hasIdempotencyKey(ctx) || onlyReads(method)):
	default:
		return 0, false
	}
	if seconds, err := strconv.Atoi(info.GetMetadata()["retry_after"]); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	wait := min(firstWait<<(attempt-1), longestWait)
	return wait/2 + rand.N(wait/2), true
}

// onlyReads reports whether a method is a GET in the REST API. A GET only reads data.
func onlyReads(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	rule, _ := proto.GetExtension(found.Options(), annotations.E_Http).(*annotations.HttpRule)
	return rule.GetGet() != ""
}

func (o Options) addCredential(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	ctx, err := o.withCredential(ctx)
	if err != nil {
		return err
	}
	return invoke(ctx, method, request, response, conn, opts...)
}

func (o Options) addStreamCredential(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, err := o.withCredential(ctx)
	if err != nil {
		return nil, err
	}
	return stream(ctx, desc, conn, method, opts...)
}

func (o Options) withCredential(ctx context.Context) (context.Context, error) {
	if o.Mode != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-mode", o.Mode)
	}
	if o.Credential == nil {
		return ctx, nil
	}
	credential, err := o.Credential(ctx)
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+credential), nil
}
