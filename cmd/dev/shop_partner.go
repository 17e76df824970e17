package main

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
)

// partnerExternalID is the id of the demo's partner in the shop's own database.
const partnerExternalID = "customer-1"

// partnerPage is the page of a partner in the merchant's own app. Its script reads the
// partner's link and earnings from the API.
//
//go:embed partner.html
var partnerPage string

var partnerTemplate = template.Must(template.New("partner").Parse(partnerPage))

func (s *shop) writePartnerPage(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// An error means that the visitor's connection has ended.
	_ = partnerTemplate.Execute(w, map[string]any{
		"API": s.api.url + "/api/v1/partner", "Program": s.value(programIDName),
	})
}

// writePartnerToken responds with a token for the participation of the user who is logged
// in to the shop. The demo has one user, so there is no login. A real app must take the id
// from the session of the user, and never from the request.
func (s *shop) writePartnerToken(w http.ResponseWriter, r *http.Request) {
	partners := "/api/v1/programs/" + url.PathEscape(s.value(programIDName)) + "/partners"
	server := s.api.withCredential(s.value(serviceTokenName))
	var found struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	var token struct {
		Token     string `json:"token"`
		ExpiresAt string `json:"expiresAt"`
	}
	err := server.call(r.Context(), http.MethodGet, partners+"?"+url.Values{"externalId": {partnerExternalID}}.Encode(), nil, &found)
	if err == nil && len(found.Data) == 1 {
		err = server.call(r.Context(), http.MethodPost, partners+"/"+found.Data[0].ID+"/token", map[string]any{}, &token)
	}
	if err != nil || token.Token == "" {
		http.Error(w, "The shop cannot get a token for this partner.", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(token)
}
