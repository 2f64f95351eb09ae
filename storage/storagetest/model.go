package storagetest

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/storage"
)

// The sets of values are small, so that operations reuse names, digests, keys, settings, and tiles.
func modelNames() []string { return []string{"one", "two"} }
func modelWords() []string { return []string{"p", "q", "r", "s", "t"} }
func modelLevels() []uint8 { return []uint8{0, 1} }

// modelLedger is a simple model of a ledger: it holds what reads must return after the commits so
// far.
type modelLedger struct {
	info       storage.LedgerInfo
	head       storage.Head
	entries    []string
	tiles      map[[2]uint64]int // number of hashes, keyed by level and index
	contents   map[string]string
	references map[string][]uint64 // maps a word to the seqs of the records that need the content with digest hash(word)
	redactions map[uint64]uint64   // maps the seq of a record to the seq of the event that redacted it
	keys       map[string]storage.Claim
	settings   map[string]string
}

// machine applies the same operations to a database and to the model.
type machine struct {
	t       *testing.T
	suite   *suite
	db      storage.Database
	ledgers map[string]*modelLedger
}

// testModel runs random sequences of operations and compares the database with the model after each
// one.
func testModel(t *testing.T, s *suite) {
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{t: t, suite: s, db: s.open(t), ledgers: make(map[string]*modelLedger)}
		defer func() { require.NoError(t, m.db.Close()) }()
		m.create(r)
		actions := map[string]func(*rapid.T){
			"":         m.check,
			"create":   m.create,
			"commit":   m.commit,
			"commit 2": m.commit, // the same action again, to make commits more likely
			"stale":    m.stale,
			"freeze":   m.freeze,
			"setting":  m.setting,
		}
		if s.reopen != nil {
			actions["reopen"] = func(*rapid.T) { m.db = s.reopen(t, m.db) }
		}
		r.Repeat(actions)
	})
}

// pick returns a random ledger from the database, and its model.
func (m *machine) pick(r *rapid.T) (storage.Store, *modelLedger) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(m.ledgers))).Draw(r, "ledger")
	store, err := m.db.Ledger(m.t.Context(), name)
	require.NoError(r, err)
	return store, m.ledgers[name]
}

func (m *machine) create(r *rapid.T) {
	i := info(rapid.SampledFrom(modelNames()).Draw(r, "name"))
	_, err := m.db.CreateLedger(m.t.Context(), i)
	if m.ledgers[i.Name] != nil {
		require.ErrorIs(r, err, storage.ErrConflict)
		return
	}
	require.NoError(r, err)
	m.ledgers[i.Name] = &modelLedger{
		info:       i,
		tiles:      make(map[[2]uint64]int),
		contents:   make(map[string]string),
		references: make(map[string][]uint64),
		redactions: make(map[uint64]uint64),
		keys:       make(map[string]storage.Claim),
		settings:   make(map[string]string),
	}
}

func (m *machine) commit(r *rapid.T) {
	store, model := m.pick(r)
	next, b := model.draw(r)
	err := store.Commit(m.t.Context(), model.head, b)
	if model.info.Frozen {
		require.ErrorIs(r, err, storage.ErrFrozen)
		return
	}
	require.NoError(r, err)
	m.ledgers[model.info.Name] = next
}

// draw draws a random batch. It returns a copy of the model to which the batch has been applied,
// and the batch itself.
func (model *modelLedger) draw(r *rapid.T) (*modelLedger, storage.Batch) {
	word := rapid.SampledFrom(modelWords())
	next := model.clone()
	b := follow(model.head, rapid.SliceOfN(rapid.StringN(0, 40, 200), 1, 4).Draw(r, "entries")...)
	for i, e := range b.Entries {
		next.entries = append(next.entries, string(e))
		if rapid.Bool().Draw(r, "key") {
			name := word.Draw(r, "key name")
			key := storage.Claim{KeyDigest: hash(name), RecordDigest: hash(string(e)), Seq: model.head.Size + uint64(i)}
			next.keys[name] = key
			b.Claims = append(b.Claims, key)
		}
	}
	next.head = b.Head
	next.drawRedactions(r, &b, model.head.Size)
	next.drawContents(r, &b, model.head.Size)
	if rapid.Bool().Draw(r, "tile") {
		level, index := rapid.SampledFrom(modelLevels()).Draw(r, "level"), rapid.Uint64Max(1).Draw(r, "index")
		at := [2]uint64{uint64(level), index}
		next.tiles[at] = rapid.IntRange(max(1, next.tiles[at]), storage.HashesPerTile).Draw(r, "hashes")
		b.Tiles = []storage.Tile{tile(level, index, next.tiles[at])}
	}
	return next, b
}

