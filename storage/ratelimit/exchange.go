package ratelimit

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Exchange lends tokens of the home region to another region, so that a limit holds for the
// sum of all regions although no request waits for another region. Each region has its own
// Redis with its own windows. The collectors of a region use only this Redis.
//
//	region's Redis                       home Redis
//	window: rows of its collectors       window: rows of its collectors
//	        "lent": 250                          row of the region: 250
//	limit:  reserve + 250                limit:  N - all reserves - all rows
//
// One round of an Exchange does three things for each window that the collectors of the
// region have marked:
//
//	settle  the region gives back the lent tokens that it does not need
//	lend    the home window replaces the row of the region, and lends more if it can
//	grant   the region gets the new number of lent tokens
//
// A step that lowers the limit of one region comes before the step that raises the limit of
// another one. Therefore all regions together never admit more than N while they are
// connected, even if a step fails. They may admit a few percent less than N, because each
// region has a reserve and some lent tokens that it has not used.
//
// If no Exchange reaches a region for 5 s, the region is cut off, and its limit becomes N
// divided by the number of regions. Its row in the home window expires when the tokens that
// it has used before can no longer count. With R regions, all together therefore admit at
// most N + (R-1)·N/R in any 60 seconds, whatever is cut off.
//
// Each core runs an Exchange for each region. One of them at a time makes the rounds.
type Exchange struct {
	cfg    ExchangeConfig
	name   string // of this object
	failed bool   // the last round failed, and an error was logged
	// version is the version of the last round. It grows with each round, so that a grant
	// that arrives after the next round has begun has no effect.
	version int64
	// headroom is the number of unused tokens that each window of the region may keep.
	headroom map[string]int64
}

// ExchangeConfig configures an Exchange.
type ExchangeConfig struct {
	// Region is the name of the other region.
	Region string
	// Home and Away are the Redis servers of the rate limits of the two regions. They come
	// from clickstream.Connect.
	Home, Away redis.UniversalClient
	// Regions is the number of regions, with the home region. All cores must use the same.
	Regions int
	// Limit is the limit of all regions together, in requests in any 60 seconds.
	Limit int64
	// Reached is called after each round in which both servers responded.
	Reached func()
	Log     *slog.Logger
	// Now is the clock. It is used for the buckets of the windows.
	Now func() time.Time
}

const (
	// roundInterval is the time between two rounds. The reserve of a region must be large
	// enough for one round.
	roundInterval = 250 * time.Millisecond
	// roundTimeout limits a round. It is shorter than exchangerLifetime.
	roundTimeout = 2500 * time.Millisecond
	// exchangerLifetime is the time after which another Exchange takes over.
	exchangerLifetime = 3 * time.Second
	// maxMarks is the maximum number of windows in a round.
	maxMarks = 5000
	// maxBehind is the longest time for which the collectors of a region that is cut off
	// admit requests with lent tokens: the lifetime of connectedKey, the time until a
	// collector looks at it, and the lifetime of a block, with some time for slow answers.
	// A row in the home window is dated this much ahead.
	maxBehind = 10 * time.Second
)

// holdScript makes ARGV[1] the owner of KEYS[1] for ARGV[2] ms, unless there is another
// owner. It returns 1 if ARGV[1] is the owner.
var holdScript = redis.NewScript(`
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`)

// sumOfRow is the part of two scripts that adds up the buckets of a row that are still in
// the window.
const sumOfRow = `
local function live(row, oldest)
  local sum = 0
  for from = 9, #row, 8 do
    local at, count = struct.unpack('>I4I4', row, from)
    if at > oldest then
      sum = sum + count
    end
  end
  return sum
end
`

// settleScript gives back lent tokens in the window KEYS[1] of a region. The arguments are
// the newest second that has left the window, the version of the round, the reserve, the
// number of unused tokens that the region may keep, and the oldest version whose tokens are
// still valid. It returns the used tokens, and the lent
// tokens that the region keeps. It returns {-1, 0} if a later round was here.
var settleScript = redis.NewScript(sumOfRow + `
local stored = redis.call('HGETALL', KEYS[1])
local used, lent, headroom = 0, 0, tonumber(ARGV[4])
for i = 1, #stored, 2 do
  if stored[i] == 'lent' then
    local version
    version, lent = struct.unpack('>I4I4', stored[i + 1])
    if version > tonumber(ARGV[2]) then
      return {-1, 0}
    end
    if version < tonumber(ARGV[5]) then
      headroom = 0
    end
  else
    used = used + live(stored[i + 1], tonumber(ARGV[1]))
  end
end
if #stored > 0 then
  lent = math.max(0, math.min(lent, used + headroom - tonumber(ARGV[3])))
  redis.call('HSET', KEYS[1], 'lent', struct.pack('>I4I4', tonumber(ARGV[2]), lent))
end
return {used, lent}
`)

