package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
)

// totalCapped is the response metadata which states that counting stopped at the bound,
// so that the real total may be higher.
const totalCapped = "total-capped"

// Total returns the total of a list for the response: counted, but at most
// affiliate.MaxTotal. If counted is higher, the response gets the header Total-Capped.
func Total(ctx context.Context, counted int64) int64 {
	return SearchTotal(ctx, counted, "")
}

// SearchTotal is Total for a list that can be searched. If search is not empty, the
// bound is affiliate.MaxSearchTotal.
func SearchTotal(ctx context.Context, counted int64, search string) int64 {
	bound := affiliate.MaxTotalOf(search)
	if counted <= bound {
		return counted
	}
	MarkCapped(ctx)
	return bound
}

// MarkCapped sets the header Total-Capped, which states that counting stopped at the
// bound of the total.
func MarkCapped(ctx context.Context) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(totalCapped, "true"))
}
