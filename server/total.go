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
	return capped(ctx, counted, affiliate.MaxTotal)
}

// SearchTotal is the total of a list that is exact without a search. A search is
// counted to affiliate.MaxSearchTotal.
func SearchTotal(ctx context.Context, counted int64, search string) int64 {
	if search == "" {
		return counted
	}
	return capped(ctx, counted, affiliate.MaxSearchTotal)
}

func capped(ctx context.Context, counted, most int64) int64 {
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
