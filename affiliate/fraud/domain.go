package fraud

import (
	_ "embed" // for the lists of domains
	"strings"
)

// Each line of the lists is a domain. A comment starts with #.
var (
	//go:embed free_domains.txt
	freeList string
	//go:embed disposable_domains.txt
	disposableList string

	freeDomains       = parseDomains(freeList)
	disposableDomains = parseDomains(disposableList)
)

type domainSet map[string]bool

func parseDomains(list string) domainSet {
	found := domainSet{}
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			found[line] = true
		}
	}
	return found
}

// contains reports whether the domain or one of its parent domains is in the set.
func (d domainSet) contains(domain string) bool {
	for domain != "" {
		if d[domain] {
			return true
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return false
}
