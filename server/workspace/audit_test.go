package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// addAudit adds an audit record, one second after the previous record. Empty strings are
// stored as null. The resource type is the part of action before the dot, and the
// resource has the id of the record.
func (f *fixture) addAudit(mode, actor, action, before, after string) affiliate.AuditID {
	f.Helper()
	f.clock.Advance(time.Second)
	id := affiliate.NewID[affiliate.AuditID](f.Now())
	resourceType, _, _ := strings.Cut(action, ".")
	f.Exec(`
		insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id, before, after, ip_prefix, request_id)
		values ($1, $2, nullif($3, ''), $4, $5, $6, $7, $2, nullif($8, '')::jsonb, nullif($9, '')::jsonb,
			case when $5 <> 'system' then '192.0.2.0/24' end, case when $5 <> 'system' then 'request' end)`,
		f.Scope.Workspace, id, mode, f.Now(), actor, action, resourceType, before, after)
	return id
}

func (f *fixture) listAudit(req *affiliatev1.ListAuditLogRequest) *affiliatev1.ListAuditLogResponse {
	f.Helper()
	list, err := f.service.ListAuditLog(f.asOwner(), req)
	if err != nil {
		f.Fatal(err)
	}
	return list
}

func TestListAuditLog_ShowsActorAndChange(t *testing.T) {
	f := newFixture(t)
	key := f.createKey(nil)
	f.Exec(`delete from audit_log`)
	deletedUser := affiliate.NewID[affiliate.UserID](f.Now())
	f.addAudit("test", f.Owner.String(), "program.update", `{"name":"A","tags":[1,null]}`, `{"name":"B"}`)
	f.addAudit("", key.Id, "workspace.update", `"text"`, `[1,2]`)
	f.addAudit("test", deletedUser.String(), "link.delete", `null`, "")
	f.addAudit("test", "system", "commission.approve", "", `{}`)
	f.addAudit("live", f.Owner.String(), "program.update", "", "")

	list := f.listAudit(&affiliatev1.ListAuditLogRequest{})
	if list.Total != 4 || len(list.Data) != 4 {
		t.Fatalf("ListAuditLog returned %v, want 4 records", list)
	}
	for i, want := range []struct {
		action, actor, name, before, after, address string
		mode                                        affiliatev1.Mode // unspecified if the record belongs to both modes
	}{
		{"commission.approve", "system", "", "", `{}`, "", affiliatev1.Mode_MODE_TEST},
		{"link.delete", deletedUser.String(), "", `{"value":null}`, "", "192.0.2.0/24", affiliatev1.Mode_MODE_TEST},
		{"workspace.update", key.Id, "server", `{"value":"text"}`, `{"value":[1,2]}`, "192.0.2.0/24", affiliatev1.Mode_MODE_UNSPECIFIED},
		{"program.update", f.Owner.String(), "Mara", `{"name":"A","tags":[1,null]}`, `{"name":"B"}`, "192.0.2.0/24", affiliatev1.Mode_MODE_TEST},
	} {
		got := list.Data[i]
		if got.Action != want.action || got.Actor != want.actor || got.GetActorName() != want.name || (got.ActorName == nil) != (want.name == "") ||
			got.GetIpPrefix() != want.address || (got.RequestId == nil) != (want.actor == "system") || got.Mode != want.mode ||
			got.ResourceType != strings.Split(want.action, ".")[0] || got.ResourceId != got.Id {
			t.Errorf("record %d is %v, want %+v", i, got, want)
		}
		for field, pair := range map[string]struct {
			got  proto.Message
			want string
			null bool
		}{
			"before": {got.Before, want.before, got.Before == nil},
			"after":  {got.After, want.after, got.After == nil},
		} {
			if pair.null != (pair.want == "") {
				t.Errorf("%s: %s is %v, want %q", want.action, field, pair.got, pair.want)
				continue
			}
			if pair.null {
				continue
			}
			text, err := protojson.Marshal(pair.got)
			if err != nil || strings.ReplaceAll(string(text), " ", "") != pair.want {
				t.Errorf("%s: %s is %s, %v, want %s", want.action, field, text, err, pair.want)
			}
		}
	}
	live, err := f.service.ListAuditLog(f.asOwnerInLiveMode(), &affiliatev1.ListAuditLogRequest{})
	if err != nil || live.Total != 2 || live.Data[0].Mode != affiliatev1.Mode_MODE_LIVE || live.Data[1].Action != "workspace.update" {
		t.Errorf("the log of live mode is %v, %v, want a record of live mode, then workspace.update", live, err)
	}
	if list := f.newShop().listAudit(&affiliatev1.ListAuditLogRequest{}); list.Total != 0 {
		t.Errorf("another workspace lists %v, want nothing", list)
	}
	f.Exec(`update users set erased_at = $1 where id = $2`, f.Now(), f.Owner)
	if list := f.listAudit(&affiliatev1.ListAuditLogRequest{Action: proto.String("program.update")}); list.Data[0].ActorName != nil {
		t.Error("an erased user has a name")
	}
}

