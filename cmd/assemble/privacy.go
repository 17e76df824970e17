package assemble

import (
	"context"
	"log/slog"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	"github.com/tributary-hq/tributary/server/privacy"
)

// newPrivacyService opens the erasure log and returns the service that erases personal data.
// It logs a warning if the settings name no erasure log.
func (c *Core) newPrivacyService() (*privacy.Service, error) {
	var log privacy.Log = privacy.NoLog{}
	if c.cfg.ErasureLog == "" {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "erasures are not recorded, so they cannot be repeated after a restore of an older backup",
			slog.String("setting", "TRIBUTARY_ERASURE_LOG"))
	} else {
		file, err := privacy.OpenLog(c.cfg.ErasureLog)
		if err != nil {
			return nil, err
		}
		c.erasureLog, log = file, file
	}
	return privacy.New(privacy.Config{
		Store: stores.Privacy(c.store.DB, affiliate.NewErasureKey(c.cfg.HashKey)), Directory: c.keeper, Log: log, HashKey: c.cfg.HashKey, Now: c.now,
	}), nil
}
