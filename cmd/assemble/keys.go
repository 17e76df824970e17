package assemble

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The settings whose keys must match the data in a database.
const (
	encryptionKeys = "TRIBUTARY_ENCRYPTION_KEYS"
	hashKey        = settings.HashKeySetting
	tokenKeys      = "TRIBUTARY_JWT_KEYS"
)

// KeySettings returns the names of the settings whose keys CheckKeys compares.
func KeySettings() []string { return []string{encryptionKeys, hashKey, tokenKeys} }

// coreKeys returns the keys in the settings of a core. The settings must be valid.
func coreKeys(cfg settings.Core) []affiliate.SettingKeys {
	return []affiliate.SettingKeys{
		{Setting: encryptionKeys, Keys: namedKeys(cfg.EncryptionKeys)},
		cfg.HashKeys.SettingKeys(),
		{Setting: tokenKeys, Keys: namedKeys(cfg.JWTKeys), Replaceable: true},
	}
}

func namedKeys(list string) []affiliate.SettingKey {
	var keys []affiliate.SettingKey
	for entry := range strings.SplitSeq(list, ",") {
		id, encoded, _ := strings.Cut(strings.TrimSpace(entry), ":")
		secret, _ := base64.StdEncoding.DecodeString(encoded)
		keys = append(keys, affiliate.SettingKey{ID: id, Secret: secret})
	}
	return keys
}

// CheckKeys compares the given keys with the fingerprints in the database. Then it stores the fingerprints
// of the keys, unless all of them are stored already. If the keys are wrong (affiliate.SettingKeys.Check),
// it returns an error and stores nothing. The first start on a database accepts any keys.
func CheckKeys(ctx context.Context, db *postgres.DB, settings ...affiliate.SettingKeys) error {
	stored, err := postgres.KeyFingerprints(ctx, db)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(settings, func(keys affiliate.SettingKeys) bool { return !keys.Stored(stored) }) {
		return nil
	}
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		stored, err := postgres.LockKeyFingerprints(ctx, tx)
		if err != nil {
			return err
		}
		for _, keys := range settings {
			if err := keys.Check(stored); err != nil {
				return err
			}
			if err := postgres.StoreKeyFingerprints(ctx, tx, keys.Setting, keys.Fingerprints()); err != nil {
				return err
			}
		}
		return nil
	})
}
