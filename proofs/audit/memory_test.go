package audit

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
)

const systemPrompt = "the system prompt"

const testOrigin = "ledger.example/default"

var errMissing = errors.New("the item is missing")

type tileID struct {
	level uint8
	index uint64
}

// memory is an in-memory log that tests can damage.
type memory struct {
	signer   *proofs.Signer
	head     Head
	entries  [][]byte // nil for a missing entry
	tiles    map[tileID][]byte
	contents map[proofs.Hash][]byte
	keys     map[proofs.Hash]Claim
	needs    map[proofs.Hash][]uint64 // maps the digest of a piece of content to the records that need it, in ascending order
	redacted map[uint64]uint64        // maps the seq of each redacted record to the seq of the event that redacted it
	secret   []byte                   // secret that keys the digests of payload members; nil if missing
	// fail, if set, is called before every read. If it returns an error, the read fails with that
	// error.
	fail func(what string) error
}

// testSecret keys the digests of payload members in the tests' logs. Records parsed with
// ledgerLimits use it.
var (
	testSecret   = members.NewSecret()
	ledgerLimits = record.DefaultLimits().WithPayloadMemberSecret(testSecret)
)

func testSigner(t testing.TB, origin string, number byte) *proofs.Signer {
	t.Helper()
	signer, err := proofs.NewKey([ed25519.SeedSize]byte{number}).Signer(origin)
	require.NoError(t, err)
	return signer
}

// newMemory returns a valid log with size events, the first of which creates the ledger. Every
// third event is a record with content, and every fifth has an idempotency key. Every seventh event
// refuses a record because it reuses the most recent of these keys, and every sixtieth redacts the
// last two records that have content.
func newMemory(t testing.TB, size int) *memory {
	t.Helper()
	m := &memory{
		signer:   testSigner(t, testOrigin, 1),
		contents: make(map[proofs.Hash][]byte), keys: make(map[proofs.Hash]Claim),
		needs: make(map[proofs.Hash][]uint64), redacted: make(map[uint64]uint64), secret: testSecret.Bytes(),
	}
	var holder uint64
	for seq := range uint64(size) {
		e := record.EventContext{Actor: "lab", Ledger: "default"}
		switch {
		case seq == 0:
			m.add(record.AppendLedgerCreated(nil, e, testOrigin, m.signer.Verifier().String(), testSecret))
		case seq%60 == 0:
			m.redact(seq, seq-6, seq-3)
			list := new(seqs.List)
			list.Append(seq - 6)
			list.Append(seq - 3)
			m.add(record.NewRedaction("r", list).AppendBodyPrefix(nil, e))
		case seq%3 == 0:
			m.post(t, e, seq, fmt.Sprintf(`"system_prompt":%q,"output":"output %d"`, systemPrompt, seq))
		case seq%5 == 0:
			holder = seq
			key := testKey(seq)
			e.IdempotencyKeyDigest = &key
			m.post(t, e, seq, "")
		case seq%7 == 0 && holder > 0:
			key := testKey(holder)
			e.IdempotencyKeyDigest = &key
			r := testRecord(t, seq, "")
			m.add(r.AppendRefusal(nil, e, record.RefusalKeyConflict, holder))
		default:
			m.post(t, e, seq, "")
		}
	}
	m.head.Size = uint64(size)
	m.seal(t)
	return m
}

// testRecord returns a record for the event at seq. members holds additional JSON members and may
// be empty.
func testRecord(t testing.TB, seq uint64, members string) *record.Record {
	t.Helper()
	if members != "" {
		members = "," + members
	}
	r, err := ledgerLimits.ParseRecord(record.KindIPCRecord, fmt.Appendf(nil, `{"input_hash":"%x","model":"m","temperature":0.5,"max_tokens":16,"seed":%d%s}`, testKey(seq), seq, members))
	require.NoError(t, err)
	return r
}

// post appends a record to the log and stores its content and its idempotency key.
func (m *memory) post(t testing.TB, e record.EventContext, seq uint64, members string) {
	t.Helper()
	r := testRecord(t, seq, members)
	for _, c := range r.Contents {
		m.contents[c.Digest] = slices.Clone(c.Bytes)
		m.needs[c.Digest] = append(m.needs[c.Digest], seq)
	}
	if e.IdempotencyKeyDigest != nil {
		m.keys[*e.IdempotencyKeyDigest] = Claim{Seq: seq, RecordDigest: record.DigestWithKind(r.Kind, r.Digest)}
	}
	m.add(r.AppendBodyPrefix(nil, e))
}

func testKey(seq uint64) proofs.Hash {
	return sha256.Sum256(fmt.Appendf(nil, "key %d", seq))
}

// redact marks the given records as redacted by the event at by. It erases the content that no
// other record needs.
func (m *memory) redact(by uint64, seqs ...uint64) {
	for _, seq := range seqs {
		m.redacted[seq] = by
		for _, text := range []string{fmt.Sprintf("output %d", seq), systemPrompt} {
			digest := proofs.Hash(sha256.Sum256([]byte(text)))
			m.needs[digest] = slices.DeleteFunc(m.needs[digest], func(s uint64) bool { return s == seq })
			if len(m.needs[digest]) == 0 {
				delete(m.needs, digest)
				delete(m.contents, digest)
			}
		}
	}
}

