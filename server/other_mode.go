package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// recordKinds are the fields of requests that contain the id of a record. Ids of other
// records, such as groups and deliveries, are sent together with one of these.
var recordKinds = map[protoreflect.Name]affiliate.RecordKind{
	"program_id":     affiliate.ProgramRecord,
	"participant_id": affiliate.ParticipantRecord,
	"commission_id":  affiliate.CommissionRecord,
	"conversion_id":  affiliate.ConversionRecord,
	"payout_id":      affiliate.PayoutRecord,
	"batch_id":       affiliate.PayoutBatchRecord,
	"link_id":        affiliate.LinkRecord,
	"promo_code_id":  affiliate.PromoCodeRecord,
	"event_id":       affiliate.FraudEventRecord,
	"webhook_id":     affiliate.WebhookRecord,
}

// suggestMode adds a sentence to the message of a response with the status 404 if the
// records of the request exist in the other mode of the workspace. Only members get it,
// because they can choose the mode of a request. Keys and tokens of one mode must learn
// nothing about the other mode.
func (p *pipeline) suggestMode(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) {
		return resp, err
	}
	spec, caller := errorspec.ByReason(refusal.Reason), PrincipalFrom(ctx)
	if spec == nil || spec.HTTPStatus != http.StatusNotFound || caller.Kind != MerchantToken || admissionFrom(ctx).policy.IgnoresMode {
		return resp, err
	}
	records := recordsOf(req)
	if len(records) == 0 {
		return resp, err
	}
	other := affiliate.Scope{Workspace: caller.Workspace, Mode: caller.Mode.Other()}
	switch exist, failure := postgres.ExistInMode(ctx, p.db, other, records); {
	case failure != nil:
		p.log.LogAttrs(ctx, slog.LevelWarn, "cannot look for records in the other mode",
			slog.String("request_id", RequestID(ctx)), slog.String("error", failure.Error()))
	case exist:
		suggestion := *refusal
		if suggestion.Message == "" {
			suggestion.Message = spec.Message
		}
		mode := string(other.Mode)
		suggestion.Message += " It exists in " + mode + " mode; send X-Mode: " + mode + "."
		return resp, &suggestion
	}
	return resp, err
}

// recordsOf returns the records whose ids are in the request.
func recordsOf(req any) (records []affiliate.Record) {
	message, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	m := message.ProtoReflect()
	for name, kind := range recordKinds {
		field := m.Descriptor().Fields().ByName(name)
		if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
			continue
		}
		if id, ok := affiliate.ParseID[affiliate.ID[affiliate.Record]](m.Get(field).String()); ok {
			records = append(records, affiliate.Record{Kind: kind, ID: id})
		}
	}
	return records
}
