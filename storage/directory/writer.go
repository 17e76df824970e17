package directory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// setIfNewer stores the version ARGV[1] and the value ARGV[2] under KEYS[1], unless the
// stored version is equal or newer. It returns 1 if it has stored the value. If ARGV[3]
// is not empty, it is the channel on which the script publishes the change. One script
// stores and publishes, so that a writer cannot fail between the two steps. The key expires
// after ARGV[4] seconds; 0 means never.
var setIfNewer = redis.NewScript(`
local stored = redis.call('GET', KEYS[1])
if stored then
  local newHigh, newLow = tonumber(string.sub(ARGV[1], 1, 9)), tonumber(string.sub(ARGV[1], 10, 19))
  local oldHigh, oldLow = tonumber(string.sub(stored, 1, 9)), tonumber(string.sub(stored, 10, 19))
  if oldHigh and oldLow and (newHigh < oldHigh or newHigh == oldHigh and newLow <= oldLow) then
    return 0
  end
end
if ARGV[4] ~= '0' then
  redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'EX', ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2])
end
if ARGV[3] ~= '' then
  redis.call('PUBLISH', ARGV[3], KEYS[1])
end
return 1
`)

// traceLife is the time for which Redis keeps the text and the version of a deleted code or
// link. Afterwards, Redis has no trace of it. Until then, the version prevents a writer from
// storing an older state. A writer stores a state within seconds after it has read it.
const traceLife = time.Minute

