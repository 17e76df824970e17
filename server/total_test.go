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
	for _, tc := range []struct {
		counted int64
		search  *string // nil: a list without a search
		total   int64
		capped  bool
	}{
		{affiliate.MaxTotal, nil, affiliate.MaxTotal, false},
		{affiliate.MaxTotal + 1, nil, affiliate.MaxTotal, true},
		{affiliate.MaxTotal, new(string), affiliate.MaxTotal, false},
		{affiliate.MaxTotal + 1, new(string), affiliate.MaxTotal, true},
		{affiliate.MaxSearchTotal, ptr("a"), affiliate.MaxSearchTotal, false},
		{affiliate.MaxSearchTotal + 1, ptr("a"), affiliate.MaxSearchTotal, true},
	} {
		header := &responseHeader{}
		ctx := grpc.NewContextWithServerTransportStream(t.Context(), header)
		var total int64
		if tc.search == nil {
			total = server.Total(ctx, tc.counted)
		} else {
			total = server.SearchTotal(ctx, tc.counted, *tc.search)
		}
		if capped := len(header.md.Get("total-capped")) == 1; total != tc.total || capped != tc.capped {
			t.Errorf("count %d, search %v: total %d, capped %v", tc.counted, tc.search, total, capped)
		}
	}
}

func ptr(s string) *string { return &s }
