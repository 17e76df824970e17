package ratelimit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The keys that cores and collectors use to share a limit between regions. The text in
// braces puts all of them into the same slot of a Cluster.
const (
	// regionKey contains what the collectors must know about their region: the number of
	// regions, a space, and "home" or "away".
	regionKey = "{limits}:region"
	// connectedKey exists while the core exchanges tokens with the region.
	connectedKey = "{limits}:connected"
	// marksKey is a sorted set with the keys of the windows for which a region needs more
	// tokens than its reserve. The score is the time of the mark in ms.
	marksKey = "{limits}:marks"

	home, away = "home", "away"

	// connectedLifetime is the time after which a region is cut off if the core does not
	// respond. followInterval is the time between two looks of a collector at the keys.
	connectedLifetime = 5 * time.Second
	followInterval    = time.Second
	// versionUnit is the unit of the version of a round. Versions are counted from
	// versionEpoch, so that four bytes are enough for 34 years. lentLifetime is the time
	// after which lent tokens are no longer valid, as a number of versions.
	versionUnit  = 250 * time.Millisecond
	lentLifetime = int64(connectedLifetime / versionUnit)
	// markLifetime is the time for which a mark is valid. It is longer than a window exists
	// after its last call, so that each window with lent tokens has a mark.
	markLifetime = 2 * time.Minute
)

var versionEpoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// versionAt returns the version of a round that begins at the given time.
func versionAt(now time.Time) int64 { return int64(now.Sub(versionEpoch) / versionUnit) }

// region is what a collector has read about its region. A limit N is divided as follows:
//
//	home region:              N minus the reserves of the other regions, minus the tokens
//	                          that it has lent to them
//	other region, connected:  its reserve, plus the lent tokens
//	other region, cut off:    N divided by the number of regions
type region struct {
	regions   int64
	home      bool
	connected bool
}

// reserve returns the number of tokens that a region can use without asking: a fortieth of
// the limit. It is large enough for the first clicks, until an Exchange has lent more, and
// small enough that idle regions cost the others little.
func reserve(limit int64) int64 { return max(1, limit/40) }

// cutOffLimit returns the limit of a region that is cut off from the home region.
func (r *region) cutOffLimit(limit int64) int64 { return max(1, limit/r.regions) }

// homeLimit returns the part of a limit that is not reserved for other regions.
func homeLimit(limit, regions int64) int64 { return max(1, limit-(regions-1)*reserve(limit)) }

// limitHere returns the limit of a zone in this region, without lent tokens. lent reports
// whether lent tokens have to be added.
func (l *Lease) limitHere(zone Zone) (limit int64, lent bool) {
	r := l.region.Load()
	switch {
	case r == nil || !zone.Regional:
		return zone.Limit, false
	case r.home:
		return homeLimit(zone.Limit, r.regions), false
	case r.connected:
		return reserve(zone.Limit), true
	}
	return r.cutOffLimit(zone.Limit), false
}

// mark tells the cores that a window needs more tokens than the reserve.
func (l *Lease) mark(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks[key] = struct{}{}
}

// followRegion reads what the core has written about this region, and writes the marks,
// until ctx ends.
func (l *Lease) followRegion(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	var next time.Time
	for {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(followInterval)
			l.readRegion(ctx)
		}
		l.writeMarks(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// readRegion reads the keys of the core. If Redis does not respond, the region counts as
// cut off. If the core has written nothing, there is one region.
func (l *Lease) readRegion(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, followInterval)
	defer cancel()
	values, err := l.client.MGet(ctx, regionKey, connectedKey).Result()
	if err != nil {
		if known := l.region.Load(); known != nil {
			l.region.Store(&region{regions: known.regions, home: known.home})
		}
		return
	}
	var regions int64
	var place string
	text, _ := values[0].(string)
	if n, _ := fmt.Sscanf(text, "%d %s", &regions, &place); n != 2 || regions < 2 {
		// A region stays divided if Redis has lost the key.
		if known := l.region.Load(); known == nil || known.home {
			l.region.Store(nil)
			return
		}
		regions, place = l.region.Load().regions, away
	}
	l.region.Store(&region{regions: regions, home: place == home, connected: values[1] != nil})
}

func (l *Lease) writeMarks(ctx context.Context) {
	l.mu.Lock()
	marks := make([]redis.Z, 0, len(l.marks))
	score := float64(l.opt.Now().UnixMilli())
	for key := range l.marks {
		marks = append(marks, redis.Z{Score: score, Member: key})
	}
	clear(l.marks)
	l.mu.Unlock()
	if len(marks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, followInterval)
	defer cancel()
	// If this fails, the next call of each window marks it again.
	_ = l.client.ZAdd(ctx, marksKey, marks...).Err()
}

func regionText(regions int64, place string) string {
	return strconv.FormatInt(regions, 10) + " " + place
}
