package server_test

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

// responseHeader records the response header of one call.
type responseHeader struct {
	grpc.ServerTransportStream
	md metadata.MD
}

func (h *responseHeader) SetHeader(md metadata.MD) error { h.md = metadata.Join(h.md, md); return nil }

func TestTotal_IsMarkedWhenCapped(t *testing.T) {
	for name, tc := range map[string]struct {
		counted    int64
		search     *string // nil if the list has no search
		wantTotal  int64
		wantCapped bool
	}{
		"list, at the limit":           {affiliate.MaxTotal, nil, affiliate.MaxTotal, false},
		"list, over the limit":         {affiliate.MaxTotal + 1, nil, affiliate.MaxTotal, true},
		"empty search, at the limit":   {affiliate.MaxTotal, new(""), affiliate.MaxTotal, false},
		"empty search, over the limit": {affiliate.MaxTotal + 1, new(""), affiliate.MaxTotal, true},
		"search, at the limit":         {affiliate.MaxSearchTotal, new("a"), affiliate.MaxSearchTotal, false},
		"search, over the limit":       {affiliate.MaxSearchTotal + 1, new("a"), affiliate.MaxSearchTotal, true},
	} {
		header := &responseHeader{}
		ctx := grpc.NewContextWithServerTransportStream(t.Context(), header)
		var total int64
		if tc.search == nil {
			total = server.Total(ctx, tc.counted)
		} else {
			total = server.SearchTotal(ctx, tc.counted, *tc.search)
		}
		if capped := len(header.md.Get("total-capped")) == 1; total != tc.wantTotal || capped != tc.wantCapped {
			t.Errorf("%s: the total of %d rows is %d, capped: %t, want %d, capped: %t", name, tc.counted, total, capped, tc.wantTotal, tc.wantCapped)
		}
	}
}
