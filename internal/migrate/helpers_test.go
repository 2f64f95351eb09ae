package migrate

import (
	"bytes"
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/server"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/storage"
	"colophon/storage/pebble"
	"colophon/storage/postgres"
	"colophon/storage/postgres/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// console returns a console, and the buffer that receives its standard error.
func console() (c *cli.Console, out *bytes.Buffer) {
	out = new(bytes.Buffer)
	return cli.New(bytes.NewReader(nil), io.Discard, out, func(string) (string, bool) { return "", false }), out
}

// emptyURL returns the URL of an empty schema.
func emptyURL(t *testing.T) string {
	s := postgrestest.SharedServer(t)
	return s.URL("search_path", s.CreateSchema(t))
}

// openNode opens a server on a data folder. If store is not empty, the log is in that database.
func openNode(t *testing.T, data, store string) *server.Node {
	t.Helper()
	n, err := openedNode(t, data, store)
	require.NoError(t, err)
	return n
}

func openedNode(t *testing.T, data, store string) (*server.Node, error) {
	t.Helper()
	return server.OpenNode(context.Background(), server.Config{DataDir: data, StoreURL: store}.WithDefaults(), datadir.KeyFiles(data), slog.New(slog.DiscardHandler))
}

// serve runs a server until stop is called. url is the URL of the ledger "default".
func serve(t *testing.T, data, store string) (url string, stop func()) {
	t.Helper()
	n := openNode(t, data, store)
	service, err := api.New(api.Config{Host: n.Host, Index: n.Index, SpoolDir: datadir.SpoolFolder(data), Version: "test"})
	require.NoError(t, err)
	listening := httptest.NewServer(service)
	return listening.URL + "/v1/ledgers/" + ledger.DefaultName, func() {
		listening.Close()
		require.NoError(t, n.Close())
	}
}

// everyKind creates a data folder with two ledgers. "default" has every kind of event, a rotated
// key, and a public log; "old" is frozen.
func everyKind(t *testing.T) *ledgertest.Ledger {
	t.Helper()
	l := ledgertest.NewPopulated(t, 40)
	n := openNode(t, l.DataDir, "")
	ctx := t.Context()
	_, err := n.Host.RotateKey(ctx, ledger.DefaultName, ledger.AnonymousActor)
	require.NoError(t, err)
	of, err := n.Host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, of.SetLogPublic(ctx, true))
	old, err := n.Host.Create(ctx, ledger.CreateOptions{Name: "old", MismatchPolicy: ledger.MismatchPolicyReject})
	require.NoError(t, err)
	require.NoError(t, old.Freeze(ctx))
	require.NoError(t, n.Close())
	return l
}

