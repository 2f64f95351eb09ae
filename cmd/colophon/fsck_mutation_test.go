package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/pebble"
	"colophon/storage/pebble/pebbletest"
	"colophon/storage/storagetest"
)

// newFsckWorld creates a data folder with three ledgers. The ledger "default" has events of every
// kind. The ledger "second" has a batch, a replay, a refusal, a key rotation, and shared and redacted
// content, and is frozen. The ledger "empty" has no records.
func newFsckWorld(t *testing.T) string {
	t.Helper()
	w := ledgertest.New(t, 3, 5, 260)
	url, stop := ledgertest.Serve(t, w.DataDir)
	base := strings.TrimSuffix(url, remote.LedgerPath(ledger.DefaultName))
	must := func(status int, method, url, body, kind string) {
		t.Helper()
		got, answer := ledgertest.Send(t, method, url, body, kind)
		require.Equal(t, status, got, "%s %s: %s", method, url, answer)
	}
	must(http.StatusCreated, "POST", base+"/v1/ledgers", `{"name":"second"}`, "application/json")
	must(http.StatusCreated, "POST", base+"/v1/ledgers", `{"name":"empty"}`, "application/json")
	second := base + remote.LedgerPath("second")
	record := func(run, output string) string {
		return fmt.Sprintf(`{"run_id":%q,"payload":{"q":%q},"system_prompt":"Be brief.","output":%q,"model":"m","temperature":0.5,"max_tokens":9}`, run, run, output)
	}
	line := func(run, output string) string { return `{"kind":"ipc_record","record":` + record(run, output) + "}\n" }
	// Lines 1 and 2 of the batch have the same output. Line 3 is replayed, and line 4 is refused.
	must(http.StatusOK, "POST", second+"/batch", line("one", "Shared.")+line("two", "Shared.")+line("one", "Shared.")+line("two", "Other."), "application/x-ndjson")
	must(http.StatusCreated, "POST", second+"/keys", `{"step":"rotate"}`, "application/json")
	must(http.StatusCreated, "POST", second+"/ipc-records", record("three", "Three."), "application/json")
	must(http.StatusOK, "POST", second+"/ipc-records", record("one", "Shared."), "application/json")
	must(http.StatusCreated, "POST", second+"/keys", `{"step":"retire"}`, "application/json")
	// The record that first referred to the shared output is redacted. The other record still needs
	// the output.
	must(http.StatusCreated, "DELETE", second+"/records/1/content", `{"reason":"r"}`, "application/json")
	must(http.StatusOK, "PUT", second+"/visibility", `{"log":"public"}`, "application/json")
	must(http.StatusOK, "POST", second+"/freeze", ``, "application/json")
	must(http.StatusCreated, "POST", url+"/ipc-records", record("last", "Shared."), "application/json")
	stop()
	return w.DataDir
}

