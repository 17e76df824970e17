package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
)

const (
	jwtKeysName        = "TRIBUTARY_JWT_KEYS"
	hashKeyName        = "TRIBUTARY_HASH_KEY"
	encryptionKeysName = "TRIBUTARY_ENCRYPTION_KEYS"

	hashKeySize       = 32
	encryptionKeySize = 32
)

const secretsHeading = `The keys of this development system. They are created once. If this file is deleted,
sessions end, stored hashes no longer match, and encrypted values cannot be decrypted.
make reset deletes this file together with the data.
`

// loadSecrets returns the keys of the service from the file at path. It creates missing
// keys and adds them to the file.
func loadSecrets(path string) (map[string]string, error) {
	secrets, err := readVariables(path)
	if err != nil {
		return nil, err
	}
	created := false
	for name, create := range map[string]func() string{
		jwtKeysName:        func() string { return "dev:" + randomBase64(ed25519.SeedSize) },
		hashKeyName:        func() string { return randomBase64(hashKeySize) },
		encryptionKeysName: func() string { return "dev:" + randomBase64(encryptionKeySize) },
	} {
		if secrets[name] == "" {
			secrets[name], created = create(), true
		}
	}
	if !created {
		return secrets, nil
	}
	return secrets, writeVariables(path, secretsHeading, []variable{
		{jwtKeysName, secrets[jwtKeysName]},
		{hashKeyName, secrets[hashKeyName]},
		{encryptionKeysName, secrets[encryptionKeysName]},
	})
}

func randomBase64(size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}
