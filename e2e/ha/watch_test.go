package ha_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"colophon/proofs"
)

// watch reads and verifies the checkpoints of a ledger from all servers until ctx is done, and adds
// them to h. Its connections are not affected by faults.
func watch(ctx context.Context, group *sync.WaitGroup, servers []*server, key *proofs.Verifier, h *history) {
	for _, s := range servers {
		group.Go(func() {
			for ctx.Err() == nil {
				if c, note := checkpoint(s, key, h); note != nil {
					h.signed(c, note)
				}
				time.Sleep(150 * time.Millisecond)
			}
		})
	}
}

// checkpoint reads a ledger's checkpoint from a server and verifies it. The note is nil if the server
// returns no checkpoint or an invalid one.
func checkpoint(s *server, key *proofs.Verifier, h *history) (proofs.Checkpoint, []byte) {
	note := get(s.url + "/v1/ledgers/" + h.ledger + "/log/checkpoint")
	if note == nil {
		return proofs.Checkpoint{}, nil
	}
	c, err := proofs.OpenCheckpoint(note, key)
	if err != nil {
		h.broken("verifying the checkpoint of %s: %w:\n%s", s.name, err, note)
		return c, nil
	}
	return c, note
}

// get returns the body of the response if its status is 200, and nil otherwise.
func get(url string) []byte {
	answer, err := quick.Get(url) // #nosec G107 -- of the test
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return nil
	}
	return text
}

// witness checks that each checkpoint of a ledger extends the previous one. It reads every checkpoint and
// consistency proof from a random server.
func witness(ctx context.Context, group *sync.WaitGroup, servers []*server, key *proofs.Verifier, h *history) {
	group.Go(func() {
		var last proofs.Checkpoint
		for ctx.Err() == nil {
			time.Sleep(300 * time.Millisecond)
			s := servers[rand.IntN(len(servers))] // #nosec G404 -- cases of tests
			next, note := checkpoint(s, key, h)
			if note == nil || next.Size == last.Size {
				continue
			}
			older, newer := last, next
			if older.Size > newer.Size {
				older, newer = newer, older
			}
			if older.Size > 0 {
				text := get(fmt.Sprintf("%s/v1/ledgers/%s/proofs/consistency?first=%d&second=%d", s.url, h.ledger, older.Size, newer.Size))
				if text == nil {
					continue
				}
				var answer struct{ Hashes []hash }
				if err := json.Unmarshal(text, &answer); err != nil {
					h.broken("parsing a consistency proof: %w: %s", err, text)
					continue
				}
				path := make([]proofs.Hash, len(answer.Hashes))
				for i := range path {
					path[i] = proofs.Hash(answer.Hashes[i])
				}
				if err := proofs.VerifyConsistency(older.Size, newer.Size, older.Root, newer.Root, path); err != nil {
					h.broken("the witness found that checkpoint %d of %s does not extend checkpoint %d: %w", newer.Size, s.name, older.Size, err)
				}
			}
			if next.Size > last.Size {
				last = next
			}
		}
	})
}

// hash is a hash that is encoded in JSON as hexadecimal digits.
type hash proofs.Hash

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hash) UnmarshalText(text []byte) error {
	if len(text) > 2*len(h) {
		return fmt.Errorf("a hash has %d digits", len(text))
	}
	n, err := hex.Decode(h[:], text)
	if err == nil && n != len(h) {
		err = fmt.Errorf("a hash has %d bytes", n)
	}
	return err
}

// follow runs colophon audit --follow on a ledger of the given server.
func follow(t testing.TB, binary, dir string, s *server, key *proofs.Verifier, ledger string) *process {
	t.Helper()
	return start(t, dir, "audit-"+ledger, nil, binary, "audit", s.url+"/v1/ledgers/"+ledger, "--key", key.String(),
		"--state", filepath.Join(dir, ledger+".state"), "--follow", "--interval", "2s", "--timeout", "10s")
}
