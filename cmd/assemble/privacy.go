package assemble

import (
	"context"
	"log/slog"

	"github.com/tributary-hq/tributary/server/privacy"
)

// openErasureLog opens the erasure log. It logs a warning if the settings name none.
func (c *Core) openErasureLog() (privacy.Log, error) {
	if c.cfg.ErasureLog == "" {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "erasures are not recorded, so they cannot be repeated after a restore of an older backup",
			slog.String("setting", "TRIBUTARY_ERASURE_LOG"))
		return privacy.NoLog{}, nil
	}
	var err error
	if c.erasureLog, err = privacy.OpenLog(c.cfg.ErasureLog); err != nil {
		return nil, err
	}
	return c.erasureLog, nil
}