// lendScript writes the row of a region in the home window KEYS[1]. The arguments are the
// newest second that has left the window, the version of the round, the name of the row, the
// second of its bucket, the limit of the home region, the limit of all regions, the reserve,
// the number of regions, and the two results of settleScript. It returns the tokens that are
// lent now, and the number of them that the region may keep unused. It returns {-1, 0} if a
// later round was here.
//
// A region may keep the tokens that it has used, and as many unused tokens as a quarter of
// them, at least a tenth of the limit. All regions get the same part of the free tokens, so
// that unused tokens of one region do not stop another one.
var lendScript = redis.NewScript(sumOfRow + `
local version, used, lent = tonumber(ARGV[2]), tonumber(ARGV[9]), tonumber(ARGV[10])
local total, reserve, regions = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local stored = redis.call('HGETALL', KEYS[1])
local others = 0
for i = 1, #stored, 2 do
  if stored[i] ~= ARGV[3] then
    others = others + live(stored[i + 1], tonumber(ARGV[1]))
  elseif struct.unpack('>I4', stored[i + 1]) > version then
    return {-1, 0}
  end
end
local available = math.max(0, tonumber(ARGV[5]) - others)
local needed = math.max(0, used - reserve)
local free = math.max(0, available - needed)
local headroom = math.max(math.floor(total / 10), math.floor(used / 4))
headroom = math.min(headroom, math.floor(free / regions))
local share = math.max(lent, math.min(available, needed + headroom))
if share > 0 then
  redis.call('HSET', KEYS[1], ARGV[3], struct.pack('>I4I4I4I4', version, share, tonumber(ARGV[4]), share))
  local life = (tonumber(ARGV[4]) - tonumber(ARGV[1])) * 1000
  if redis.call('PTTL', KEYS[1]) < life then
    redis.call('PEXPIRE', KEYS[1], life)
  end
else
  redis.call('HDEL', KEYS[1], ARGV[3])
end
return {share, headroom}
`)

// grantScript writes the lent tokens ARGV[2] into the window KEYS[1] of a region, if the
// last settleScript there was that of the version ARGV[1].
var grantScript = redis.NewScript(`
local stored = redis.call('HGET', KEYS[1], 'lent')
if stored and struct.unpack('>I4', stored) == tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'lent', struct.pack('>I4I4', tonumber(ARGV[1]), tonumber(ARGV[2])))
end
return 1
`)

// NewExchange returns an Exchange. Run starts it.
func NewExchange(cfg ExchangeConfig) *Exchange {
	return &Exchange{cfg: cfg, name: rand.Text()[:10], headroom: make(map[string]int64)}
}

