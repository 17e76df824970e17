package fraud

import (
	_ "embed" // the lists
	"strings"
)

// The lists have a domain a line; # begins a comment.
var (
	//go:embed free_domains.txt
	freeList string
	//go:embed disposable_domains.txt
	disposableList string

	freeDomains       = domainsIn(freeList)
	disposableDomains = domainsIn(disposableList)
)

type domains map[string]bool

func domainsIn(list string) domains {
	found := domains{}
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			found[line] = true
		}
	}
	return found
}

// has reports whether the domain, or one that it lies in, is in the list.
func (d domains) has(domain string) bool {
	for domain != "" {
		if d[domain] {
			return true
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return false
}
