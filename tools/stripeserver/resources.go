package stripeserver

import (
	"net/http"
	"slices"
	"strings"
)

// resource is a type of objects that the server stores.
type resource struct {
	// collection is the path of the list below /v1/.
	collection string
	// object is the value of the field object.
	object string
	// permission is the middle part of the name of the permission.
	permission string
	// name is the name of the type in the message for a missing object.
	name string
	// idParam is the parameter that this message names.
	idParam string
	// filters are the parameters of the list, without those for all lists.
	filters map[string]filter

	// create, update and remove process the writing requests; nil if stripe-mock does.
	create, update, remove handler
}

// call is a request to a resource. id is empty for the list and for create.
type call struct {
	resource *resource
	id       string
	params   map[string]any
	live     bool
}

// handler processes a call. The server's mutex is locked.
type handler func(*Server, call) answer

func (r *resource) path() string { return "/v1/" + r.collection }

// resources is set by init because its functions refer to it.
var resources []*resource

func init() {
	byCustomer := reference("customer")
	byCharge := reference("charge")
	byPaymentIntent := reference("payment_intent")
	resources = []*resource{
		{
			collection: "checkout/sessions", object: "checkout.session", permission: "checkout_session",
			name: "checkout.session", idParam: "session",
			filters: map[string]filter{
				"customer": byCustomer, "payment_intent": byPaymentIntent, "subscription": reference("subscription"),
				"payment_link": reference("payment_link"), "status": reference("status"),
			},
		},
		{
			collection: "invoices", object: "invoice", permission: "invoice", name: "invoice", idParam: "invoice",
			filters: map[string]filter{
				"customer": byCustomer, "subscription": reference("parent", "subscription_details", "subscription"),
				"status": reference("status"), "collection_method": reference("collection_method"),
			},
		},
		{
			collection: "invoice_payments", object: "invoice_payment", permission: "invoice",
			name: "invoice_payment", idParam: "invoice_payment",
			filters: map[string]filter{"invoice": reference("invoice"), "status": reference("status"), "payment": payment},
		},
		{
			collection: "charges", object: "charge", permission: "charge", name: "charge", idParam: "id",
			filters: map[string]filter{
				"customer": byCustomer, "payment_intent": byPaymentIntent, "transfer_group": reference("transfer_group"),
			},
		},
		{
			collection: "refunds", object: "refund", permission: "charge", name: "refund", idParam: "refund",
			filters: map[string]filter{"charge": byCharge, "payment_intent": byPaymentIntent},
		},
		{
			collection: "disputes", object: "dispute", permission: "dispute", name: "dispute", idParam: "dispute",
			filters: map[string]filter{"charge": byCharge, "payment_intent": byPaymentIntent},
		},
		{
			collection: "payment_intents", object: "payment_intent", permission: "payment_intent",
			name: "payment_intent", idParam: "intent",
			filters: map[string]filter{"customer": byCustomer},
		},
		{
			collection: "balance_transactions", object: "balance_transaction", permission: "balance_transaction_source",
			name: "balance transaction", idParam: "id",
			filters: map[string]filter{"source": reference("source"), "type": reference("type"), "currency": reference("currency")},
		},
		{
			collection: "coupons", object: "coupon", permission: "coupon", name: "coupon", idParam: "coupon",
			create: (*Server).createCoupon, remove: (*Server).removeCoupon,
		},
		{
			collection: "promotion_codes", object: "promotion_code", permission: "promotion_code",
			name: "promotion code", idParam: "promotion_code",
			filters: map[string]filter{
				"code": ignoreCase("code"), "active": boolean("active"), "customer": byCustomer,
				"coupon": reference("promotion", "coupon"),
			},
			create: (*Server).createPromotionCode, update: (*Server).updatePromotionCode,
		},
		{
			collection: "events", object: "event", permission: "event", name: "event", idParam: "id",
			filters: map[string]filter{"type": eventType, "types": eventTypes},
		},
		{
			collection: "webhook_endpoints", object: "webhook_endpoint", permission: "webhook",
			name: "webhook endpoint", idParam: "webhook_endpoint",
			create: (*Server).createEndpoint, update: (*Server).updateEndpoint, remove: (*Server).removeObject,
		},
	}
}

// findResource returns the resource of a path. id is empty for the path of the list.
// Paths with more elements, and the paths of searches and previews, are not found.
func findResource(path string) (r *resource, id string, found bool) {
	for _, r := range resources {
		if path == r.path() {
			return r, "", true
		}
		id, below := strings.CutPrefix(path, r.path()+"/")
		if below && id != "" && id != "search" && id != "create_preview" && !strings.Contains(id, "/") {
			return r, id, true
		}
	}
	return nil, "", false
}

// resourceOf returns the resource whose objects have a value of the field object.
func resourceOf(object string) *resource {
	return resources[slices.IndexFunc(resources, func(r *resource) bool { return r.object == object })]
}

// handler returns the handler for a request; nil if stripe-mock answers it.
func (r *resource) handler(method, id string) handler {
	switch {
	case method == http.MethodGet && id == "":
		return (*Server).list
	case method == http.MethodGet:
		return (*Server).retrieve
	case method == http.MethodPost && id == "":
		return r.create
	case method == http.MethodPost:
		return r.update
	case method == http.MethodDelete && id != "":
		return r.remove
	}
	return nil
}

// find returns the stored object of a call. If it does not exist, ok is false and the
// answer is Stripe's error.
func (s *Server) find(c call) (object map[string]any, a answer, ok bool) {
	o, found := s.objects[c.id]
	if !found || o.fields["object"] != c.resource.object {
		return nil, missing(http.StatusNotFound, c.resource.name, c.resource.idParam, c.id), false
	}
	return o.fields, answer{}, true
}

// retrieve answers with one object.
func (s *Server) retrieve(c call) answer {
	object, a, ok := s.find(c)
	if !ok {
		return a
	}
	return s.respond(object, c.params)
}

// respond answers with a copy of an object in which references are expanded.
func (s *Server) respond(object, params map[string]any) answer {
	object = deepCopy(object)
	s.expand(object, params)
	return success(object)
}

// removeObject deletes an object.
func (s *Server) removeObject(c call) answer {
	if _, a, ok := s.find(c); !ok {
		return a
	}
	delete(s.objects, c.id)
	delete(s.secrets, c.id)
	return success(map[string]any{"id": c.id, "object": c.resource.object, "deleted": true})
}
