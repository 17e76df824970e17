package participant

// ReviewChunk is the maximum number of commissions that one transaction flags.
const ReviewChunk = reviewChunk
