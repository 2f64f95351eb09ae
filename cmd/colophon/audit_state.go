package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/safefile"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// Formats of the state file. The first had no checksums; of it, the checkpoints that were
// seen are taken over, and the log is walked again.
const (
	auditStateVersion = 2
	firstStateVersion = 1
)

// auditState is what an auditor remembers from one audit to the next, as JSON in a
// file; what it remembers of single events is in a folder beside it.
type auditState struct {
	Version      int      `json:"version"`
	Ledger       string   `json:"ledger"`
	Origin       string   `json:"origin"`
	VerifierKeys []string `json:"verifier_keys"`
	// Checkpoint is the last signed note that was seen and is an extension of those
	// before. Unproved are those seen since of which no such thing was shown, 63 at most.
	Checkpoint string   `json:"checkpoint"`
	Unproved   []string `json:"unproved,omitempty"`
	// What was walked: so many entries, the event_hash and time of the last, and the
	// compact range of the tree: the roots of its complete subtrees, the largest first.
	Size         uint64   `json:"size"`
	Tip          string   `json:"tip"`
	Time         string   `json:"time"`
	CompactRange []string `json:"compact_range"`
	KeyUses      uint64   `json:"key_uses"`
	// KeysChecked is how many of the entries are known not to misuse the keys of others.
	KeysChecked uint64 `json:"keys_checked"`
	// Keys are those of the log as its events say, in the form of log/key; absent before
	// the first.
	Keys *proofs.KeyHistory `json:"keys,omitempty"`
	// Tally counts what the events that were walked say.
	Tally audit.Tally `json:"tally"`
	// Checked says when what was last found good, by its name.
	Checked map[string]checkedAt `json:"checked"`
	// Files are the lengths and checksums of the files in the folder.
	Files map[string]fileSum `json:"files"`
	// Checksum is the SHA-256 of this file with an empty checksum, in every later version too.
	Checksum string `json:"checksum"`
}

// checkedAt is the size of a log when something of it was last found good, and the time.
type checkedAt struct {
	Size uint64 `json:"size"`
	Time string `json:"time"` // RFC 3339, UTC
}

// encode is the state file, with its checksum.
func (s auditState) encode() ([]byte, error) {
	s.Checksum = ""
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	before, after, _ := cutChecksum(text, 0)
	return slices.Concat(before, []byte(checksumOf(text)), after), nil
}

// cutChecksum splits a state file at its checksum, which has that number of digits.
func cutChecksum(text []byte, digits int) (before, after []byte, found bool) {
	const name = `"checksum": "`
	at := bytes.LastIndex(text, []byte(name)) + len(name)
	if at < len(name) || len(text) < at+digits {
		return nil, nil, false
	}
	return text[:at], text[at+digits:], true
}

// checkSum checks the checksum of a state file, whatever its version.
func checkSum(text []byte) error {
	digits := hex.EncodedLen(sha256.Size)
	before, after, found := cutChecksum(text, digits)
	if !found {
		return errors.New("its checksum is missing")
	}
	says, makes := string(text[len(before):len(before)+digits]), checksumOf(slices.Concat(before, after))
	if says != makes {
		return fmt.Errorf("its checksum is %q, its contents make it %s", says, makes)
	}
	return nil
}

func checksumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// errStateDamaged: the state is not as an audit has written it.
var errStateDamaged = errors.New("the state is damaged")

// auditMemory is the state of an audit under way.
type auditMemory struct {
	file    string    // empty: nothing is kept
	lock    io.Closer // keeps other audits out; nil where nothing is kept
	past    *pastFiles
	at      audit.Position
	uses    uint64               // of idempotency keys up to there
	checked uint64               // entries whose uses of keys were compared with those before
	seen    []seenNote           // each signed, the oldest first
	keys    []*proofs.Verifier   // trusted, as the auditor has found them
	done    map[string]checkedAt // when what was last found good
	// converted: the state is of an earlier version, and the log is walked again.
	converted     bool
	convertedKeys *proofs.KeyHistory // as the state of version 1 had them
}