// markComplete sets the marker KEYS[1] if KEYS[2] still contains the rebuild token
// ARGV[1]. It then publishes dropAllMessage on the channel ARGV[2], so that Readers drop
// their caches.
var markComplete = redis.NewScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], '1')
redis.call('DEL', KEYS[2])
redis.call('PUBLISH', ARGV[2], '*')
return 1
`)

// Writer writes the directory. Only the core uses it. The caller must obtain the version
// of an entry before it reads the state of the entry, so that a higher version never
// belongs to an older state. Versions start at 1.
type Writer struct{ client redis.UniversalClient }

// NewWriter returns a Writer that uses client.
func NewWriter(client redis.UniversalClient) *Writer { return &Writer{client: client} }

// Complete reports whether the directory is complete. If it is not, the core must rebuild
// the directory: it calls BeginRebuild, writes all entries in batches and calls
// MarkComplete.
func (w *Writer) Complete(ctx context.Context) (bool, error) {
	n, err := w.client.Exists(ctx, markerKey).Result()
	return n == 1, err
}

// Rebuild identifies one rebuild of the directory. Redis stores its token together with
// the entries. If Redis loses all entries, it also loses the token, and the rebuild can
// no longer be completed.
type Rebuild struct{ token string }

// BeginRebuild starts a rebuild. An earlier rebuild can no longer be completed.
func (w *Writer) BeginRebuild(ctx context.Context) (Rebuild, error) {
	rebuild := Rebuild{token: rand.Text()}
	if err := w.client.Set(ctx, rebuildKey, rebuild.token, 0).Err(); err != nil {
		return Rebuild{}, fmt.Errorf("directory: %w", err)
	}
	return rebuild, nil
}

// MarkComplete sets the marker and returns true if the rebuild is still valid. It returns
// false if Redis has lost its data since the rebuild began, or if another rebuild has
// begun. The caller must then check Complete again.
func (w *Writer) MarkComplete(ctx context.Context, rebuild Rebuild) (bool, error) {
	n, err := markComplete.Run(ctx, w.client, []string{markerKey, rebuildKey}, rebuild.token, changeChannel).Int()
	if err != nil {
		return false, fmt.Errorf("directory: %w", err)
	}
	return n == 1, nil
}

// Batch collects writes and sends them in one pipeline. Flush needs further round trips
// if Redis does not have the script, or to publish dropAllMessage. A Batch is not safe
// for concurrent use.
type Batch struct {
	writer *Writer
	// channel is the channel on which each write is published. If it is empty, Flush
	// publishes only one message, dropAllMessage.
	channel string
	writes  []batchWrite
	err     error
}

type batchWrite struct {
	key, digits string
	value       []byte
	life        int // seconds; 0: no limit
}

func (w batchWrite) args(channel string) []any { return []any{w.digits, w.value, channel, w.life} }

// Batch returns an empty batch for many entries. If the Flush of this batch changes an
// entry, Readers drop their whole caches. A batch should have about a thousand writes.
func (w *Writer) Batch() *Batch { return &Batch{writer: w} }

// Changes returns an empty batch for a few entries. After the Flush of this batch,
// Readers drop only the changed entries from their caches.
func (w *Writer) Changes() *Batch { return &Batch{writer: w, channel: changeChannel} }

// PutPublicKey adds the entry of a public key. It says to which workspace and mode the key
// belongs, or that the key is revoked.
func (b *Batch) PutPublicKey(version int64, digest [32]byte, entry *edgev1.PublicKeyEntry) {
	b.add(version, publicKeyKey(digest), entry)
}

// PutReferralCode adds the programme and participant of a referral code.
func (b *Batch) PutReferralCode(version int64, scope affiliate.Scope, code string, entry *edgev1.ReferralCodeEntry) {
	b.add(version, referralCodeKey(scope, code), entry)
}

// DeleteReferralCode adds the deletion of a referral code. Redis keeps the version of the
// deletion for traceLife.
func (b *Batch) DeleteReferralCode(version int64, scope affiliate.Scope, code string) {
	b.add(version, referralCodeKey(scope, code), nil)
}

// PutLink adds the target of a short link, whose key is unique in the whole deployment.
func (b *Batch) PutLink(version int64, key string, entry *edgev1.LinkEntry) {
	b.add(version, linkKey(key), entry)
}

// DeleteLink adds the deletion of a short link. Redis keeps the version of the deletion for
// traceLife.
func (b *Batch) DeleteLink(version int64, key string) {
	b.add(version, linkKey(key), nil)
}

// PutSigningKeys adds the public keys that verify access tokens.
func (b *Batch) PutSigningKeys(version int64, keys *edgev1.SigningKeys) {
	b.add(version, signingKeysKey, keys)
}

// PutHashKeys adds a core's fingerprints of its hash keys.
func (b *Batch) PutHashKeys(version int64, keys *edgev1.HashKeys) {
	b.add(version, hashKeysKey, keys)
}

// add adds a write to the batch. If entry is nil, the write is a deletion.
func (b *Batch) add(version int64, key string, entry proto.Message) {
	digits, err := encodeVersion(version)
	write := batchWrite{key: key, digits: digits, value: []byte{flagDeleted}, life: int(traceLife / time.Second)}
	if entry != nil {
		var marshalErr error
		write.value, marshalErr = proto.MarshalOptions{}.MarshalAppend([]byte{flagPresent}, entry)
		write.life, err = 0, errors.Join(err, marshalErr)
	}
	b.err = errors.Join(b.err, err)
	b.writes = append(b.writes, write)
}

// Flush sends the collected writes and empties the batch, even if it returns an error.
// After an error, some of the writes may have been stored. The caller can safely add all
// writes to a batch again.
func (b *Batch) Flush(ctx context.Context) error {
	writes, err := b.writes, b.err
	b.writes, b.err = nil, nil
	if err != nil || len(writes) == 0 {
		return err
	}
	changed, err := b.send(ctx, writes)
	if err != nil && strings.Contains(err.Error(), "NOSCRIPT") {
		// Redis does not have the script, for example after a restart or a failover. EVAL
		// loads the script on the node that has the keys. SCRIPT LOAD would have to be
		// sent to every node of a Cluster.
		var stored int
		first := writes[0]
		stored, err = setIfNewer.Eval(ctx, b.writer.client, []string{first.key}, first.args(b.channel)...).Int()
		changed = changed || stored == 1
		if err == nil {
			var restChanged bool
			restChanged, err = b.send(ctx, writes[1:])
			changed = changed || restChanged
		}
	}
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if !changed || b.channel != "" {
		return nil
	}
	if err := b.writer.client.Publish(ctx, changeChannel, dropAllMessage).Err(); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	return nil
}

// send sends the writes in one round trip. changed is true if Redis has stored at least
// one of them, because its version was newer.
func (b *Batch) send(ctx context.Context, writes []batchWrite) (changed bool, err error) {
	commands, err := b.writer.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, write := range writes {
			pipe.EvalSha(ctx, setIfNewer.Hash(), []string{write.key}, write.args(b.channel)...)
		}
		return nil
	})
	for _, command := range commands {
		n, commandErr := command.(*redis.Cmd).Int()
		if commandErr != nil {
			return changed, commandErr
		}
		changed = changed || n == 1
	}
	return changed, err
}
