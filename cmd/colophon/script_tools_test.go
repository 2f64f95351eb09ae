package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
	"colophon/storage/pebble"
	"colophon/storage/pebble/pebbletest"
)

func writeFile(ts *testscript.TestScript, name string, text []byte) {
	ts.Check(os.WriteFile(ts.MkAbs(name), text, 0o600))
}

// scriptGenerate writes an input file for import. Each line contains a different record, without a
// run_id:
//
//	generate LINES FILE
func scriptGenerate(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var text bytes.Buffer
	for i := range n {
		fmt.Fprintf(&text, `{"kind":"ipc_record","record":{"payload":{"seed":%d},"system_prompt":"Be brief.","output":"Text %d.","model":"m","temperature":0.5,"max_tokens":16}}`+"\n", i, i)
	}
	writeFile(ts, args[1], text.Bytes())
}

// scriptEdit copies a file and replaces the first match of a pattern. It fails if there is no match
// or if the text would not change:
//
//	edit FROM TO PATTERN TEXT
func scriptEdit(ts *testscript.TestScript, _ bool, args []string) {
	before := ts.ReadFile(args[0])
	at := regexp.MustCompile(args[2]).FindStringIndex(before)
	if at == nil || before[at[0]:at[1]] == args[3] {
		ts.Fatalf("%s has nothing to replace", args[0])
	}
	writeFile(ts, args[1], []byte(before[:at[0]]+args[3]+before[at[1]:]))
}

// scriptCompress compresses a file. Usage: compress gzip|zstd FROM TO.
func scriptCompress(ts *testscript.TestScript, _ bool, args []string) {
	var text bytes.Buffer
	switch plain := []byte(ts.ReadFile(args[1])); args[0] {
	case "gzip":
		z := gzip.NewWriter(&text)
		_, err := z.Write(plain)
		ts.Check(err)
		ts.Check(z.Close())
	case "zstd":
		z, err := zstd.NewWriter(&text)
		ts.Check(err)
		_, err = z.Write(plain)
		ts.Check(err)
		ts.Check(z.Close())
	default:
		ts.Fatalf("compress %s: unknown", args[0])
	}
	writeFile(ts, args[2], text.Bytes())
}

// scriptHead copies the first BYTES bytes of a file or, if BYTES is negative, all but the last
// -BYTES bytes. Usage: head BYTES FROM TO.
func scriptHead(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	text := ts.ReadFile(args[1])
	if n < 0 {
		n += len(text)
	}
	writeFile(ts, args[2], []byte(text[:n]))
}

// scriptLongLine appends a line of BYTES bytes to a file. Usage: long-line BYTES FILE.
func scriptLongLine(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	writeFile(ts, args[1], []byte(ts.ReadFile(args[1])+strings.Repeat("x", n)+"\n"))
}

// scriptMode requires that a file has the given permissions. Usage: mode OCTAL FILE.
func scriptMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// scriptDamage changes the stored data of the ledger "default" in a data folder, without
// invalidating the checksums of the files:
//
//	damage entry|swap|tile|content|truncate|checkpoint|redaction|reference DATA SEQ
func scriptDamage(ts *testscript.TestScript, _ bool, args []string) {
	seq, err := strconv.ParseUint(args[2], 10, 64)
	ts.Check(err)
	ctx := context.Background()
	dir := datadir.DatabaseFolder(ts.MkAbs(args[1]))
	database, err := pebble.Open(ctx, pebble.Config{Dir: dir})
	ts.Check(err)
	store, err := database.Ledger(ctx, ledger.DefaultName)
	ts.Check(err)
	change, err := damageOf(ctx, args[0], store, seq)
	ts.Check(err)
	ts.Check(database.Close())
	tamper, err := pebbletest.OpenTamperer(nil, dir, ledger.DefaultName)
	ts.Check(err)
	ts.Check(change(tamper))
	ts.Check(tamper.Close())
}

// scriptFlip flips one bit in every file that matches a glob pattern, as a failing disk might:
//
//	flip PATTERN BYTE
func scriptFlip(ts *testscript.TestScript, _ bool, args []string) {
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(names) == 0 {
		ts.Fatalf("no file matches %s", args[0])
	}
	for _, name := range names {
		text := []byte(ts.ReadFile(name))
		text[at] ^= 1
		writeFile(ts, name, text)
	}
}

