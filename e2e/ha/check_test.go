package ha_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"colophon/proofs"
)

// storedLog is the log of a ledger, read directly from the database.
type storedLog struct {
	events []proofs.Hash          // hash of each event, indexed by seq
	roots  map[uint64]proofs.Hash // root hash of the tree of each requested size, keyed by size
	found  map[int]uint64         // seq of the event of each attempt, keyed by attempt ID
}

// readLog reads the log of a ledger. It returns an error if the events do not form a single chain
// or if an attempt occurs twice. The result includes the root of the tree at each of the given
// sizes.
func readLog(ctx context.Context, conn *pgx.Conn, ledger string, sizes map[uint64]bool) (*storedLog, error) {
	rows, err := conn.Query(ctx, `SELECT e.seq, e.bytes FROM colophon_entries e JOIN colophon_ledgers l ON l.number = e.ledger
		JOIN colophon_heads h ON h.ledger = l.number WHERE l.name = $1 AND e.seq < h.size ORDER BY e.seq`, ledger)
	if err != nil {
		return nil, err
	}
	log := &storedLog{roots: make(map[uint64]proofs.Hash), found: make(map[int]uint64)}
	var tree compact
	var seq uint64
	var entry []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &entry}, func() error {
		if seq != uint64(len(log.events)) {
			return fmt.Errorf("event %d is missing", len(log.events))
		}
		prev, body, err := proofs.SplitEntry(entry)
		if err != nil {
			return fmt.Errorf("parsing the entry of event %d: %w", seq, err)
		}
		if seq > 0 && prev != log.events[seq-1] {
			return fmt.Errorf("event %d does not link to event %d", seq, seq-1)
		}
		var e struct {
			Record struct{ Labels map[string]string }
		}
		if err := json.Unmarshal(body, &e); err != nil {
			return fmt.Errorf("parsing the body of event %d: %w", seq, err)
		}
		if label, posted := e.Record.Labels["attempt"]; posted {
			id, err := strconv.Atoi(label)
			if err != nil {
				return err
			}
			if first, twice := log.found[id]; twice {
				return fmt.Errorf("attempt %d is recorded twice, as event %d and as event %d", id, first, seq)
			}
			log.found[id] = seq
		}
		log.events = append(log.events, proofs.EventHash(prev, body))
		tree.add(proofs.LeafHash(entry))
		if sizes[tree.size] {
			log.roots[tree.size] = tree.root()
		}
		return nil
	})
	return log, err
}

// compact holds the roots of the complete subtrees of a tree, largest first.
type compact struct {
	size  uint64
	roots []proofs.Hash
}

func (c *compact) add(leaf proofs.Hash) {
	c.roots = append(c.roots, leaf)
	for n := c.size; n&1 == 1; n >>= 1 {
		last := len(c.roots) - 1
		c.roots = append(c.roots[:last-1], proofs.NodeHash(c.roots[last-1], c.roots[last]))
	}
	c.size++
}

func (c *compact) root() proofs.Hash {
	root := c.roots[len(c.roots)-1]
	for i := len(c.roots) - 2; i >= 0; i-- {
		root = proofs.NodeHash(c.roots[i], root)
	}
	return root
}

// compare compares the receipts and checkpoints that clients and witnesses received with the log in
// the database. It also requires that the history is linearizable.
func (h *history) compare(ctx context.Context, conn *pgx.Conn, key *proofs.Verifier, begin time.Time) error {
	h.mu.Lock()
	wrong := h.wrong
	notes, sizes := make([][]byte, 0, len(h.checkpoints)), make(map[uint64]bool)
	for _, note := range h.checkpoints {
		notes = append(notes, note)
	}
	for _, a := range h.appends {
		if p := a.receipt.Proof; p != nil {
			notes = append(notes, p.Checkpoint)
			if err := a.receipt.Verify(key); err != nil {
				wrong = append(wrong, fmt.Errorf("verifying the receipt of event %d: %w", a.receipt.Seq, err))
			}
		}
	}
	h.mu.Unlock()
	signed := make([]proofs.Checkpoint, 0, len(notes))
	for _, note := range notes {
		c, err := proofs.OpenCheckpoint(note, key)
		if err != nil {
			return errors.Join(append(wrong, err)...)
		}
		signed, sizes[c.Size] = append(signed, c), true
	}
	log, err := readLog(ctx, conn, h.ledger, sizes)
	if err != nil {
		return errors.Join(append(wrong, err)...)
	}
	for _, c := range signed {
		if root, there := log.roots[c.Size]; !there || root != c.Root {
			wrong = append(wrong, fmt.Errorf("a signed checkpoint of size %d has the root %x, but the log, of size %d, has %x", c.Size, c.Root, len(log.events), root))
		}
	}
	lost := 0
	for _, a := range h.appends {
		if r := a.receipt; r.Seq >= uint64(len(log.events)) || log.events[r.Seq] != r.EventHash {
			if lost++; lost <= 3 {
				wrong = append(wrong, fmt.Errorf("LOST: attempt %d was acknowledged as event %d, %x", a.id, r.Seq, r.EventHash))
			}
		}
	}
	if lost > 0 {
		wrong = append([]error{fmt.Errorf("%d acknowledged receipts are LOST", lost)}, wrong...)
	}
	if err := linearizable(h.operations(begin)); err != nil {
		wrong = append(wrong, err)
	}
	if len(wrong) > 10 {
		wrong = append(wrong[:10], fmt.Errorf("and %d more", len(wrong)-10))
	}
	return errors.Join(wrong...)
}