func openFolder(t *testing.T, dir string) *pebble.Database {
	t.Helper()
	database, err := pebble.Open(t.Context(), pebble.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return database
}

// openPostgres opens a database for reading, even if a migration has locked it.
func openPostgres(t *testing.T, url string) *postgres.Database {
	t.Helper()
	database, err := postgres.Open(t.Context(), postgres.Config{URL: url, ReadOnly: true, IgnoreMigrationLock: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return database
}

// stored holds everything that a reader can get from the store of a ledger.
type stored struct {
	Info       storage.LedgerInfo
	Head       storage.Head
	Entries    [][]byte
	Tiles      map[[2]uint64][]byte
	Contents   map[storage.Hash][]byte
	References map[storage.Hash][]uint64
	Redactions []storage.Redaction
	Keys       map[storage.Hash]storage.Claim
	Settings   map[string]string
}

// read reads all ledgers of a database and returns them keyed by name.
func read(t *testing.T, database storage.Database) map[string]stored {
	t.Helper()
	ctx := t.Context()
	infos, err := database.Ledgers(ctx)
	require.NoError(t, err)
	all := make(map[string]stored)
	for _, info := range infos {
		from, err := database.Ledger(ctx, info.Name)
		require.NoError(t, err)
		info.Created = info.Created.Truncate(1000) // PostgreSQL stores times with a resolution of one microsecond
		all[info.Name] = readLedger(t, from, info)
	}
	return all
}

func readLedger(t *testing.T, from storage.Reader, info storage.LedgerInfo) stored {
	t.Helper()
	ctx := t.Context()
	s := stored{Info: info, Tiles: make(map[[2]uint64][]byte), Contents: make(map[storage.Hash][]byte),
		References: make(map[storage.Hash][]uint64), Keys: make(map[storage.Hash]storage.Claim), Settings: make(map[string]string)}
	var err error
	s.Head, err = from.Head(ctx)
	require.NoError(t, err)
	var decoder event.Decoder
	for entry, err := range from.Entries(ctx, 0) {
		require.NoError(t, err)
		s.Entries = append(s.Entries, bytes.Clone(entry.Bytes))
		e, err := decoder.Decode(entry.Bytes)
		require.NoError(t, err)
		if key := e.IdempotencyKey(); key != nil {
			if claim, err := from.KeyClaim(ctx, *key); err == nil {
				s.Keys[*key] = claim
			} else {
				require.ErrorIs(t, err, storage.ErrNotFound)
			}
		}
		for piece := range e.Contents() {
			content, err := from.Content(ctx, piece.Digest)
			if err != nil {
				require.ErrorIs(t, err, storage.ErrNotFound)
				continue
			}
			s.Contents[piece.Digest], s.References[piece.Digest] = content, nil
			for seq, err := range from.References(ctx, piece.Digest) {
				require.NoError(t, err)
				s.References[piece.Digest] = append(s.References[piece.Digest], seq)
			}
		}
	}
	for level, index := uint8(0), uint64(0); ; index++ {
		tile, err := from.Tile(ctx, level, index)
		if err != nil {
			require.ErrorIs(t, err, storage.ErrNotFound)
			if index == 0 {
				break
			}
			level, index = level+1, ^uint64(0)
			continue
		}
		s.Tiles[[2]uint64{uint64(level), index}] = tile
	}
	for redaction, err := range from.Redactions(ctx) {
		require.NoError(t, err)
		s.Redactions = append(s.Redactions, redaction)
	}
	for _, name := range ledger.SettingNames() {
		value, err := from.Setting(ctx, name)
		if err == nil {
			s.Settings[name] = string(value)
		}
	}
	return s
}

// damagedReader reads a log as if it had one kind of damage.
type damagedReader struct {
	storage.Reader
	entry, end                             uint64 // seq of the entry that is changed, and seq of the first entry that is missing
	noContent, badContent, tip, checkpoint bool
	signed                                 []byte // replaces the checkpoint if it is not nil
}

func (r *damagedReader) Head(ctx context.Context) (storage.Head, error) {
	head, err := r.Reader.Head(ctx)
	if r.tip {
		head.Tip[0] ^= 1
	}
	if r.checkpoint {
		head.Checkpoint = bytes.Replace(head.Checkpoint, []byte("\n"), []byte("x\n"), 1)
	}
	if r.signed != nil {
		head.Checkpoint = r.signed
	}
	return head, err
}

func (r *damagedReader) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range r.Reader.Entries(ctx, from) {
			if entry.Seq == r.end {
				return
			}
			if entry.Seq == r.entry {
				entry.Bytes = bytes.Replace(entry.Bytes, []byte("anonymous"), []byte("anonymouz"), 1)
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

func (r *damagedReader) Content(ctx context.Context, digest storage.Hash) ([]byte, error) {
	content, err := r.Reader.Content(ctx, digest)
	switch {
	case r.noContent:
		return nil, storage.ErrNotFound
	case r.badContent:
		return append(content, 'x'), err
	}
	return content, err
}

// erasingReader reads a log and calls erase just before it reads a certain piece of content. at is
// the number of that piece, counting from 1.
type erasingReader struct {
	storage.Reader
	at    int
	erase func() // nil once it has been called
}

func (r *erasingReader) Content(ctx context.Context, digest storage.Hash) ([]byte, error) {
	if r.at--; r.at == 0 {
		r.erase()
		r.erase = nil
	}
	return r.Reader.Content(ctx, digest)
}