// openAuditMemory reads the state file, which may be absent. One of another log than that
// of the known keys is refused, and one that another audit has.
func openAuditMemory(file string, known []*proofs.Verifier) (*auditMemory, error) {
	m := &auditMemory{file: file, done: make(map[string]checkedAt)}
	if file == "" {
		dir, err := os.MkdirTemp("", "colophon-audit-")
		if err != nil {
			return nil, fmt.Errorf("making a temporary folder (TMPDIR says where): %w", err)
		}
		if m.past, err = newPast(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return m, nil
	}
	if err := m.lockState(); err != nil {
		return nil, err
	}
	if err := m.open(known); err != nil {
		return nil, errors.Join(err, m.lock.Close())
	}
	return m, nil
}

// open reads the state file and what is beside it.
func (m *auditMemory) open(known []*proofs.Verifier) error {
	text, err := safefile.Read(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return m.begin()
	}
	if err != nil {
		return cli.Refused("--state: %w", err)
	}
	err = m.read(text, known)
	switch {
	case errors.Is(err, errStateDamaged):
		return cli.Refused("--state: %s: %w\nThis says nothing about the ledger: a disk or a program has changed what the last audit wrote. "+
			"Put back copies of this file and of %s that were made together. Without copies, remove both to audit the log from its beginning, without knowing what was seen before; "+
			"give what checkpoints you have with --against", m.file, err, m.dir())
	case err != nil:
		return cli.Refused("--state: %s: %w\nName another file, or remove this one and %s to audit the log from its beginning, without knowing what was seen before", m.file, err, m.dir())
	}
	return nil
}

// begin begins a state, where there is none of a file that was lost.
func (m *auditMemory) begin() error {
	if info, err := os.Stat(filepath.Join(m.dir(), factsFile)); err == nil && info.Size() > 0 {
		return cli.Refused("--state: %s is not there, but %s is, of an audit before: what that had seen would be forgotten\n"+
			"Put the file back, or remove the folder too to audit the log from its beginning", m.file, m.dir())
	}
	var err error
	if m.past, err = newPast(m.dir()); err != nil {
		return cli.Refused("--state: %w", err)
	}
	return nil
}

// dir is the folder beside the state file.
func (m *auditMemory) dir() string { return m.file + ".d" }

// read takes over a state of the log that one of the known keys is of.
func (m *auditMemory) read(text []byte, known []*proofs.Verifier) error {
	var version struct{ Version int }
	err := json.Unmarshal(text, &version)
	if err == nil && version.Version != firstStateVersion {
		err = checkSum(text)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errStateDamaged, err)
	}
	if version.Version != auditStateVersion && version.Version != firstStateVersion {
		return fmt.Errorf("it has version %d, this program knows %d: use the program that has written it", version.Version, auditStateVersion)
	}
	var s auditState
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("%w: %w", errStateDamaged, err)
	}
	own := func(v *proofs.Verifier) bool {
		return slices.Contains(s.VerifierKeys, v.String()) || s.Keys != nil && s.Keys.Trusts(v)
	}
	if !slices.ContainsFunc(known, own) {
		return fmt.Errorf("it is the state of another log, %q: none of its verifier keys is given", s.Origin)
	}
	if s.Keys != nil {
		known = addKeys(s.Keys.Verifiers(), known...)
	}
	if s.Version == firstStateVersion {
		return m.convert(&s, known)
	}
	m.at, m.uses, m.checked = audit.Position{Size: s.Size, Time: s.Time, Ledger: s.Ledger, Keys: s.Keys, Tally: s.Tally}, s.KeyUses, s.KeysChecked
	if s.Checked != nil {
		m.done = s.Checked
	}
	if err := m.readSeen(&s, known); err != nil {
		return err
	}
	if m.at.Tip, err = proofs.ParseHash(s.Tip); err != nil {
		return fmt.Errorf("its tip: %w", err)
	}
	if err := s.checkKeys(); err != nil {
		return err
	}
	return m.readFolder(&s)
}

// convert takes over the checkpoints of a state without checksums. They are signed, so
// that no damage of it can make them others; all else the log shows once more.
func (m *auditMemory) convert(s *auditState, known []*proofs.Verifier) (err error) {
	if s.Checksum != "" || s.Files != nil {
		return fmt.Errorf("%w: a state of version %d has no checksums", errStateDamaged, s.Version)
	}
	if err := m.readSeen(s, known); err != nil {
		return fmt.Errorf("%w: %w", errStateDamaged, err)
	}
	m.converted, m.convertedKeys = true, s.Keys
	m.past, err = newPast(m.dir())
	return err
}

// history is that of the log's keys as an earlier walk has seen it; nil if there was none.
func (m *auditMemory) history() *proofs.KeyHistory {
	if m.at.Keys == nil {
		return m.convertedKeys
	}
	return m.at.Keys
}