// fsckKeys runs fsck on a database that contains exactly the given keys and values. It uses the
// signing keys and marks in the folder data. It runs fsck again with a database that can read pages, and
// returns an error if the findings differ.
func fsckKeys(ctx context.Context, data string, all []pebbletest.KeyValue) (findings []finding, err error) {
	files := vfs.NewMem()
	if err := pebbletest.Load(files, "db", all); err != nil {
		return nil, err
	}
	c := cli.New(strings.NewReader(""), io.Discard, io.Discard, func(string) (string, bool) { return "", false })
	database, err := pebble.Open(ctx, pebble.Config{Dir: "db", FS: files, Logger: c.WarningLogger(), ReadOnly: true, CacheBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	findings, err = checkLedgers(ctx, c, fsckOptions{data: data}, database)
	again, againErr := checkLedgers(ctx, c, fsckOptions{data: data}, withPages{database})
	if with, without := fmt.Sprint(again, againErr), fmt.Sprint(findings, err); with != without {
		err = errors.Join(err, fmt.Errorf("with pages, fsck finds %s", with))
	}
	return findings, errors.Join(err, database.Close())
}

// withPages is a database whose ledgers can read pages, as those in PostgreSQL can.
type withPages struct{ *pebble.Database }

// Ledger implements storage.Database.
func (d withPages) Ledger(ctx context.Context, name string) (storage.Store, error) {
	store, err := d.Database.Ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	return storagetest.WithPages(store), nil
}

// damagesOf returns the text of each finding that has damage, followed by the text of err.
func damagesOf(findings []finding, err error) (damages []string) {
	for _, f := range findings {
		if f.Damage != nil {
			damages = append(damages, f.String())
		}
	}
	if err != nil {
		damages = append(damages, err.Error())
	}
	return damages
}

// withPending adds the key of a pending erasure, in the same format as a commit that erases
// content.
func withPending(t *testing.T, all []pebbletest.KeyValue, ledgerNumber uint32, seq uint64, slot uint16, digest storage.Hash, at int64) []pebbletest.KeyValue {
	t.Helper()
	key := binary.BigEndian.AppendUint32([]byte{'x', 0, 0, 0, 0, 'C'}, ledgerNumber)
	key = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(key, seq), slot)
	value := append(binary.BigEndian.AppendUint64(nil, uint64(at)), digest[:]...)
	return put(all, key, value)
}

func sorted(all []pebbletest.KeyValue) []pebbletest.KeyValue {
	slices.SortFunc(all, func(a, b pebbletest.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return all
}

// put returns a copy of all in which the key has the given value. If value is nil, the copy does
// not contain the key.
func put(all []pebbletest.KeyValue, key, value []byte) []pebbletest.KeyValue {
	changed := slices.DeleteFunc(slices.Clone(all), func(kv pebbletest.KeyValue) bool { return bytes.Equal(kv.Key, key) })
	if value != nil {
		changed = append(changed, pebbletest.KeyValue{Key: key, Value: value})
	}
	return sorted(changed)
}

// familyOf returns the kind of a stored key, such as "entry" or "content".
func familyOf(key []byte) string {
	switch {
	case key[0] == 0:
		return "format"
	case key[0] == 'd' && len(key) == 5+32:
		return "place"
	case key[0] == 'd':
		return "reference"
	}
	return map[byte]string{'C': "content", 'E': "entry", 'h': "head", 'i': "info", 'k': "claim", 'l': "last", 'n': "name",
		'r': "redaction", 's': "setting", 't': "tile", 'x': "erasure"}[key[0]]
}

// keyMutation is a change to the stored keys. all holds the keys and values after the change.
type keyMutation struct {
	name string
	all  []pebbletest.KeyValue
}

// mutationsOf returns changes to the key all[i]. They delete the key, change or swap its value,
// copy the key to other ledgers, or add similar keys.
func mutationsOf(all []pebbletest.KeyValue, i int) (list []keyMutation) {
	kv := all[i]
	add := func(name string, changed []pebbletest.KeyValue) {
		if !slices.EqualFunc(changed, all, func(a, b pebbletest.KeyValue) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }) {
			list = append(list, keyMutation{name, changed})
		}
	}
	add("delete", put(all, kv.Key, nil))
	for _, at := range []int{0, len(kv.Value) / 2, len(kv.Value) - 1} {
		if at >= 0 && at < len(kv.Value) {
			value := bytes.Clone(kv.Value)
			value[at] ^= 1
			add(fmt.Sprint("flip byte ", at), put(all, kv.Key, value))
		}
	}
	add("lengthen", put(all, kv.Key, append(bytes.Clone(kv.Value), 1)))
	if len(kv.Value) > 0 {
		add("shorten", put(all, kv.Key, kv.Value[:len(kv.Value)-1]))
		add("empty", put(all, kv.Key, []byte{}))
	}
	if i+1 < len(all) && familyOf(all[i+1].Key) == familyOf(kv.Key) {
		next := all[i+1]
		add("swap", put(put(all, kv.Key, next.Value), next.Key, kv.Value))
	}
	if len(kv.Key) >= 5 && kv.Key[0] != 0 {
		for number := range uint32(5) {
			key := bytes.Clone(kv.Key)
			at := 1
			if familyOf(key) == "erasure" {
				at = 6
			}
			binary.BigEndian.PutUint32(key[at:], number)
			add(fmt.Sprint("under ledger ", number), put(all, key, kv.Value))
		}
	}
	for _, step := range []byte{1, 7} {
		key := bytes.Clone(kv.Key)
		key[len(key)-1] += step
		add(fmt.Sprint("add a neighbour, ", step), put(all, key, kv.Value))
	}
	add("add a longer key", put(all, append(bytes.Clone(kv.Key), 0), kv.Value))
	if len(kv.Key) > 5 {
		key := bytes.Clone(kv.Key)
		key[5] ^= 0x40
		add("add a key far away", put(all, key, kv.Value))
		add("add a shorter key", put(all, kv.Key[:len(kv.Key)-1], kv.Value))
	}
	return list
}

// harmless returns the reason why fsck does not have to report a change to a key of the given
// family, or "" if fsck must report it.
func harmless(family, change string) string {
	switch {
	case family == "setting" && (change == "delete" || strings.HasPrefix(change, "under ledger")):
		return "no event states the visibility of a log, and an administrator can change it at any time"
	case family == "erasure" && change == "delete":
		return "erased bytes can remain in files, but no key states this"
	case family == "erasure" && strings.HasPrefix(change, "flip byte"):
		return "the time of the note is used only by a metric, and fsck checks that it is within the times of the log"
	case family == "erasure" && strings.HasPrefix(change, "add a neighbour"):
		return "the next start searches again for bytes of a redacted record, and finds none"
	case family == "info" && strings.HasPrefix(change, "flip byte"):
		return "no event states the time at which a ledger was created"
	}
	return ""
}

// fsck reports every change to a single key, unless harmless returns a reason.
func TestEveryKeyIsChecked(t *testing.T) {
	data := newFsckWorld(t)
	all, err := pebbletest.Dump(nil, datadir.DatabaseFolder(data))
	require.NoError(t, err)
	requireClean := func(all []pebbletest.KeyValue) {
		t.Helper()
		findings, err := fsckKeys(t.Context(), data, all)
		require.Empty(t, damagesOf(findings, err))
		require.Len(t, findings, 3)
	}
	requireClean(all)
	all = pendingErasure(t, data, all)
	requireClean(all)

	families := make(map[string]int)
	for _, kv := range all {
		families[familyOf(kv.Key)]++
	}
	for _, family := range []string{"format", "place", "reference", "content", "entry", "head", "info", "claim", "last", "name", "redaction", "setting", "tile", "erasure"} {
		require.Positive(t, families[family], family)
	}
	const most = 4 // a larger family is sampled, with this many keys on average
	dice := rand.New(rand.NewPCG(1, 2))
	tried, allowed := 0, 0
	for i, kv := range all {
		family := familyOf(kv.Key)
		if n := families[family]; n > most && dice.IntN(n) >= most {
			continue
		}
		for _, m := range mutationsOf(all, i) {
			findings, err := fsckKeys(t.Context(), data, m.all)
			damages := damagesOf(findings, err)
			tried++
			if len(damages) == 0 && harmless(family, m.name) != "" {
				allowed++
				continue
			}
			if len(damages) == 0 {
				t.Errorf("%s %x: %s: fsck reports no damage", family, kv.Key, m.name)
			}
			for _, text := range damages {
				require.Regexp(t, "DAMAGED: |storage: (damaged|unknown format)|another program|is missing, but its signing key", text)
			}
		}
	}
	t.Logf("%d changes, %d of them harmless", tried, allowed)
}

// pendingErasure adds the key of a pending erasure. The erased content belongs to a redacted record and
// is no longer stored.
func pendingErasure(t *testing.T, data string, all []pebbletest.KeyValue) []pebbletest.KeyValue {
	t.Helper()
	database, err := pebble.Open(t.Context(), pebble.Config{Dir: datadir.DatabaseFolder(data), ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, database.Close()) }()
	store, err := database.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	head, err := store.Head(t.Context())
	require.NoError(t, err)
	for r, err := range store.Redactions(t.Context()) {
		require.NoError(t, err)
		entry, err := store.Entry(t.Context(), r.Seq)
		require.NoError(t, err)
		digest, err := contentOf(entry[proofs.HashSize:])
		require.NoError(t, err)
		if _, err := store.Content(t.Context(), digest); errors.Is(err, storage.ErrNotFound) {
			return withPending(t, all, numberOf(t, all, ledger.DefaultName), r.Seq, 0, digest, head.TimeMicros)
		}
	}
	t.Fatal("no record has erased content")
	return nil
}

// numberOf returns the number that the database uses for a ledger in its keys.
func numberOf(t *testing.T, all []pebbletest.KeyValue, name string) uint32 {
	t.Helper()
	for _, kv := range all {
		if kv.Key[0] == 'n' && string(kv.Key[5:]) == name {
			return binary.BigEndian.Uint32(kv.Value)
		}
	}
	t.Fatal(hex.EncodeToString([]byte(name)))
	return 0
}

// fsck reports keys that were added or removed, with the kind and the position of the damage.
func TestFsckNamesStrays(t *testing.T) {
	data := newFsckWorld(t)
	all, err := pebbletest.Dump(nil, datadir.DatabaseFolder(data))
	require.NoError(t, err)
	number := numberOf(t, all, ledger.DefaultName)
	key := func(kind byte, rest ...any) []byte {
		k := binary.BigEndian.AppendUint32([]byte{kind}, number)
		for _, part := range rest {
			switch part := part.(type) {
			case uint64:
				k = binary.BigEndian.AppendUint64(k, part)
			case uint16:
				k = binary.BigEndian.AppendUint16(k, part)
			case byte:
				k = append(k, part)
			case storage.Hash:
				k = append(k, part[:]...)
			}
		}
		return k
	}
	var size, secret, plain uint64 // the tree size, and the seqs of a redacted and an unredacted record
	var event []byte
	var held, digest storage.Hash // digests of the unredacted and the redacted content
	ledgertest.WithStore(t, data, func(store storage.Reader) {
		head, err := store.Head(t.Context())
		require.NoError(t, err)
		size, plain = head.Size, head.Size-1
		for r, err := range store.Redactions(t.Context()) {
			require.NoError(t, err)
			secret = r.Seq
		}
		event, err = store.Entry(t.Context(), plain)
		require.NoError(t, err)
		held, err = contentOf(event[proofs.HashSize:])
		require.NoError(t, err)
		entry, err := store.Entry(t.Context(), secret)
		require.NoError(t, err)
		digest, err = contentOf(entry[proofs.HashSize:])
		require.NoError(t, err)
	})
	u32 := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	claim := append(bytes.Repeat([]byte{7}, 32), binary.BigEndian.AppendUint64(nil, plain)...)
	name := func(name string) []byte { return append([]byte{'n', 0, 0, 0, 0}, name...) }
	for what, c := range map[string]struct {
		key, value []byte
		want       string
	}{
		"erased bytes put back": {key('C', secret, uint16(0)), []byte("A secret."),
			fmt.Sprintf(`^default: DAMAGED: content: at entry %d: bytes are stored as content number 0 of the event, but event \d+ has redacted the event; copy the folder`, secret)},
		"erased bytes put back, and found": {key('d', digest), append(binary.BigEndian.AppendUint64(nil, secret), 0, 0),
			fmt.Sprintf(`^default: DAMAGED: content: "output", at entry %d: `, secret)},
		"orphaned bytes":         {key('C', plain, uint16(9)), []byte("x"), fmt.Sprintf(`^default: DAMAGED: content: at entry %d: bytes are stored as content number 9 of the event, but no record needs them`, plain)},
		"bytes beyond the head":  {key('C', size, uint16(0)), []byte("x"), fmt.Sprintf(`^default: DAMAGED: content: at entry %d: bytes are stored`, size)},
		"orphaned place":         {key('d', storage.Hash{9}), append(binary.BigEndian.AppendUint64(nil, plain), 0, 0), fmt.Sprintf(`^default: DAMAGED: content: at entry %d: content 09.* but the event does not name that content`, plain)},
		"reference without need": {key('d', held, plain+1), []byte{}, fmt.Sprintf(`^default: DAMAGED: content: at entry %d: content [0-9a-f]+ is kept for the event, but the event is beyond the head \(size %d\)`, size, size)},
		"entry beyond the head":  {key('E', size), event, fmt.Sprintf(`^default: DAMAGED: entry: at entry %d: the entry is stored, but it is beyond the head \(size %d\)`, size, size)},
		"tile beyond the head":   {key('t', byte(0), uint64(77)), make([]byte, 32), fmt.Sprintf(`^default: DAMAGED: tile: at size %d: tile 0/77 is stored`, size)},
		"planted claim":          {key('k', storage.Hash{9}), claim, fmt.Sprintf(`^default: DAMAGED: key: at entry %d: idempotency key 09.* a new record with this key would not be recorded`, plain)},
		"planted redaction":      {key('r', plain), binary.BigEndian.AppendUint64(nil, plain+1), `^default: DAMAGED: `},
		"unknown setting":        {append(key('s'), "rate"...), []byte("1"), `^default: DAMAGED: database: .*setting "rate": unknown setting`},
		"unknown kind":           {key('z'), []byte("1"), `^default: DAMAGED: database: .*the kind of key 7a[0-9a-f]{8} is unknown to this version`},
		"last number 0":          {[]byte{'l', 0, 0, 0, 0}, u32(0), `ledger "[a-z]+" has the number \d, but the last assigned number is 0$`},
		"more in a description":  {key('i'), bytes.Replace(valueOf(t, all, key('i')), []byte("{"), []byte(`{"erased":"A secret.",`), 1), `^default: DAMAGED: database: .*the stored description of the ledger is not in canonical form`},
		"another signature":      {key('h'), append(valueOf(t, all, key('h')), "\u2014 other.example AAAAAGVyYXNlZA==\n"...), `^default: DAMAGED: signature: .*the stored checkpoint has 2 signatures, but it must have 1 at this size`},
		"a gap in the numbers":   {[]byte{'l', 0, 0, 0, 0}, u32(4), `ledger number 4 was assigned, but no ledger name refers to it$`},
		"two names for a number": {name("twin"), u32(number), `ledger number 1 also belongs to ledger "default"$`},
		"a name for number 0":    {name("zero"), u32(0), `the ledger has number 0, which is never assigned$`},
		"a lost name":            {name("second"), nil, `was assigned, but no ledger name refers to it$`},
		"a head of no ledger":    {[]byte{'h', 0, 0, 0, 9}, make([]byte, 48), `the key 6800000009 belongs to ledger number 9, which does not exist$`},
	} {
		t.Run(what, func(t *testing.T) {
			findings, err := fsckKeys(t.Context(), data, put(all, c.key, c.value))
			damages := damagesOf(findings, err)
			require.Len(t, damages, 1)
			require.Regexp(t, c.want, damages[0])
		})
	}
}

// fsck reports pending erasures and does not change any file in the folder.
func TestFsckWritesNothing(t *testing.T) {
	data := newFsckWorld(t)
	all, err := pebbletest.Dump(nil, datadir.DatabaseFolder(data))
	require.NoError(t, err)
	all = pendingErasure(t, data, all)
	require.NoError(t, os.RemoveAll(datadir.DatabaseFolder(data)))
	require.NoError(t, os.MkdirAll(datadir.DatabaseFolder(data), 0o700))
	require.NoError(t, pebbletest.Load(nil, datadir.DatabaseFolder(data), all))
	before := readAll(t, data)
	o := commandLine(t.Context(), "fsck", "--data", data)
	require.Equal(t, cli.ExitOK, o.code, "%s%s", o.stdout, o.stderr)
	require.Regexp(t, `^colophon: the database files may still contain \d+ pieces? of erased content, which the server removes at its next start\n$`, o.stderr)
	require.Equal(t, before, readAll(t, data))
}

// readAll returns the contents of all files in a folder, keyed by path.
func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}))
	return all
}

