package affiliate_test

import (
	"bytes"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestMailDigest_IgnoresCaseAndDependsOnTheKey(t *testing.T) {
	digest := affiliate.MailDigest([]byte("key"), "Maria@Example.com")
	if !bytes.Equal(digest, affiliate.MailDigest([]byte("key"), "maria@example.com")) {
		t.Error("the digests of an address in upper and lower case differ")
	}
	if bytes.Equal(digest, affiliate.MailDigest([]byte("other"), "maria@example.com")) {
		t.Error("the digests under two keys are equal")
	}
}
