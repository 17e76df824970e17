package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/server"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// auditRequest has the filter fields of the list request and of the export request.
type auditRequest interface {
	GetActor() string
	GetAction() string
	GetResourceType() string
	GetResourceId() string
	GetDateFrom() string
	GetDateTo() string
	GetTimezone() string
}

func auditFilter(req auditRequest) (affiliate.AuditFilter, error) {
	period, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	filter := affiliate.AuditFilter{
		// The ids of actors are stored in lower case.
		Actor:        strings.ToLower(req.GetActor()),
		ResourceType: req.GetResourceType(),
		At:           period,
	}
	if noun, ok := strings.CutSuffix(req.GetAction(), ".*"); ok {
		filter.ActionNoun = noun
	} else {
		filter.Action = req.GetAction()
	}
	if text := req.GetResourceId(); text != "" {
		id, ok := affiliate.ParseID[affiliate.AuditID](text)
		if !ok {
			wrong.Add("resource_id", affiliate.MustBeUUID)
		}
		filter.ResourceID = &id.UUID
	}
	return filter, wrong.Err()
}

// ListAuditLog returns one page of the audit log, newest first.
func (s *Service) ListAuditLog(ctx context.Context, req *affiliatev1.ListAuditLogRequest) (*affiliatev1.ListAuditLogResponse, error) {
	filter, err := auditFilter(req)
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	entries, total, err := accounts.AuditLog(ctx, s.db, server.PrincipalFrom(ctx).Scope(), filter, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.AuditEntry, len(entries))
	for i, entry := range entries {
		if data[i], err = entryToProto(entry); err != nil {
			return nil, err
		}
	}
	return &affiliatev1.ListAuditLogResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

func entryToProto(entry affiliate.AuditEntry) (*affiliatev1.AuditEntry, error) {
	before, err := structOf(entry.Before)
	if err != nil {
		return nil, fmt.Errorf("audit entry %s: before: %w", entry.ID, err)
	}
	after, err := structOf(entry.After)
	if err != nil {
		return nil, fmt.Errorf("audit entry %s: after: %w", entry.ID, err)
	}
	return &affiliatev1.AuditEntry{
		Id:           entry.ID.String(),
		At:           server.Timestamp(entry.At),
		Actor:        entry.Actor,
		ActorName:    entry.ActorName,
		Action:       entry.Action,
		ResourceType: entry.ResourceType,
		ResourceId:   entry.ResourceID.String(),
		Before:       before,
		After:        after,
		IpPrefix:     entry.IPPrefix,
		RequestId:    entry.RequestID,
		Mode:         server.OptionalEnum[affiliatev1.Mode](entry.Mode),
	}, nil
}

// structOf converts stored JSON to a message. If the JSON is not an object, the result is
// an object that contains the JSON in the field "value".
func structOf(text json.RawMessage) (*structpb.Struct, error) {
	if text == nil {
		return nil, nil
	}
	value := &structpb.Value{}
	if err := protojson.Unmarshal(text, value); err != nil {
		return nil, err
	}
	if fields := value.GetStructValue(); fields != nil {
		return fields, nil
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"value": value}}, nil
}

// ExportAuditLog streams the audit log as CSV.
func (s *Service) ExportAuditLog(req *affiliatev1.ExportAuditLogRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	filter, err := auditFilter(req)
	if err != nil {
		return err
	}
	ctx := stream.Context()
	scope := server.PrincipalFrom(ctx).Scope()
	columns := []string{
		"id", "at", "actor", "actorName", "action", "resourceType", "resourceId", "mode", "ipPrefix", "requestId", "before", "after",
	}
	return server.StreamCSV(stream, "audit-log", scope.Mode, s.currentTime(), columns, func(w *csv.Writer) error {
		for entry, err := range accounts.ExportAuditLog(ctx, s.db, scope, filter) {
			if err != nil {
				return err
			}
			writeEntry(w, entry)
			if err := w.EndRow(); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeEntry(w *csv.Writer, entry affiliate.AuditEntry) {
	w.ID(entry.ID.UUID)
	w.Time(entry.At)
	w.Text(entry.Actor)
	w.OptionalText(entry.ActorName)
	w.Text(entry.Action)
	w.Text(entry.ResourceType)
	w.ID(entry.ResourceID)
	w.OptionalText((*string)(entry.Mode))
	w.OptionalText(entry.IPPrefix)
	w.OptionalText(entry.RequestID)
	writeJSON(w, entry.Before)
	writeJSON(w, entry.After)
}

func writeJSON(w *csv.Writer, text json.RawMessage) {
	if text == nil {
		w.Empty()
		return
	}
	w.Bytes(text)
}
