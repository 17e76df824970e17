// Package snippet holds the browser script: its TypeScript sources in src, and
// dist/script.js, which tools/snippet makes of them and the collector serves.
//
// The script notices a visitor who came by a partner's link, registers the
// click, keeps its id in a cookie, and writes the id into what leads to the
// purchase. It promises never to throw into a page, to keep nothing without
// consent, and to do nothing at all, without a request or a cookie, for a
// visitor who brings no code. It does not promise that a click is registered:
// the page may be gone, or the network, and after two attempts it is silent.
package snippet

import _ "embed"

// Script is the built script.
//
//go:embed dist/script.js
var Script []byte
