package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
)

// totalCapped is the key of the response metadata Total-Capped. It means that the total
// in the response is a maximum at which counting stops, and that the real total may be
// higher.
const totalCapped = "total-capped"

// Total returns the total of a list for the response. If counted is more than
// affiliate.MaxTotal, it returns MaxTotal and adds the header Total-Capped to the
// response.
func Total(ctx context.Context, counted int64) int64 {
	return SearchTotal(ctx, counted, "")
}

// SearchTotal is Total for a list that can be searched. If search is not empty, the
// maximum is affiliate.MaxSearchTotal.
func SearchTotal(ctx context.Context, counted int64, search string) int64 {
	bound := affiliate.MaxTotalOf(search)
	if counted <= bound {
		return counted
	}
	MarkCapped(ctx)
	return bound
}

// MarkCapped adds the header Total-Capped to the response. It means that the real total
// may be higher than the total in the response.
func MarkCapped(ctx context.Context) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(totalCapped, "true"))
}