// A server does not start if the ledger names in its database do not match its ledgers, or if the
// next new ledger would overwrite an existing one.
func TestServeRefusesHiddenLedgers(t *testing.T) {
	sound := newFsckWorld(t)
	all, err := pebbletest.Dump(nil, datadir.DatabaseFolder(sound))
	require.NoError(t, err)
	// Opening the database resumes pending erasures even if the ledgers are damaged. If none are
	// pending, opening it changes nothing.
	all = slices.DeleteFunc(all, func(kv pebbletest.KeyValue) bool { return kv.Key[0] == 'x' })
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	name := func(name string) []byte { return append([]byte{'n', 0, 0, 0, 0}, name...) }
	for what, c := range map[string]struct {
		key, value []byte
		says       string
	}{
		"last number 0":          {[]byte{'l', 0, 0, 0, 0}, number(0), "the last assigned number is 0"},
		"two names for a number": {name("twin"), number(1), `also belongs to ledger`},
		"another name":           {name("second"), number(1), `also belongs to ledger "default"`},
		"a lost name":            {name("second"), nil, "no ledger name refers to it"},
		"number 0":               {name("zero"), number(0), "which is never assigned"},
	} {
		t.Run(what, func(t *testing.T) {
			data := t.TempDir()
			require.NoError(t, os.CopyFS(datadir.KeyFiles(data).Dir, os.DirFS(datadir.KeyFiles(sound).Dir)))
			require.NoError(t, filepath.WalkDir(datadir.KeyFiles(data).Dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				return os.Chmod(path, 0o600)
			}))
			require.NoError(t, pebbletest.Load(nil, datadir.DatabaseFolder(data), put(all, c.key, c.value)))
			o := commandLine(t.Context(), "serve", "--data", data, "--listen", "127.0.0.1:0")
			require.Equal(t, cli.ExitDamaged, o.code, "%s%s", o.stdout, o.stderr)
			require.Contains(t, o.stderr, c.says)
			require.Contains(t, o.stderr, "Nothing was changed. Run \"colophon fsck --data "+data)
			after, err := pebbletest.Dump(nil, datadir.DatabaseFolder(data))
			require.NoError(t, err)
			require.Equal(t, put(all, c.key, c.value), after)
		})
	}
}

