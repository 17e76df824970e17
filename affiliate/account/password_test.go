package account_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate/account"
)

func TestPersonalPassword_FindsNameAndAddress(t *testing.T) {
	const name, email = "Ada Lindqvist", "ada.lindqvist@blog.example"
	for password, want := range map[string]bool{
		"Ada Lindqvist":               true,
		"adalindqvist2026":            true,
		"ada-lindqvist!":              true,
		"ADA.lindqvist@blog.example":  true,
		"lindqvist ada":               false,
		"Ada Lindqvist likes coffee":  false,
		"correct horse battery":       false,
		"1827364509":                  false,
		"2026adalindqvist":            false,
		"••••••••••":                  false,
		"adalindqvist@blog.example99": true,
	} {
		if got := account.PersonalPassword(password, name, email); got != want {
			t.Errorf("PersonalPassword(%q) = %t, want %t", password, got, want)
		}
	}
	if account.PersonalPassword("1827364509", "123", "") {
		t.Error("a number is personal because the name is another number")
	}
}