// damageOf reads the data that is to be damaged, and returns a function that damages it.
func damageOf(ctx context.Context, what string, store storage.Reader, seq uint64) (func(*pebbletest.Tamperer) error, error) {
	entry, err := store.Entry(ctx, seq)
	if err != nil {
		return nil, err
	}
	switch what {
	case "entry":
		changed := bytes.Replace(entry, []byte(`"actor":"anonymous"`), []byte(`"actor":"somebodyX"`), 1)
		return func(t *pebbletest.Tamperer) error { return t.SetEntry(seq, changed) }, nil
	case "swap":
		next, err := store.Entry(ctx, seq+1)
		return func(t *pebbletest.Tamperer) error {
			if err := t.SetEntry(seq, next); err != nil {
				return err
			}
			return t.SetEntry(seq+1, entry)
		}, err
	case "tile":
		tile, err := store.Tile(ctx, 0, seq/storage.HashesPerTile)
		tile[seq%storage.HashesPerTile*storage.HashSize] ^= 1
		return func(t *pebbletest.Tamperer) error { return t.SetTile(0, seq/storage.HashesPerTile, tile) }, err
	case "content":
		digest, err := contentOf(entry[proofs.HashSize:])
		return func(t *pebbletest.Tamperer) error { return t.SetContent(digest, []byte("other")) }, err
	case "redaction": // make the last event the redaction event of the record
		head, err := store.Head(ctx)
		return func(t *pebbletest.Tamperer) error { return t.SetRedaction(seq, head.Size-1) }, err
	case "reference":
		digest, err := contentOf(entry[proofs.HashSize:])
		return func(t *pebbletest.Tamperer) error { return t.DeleteReference(digest, seq) }, err
	case "truncate":
		return func(t *pebbletest.Tamperer) error { return t.DeleteEntry(seq) }, nil
	case "checkpoint":
		head, err := store.Head(ctx)
		head.Checkpoint = bytes.Replace(head.Checkpoint, []byte("\n"+strconv.FormatUint(head.Size, 10)+"\n"), []byte("\n"+strconv.FormatUint(seq, 10)+"\n"), 1)
		return func(t *pebbletest.Tamperer) error { return t.SetHead(head) }, err
	}
	return nil, fmt.Errorf("damage %s: unknown", what)
}

// contentOf returns the digest that an event states for the content "output".
func contentOf(event []byte) (storage.Hash, error) {
	var e struct {
		Record struct {
			Content map[string]struct {
				SHA256 string `json:"sha256"`
			} `json:"content"`
		} `json:"record"`
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return storage.Hash{}, err
	}
	return proofs.ParseHash(e.Record.Content["output"].SHA256)
}

// scriptForge signs an event whose checks falsely have the result "match". It writes a receipt for
// the event and the verifier key to files:
//
//	forge RECORD RECEIPT KEY
func scriptForge(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	signer, err := proofs.GenerateKey().Signer("forger.example")
	ts.Check(err)
	store, err := memory.New().CreateLedger(ctx, storage.LedgerInfo{Name: "default", Origin: signer.Origin()})
	ts.Check(err)
	l, err := ledger.Open(ctx, store, ledger.Config{Signer: signer})
	ts.Check(err)
	defer l.Close()
	r, err := record.Parse(record.KindIPCRecord, []byte(ts.ReadFile(args[0])))
	ts.Check(err)
	defer r.Release()
	s, err := l.PrepareRecord(r, ledger.AnonymousActor, "")
	ts.Check(err)
	honest := regexp.MustCompile(`"output_hash":\{"claimed":"[0-9a-f]*","computed":"[0-9a-f]*","result":"mismatch"\}`)
	s.Body = honest.ReplaceAll(s.Body, []byte(`"output_hash":{"result":"match"}`))
	ack, err := l.Submit(s)
	ts.Check(err)
	receipt, err := proofs.NewReceipt(ack.Entry)
	ts.Check(err)
	path, err := l.Prover(ctx, ack.Head).InclusionProof(ack.Seq, ack.Head.Size)
	ts.Check(err)
	receipt.Proof = &proofs.ReceiptProof{
		Event:      ack.Entry[proofs.HashSize:],
		Inclusion:  proofs.InclusionProof{LeafIndex: ack.Seq, TreeSize: ack.Head.Size, Hashes: path},
		Checkpoint: ack.Head.Checkpoint,
	}
	writeFile(ts, args[1], receipt.AppendJSON(nil))
	writeFile(ts, args[2], []byte(l.VerifierKey()))
}

// scriptMismatches requires that, for each run_id, the failed checks recorded in the ledger
// "default" are those listed in a file. Usage: mismatches FILE.
func scriptMismatches(ts *testscript.TestScript, _ bool, args []string) {
	var expected struct {
		Mismatches map[string][]string `json:"mismatches_by_run_id"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &expected))
	found := make(map[string][]string)
	size := treeSize(ts, ledger.DefaultName)
	for from := uint64(0); from < size; from += 100 {
		_, page := request(ts, http.MethodGet, fmt.Sprintf("/v1/ledgers/default/events?from=%d&limit=100", from), http.Header{}, nil)
		for line := range strings.Lines(string(page)) {
			var row struct {
				Event struct {
					Checks map[string]struct {
						Result record.CheckResult `json:"result"`
					} `json:"checks"`
					Record struct {
						RunID string `json:"run_id"`
					} `json:"record"`
				} `json:"event"`
			}
			ts.Check(json.Unmarshal([]byte(line), &row))
			for name, check := range row.Event.Checks {
				if check.Result == record.ResultMismatch {
					found[row.Event.Record.RunID] = append(found[row.Event.Record.RunID], name)
				}
			}
		}
	}
	for _, list := range []map[string][]string{expected.Mismatches, found} {
		for _, names := range list {
			slices.Sort(names)
		}
	}
	if !reflect.DeepEqual(found, expected.Mismatches) {
		ts.Fatalf("mismatches of %d runs, expected %d: %v", len(found), len(expected.Mismatches), found)
	}
}
