package e2e_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// testMainUseCaseOverGRPC runs the main use case over gRPC, from the registration of the
// merchant to the approved commission. The credentials are the same as for REST. The
// click is sent to the collector over HTTP, because the collector has no gRPC.
func testMainUseCaseOverGRPC(t *testing.T, sys *system) {
	conn := sys.dial(t)
	accounts, workspaces := affiliatev1.NewAccountServiceClient(conn), affiliatev1.NewWorkspaceServiceClient(conn)
	programs, participants := affiliatev1.NewProgramServiceClient(conn), affiliatev1.NewParticipantServiceClient(conn)
	conversions, commissions := affiliatev1.NewConversionServiceClient(conn), affiliatev1.NewCommissionServiceClient(conn)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	withCredential := func(credential string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential, "x-mode", "test")
	}

	registered, err := accounts.RegisterMerchant(t.Context(), &affiliatev1.RegisterMerchantRequest{
		Email: uniqueName("merchant") + "@example.com", Password: password, Name: "Mara", WorkspaceName: "Shop",
	})
	check(err)
	refreshed, err := accounts.RefreshSession(t.Context(), &affiliatev1.RefreshSessionRequest{RefreshToken: registered.GetRefreshToken()})
	check(err)
	merchant := withCredential(refreshed.GetAccessToken())
	registeredPartner, err := accounts.RegisterPartner(t.Context(), &affiliatev1.RegisterPartnerRequest{
		Email: uniqueName("partner") + "@example.com", Password: password, Name: "Pia",
	})
	check(err)
	partner := withCredential(registeredPartner.GetAccessToken())

	keys, err := workspaces.GetApiKeys(merchant, &affiliatev1.GetApiKeysRequest{})
	check(err)
	secret, err := workspaces.CreateApiKey(merchant, &affiliatev1.CreateApiKeyRequest{Name: "server"})
	check(err)

	hold, autoApproval, public, website := int32(0), false, true, "https://shop.example"
	program, err := programs.CreateProgram(merchant, &affiliatev1.CreateProgramRequest{
		Name: "Shop", WebsiteUrl: &website, IsPublic: &public,
		CommissionRules: &affiliatev1.CommissionRules{HoldPeriodDays: &hold, AutoApproval: &autoApproval},
	})
	check(err)
	id := program.GetId()
	program, err = programs.UpdateProgram(merchant, &affiliatev1.UpdateProgramRequest{
		ProgramId: id, Name: "Shop and more", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
	})
	check(err)
	if program.GetName() != "Shop and more" || program.GetWebsiteUrl() != website {
		t.Errorf("UpdateProgram returned %v, want the new name and the old website", program)
	}
	_, err = programs.PauseProgram(merchant, &affiliatev1.PauseProgramRequest{ProgramId: id})
	wantGRPCError(t, err, codes.FailedPrecondition, "PROGRAM_STATE_INVALID")
	_, err = programs.ActivateProgram(merchant, &affiliatev1.ActivateProgramRequest{ProgramId: id})
	check(err)

	applied, err := participants.Apply(partner, &affiliatev1.ApplyRequest{ProgramId: id})
	check(err)
	_, err = participants.Apply(partner, &affiliatev1.ApplyRequest{ProgramId: id})
	wantGRPCError(t, err, codes.AlreadyExists, "APPLICATION_DUPLICATE")
	approved, err := participants.ApproveParticipant(merchant, &affiliatev1.ApproveParticipantRequest{ProgramId: id, ParticipantId: applied.GetId()})
	check(err)
	listed, err := participants.ListParticipants(merchant, &affiliatev1.ListParticipantsRequest{ProgramId: id})
	check(err)
	if approved.GetStatus() != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED || listed.GetTotal() != 1 {
		t.Errorf("ApproveParticipant returned %v and ListParticipants the total %d, want an approved participant and 1", approved, listed.GetTotal())
	}

	f := fixture{sys: sys, publicKey: keys.GetPublicKey(), code: applied.GetReferralCode()}
	click := f.click(t)
	amount, currency := int64(10_000), "USD"
	created, err := conversions.ReportConversion(withCredential(secret.GetSecretKey()), &affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: uniqueName("order"),
		AmountCents: &amount, Currency: &currency, ClickId: &click,
	})
	check(err)
	if created.GetCommission().GetAmountCents() != 2000 {
		t.Fatalf("ReportConversion returned %v, want a commission of 2000", created)
	}
	commission := created.GetCommission().GetId()
	_, err = commissions.ApproveCommission(merchant, &affiliatev1.ApproveCommissionRequest{ProgramId: id, CommissionId: commission})
	check(err)
	read, err := commissions.GetCommission(merchant, &affiliatev1.GetCommissionRequest{ProgramId: id, CommissionId: commission})
	check(err)
	if read.GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED || len(read.GetHistory()) != 2 || read.GetClickId() != click {
		t.Errorf("GetCommission returned %v, want an approved commission with two history entries and the click %s", read, click)
	}
	// Call each of the other services once, and read a stream.
	links, promoCodes := affiliatev1.NewLinkServiceClient(conn), affiliatev1.NewPromoCodeServiceClient(conn)
	group, err := programs.CreateGroup(merchant, &affiliatev1.CreateGroupRequest{ProgramId: id, Name: "Gold", FlatAmountCents: &amount})
	check(err)
	groupID := group.GetId()
	updated, err := participants.UpdateParticipant(merchant, &affiliatev1.UpdateParticipantRequest{
		ProgramId: id, ParticipantId: applied.GetId(), GroupId: &groupID, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"group_id"}},
	})
	check(err)
	if updated.GetGroupId() != groupID {
		t.Errorf("UpdateParticipant returned %v, want the group %s", updated, groupID)
	}
	_, err = participants.BulkApproveParticipants(merchant, &affiliatev1.BulkApproveParticipantsRequest{ProgramId: id, ParticipantIds: []string{applied.GetId()}})
	wantGRPCError(t, err, codes.FailedPrecondition, "BULK_ALL_FAILED")
	link, err := links.CreatePartnerLink(partner, &affiliatev1.CreatePartnerLinkRequest{ProgramId: id, DestinationUrl: website + "/beans"})
	check(err)
	_, err = links.UpdateLink(merchant, &affiliatev1.UpdateLinkRequest{ProgramId: id, LinkId: link.GetId(), SubId: &website})
	wantGRPCError(t, err, codes.InvalidArgument, "VALIDATION_ERROR") // sub_id is set, but the field mask is missing
	promo, err := promoCodes.CreatePromoCode(merchant, &affiliatev1.CreatePromoCodeRequest{
		ProgramId: id, ParticipantId: applied.GetId(), Code: "SAVE", DiscountType: affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE, DiscountValue: proto.Float64(10),
	})
	check(err)
	if promo.GetCode() != "save" || link.GetUrl() != website+"/beans?via="+link.GetCode() {
		t.Errorf("CreatePromoCode returned %v, want the code save; CreatePartnerLink returned %v, want a URL with its code", promo, link)
	}
	summary, err := affiliatev1.NewAnalyticsServiceClient(conn).GetPartnerAnalyticsSummary(partner, &affiliatev1.AnalyticsRequest{})
	check(err)
	if summary.GetMetrics().GetConversions() != 1 {
		t.Errorf("GetPartnerAnalyticsSummary returned %v, want one conversion", summary)
	}
	export, err := workspaces.ExportAuditLog(merchant, &affiliatev1.ExportAuditLogRequest{})
	check(err)
	chunk, err := export.Recv()
	check(err)
	if chunk.GetContentType() != "text/csv; charset=utf-8" || !bytes.HasPrefix(chunk.GetData(), []byte("id,at,")) && !bytes.HasPrefix(chunk.GetData(), []byte(`"id","at",`)) {
		t.Errorf("the audit log export has the content type %q and starts with %q, want CSV with the columns id and at", chunk.GetContentType(), chunk.GetData())
	}
	rejectedExport, err := workspaces.ExportAuditLog(partner, &affiliatev1.ExportAuditLogRequest{})
	check(err)
	_, err = rejectedExport.Recv()
	wantGRPCError(t, err, codes.PermissionDenied, "FORBIDDEN")

	ledger, payouts := affiliatev1.NewLedgerServiceClient(conn), affiliatev1.NewPayoutServiceClient(conn)
	audit, fraud := affiliatev1.NewAttributionServiceClient(conn), affiliatev1.NewFraudServiceClient(conn)
	bonus, err := ledger.CreateLedgerEntry(merchant, &affiliatev1.CreateLedgerEntryRequest{
		ProgramId: id, ParticipantId: applied.GetId(), Type: affiliatev1.LedgerEntryType_LEDGER_ENTRY_TYPE_BONUS, AmountCents: 100, Reason: "Thanks",
	})
	check(err)
	preview, err := payouts.PreviewPayouts(merchant, &affiliatev1.PreviewPayoutsRequest{})
	check(err)
	if bonus.GetCurrency() != "USD" || len(preview.GetData()) != 1 || preview.GetData()[0].GetAmountCents() != 2100 {
		t.Errorf("CreateLedgerEntry returned %v and PreviewPayouts %v, want USD and one payout of 2100", bonus, preview)
	}
	_, err = payouts.CreatePayoutBatch(merchant, &affiliatev1.CreatePayoutBatchRequest{})
	wantGRPCError(t, err, codes.InvalidArgument, "IDEMPOTENCY_KEY_REQUIRED")
	for _, reader := range []context.Context{withCredential(secret.GetSecretKey()), merchant} {
		decision, err := audit.GetDecision(reader, &affiliatev1.GetDecisionRequest{ConversionId: read.GetConversionId()})
		check(err)
		if decision.GetCalculation().GetAmountCents() != 2000 {
			t.Errorf("GetDecision returned %v, want a calculation of 2000", decision)
		}
	}
	_, err = audit.GetDecision(partner, &affiliatev1.GetDecisionRequest{ConversionId: read.GetConversionId()})
	wantGRPCError(t, err, codes.PermissionDenied, "FORBIDDEN")
	policy, err := fraud.GetFraudPolicy(merchant, &affiliatev1.GetFraudPolicyRequest{ProgramId: id})
	check(err)
	if policy.GetPolicy() != affiliatev1.FraudPolicy_FRAUD_POLICY_FLAG || len(policy.GetRules()) < 14 {
		t.Errorf("GetFraudPolicy returned %v, want the policy flag and at least 14 rules", policy)
	}
	table, err := commissions.ExportCommissions(merchant, &affiliatev1.ExportCommissionsRequest{})
	check(err)
	chunk, err = table.Recv()
	check(err)
	if !bytes.HasPrefix(chunk.GetData(), []byte("id,createdAt,")) {
		t.Errorf("the commission export starts with %q, want the columns id and createdAt", chunk.GetData())
	}

	list, err := commissions.ListProgramCommissions(merchant, &affiliatev1.ListProgramCommissionsRequest{
		ProgramId: id, Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED,
	})
	check(err)
	if list.GetTotal() != 1 {
		t.Errorf("ListProgramCommissions returned %v, want the total 1", list)
	}

	// REST returns the same data, and a logout over gRPC also ends the session for REST.
	rest := sys.client().withCredential(refreshed.GetAccessToken()).withHeader("X-Mode", "test")
	path := "/api/v1/programs/" + id + "/commissions/" + commission
	rest.get(t, path).wantStatus(http.StatusOK).wantFields(object{"status": "approved", "amountCents": 2000})
	_, err = accounts.Logout(t.Context(), &affiliatev1.LogoutRequest{RefreshToken: refreshed.GetRefreshToken()})
	check(err)
	_, err = programs.GetProgram(merchant, &affiliatev1.GetProgramRequest{ProgramId: id})
	wantGRPCError(t, err, codes.Unauthenticated, "UNAUTHORIZED")
	rest.get(t, path).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
}
