package pebble

import (
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage"
)

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

// digestOf returns a digest derived from n.
func digestOf(n uint64) storage.Hash {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
}

// fill fills b with bytes that hardly compress and that depend only on seed.
func fill(b []byte, seed uint64) {
	source := rand.NewChaCha8(digestOf(seed))
	_, _ = source.Read(b) // never fails
}

// redactionOf returns a redaction of the first event that batch adds to a head of the given size. by
// is the seq of the redacting event.
func redactionOf(size, by uint64) storage.Redaction {
	return storage.Redaction{Seq: size, RedactingSeq: by, Digests: []storage.Hash{digestOf(size)}}
}

// testConfigLogger returns the engine's logger for a Config with the given Fatal function.
func testConfigLogger(fatal func(string)) engine.Logger {
	return Config{Logger: silent(), Fatal: fatal}.options().Logger
}
