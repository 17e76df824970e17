package server

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestCheck_UsesMessagesOfTheAPI(t *testing.T) {
	for field, tc := range map[string]struct {
		request     proto.Message
		wantMessage string
	}{
		"event_type":     {&affiliatev1.ReportConversionRequest{}, "must be one of purchase, renewal, signup, lead, trial, custom"},
		"outcome":        {&affiliatev1.ResolveFraudEventRequest{}, "must be one of confirmed, dismissed"},
		"page_size":      {&affiliatev1.ListCommissionsRequest{PageSize: proto.Int32(101)}, "must be from 1 to 100"},
		"page":           {&affiliatev1.ListCommissionsRequest{Page: proto.Int32(0)}, "must be at least 1"},
		"sort_by":        {&affiliatev1.ListCommissionsRequest{SortBy: proto.String("age")}, "must be one of createdAt, amountCents, status, commissionType, needsReview, partnerName"},
		"program_id":     {&affiliatev1.ListCommissionsRequest{ProgramId: proto.String("x")}, "must be a UUID"},
		"search":         {&affiliatev1.ListCommissionsRequest{Search: proto.String(strings.Repeat("x", 201))}, "must have at most 200 characters"},
		"reason":         {&affiliatev1.ApproveCommissionEarlyRequest{Reason: "  "}, "must have 1 to 500 characters"},
		"conversions":    {&affiliatev1.ReportConversionsRequest{}, "must have 1 to 500 items"},
		"amount_cents":   {&affiliatev1.ReportConversionRequest{AmountCents: proto.Int64(-1)}, "must be from 0 to 1000000000000"},
		"commission_ids": {&affiliatev1.BulkApproveCommissionsRequest{}, "must have 1 to 100 items"},
	} {
		var got string
		for _, v := range ValidateItem(nil, tc.request) {
			if v.Field == field {
				got = v.Message
			}
			if strings.Contains(v.Message, "value") || strings.Contains(v.Message, "UNSPECIFIED") {
				t.Errorf("the message %q of the field %s is from the validation library", v.Message, v.Field)
			}
		}
		if got != tc.wantMessage {
			t.Errorf("the field %s has the message %q, want %q", field, got, tc.wantMessage)
		}
	}
}

// The messages of the generated validation code are string literals in that code, so the
// test can find them all.
func TestAnnotationMessage_CoversGeneratedValidation(t *testing.T) {
	files, err := filepath.Glob("../gen/affiliate/v1/*.pb.validate.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d generated files, error %v, want some", len(files), err)
	}
	literal := regexp.MustCompile(`reason: +("(?:[^"\\]|\\.)*")`)
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range literal.FindAllStringSubmatch(string(code), -1) {
			reason, err := strconv.Unquote(found[1])
			if err != nil {
				t.Fatal(err)
			}
			// The validation of the embedded message reports its own, exact reason.
			if reason == "embedded message failed validation" {
				continue
			}
			if got := annotationMessage(reason, nil); got == notValid || strings.Contains(got, "value") {
				t.Errorf("annotationMessage of %q in %s returned %q, want a message of the API", reason, filepath.Base(file), got)
			}
		}
	}
}

func TestCheck_ClearsBlankOptionalText(t *testing.T) {
	for _, tc := range []struct{ request, want proto.Message }{
		{
			&affiliatev1.ReportConversionRequest{PromoCode: new(" \t"), ClickId: new("  "), CustomerId: new("\n"), SubId: new(" kept ")},
			&affiliatev1.ReportConversionRequest{SubId: new(" kept ")},
		},
		{&affiliatev1.RejectCommissionRequest{Reason: new("   ")}, &affiliatev1.RejectCommissionRequest{}},
		{&affiliatev1.CreateProgramRequest{Name: " N ", Description: new(" ")}, &affiliatev1.CreateProgramRequest{Name: "N"}},
	} {
		for _, v := range ValidateItem(nil, tc.request) {
			if slices.Contains([]string{"reason", "promo_code", "click_id", "customer_id", "description"}, v.Field) {
				t.Errorf("check found the violation %q of the blank field %s, want none", v.Message, v.Field)
			}
		}
		if !proto.Equal(tc.request, tc.want) {
			t.Errorf("check changed the request to %v, want %v", tc.request, tc.want)
		}
	}
}
