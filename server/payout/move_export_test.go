package payout

// PayChunk is the number of commissions of a payout that one statement marks as paid.
const PayChunk = payChunk
