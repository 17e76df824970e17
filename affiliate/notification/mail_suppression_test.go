package notification_test

import (
	"bytes"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

func TestMailDigest_IgnoresCaseAndDependsOnTheKey(t *testing.T) {
	digest := notification.MailDigest(affiliate.HashKeys{[]byte("key")}, "Maria@Example.com").First()
	if !bytes.Equal(digest, notification.MailDigest(affiliate.HashKeys{[]byte("key")}, "maria@example.com").First()) {
		t.Error("the digests of an address in upper and lower case differ")
	}
	if bytes.Equal(digest, notification.MailDigest(affiliate.HashKeys{[]byte("other")}, "maria@example.com").First()) {
		t.Error("the digests under two keys are equal")
	}
}
