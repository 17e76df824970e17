package pgtest

// VacuumAnalyzeWithin is VacuumAnalyze with a time limit as an argument.
var VacuumAnalyzeWithin = vacuumAnalyze
