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

// TestWalkOverGRPC runs the main use case over gRPC with the same credentials as over
// REST, from the first account to the approved commission. Only the click is registered
// over HTTP, at the collector.
func TestWalkOverGRPC(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	conn := sys.dial(t)
	accounts, workspaces := affiliatev1.NewAccountServiceClient(conn), affiliatev1.NewWorkspaceServiceClient(conn)
	programs, participants := affiliatev1.NewProgramServiceClient(conn), affiliatev1.NewParticipantServiceClient(conn)
	conversions, commissions := affiliatev1.NewConversionServiceClient(conn), affiliatev1.NewCommissionServiceClient(conn)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	as := func(credential string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential, "x-mode", "test")
	}

	registered, err := accounts.RegisterMerchant(t.Context(), &affiliatev1.RegisterMerchantRequest{
		Email: uniqueName("merchant") + "@example.com", Password: password, Name: "Mara", WorkspaceName: "Shop",
	})
	ok(err)
	refreshed, err := accounts.RefreshSession(t.Context(), &affiliatev1.RefreshSessionRequest{RefreshToken: registered.GetRefreshToken()})
	ok(err)
	merchant := as(refreshed.GetAccessToken())
	partnered, err := accounts.RegisterPartner(t.Context(), &affiliatev1.RegisterPartnerRequest{
		Email: uniqueName("partner") + "@example.com", Password: password, Name: "Pia",
	})
	ok(err)
	partner := as(partnered.GetAccessToken())

	keys, err := workspaces.GetApiKeys(merchant, &affiliatev1.GetApiKeysRequest{})
	ok(err)
	secret, err := workspaces.CreateApiKey(merchant, &affiliatev1.CreateApiKeyRequest{Name: "server"})
	ok(err)

	hold, autoApproval, website := int32(0), false, "https://shop.example"
	program, err := programs.CreateProgram(merchant, &affiliatev1.CreateProgramRequest{
		Name: "Shop", WebsiteUrl: &website,
		CommissionRules: &affiliatev1.CommissionRules{HoldPeriodDays: &hold, AutoApproval: &autoApproval},
	})
	ok(err)
	id := program.GetId()
	program, err = programs.UpdateProgram(merchant, &affiliatev1.UpdateProgramRequest{
		ProgramId: id, Name: "Shop and more", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
	})
	ok(err)
	if program.GetName() != "Shop and more" || program.GetWebsiteUrl() != website {
		t.Errorf("patched to %v", program)
	}
	_, err = programs.PauseProgram(merchant, &affiliatev1.PauseProgramRequest{ProgramId: id})
	wantStatus(t, err, codes.FailedPrecondition, "PROGRAM_STATE_INVALID")
	_, err = programs.ActivateProgram(merchant, &affiliatev1.ActivateProgramRequest{ProgramId: id})
	ok(err)

	applied, err := participants.Apply(partner, &affiliatev1.ApplyRequest{ProgramId: id})
	ok(err)
	_, err = participants.Apply(partner, &affiliatev1.ApplyRequest{ProgramId: id})
	wantStatus(t, err, codes.AlreadyExists, "APPLICATION_DUPLICATE")
	approved, err := participants.ApproveParticipant(merchant, &affiliatev1.ApproveParticipantRequest{ProgramId: id, ParticipantId: applied.GetId()})
	ok(err)
	listed, err := participants.ListParticipants(merchant, &affiliatev1.ListParticipantsRequest{ProgramId: id})
	ok(err)
	if approved.GetStatus() != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED || listed.GetTotal() != 1 {
		t.Errorf("participant %v of %d", approved, listed.GetTotal())
	}

	w := world{sys: sys, publicKey: keys.GetPublicKey(), code: applied.GetReferralCode()}
	click := w.click(t)
	amount, currency := int64(10_000), "USD"
	made, err := conversions.ReportConversion(as(secret.GetSecretKey()), &affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: uniqueName("order"),
		AmountCents: &amount, Currency: &currency, ClickId: &click,
	})
	ok(err)
	if made.GetCommission().GetAmountCents() != 2000 {
		t.Fatalf("earned %v", made)
	}
	commission := made.GetCommission().GetId()
	_, err = commissions.ApproveCommission(merchant, &affiliatev1.ApproveCommissionRequest{ProgramId: id, CommissionId: commission})
	ok(err)
	read, err := commissions.GetCommission(merchant, &affiliatev1.GetCommissionRequest{ProgramId: id, CommissionId: commission})
	ok(err)
	if read.GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED || len(read.GetHistory()) != 2 || read.GetClickId() != click {
		t.Errorf("commission %v", read)
	}
	// Call each of the other services once, and read a stream.
	links, promoCodes, sides := affiliatev1.NewLinkServiceClient(conn), affiliatev1.NewPromoCodeServiceClient(conn), affiliatev1.NewPartnerServiceClient(conn)
	group, err := programs.CreateGroup(merchant, &affiliatev1.CreateGroupRequest{ProgramId: id, Name: "Gold", FlatAmountCents: &amount})
	ok(err)
	groupID := group.GetId()
	updated, err := participants.UpdateParticipant(merchant, &affiliatev1.UpdateParticipantRequest{
		ProgramId: id, ParticipantId: applied.GetId(), GroupId: &groupID, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"group_id"}},
	})
	ok(err)
	if updated.GetGroupId() != groupID {
		t.Errorf("updated to %v", updated)
	}
	_, err = participants.BulkApproveParticipants(merchant, &affiliatev1.BulkApproveParticipantsRequest{ProgramId: id, ParticipantIds: []string{applied.GetId()}})
	wantStatus(t, err, codes.FailedPrecondition, "BULK_ALL_FAILED")
	link, err := links.CreatePartnerLink(partner, &affiliatev1.CreatePartnerLinkRequest{ProgramId: id, DestinationUrl: website + "/beans"})
	ok(err)
	_, err = links.UpdateLink(merchant, &affiliatev1.UpdateLinkRequest{ProgramId: id, LinkId: link.GetId(), SubId: &website})
	wantStatus(t, err, codes.InvalidArgument, "VALIDATION_ERROR") // a field without a field mask
	promo, err := promoCodes.CreatePromoCode(merchant, &affiliatev1.CreatePromoCodeRequest{
		ProgramId: id, ParticipantId: applied.GetId(), Code: "SAVE", DiscountType: affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE, DiscountValue: proto.Float64(10),
	})
	ok(err)
	if promo.GetCode() != "save" || link.GetUrl() != website+"/beans?via="+link.GetCode() {
		t.Errorf("made %v and %v", promo, link)
	}
	summary, err := sides.GetPartnerSummary(partner, &affiliatev1.GetPartnerSummaryRequest{})
	ok(err)
	if summary.GetConversions() != 1 {
		t.Errorf("summary %v", summary)
	}
	export, err := workspaces.ExportAuditLog(merchant, &affiliatev1.ExportAuditLogRequest{})
	ok(err)
	piece, err := export.Recv()
	ok(err)
	if piece.GetContentType() != "text/csv; charset=utf-8" || !bytes.HasPrefix(piece.GetData(), []byte("id,at,")) && !bytes.HasPrefix(piece.GetData(), []byte(`"id","at",`)) {
		t.Errorf("the export begins with %s %q", piece.GetContentType(), piece.GetData())
	}
	refusedExport, err := workspaces.ExportAuditLog(partner, &affiliatev1.ExportAuditLogRequest{})
	ok(err)
	_, err = refusedExport.Recv()
	wantStatus(t, err, codes.PermissionDenied, "FORBIDDEN")

	ledger, payouts := affiliatev1.NewLedgerServiceClient(conn), affiliatev1.NewPayoutServiceClient(conn)
	audit, fraud := affiliatev1.NewAttributionServiceClient(conn), affiliatev1.NewFraudServiceClient(conn)
	bonus, err := ledger.CreateLedgerEntry(merchant, &affiliatev1.CreateLedgerEntryRequest{
		ProgramId: id, ParticipantId: applied.GetId(), Type: affiliatev1.LedgerEntryType_LEDGER_ENTRY_TYPE_BONUS, AmountCents: 100, Reason: "Thanks",
	})
	ok(err)
	preview, err := payouts.PreviewPayouts(merchant, &affiliatev1.PreviewPayoutsRequest{})
	ok(err)
	if bonus.GetCurrency() != "USD" || len(preview.GetData()) != 1 || preview.GetData()[0].GetAmountCents() != 2100 {
		t.Errorf("bonus %v, preview %v", bonus, preview)
	}
	_, err = payouts.CreatePayoutBatch(merchant, &affiliatev1.CreatePayoutBatchRequest{})
	wantStatus(t, err, codes.InvalidArgument, "IDEMPOTENCY_KEY_REQUIRED")
	decision, err := audit.GetDecision(as(secret.GetSecretKey()), &affiliatev1.GetDecisionRequest{ConversionId: read.GetConversionId()})
	ok(err)
	if decision.GetCalculation().GetAmountCents() != 2000 {
		t.Errorf("decision %v", decision)
	}
	_, err = audit.GetDecision(merchant, &affiliatev1.GetDecisionRequest{ConversionId: read.GetConversionId()})
	wantStatus(t, err, codes.PermissionDenied, "FORBIDDEN")
	policy, err := fraud.GetFraudPolicy(merchant, &affiliatev1.GetFraudPolicyRequest{ProgramId: id})
	ok(err)
	if policy.GetPolicy() != affiliatev1.FraudPolicy_FRAUD_POLICY_FLAG || len(policy.GetRules()) < 14 {
		t.Errorf("policy %v", policy)
	}
	table, err := commissions.ExportCommissions(merchant, &affiliatev1.ExportCommissionsRequest{})
	ok(err)
	piece, err = table.Recv()
	ok(err)
	if !bytes.HasPrefix(piece.GetData(), []byte("id,createdAt,")) {
		t.Errorf("the export begins with %q", piece.GetData())
	}

	list, err := commissions.ListProgramCommissions(merchant, &affiliatev1.ListProgramCommissionsRequest{
		ProgramId: id, Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED,
	})
	ok(err)
	if list.GetTotal() != 1 {
		t.Errorf("listed %v", list)
	}

	// REST returns the same data, and a logout over gRPC also ends the session for REST.
	rest := sys.caller().as(refreshed.GetAccessToken()).with("X-Mode", "test")
	path := "/api/v1/programs/" + id + "/commissions/" + commission
	rest.get(t, path).want(http.StatusOK).wantFields(object{"status": "approved", "amountCents": 2000})
	_, err = accounts.Logout(t.Context(), &affiliatev1.LogoutRequest{RefreshToken: refreshed.GetRefreshToken()})
	ok(err)
	_, err = programs.GetProgram(merchant, &affiliatev1.GetProgramRequest{ProgramId: id})
	wantStatus(t, err, codes.Unauthenticated, "UNAUTHORIZED")
	rest.get(t, path).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
}