// fsck cannot check settings that no event contains, and both its help and the documentation say
// so.
func TestFsckCannotCheckSettings(t *testing.T) {
	data := newFsckWorld(t)
	all, err := pebbletest.Dump(nil, datadir.DatabaseFolder(data))
	require.NoError(t, err)
	info := binary.BigEndian.AppendUint32([]byte{'i'}, numberOf(t, all, ledger.DefaultName))
	i := slices.IndexFunc(all, func(kv pebbletest.KeyValue) bool { return bytes.Equal(kv.Key, info) })
	require.Positive(t, i)
	for _, change := range [][2]string{{`"frozen":false`, `"frozen":true`}, {`"reject_mismatch":false`, `"reject_mismatch":true`}, {`"created":"20`, `"created":"19`}} {
		require.Contains(t, string(all[i].Value), change[0])
		findings, err := fsckKeys(t.Context(), data, put(all, info, bytes.Replace(all[i].Value, []byte(change[0]), []byte(change[1]), 1)))
		require.Empty(t, damagesOf(findings, err), change[1])
	}
	for name, value := range map[string]string{"log": ledger.LogVisibilityPublic, "unregistered_sources": ledger.UnregisteredSourcesReject, "otlp_content": ledger.TelemetryContentHashes} {
		setting := append(binary.BigEndian.AppendUint32([]byte{'s'}, numberOf(t, all, ledger.DefaultName)), name...)
		findings, err := fsckKeys(t.Context(), data, put(all, setting, []byte(value)))
		require.Empty(t, damagesOf(findings, err), name)
	}
}

func valueOf(t *testing.T, all []pebbletest.KeyValue, key []byte) []byte {
	t.Helper()
	for _, kv := range all {
		if bytes.Equal(kv.Key, key) {
			return bytes.Clone(kv.Value)
		}
	}
	t.Fatalf("no key %x", key)
	return nil
}