// readSeen opens the notes that were seen.
func (m *auditMemory) readSeen(s *auditState, known []*proofs.Verifier) error {
	for _, note := range append([]string{s.Checkpoint}, s.Unproved...) {
		checkpoint, err := proofs.OpenCheckpoint([]byte(note), known...)
		if err != nil {
			return fmt.Errorf("its checkpoint: %w", err)
		}
		if checkpoint.Origin != s.Origin {
			return fmt.Errorf("it is the state of another log: its origin is %q, its checkpoint's %q", s.Origin, checkpoint.Origin)
		}
		m.seen = append(m.seen, seenNote{checkpoint, []byte(note)})
	}
	return nil
}

// checkpoints are those that were seen, and who has seen them.
func (m *auditMemory) checkpoints() []audit.Seen {
	var seen []audit.Seen
	for i, s := range m.seen {
		by := "the last audit"
		if i > 0 {
			by = "an audit that has not found it to be of the same log"
		}
		seen = append(seen, audit.Seen{Checkpoint: s.Checkpoint, By: by})
	}
	return seen
}

// checkKeys checks that the keys are of a log of the state's size.
func (s *auditState) checkKeys() error {
	switch {
	case s.Size > 0 && s.Keys == nil:
		return errors.New("it does not say who signs")
	case s.Keys != nil && s.Keys.Changes() > 0 && s.Keys.Replaced()[0].ReplacedAt >= s.Size:
		return fmt.Errorf("its keys changed at event %d, it is of %d events", s.Keys.Replaced()[0].ReplacedAt, s.Size)
	}
	return nil
}

// readFolder opens what is in the folder, and takes the root from it: the files must have
// their checksums, and the tiles there must be those of the compact range. What is refused
// stays as it was.
func (m *auditMemory) readFolder(s *auditState) (err error) {
	past, err := lookPast(m.dir())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, past.Close())
		}
	}()
	if err := past.check(m.at.Size, m.uses, s.Files); err != nil {
		return fmt.Errorf("%w: %w", errStateDamaged, err)
	}
	tree, err := proofs.OpenTree(m.at.Size, past.Tile, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", m.dir(), err)
	}
	if !slices.Equal(s.CompactRange, hexHashes(tree.Snapshot().CompactRange())) {
		return fmt.Errorf("its compact range is not that of %s", m.dir())
	}
	m.at.Root, m.past = tree.Root(), past
	return m.cut()
}

// cut has the folder forget what is behind the walk. Keys that were not checked are looked at again.
func (m *auditMemory) cut() error {
	if m.checked != m.at.Size {
		m.past.recheck()
	}
	return m.past.cut()
}

// come notes how far the walk has come, which is as far as what is remembered goes.
func (m *auditMemory) come(at audit.Position) error {
	if err := m.past.mark(); err != nil {
		return err
	}
	m.at, m.uses = at, m.past.uses
	return nil
}

// rewind forgets what was remembered beyond how far the walk has come.
func (m *auditMemory) rewind() error {
	if err := m.cut(); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

// save writes the state as a whole, or not at all.
func (m *auditMemory) save() error {
	if m.file == "" || len(m.seen) == 0 {
		return nil
	}
	if err := m.past.Sync(); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	tree, err := proofs.OpenTree(m.at.Size, m.past.Tile, nil)
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	s := auditState{
		Version: auditStateVersion, Ledger: m.at.Ledger, Origin: m.seen[0].Origin, Checkpoint: string(m.seen[0].note),
		Size: m.at.Size, Tip: hex.EncodeToString(m.at.Tip[:]), Time: m.at.Time, CompactRange: hexHashes(tree.Snapshot().CompactRange()), KeyUses: m.uses, KeysChecked: m.checked, Keys: m.at.Keys, Tally: m.at.Tally, Checked: m.done, Files: m.past.files(),
	}
	for _, n := range m.seen[1:] {
		s.Unproved = append(s.Unproved, string(n.note))
	}
	for _, key := range m.keys {
		s.VerifierKeys = append(s.VerifierKeys, key.String())
	}
	text, err := s.encode()
	if err != nil {
		return err
	}
	if err := datadir.ReplaceFile(m.file, text); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

// close lets go of what is remembered; what is not to be kept is removed.
func (m *auditMemory) close() error {
	err := m.past.Close()
	if m.file == "" {
		return errors.Join(err, os.RemoveAll(m.past.dir))
	}
	return errors.Join(err, m.lock.Close())
}

// hexHashes are hashes as the state file has them.
func hexHashes(hashes []proofs.Hash) []string {
	texts := make([]string, len(hashes))
	for i, h := range hashes {
		texts[i] = hex.EncodeToString(h[:])
	}
	return texts
}
