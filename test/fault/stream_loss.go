package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// removeIfStored deletes or trims the stream KEYS[1], depending on ARGV[1]. It does
// nothing if an entry was not delivered to a consumer group or not acknowledged.
// Ingestion acknowledges an entry after it has stored the entry.
var removeIfStored = redis.NewScript(`
local function field(list, name)
  for i = 1, #list, 2 do
    if list[i] == name then return list[i + 1] end
  end
end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local last = field(redis.call('XINFO', 'STREAM', KEYS[1]), 'last-generated-id')
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
if #groups == 0 then return 0 end
for _, group in ipairs(groups) do
  if field(group, 'pending') ~= 0 or field(group, 'last-delivered-id') ~= last then return 0 end
end
if ARGV[1] == 'DEL' then
  redis.call('DEL', KEYS[1])
else
  redis.call('XTRIM', KEYS[1], 'MAXLEN', 0)
end
return 1
`)

// storedTimeout is the maximum time for which tryRemoveStream pauses the clients.
const storedTimeout = 3 * time.Second

// removeStreamWhenStored deletes or trims the stream when all its entries are stored in
// the database. For this it pauses the clients and waits until all clicks are stored,
// including the clicks that collectors replay from their journals. A replay after an
// outage may take about as long as the outage, so removeStreamWhenStored tries several
// times.
func (s *storm) removeStreamWhenStored(ctx context.Context, command string) error {
	for deadline := time.Now().Add(s.scale.outage); ; {
		done, err := s.tryRemoveStream(ctx, command)
		if done || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errNotTriggered
		}
		time.Sleep(s.scale.maxOther)
	}
}

func (s *storm) tryRemoveStream(ctx context.Context, command string) (done bool, err error) {
	s.load.pauseLock.Lock()
	defer s.load.pauseLock.Unlock()
	for deadline := time.Now().Add(storedTimeout); !done && err == nil && time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		done, err = removeIfStored.Run(ctx, s.system.stream, []string{clickstream.Key(0)}, command).Bool()
	}
	return done, err
}
