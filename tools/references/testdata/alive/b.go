// Package b follows docs/guide.md#rates--limits and docs/adr/0001-plan.md, see README.md.
package b

var sales = page.md + "docs/sales.md docs/*.md %s.md https://example.com/other.md"
