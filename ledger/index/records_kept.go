package index

import (
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/fastcache"

	"colophon/storage"
)

// keptRecords keeps what IPC records say, as their events have it: those that were folded
// or read last. What a page of runs shows would else be read from all over the log. They
// are in memory that the garbage collector does not look at. It is safe for concurrent
// use; a nil one keeps none.
type keptRecords struct{ cache *fastcache.Cache }

// Of the memory, in bytes: it is used in parts of keptPart, beside which the cache takes an
// eighth for where everything is.
const (
	keptPart  = 32 << 20
	leastKept = keptPart / 7 * 8
)

// newKeptRecords takes so much memory, little by little; none if that is too little.
func newKeptRecords(bytes int) *keptRecords {
	if bytes < leastKept {
		return nil
	}
	return &keptRecords{fastcache.New(bytes / leastKept * keptPart)}
}

// close gives the memory back. Nothing may be looked for any more.
func (k *keptRecords) close() {
	if k != nil {
		k.cache.Reset()
	}
}

// logs numbers the logs that are followed in this process.
var logs atomic.Uint64

// recordKey is that of an event of a log.
type recordKey [16]byte

func keyOfRecord(log, seq uint64) (key recordKey) {
	binary.BigEndian.PutUint64(key[:8], log)
	binary.BigEndian.PutUint64(key[8:], seq)
	return key
}

// find is the record at an event of a log, as appendKept has it, if it is kept.
func (k *keptRecords) find(log, seq uint64) (kept []byte, found bool) {
	if k == nil {
		return nil, false
	}
	key := keyOfRecord(log, seq)
	return k.cache.HasGet(nil, key[:])
}

// keep keeps the record at an event of a log.
func (k *keptRecords) keep(log, seq uint64, kept []byte) {
	if k != nil {
		key := keyOfRecord(log, seq)
		k.cache.Set(key[:], kept)
	}
}

// texts are all that a record says, but for its time.
func (r *IPCRecord) texts() [13]*[]byte {
	return [...]*[]byte{&r.InputHash, &r.SystemPromptHash, &r.OutputHash, &r.IPCID, &r.Model, &r.Temperature, &r.MaxTokens, &r.Seed,
		&r.OllamaBuildHash, &r.ModelDigest, &r.HostPlatform, &r.schema, &r.RunID}
}

// What stands in place of a text's length, which is keptTexts more.
const (
	keptNone   = iota // no text
	keptDigest        // that of a digest's bytes, of which the text is the hexadecimal form
	keptTexts
)

// appendKept encodes a record without its seq. size is the length of its entry, in bytes.
func (r *IPCRecord) appendKept(dst []byte, size int) []byte {
	dst = binary.AppendUvarint(dst, uint64(size))
	dst = binary.AppendVarint(dst, r.Time.Unix())
	dst = binary.AppendUvarint(dst, uint64(r.Time.Nanosecond()))
	for _, text := range r.texts() {
		switch {
		case *text == nil:
			dst = append(dst, keptNone)
		case isDigest(*text):
			dst, _ = hex.AppendDecode(append(dst, keptDigest), *text)
		default:
			dst = append(binary.AppendUvarint(dst, uint64(len(*text)+keptTexts)), *text...)
		}
	}
	return dst
}

// isDigest reports whether a text is a digest in the form that the log has it in.
func isDigest(text []byte) bool {
	if len(text) != 2*storage.HashBytes {
		return false
	}
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// decodeKept is what appendKept encoded. It refers to no other memory than its own.
func decodeKept(seq uint64, kept []byte) (r IPCRecord, size int) {
	number := func() int {
		n, length := binary.Uvarint(kept)
		kept = kept[length:]
		return int(n)
	}
	size = number()
	seconds, length := binary.Varint(kept)
	kept = kept[length:]
	r.Seq, r.Time = seq, time.Unix(seconds, int64(number())).UTC()
	all := make([]byte, 0, 2*len(kept)) // a digest has twice as many letters as bytes
	for _, text := range r.texts() {
		n, from := number(), len(all)
		switch n {
		case keptNone:
			continue
		case keptDigest:
			n = storage.HashBytes
			all = hex.AppendEncode(all, kept[:n])
		default:
			n -= keptTexts
			all = append(all, kept[:n]...)
		}
		*text, kept = all[from:len(all):len(all)], kept[n:]
	}
	return r, size
}