// Run makes rounds until ctx ends.
func (x *Exchange) Run(ctx context.Context) {
	ticker := time.NewTicker(roundInterval)
	defer ticker.Stop()
	for {
		if err := x.round(ctx); err == nil {
			if x.failed {
				x.cfg.Log.InfoContext(ctx, "the region is connected again", "region", x.cfg.Region)
			}
			x.failed = false
			x.cfg.Reached()
		} else if !x.failed && ctx.Err() == nil {
			x.failed = true
			x.cfg.Log.WarnContext(ctx, "a region cannot be reached: its limits are its own part of the limits of all regions", "region", x.cfg.Region, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// exchanged is the state of one window in a round.
type exchanged struct {
	key        string
	used, lent int64
	later      bool // a later round was here
}

func (x *Exchange) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	now := x.cfg.Now()
	held, err := holdScript.Run(ctx, x.cfg.Home, []string{"{limits}:exchange:" + x.cfg.Region}, x.name, exchangerLifetime.Milliseconds()).Int()
	if err != nil {
		return fmt.Errorf("home region: %w", err)
	}
	if held == 0 {
		clear(x.headroom)
		return x.cfg.Away.Ping(ctx).Err()
	}
	if err := x.cfg.Home.Set(ctx, regionKey, regionText(int64(x.cfg.Regions), home), 0).Err(); err != nil {
		return fmt.Errorf("home region: %w", err)
	}
	windows, err := x.marked(ctx, now)
	if err != nil {
		return err
	}
	oldest := now.Unix() - leaseSpan // the newest second that has left the window
	x.version = max(x.version+1, versionAt(now))
	if err := x.settle(ctx, windows, oldest); err != nil {
		return err
	}
	if err := x.lend(ctx, windows, oldest, now.Add(maxBehind).Unix()); err != nil {
		return fmt.Errorf("home region: %w", err)
	}
	return x.grant(ctx, windows)
}

// marked tells the region that it is connected and returns the windows that its collectors
// have marked.
func (x *Exchange) marked(ctx context.Context, now time.Time) ([]exchanged, error) {
	pipe := x.cfg.Away.Pipeline()
	pipe.Set(ctx, regionKey, regionText(int64(x.cfg.Regions), away), 0)
	pipe.Set(ctx, connectedKey, 1, connectedLifetime)
	oldest := strconv.FormatInt(now.Add(-markLifetime).UnixMilli(), 10)
	pipe.ZRemRangeByScore(ctx, marksKey, "-inf", "("+oldest)
	marks := pipe.ZRevRange(ctx, marksKey, 0, maxMarks-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	windows := make([]exchanged, len(marks.Val()))
	known := make(map[string]int64, len(windows))
	for i, key := range marks.Val() {
		windows[i].key = key
		if n, ok := x.headroom[key]; ok {
			known[key] = n
		}
	}
	x.headroom = known // without the windows that are no longer marked
	return windows, nil
}

func (x *Exchange) settle(ctx context.Context, windows []exchanged, oldest int64) error {
	return runEach(ctx, x.cfg.Away, settleScript, windows, func(w *exchanged) []any {
		headroom, ok := x.headroom[w.key]
		if !ok {
			headroom = x.cfg.Limit
		}
		return []any{oldest, x.version, reserve(x.cfg.Limit), headroom, x.version - lentLifetime}
	}, func(w *exchanged, reply []int64) {
		w.used, w.lent, w.later = reply[0], reply[1], reply[0] < 0
	})
}

func (x *Exchange) lend(ctx context.Context, windows []exchanged, oldest, until int64) error {
	limit, regions := x.cfg.Limit, int64(x.cfg.Regions)
	return runEach(ctx, x.cfg.Home, lendScript, windows, func(w *exchanged) []any {
		return []any{oldest, x.version, "region:" + x.cfg.Region, until, homeLimit(limit, regions), limit, reserve(limit), regions, w.used, w.lent}
	}, func(w *exchanged, reply []int64) {
		w.lent, w.later = reply[0], reply[0] < 0
		x.headroom[w.key] = reply[1]
	})
}

func (x *Exchange) grant(ctx context.Context, windows []exchanged) error {
	return runEach(ctx, x.cfg.Away, grantScript, windows, func(w *exchanged) []any { return []any{x.version, w.lent} }, nil)
}

// runEach runs a script for each window in one pipeline, without the windows in which a
// later round was. It calls result with each reply, if result is not nil.
func runEach(ctx context.Context, client redis.UniversalClient, script *redis.Script, windows []exchanged, args func(*exchanged) []any, result func(w *exchanged, reply []int64)) error {
	send := func() ([]*redis.Cmd, error) {
		pipe := client.Pipeline()
		replies := make([]*redis.Cmd, len(windows))
		for i := range windows {
			if w := &windows[i]; !w.later {
				replies[i] = script.EvalSha(ctx, pipe, []string{w.key}, args(w)...)
			}
		}
		_, err := pipe.Exec(ctx)
		return replies, err
	}
	replies, err := send()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		if err = script.Load(ctx, client).Err(); err == nil {
			replies, err = send()
		}
	}
	if err != nil || result == nil {
		return err
	}
	for i, reply := range replies {
		if reply == nil {
			continue
		}
		numbers, err := reply.Int64Slice()
		if err != nil {
			return err
		}
		result(&windows[i], numbers)
	}
	return nil
}

// UseOneRegion makes the collectors of the home region use the whole limits, because there
// are no other regions any more.
func UseOneRegion(ctx context.Context, home redis.UniversalClient) error {
	return home.Del(ctx, regionKey).Err()
}
