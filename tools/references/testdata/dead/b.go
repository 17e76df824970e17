package b

// B is a rule (RULES.md section 3). The page docs/guide.md#gone explains it.
const B = 1

/*
The second line counts: docs/gone.md.
*/
var c = `one
two` + "see gone.md"
