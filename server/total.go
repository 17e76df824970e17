package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
)

// totalCapped is the response metadata of a list whose total stopped counting.
const totalCapped = "total-capped"

// Total is a list's total out of a count that may have stopped above
// affiliate.MaxTotal. A total that stopped carries the header Total-Capped.
func Total(ctx context.Context, counted int64) int64 {
	return SearchTotal(ctx, counted, "")
}

// SearchTotal is Total for a list that can be searched. If search is not empty, the
// total is counted to affiliate.MaxSearchTotal.
func SearchTotal(ctx context.Context, counted int64, search string) int64 {
	most := affiliate.MaxTotalOf(search)
	if counted <= most {
		return counted
	}
	MarkCapped(ctx)
	return most
}

// MarkCapped tells the caller that a total of the response stopped counting.
func MarkCapped(ctx context.Context) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(totalCapped, "true"))
}