func TestListAuditLog_Filters(t *testing.T) {
	f := newFixture(t)
	f.Exec(`delete from audit_log`)
	f.clock.Set(time.Date(2026, 5, 6, 21, 59, 58, 0, time.UTC))
	first := f.addAudit("test", f.Owner.String(), "program.update", "", "")  // 21:59:59 UTC, still 6 May in Berlin
	second := f.addAudit("test", f.Owner.String(), "program.create", "", "") // 22:00:00 UTC, already 7 May in Berlin
	third := f.addAudit("test", "system", "program_x.update", "", "")
	fourth := f.addAudit("", "system", "programs.update", "", "")
	type req = affiliatev1.ListAuditLogRequest
	str := proto.String
	for name, tc := range map[string]struct {
		req  *req
		want []affiliate.AuditID
	}{
		"all":                       {&req{}, []affiliate.AuditID{fourth, third, second, first}},
		"an actor":                  {&req{Actor: str(strings.ToUpper(f.Owner.String()))}, []affiliate.AuditID{second, first}},
		"system":                    {&req{Actor: str("system")}, []affiliate.AuditID{fourth, third}},
		"an action":                 {&req{Action: str("program.update")}, []affiliate.AuditID{first}},
		"all actions on a type":     {&req{Action: str("program.*")}, []affiliate.AuditID{second, first}},
		"a type with an underscore": {&req{Action: str("program_x.*")}, []affiliate.AuditID{third}},
		"underscore is literal":     {&req{Action: str("program_.*")}, nil},
		"a type":                    {&req{ResourceType: str("programs")}, []affiliate.AuditID{fourth}},
		"a resource":                {&req{ResourceId: str(strings.ToUpper(third.String()))}, []affiliate.AuditID{third}},
		"two filters":               {&req{Actor: str("system"), Action: str("program.*")}, nil},
		"from a day":                {&req{DateFrom: str("2026-05-07"), Timezone: str("Europe/Berlin")}, []affiliate.AuditID{fourth, third, second}},
		"to a day":                  {&req{DateTo: str("2026-05-06"), Timezone: str("Europe/Berlin")}, []affiliate.AuditID{first}},
		"one instant":               {&req{DateFrom: str("2026-05-06T22:00:00Z"), DateTo: str("2026-05-06T22:00:00Z")}, []affiliate.AuditID{second}},
		"unknown actor":             {&req{Actor: str("x")}, nil},
	} {
		list := f.listAudit(tc.req)
		var got []string
		for _, entry := range list.Data {
			got = append(got, entry.Id)
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) || int(list.Total) != len(tc.want) {
			t.Errorf("%s: listed %v and the total %d, want %v", name, got, list.Total, tc.want)
		}
		export := &affiliatev1.ExportAuditLogRequest{
			Actor: tc.req.Actor, Action: tc.req.Action, ResourceType: tc.req.ResourceType, ResourceId: tc.req.ResourceId,
			DateFrom: tc.req.DateFrom, DateTo: tc.req.DateTo, Timezone: tc.req.Timezone,
		}
		rows := f.export(export).Rows(t)
		got = nil
		for _, row := range rows[1:] {
			got = append(got, row[0])
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: exported %v, want %v", name, got, tc.want)
		}
	}
	page, size := int32(2), int32(3)
	if list := f.listAudit(&req{Page: &page, PageSize: &size}); list.Total != 4 || len(list.Data) != 1 || list.Data[0].Id != first.String() {
		t.Errorf("the second page is %v, want the oldest of 4 records", list)
	}
	page = 3
	if list := f.listAudit(&req{Page: &page, PageSize: &size}); list.Total != 4 || len(list.Data) != 0 {
		t.Errorf("the page after the last is %v, want no records and the total 4", list)
	}
	_, err := f.service.ListAuditLog(f.asOwner(), &req{DateFrom: str("x")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation)
	_, err = f.service.ListAuditLog(f.asOwner(), &req{ResourceId: str("x")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation)
}

func (f *fixture) export(req *affiliatev1.ExportAuditLogRequest) *servertest.Download {
	f.Helper()
	d := servertest.NewDownload(f.asOwner())
	if err := f.service.ExportAuditLog(req, d); err != nil {
		f.Fatal(err)
	}
	return d
}

func TestExportAuditLog(t *testing.T) {
	f := newFixture(t)
	f.Exec(`delete from audit_log`)
	const header = "id,at,actor,actorName,action,resourceType,resourceId,mode,ipPrefix,requestId,before,after\r\n"
	empty := f.export(&affiliatev1.ExportAuditLogRequest{})
	if empty.Text() != header || len(empty.Chunks) != 1 || empty.Chunks[0].ContentType != "text/csv; charset=utf-8" {
		t.Errorf("the export of an empty log has %d chunks, type %s: %q, want one chunk with the header", len(empty.Chunks), empty.Chunks[0].ContentType, empty.Text())
	}
	f.Exec(`update users set name = '=HYPERLINK("x")' where id = $1`, f.Owner)
	withoutMode := f.addAudit("", "system", "workspace.update", `"=1+1"`, "")
	byOwner := f.addAudit("test", f.Owner.String(), "program.update", `{"name": "A, \"B\""}`, `{"name": "C"}`)
	f.addAudit("live", f.Owner.String(), "program.update", "", "")
	got := f.export(&affiliatev1.ExportAuditLogRequest{})
	want := header +
		fmt.Sprintf(`"%s","2026-05-06T07:08:11.000Z","%s","'=HYPERLINK(""x"")","program.update","program","%s","test","192.0.2.0/24","request","{""name"": ""A, \""B\""""}","{""name"": ""C""}"`, byOwner, f.Owner, byOwner) + "\r\n" +
		fmt.Sprintf(`"%s","2026-05-06T07:08:10.000Z","system",,"workspace.update","workspace","%s",,,,"'""=1+1""",`, withoutMode, withoutMode) + "\r\n"
	if got.Text() != want {
		t.Errorf("the export is\n%q, want\n%q", got.Text(), want)
	}
	if name := got.Header.Get("content-disposition"); len(name) != 1 || name[0] != `attachment; filename="audit-log-test-2026-05-06.csv"` {
		t.Errorf("Content-Disposition is %q", name)
	}
}

func TestExportAuditLog_SendsChunks(t *testing.T) {
	f := newFixture(t)
	const n = 20_000
	f.Exec(`
		insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id, after)
		select $1, gen_random_uuid(), 'test', $2::timestamptz + n * interval '1 second', 'system', 'commission.approve', 'commission', gen_random_uuid(),
			jsonb_build_object('n', n)
		from generate_series(1, $3::int) n`, f.Scope.Workspace, f.Now(), n)
	got := f.export(&affiliatev1.ExportAuditLogRequest{})
	for i, body := range got.Chunks {
		if len(body.Data) > 33<<10 || body.ContentType != "text/csv; charset=utf-8" {
			t.Errorf("chunk %d has %d bytes of type %s, want at most 33 KiB of text/csv", i, len(body.Data), body.ContentType)
		}
	}
	rows := got.Rows(t)
	if len(rows) != n+1 || rows[1][11] != fmt.Sprintf(`{"n": %d}`, n) || rows[n][11] != `{"n": 1}` {
		t.Errorf("the export has %d rows, from %v to %v, want %d", len(rows), rows[1], rows[len(rows)-1], n+1)
	}

	// The export ends when the client closes the connection.
	errClosed := errors.New("connection closed")
	d := servertest.NewDownload(f.asOwner())
	d.SendError = errClosed
	if err := f.service.ExportAuditLog(&affiliatev1.ExportAuditLogRequest{}, d); !errors.Is(err, errClosed) || len(d.Chunks) != 1 {
		t.Errorf("after a failed Send: %d chunks and the error %v, want 1 and %v", len(d.Chunks), err, errClosed)
	}
	ctx, cancel := context.WithCancel(f.asOwner())
	cancel()
	if err := f.service.ExportAuditLog(&affiliatev1.ExportAuditLogRequest{}, servertest.NewDownload(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context the export returned %v", err)
	}
	if list := f.listAudit(&affiliatev1.ListAuditLogRequest{}); list.Total != n || len(list.Data) != 20 {
		t.Errorf("ListAuditLog returned %d of %d records, want 20 of %d", len(list.Data), list.Total, n)
	}
	d = servertest.NewDownload(f.asOwner())
	pgtest.RequireRefusal(t, f.service.ExportAuditLog(&affiliatev1.ExportAuditLogRequest{DateTo: proto.String("x")}, d), affiliate.ReasonValidation)
	if len(d.Chunks) != 0 {
		t.Errorf("a refused export sent %d chunks", len(d.Chunks))
	}
}