// add appends an event to the log. body is the event body without its suffix.
func (m *memory) add(body []byte) {
	seq := uint64(len(m.entries))
	at := time.Date(2026, 1, 2, 3, 4, 5, int(seq)*1000, time.UTC)
	body = record.AppendBodySuffix(body, seq, at)
	m.entries = append(m.entries, proofs.AppendEntry(nil, m.head.Tip, body))
	m.head.Tip = proofs.EventHash(m.head.Tip, body)
	m.head.TimeMicros = at.UnixMicro()
}

// seal rebuilds the tiles from the entries and signs the checkpoint.
func (m *memory) seal(t testing.TB) {
	t.Helper()
	m.sign(t, m.signer, m.retile(t))
}

// retile rebuilds the tiles from the entries and returns the root.
func (m *memory) retile(t testing.TB) proofs.Hash {
	t.Helper()
	tree, err := proofs.OpenTree(0, nil, nil)
	require.NoError(t, err)
	for _, entry := range m.entries {
		tree.Append(proofs.LeafHash(entry))
	}
	m.tiles = make(map[tileID][]byte)
	for _, d := range tree.TakeDirtyTiles() {
		m.tiles[tileID{d.Level, d.Index}] = slices.Clone(d.Hashes)
	}
	return tree.Root()
}

func (m *memory) sign(t testing.TB, signer *proofs.Signer, root proofs.Hash) {
	t.Helper()
	signed, err := signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Size: uint64(len(m.entries)), Root: root})
	require.NoError(t, err)
	m.head.Checkpoint = signed
}

// relink makes the chain valid again after the entry at seq was changed.
func (m *memory) relink(seq int) {
	tip := proofs.Hash(m.entries[seq][:proofs.HashSize])
	for i := seq; i < len(m.entries); i++ {
		m.entries[i] = proofs.AppendEntry(nil, tip, m.entries[i][proofs.HashSize:])
		tip = sha256.Sum256(m.entries[i])
	}
	m.head.Tip = tip
}

// clone returns a copy of the log that can be damaged without changing m.
func (m *memory) clone() *memory {
	c := *m
	c.entries = slices.Clone(m.entries)
	c.tiles = maps.Clone(m.tiles)
	c.contents = maps.Clone(m.contents)
	c.keys = maps.Clone(m.keys)
	c.needs = maps.Clone(m.needs)
	c.redacted = maps.Clone(m.redacted)
	return &c
}

func (m *memory) ask(ctx context.Context, what string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if m.fail != nil {
		return m.fail(what)
	}
	return nil
}

func (m *memory) Head(ctx context.Context) (Head, error) {
	head := m.head
	return head, m.ask(ctx, "head")
}

func (m *memory) Tile(ctx context.Context, level uint8, index uint64) ([]byte, error) {
	if err := m.ask(ctx, "tile"); err != nil {
		return nil, err
	}
	value, ok := m.tiles[tileID{level, index}]
	if !ok {
		return nil, errMissing
	}
	return value, nil
}

// Entries yields an error at a missing entry. It ends without an error after the last entry.
func (m *memory) Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for seq := from; seq < uint64(len(m.entries)); seq++ {
			err := m.ask(ctx, "entry")
			if err == nil && m.entries[seq] == nil {
				err = errMissing
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(slices.Clone(m.entries[seq]), nil) {
				return
			}
		}
	}
}

func (m *memory) Content(ctx context.Context, digest proofs.Hash) ([]byte, error) {
	if err := m.ask(ctx, "content"); err != nil {
		return nil, err
	}
	content, ok := m.contents[digest]
	if !ok {
		return nil, fmt.Errorf("content: %w", ErrNotFound)
	}
	return content, nil
}

func (m *memory) PayloadMemberSecret(ctx context.Context) ([]byte, error) {
	if err := m.ask(ctx, "member secret"); err != nil {
		return nil, err
	}
	if m.secret == nil {
		return nil, fmt.Errorf("member secret: %w", ErrNotFound)
	}
	return m.secret, nil
}

func (m *memory) FirstReference(ctx context.Context, digest proofs.Hash) (uint64, error) {
	if err := m.ask(ctx, "need"); err != nil {
		return 0, err
	}
	if len(m.needs[digest]) == 0 {
		return 0, fmt.Errorf("need: %w", ErrNotFound)
	}
	return m.needs[digest][0], nil
}

func (m *memory) HasReference(ctx context.Context, digest proofs.Hash, seq uint64) (bool, error) {
	return slices.Contains(m.needs[digest], seq), m.ask(ctx, "referenced")
}

func (m *memory) Redactions(ctx context.Context) iter.Seq2[Redaction, error] {
	return func(yield func(Redaction, error) bool) {
		for seq, by := range m.redacted {
			err := m.ask(ctx, "redactions")
			if !yield(Redaction{RecordSeq: seq, RedactingSeq: by}, err) || err != nil {
				return
			}
		}
	}
}

func (m *memory) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	if err := m.ask(ctx, "redaction"); err != nil {
		return 0, err
	}
	by, ok := m.redacted[seq]
	if !ok {
		return 0, fmt.Errorf("redaction: %w", ErrNotFound)
	}
	return by, nil
}

func (m *memory) KeyClaim(ctx context.Context, key proofs.Hash) (Claim, error) {
	if err := m.ask(ctx, "key"); err != nil {
		return Claim{}, err
	}
	claim, ok := m.keys[key]
	if !ok {
		return Claim{}, errMissing
	}
	return claim, nil
}
