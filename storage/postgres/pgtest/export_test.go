package pgtest

// VacuumAnalyzeWithin is VacuumAnalyze with a limit of the test's own.
var VacuumAnalyzeWithin = vacuumAnalyze
