package stripeserver

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v85"
)

func TestEndpoints_SecretIsOnlyInTheResponseToCreate(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.client(testKey, 0)
	params := &stripe.WebhookEndpointCreateParams{
		URL: stripe.String("https://shop.example/hook"), APIVersion: stripe.String(stripe.APIVersion),
		EnabledEvents: stripe.StringSlice([]string{"charge.refunded", "invoice.paid"}),
		Description:   stripe.String("Tributary"), Metadata: map[string]string{"connection": "1"},
	}
	created, err := client.V1WebhookEndpoints.Create(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(created.ID, "we_") || !strings.HasPrefix(created.Secret, "whsec_") || created.Livemode ||
		created.URL != "https://shop.example/hook" || created.APIVersion != stripe.APIVersion || created.Status != "enabled" ||
		!slices.Equal(created.EnabledEvents, []string{"charge.refunded", "invoice.paid"}) || created.Metadata["connection"] != "1" {
		t.Errorf("Create returned %+v", created)
	}
	read, err := client.V1WebhookEndpoints.Retrieve(t.Context(), created.ID, nil)
	if err != nil || read.Secret != "" || read.URL != created.URL {
		t.Errorf("Retrieve returned %+v and the error %v, want the endpoint without its secret", read, err)
	}
	if stored, _ := s.Object(created.ID); stored["secret"] != nil {
		t.Errorf("Object returned the secret: %v", stored)
	}
	want := Endpoint{
		ID: created.ID, URL: created.URL, Secret: created.Secret, EnabledEvents: created.EnabledEvents,
		APIVersion: stripe.APIVersion, Status: "enabled",
	}
	if got := s.Endpoints(); len(got) != 1 || got[0].Secret != want.Secret || got[0].ID != want.ID || got[0].URL != want.URL ||
		got[0].APIVersion != want.APIVersion || got[0].Status != want.Status || !slices.Equal(got[0].EnabledEvents, want.EnabledEvents) {
		t.Errorf("Endpoints returned %+v, want %+v", got, want)
	}
}

func TestEndpoints_ListAndDelete(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.client("rk_live_0123456789", 0)
	var created []string
	for range 3 {
		e, err := client.V1WebhookEndpoints.Create(t.Context(), &stripe.WebhookEndpointCreateParams{
			URL: stripe.String("https://shop.example"), EnabledEvents: stripe.StringSlice([]string{"*"}),
		})
		if err != nil || !e.Livemode {
			t.Fatalf("Create returned %+v and the error %v, want an endpoint of the live mode", e, err)
		}
		created = append(created, e.ID)
	}
	params := &stripe.WebhookEndpointListParams{}
	params.Limit = stripe.Int64(1)
	var listed []string
	for e, err := range client.V1WebhookEndpoints.List(t.Context(), params).All(t.Context()) {
		if err != nil || e.Secret != "" {
			t.Fatalf("List returned %+v and the error %v, want no secret", e, err)
		}
		listed = append(listed, e.ID)
	}
	if slices.Reverse(listed); !slices.Equal(listed, created) {
		t.Errorf("List returned %v, want %v in pages of one", listed, created)
	}
	deleted, err := client.V1WebhookEndpoints.Delete(t.Context(), created[1], nil)
	if err != nil || !deleted.Deleted || deleted.ID != created[1] {
		t.Errorf("Delete returned %+v and the error %v", deleted, err)
	}
	_, readErr := client.V1WebhookEndpoints.Retrieve(t.Context(), created[1], nil)
	_, deleteErr := client.V1WebhookEndpoints.Delete(t.Context(), created[1], nil)
	for _, err := range []error{readErr, deleteErr} {
		if e := stripeError(t, err); e.HTTPStatusCode != http.StatusNotFound || e.Code != stripe.ErrorCodeResourceMissing {
			t.Errorf("the error for a deleted endpoint is %v, want 404 resource_missing", e)
		}
	}
	if got := s.Endpoints(); len(got) != 2 || got[0].ID != created[0] || got[1].ID != created[2] {
		t.Errorf("Endpoints returned %+v, want the other endpoints, oldest first", got)
	}
}

func TestEndpoints_CanBeChanged(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.client(testKey, 0)
	created, err := client.V1WebhookEndpoints.Create(t.Context(), &stripe.WebhookEndpointCreateParams{
		URL: stripe.String("https://shop.example"), EnabledEvents: stripe.StringSlice([]string{"*"}),
		Metadata: map[string]string{"a": "1", "b": "2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	updated, err := client.V1WebhookEndpoints.Update(t.Context(), created.ID, &stripe.WebhookEndpointUpdateParams{
		Disabled: stripe.Bool(true), EnabledEvents: stripe.StringSlice([]string{"invoice.paid"}),
		URL: stripe.String("https://shop.example/2"), Metadata: map[string]string{"a": "", "c": "3"},
	})
	if err != nil || updated.Status != "disabled" || updated.Secret != "" || updated.URL != "https://shop.example/2" ||
		len(updated.Metadata) != 2 || updated.Metadata["b"] != "2" || updated.Metadata["c"] != "3" {
		t.Errorf("Update returned %+v and the error %v", updated, err)
	}
	object, _ := s.Object(created.ID)
	object["status"] = "enabled"
	s.Put(object)
	if got := s.Endpoints(); got[0].Status != "enabled" || got[0].Secret != created.Secret || !slices.Equal(got[0].EnabledEvents, []string{"invoice.paid"}) {
		t.Errorf("Endpoints returned %+v, want the status that Put has stored and the same secret", got)
	}
	_, err = client.V1WebhookEndpoints.Update(t.Context(), created.ID, &stripe.WebhookEndpointUpdateParams{URL: stripe.String("nothing")})
	if e := stripeError(t, err); e.HTTPStatusCode != http.StatusBadRequest || e.Code != "url_invalid" {
		t.Errorf("the error for a wrong URL is %v, want url_invalid", e)
	}
}
