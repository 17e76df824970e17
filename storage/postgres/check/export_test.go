package check

// ChecksIn runs all checks of Run in the transaction tx.
var ChecksIn = runChecks