func (model *modelLedger) clone() *modelLedger {
	next := *model
	next.entries = slices.Clone(model.entries)
	next.tiles = maps.Clone(model.tiles)
	next.contents = maps.Clone(model.contents)
	next.references = maps.Clone(model.references)
	next.redactions = maps.Clone(model.redactions)
	next.keys = maps.Clone(model.keys)
	return &next
}

// stale tries to commit a batch that extends a head other than the stored one, which must fail.
func (m *machine) stale(r *rapid.T) {
	store, model := m.pick(r)
	old := model.head
	if old.Size > 0 && rapid.Bool().Draw(r, "fork") {
		old.Tip = hash("another history")
	} else {
		old.Size++
	}
	b := follow(old, "stale")
	if model.head.Size > 0 {
		b.Redactions = []storage.Redaction{redaction(0, old.Size, modelWords()...)}
	}
	want := storage.ErrConflict
	if model.info.Frozen {
		want = storage.ErrFrozen
	}
	require.ErrorIs(r, store.Commit(m.t.Context(), old, b), want)
}

// freeze freezes a ledger, but only rarely, because few operations are possible on a frozen ledger.
func (m *machine) freeze(r *rapid.T) {
	if rapid.IntRange(0, 9).Draw(r, "freeze") > 0 {
		r.Skip("only a few steps freeze a ledger")
	}
	store, model := m.pick(r)
	require.NoError(r, store.Freeze(m.t.Context()))
	model.info.Frozen = true
}

func (m *machine) setting(r *rapid.T) {
	store, model := m.pick(r)
	name := rapid.SampledFrom(modelWords()).Draw(r, "setting")
	value := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(r, "value")
	require.NoError(r, store.SetSetting(m.t.Context(), name, value))
	model.settings[name] = string(value)
}

// check compares everything that can be read from the database with the models.
func (m *machine) check(r *rapid.T) {
	ctx := m.t.Context()
	infos, err := m.db.Ledgers(ctx)
	require.NoError(r, err)
	require.Len(r, infos, len(m.ledgers))
	for _, i := range infos {
		model := m.ledgers[i.Name]
		require.Equal(r, model.info, i)
		store, err := m.db.Ledger(ctx, i.Name)
		require.NoError(r, err)
		got, err := store.Info(ctx)
		require.NoError(r, err)
		require.Equal(r, model.info, got)
		m.checkLog(r, store, model)
		m.checkWords(r, store, model)
		m.checkPage(r, store, model)
		m.checkRedactions(r, store, model)
	}
}

func (m *machine) checkLog(r *rapid.T, store storage.Store, model *modelLedger) {
	ctx := m.t.Context()
	head, err := store.Head(ctx)
	require.NoError(r, err)
	require.Equal(r, model.head, head)
	from := rapid.IntRange(0, len(model.entries)).Draw(r, "from")
	next := from
	for e, err := range store.Entries(ctx, uint64(from)) {
		require.NoError(r, err)
		require.Equal(r, uint64(next), e.Seq)
		require.Equal(r, model.entries[next], string(e.Bytes))
		next++
	}
	require.Equal(r, len(model.entries), next)
	if from < next {
		e, err := store.Entry(ctx, uint64(from))
		require.NoError(r, err)
		require.Equal(r, model.entries[from], string(e))
	}
	_, err = store.Entry(ctx, uint64(next))
	require.ErrorIs(r, err, storage.ErrNotFound)
	for _, level := range modelLevels() {
		for index := range uint64(2) {
			hashes, err := store.Tile(ctx, level, index)
			if n := model.tiles[[2]uint64{uint64(level), index}]; n == 0 {
				require.ErrorIs(r, err, storage.ErrNotFound)
			} else {
				require.NoError(r, err)
				require.True(r, bytes.Equal(tile(level, index, n).Hashes, hashes))
			}
		}
	}
}

// checkWords checks that the content, references, key, and setting stored for each word match the
// model.
func (m *machine) checkWords(r *rapid.T, store storage.Store, model *modelLedger) {
	ctx := m.t.Context()
	for _, word := range modelWords() {
		text, err := store.Content(ctx, hash(word))
		requireFound(r, model.contents, word, string(text), err)
		var references []uint64
		for seq, err := range store.References(ctx, hash(word)) {
			require.NoError(r, err)
			references = append(references, seq)
		}
		require.Equal(r, model.references[word], references)
		key, err := store.KeyClaim(ctx, hash(word))
		requireFound(r, model.keys, word, key, err)
		value, err := store.Setting(ctx, word)
		requireFound(r, model.settings, word, string(value), err)
	}
}

// requireFound requires that a read returned the model's value for word. If the model has no such
// value, the read must have returned ErrNotFound.
func requireFound[V any](r *rapid.T, model map[string]V, word string, got V, err error) {
	want, held := model[word]
	if !held {
		require.ErrorIs(r, err, storage.ErrNotFound)
		return
	}
	require.NoError(r, err)
	require.Equal(r, want, got)
}
