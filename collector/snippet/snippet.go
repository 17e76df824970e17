// Package snippet contains the browser script. The TypeScript sources are in src. The
// tool tools/snippet builds dist/script.js from them, and the collector serves that file.
//
// The script detects a visitor who came through a partner's link, registers the click,
// stores the click id in a cookie, and adds the id to elements that lead to the purchase.
//
// The script guarantees that it never throws an error into a page and that it stores
// nothing while consent is denied. For a visitor without a referral code it sends no
// request and sets no cookie. The script does not guarantee that a click is registered,
// because the visitor may leave the page or the network may fail. It makes at most two
// attempts to send a click. If the visitor leaves the page before a response arrives, it
// sends the click once more with the same id.
package snippet

import _ "embed"

// Script is the built script.
//
//go:embed dist/script.js
var Script []byte
