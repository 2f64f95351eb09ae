package monitor

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

// Formats of the state file. Version 1 had no checksums; its checkpoints are kept, and the log
// is walked again.
const (
	AuditStateVersion = 2
	FirstStateVersion = 1
)

// AuditState is what an auditor remembers between audits, as JSON in a file. Facts about
// single events are in a folder beside it.
type AuditState struct {
	Version      int      `json:"version"`
	Ledger       string   `json:"ledger"`
	Origin       string   `json:"origin"`
	VerifierKeys []string `json:"verifier_keys"`
	// Checkpoint is the last signed note that was seen and extends all earlier ones. Unproved
	// are later notes, at most 63, for which that was not shown.
	Checkpoint string   `json:"checkpoint"`
	Unproved   []string `json:"unproved,omitempty"`
	// What was walked: the number of entries, event_hash and time of the last one, and the
	// compact range of the tree (the roots of its complete subtrees, largest first).
	Size         uint64   `json:"size"`
	Tip          string   `json:"tip"`
	Time         string   `json:"time"`
	CompactRange []string `json:"compact_range"`
	KeyUses      uint64   `json:"key_uses"`
	// KeysChecked is the number of entries whose idempotency keys were compared with all
	// earlier ones.
	KeysChecked uint64 `json:"keys_checked"`
	// Keys are the log's keys according to its events, in the form of log/key; absent before
	// the first walk.
	Keys *proofs.KeyHistory `json:"keys,omitempty"`
	// Tally counts facts about the walked events.
	Tally audit.Tally `json:"tally"`
	// Checked holds, by the name of a check, when it last succeeded.
	Checked map[string]CheckedAt `json:"checked"`
	// Files has the lengths and checksums of the files in the folder.
	Files map[string]fileSum `json:"files"`
	// Checksum is the SHA-256 of this file with an empty checksum. Later versions keep it.
	Checksum string `json:"checksum"`
}

// CheckedAt is the size of a log at the last success of a check, and the time.
type CheckedAt struct {
	Size uint64 `json:"size"`
	Time string `json:"time"` // RFC 3339, UTC
}

// Encode returns the state file, with its checksum.
func (s AuditState) Encode() ([]byte, error) {
	s.Checksum = ""
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	before, after, _ := cutChecksum(text, 0)
	return slices.Concat(before, []byte(checksumOf(text)), after), nil
}

// cutChecksum splits a state file at its checksum, which has the given number of digits.
func cutChecksum(text []byte, digits int) (before, after []byte, found bool) {
	const name = `"checksum": "`
	at := bytes.LastIndex(text, []byte(name)) + len(name)
	if at < len(name) || len(text) < at+digits {
		return nil, nil, false
	}
	return text[:at], text[at+digits:], true
}

// checkSum verifies the checksum of a state file of any version.
func checkSum(text []byte) error {
	digits := hex.EncodedLen(sha256.Size)
	before, after, found := cutChecksum(text, digits)
	if !found {
		return errors.New("its checksum is missing")
	}
	says, makes := string(text[len(before):len(before)+digits]), checksumOf(slices.Concat(before, after))
	if says != makes {
		return fmt.Errorf("its checksum is %q, but its contents have %s", says, makes)
	}
	return nil
}

func checksumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ErrStateDamaged: the state was changed after an audit wrote it.
var ErrStateDamaged = errors.New("the state is damaged")

// State is the state of a running audit.
type State struct {
	File    string    // empty: nothing is remembered
	lock    io.Closer // excludes other audits; nil if nothing is remembered
	Past    *pastFiles
	At      audit.Position
	Uses    uint64               // uses of idempotency keys so far
	checked uint64               // entries whose idempotency keys were compared
	Seen    []SeenNote           // each signed, the oldest first
	keys    []*proofs.Verifier   // trusted keys
	done    map[string]CheckedAt // when each check last succeeded
	// converted: the state is of an earlier version, and the log is walked again.
	converted     bool
	convertedKeys *proofs.KeyHistory // from a state of version 1
}

// OpenAuditMemory reads the state file, which may be absent. It refuses a state of another log
// than that of the known keys, and one that another audit uses.
func OpenAuditMemory(file string, known []*proofs.Verifier) (*State, error) {
	m := &State{File: file, done: make(map[string]CheckedAt)}
	if file == "" {
		dir, err := os.MkdirTemp("", "colophon-audit-")
		if err != nil {
			return nil, fmt.Errorf("making a temporary folder (TMPDIR says where): %w", err)
		}
		if m.Past, err = NewPast(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return m, nil
	}
	if err := m.LockState(); err != nil {
		return nil, err
	}
	if err := m.open(known); err != nil {
		return nil, errors.Join(err, m.lock.Close())
	}
	return m, nil
}

// open reads the state file and the folder beside it.
func (m *State) open(known []*proofs.Verifier) error {
	text, err := safefile.Read(m.File)
	if errors.Is(err, fs.ErrNotExist) {
		return m.begin()
	}
	if err != nil {
		return cli.Refused("--state: %w", err)
	}
	err = m.read(text, known)
	switch {
	case errors.Is(err, ErrStateDamaged):
		return cli.Refused("--state: %s: %w\nThis says nothing about the ledger: a disk or a program has changed what the last audit wrote. "+
			"Put back copies of this file and of %s that were made together. Without copies, remove both to audit the log from its beginning, without knowing what was seen before; "+
			"give what checkpoints you have with --against", m.File, err, m.Dir())
	case err != nil:
		return cli.Refused("--state: %s: %w\nName another file, or remove this one and %s to audit the log from its beginning, without knowing what was seen before", m.File, err, m.Dir())
	}
	return nil
}

// begin begins a new state. It refuses to do so if only the file of an earlier state was lost.
func (m *State) begin() error {
	if info, err := os.Stat(filepath.Join(m.Dir(), FactsFile)); err == nil && info.Size() > 0 {
		return cli.Refused("--state: %s is not there, but %s is, of an audit before: what that had seen would be forgotten\n"+
			"Put the file back, or remove the folder too to audit the log from its beginning", m.File, m.Dir())
	}
	var err error
	if m.Past, err = NewPast(m.Dir()); err != nil {
		return cli.Refused("--state: %w", err)
	}
	return nil
}

// Dir returns the folder beside the state file.
func (m *State) Dir() string { return m.File + ".d" }

// read restores the state of a log that has one of the known keys.
func (m *State) read(text []byte, known []*proofs.Verifier) error {
	var version struct{ Version int }
	err := json.Unmarshal(text, &version)
	if err == nil && version.Version != FirstStateVersion {
		err = checkSum(text)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStateDamaged, err)
	}
	if version.Version != AuditStateVersion && version.Version != FirstStateVersion {
		return fmt.Errorf("it has version %d, this program knows %d: use the program that has written it", version.Version, AuditStateVersion)
	}
	var s AuditState
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("%w: %w", ErrStateDamaged, err)
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
	if s.Version == FirstStateVersion {
		return m.convert(&s, known)
	}
	m.At, m.Uses, m.checked = audit.Position{Size: s.Size, Time: s.Time, Ledger: s.Ledger, Keys: s.Keys, Tally: s.Tally}, s.KeyUses, s.KeysChecked
	if s.Checked != nil {
		m.done = s.Checked
	}
	if err := m.readSeen(&s, known); err != nil {
		return err
	}
	if m.At.Tip, err = proofs.ParseHash(s.Tip); err != nil {
		return fmt.Errorf("its tip: %w", err)
	}
	if err := s.checkKeys(); err != nil {
		return err
	}
	return m.readFolder(&s)
}

// convert restores the checkpoints of a state without checksums. They are signed, so damage
// cannot forge them. A walk restores the rest.
func (m *State) convert(s *AuditState, known []*proofs.Verifier) (err error) {
	if s.Checksum != "" || s.Files != nil {
		return fmt.Errorf("%w: a state of version %d has no checksums", ErrStateDamaged, s.Version)
	}
	if err := m.readSeen(s, known); err != nil {
		return fmt.Errorf("%w: %w", ErrStateDamaged, err)
	}
	m.converted, m.convertedKeys = true, s.Keys
	m.Past, err = NewPast(m.Dir())
	return err
}

// history returns the log's keys according to earlier walks; nil if there were none.
func (m *State) history() *proofs.KeyHistory {
	if m.At.Keys == nil {
		return m.convertedKeys
	}
	return m.At.Keys
}

// readSeen opens the notes in the state.
func (m *State) readSeen(s *AuditState, known []*proofs.Verifier) error {
	for _, note := range append([]string{s.Checkpoint}, s.Unproved...) {
		checkpoint, err := proofs.OpenCheckpoint([]byte(note), known...)
		if err != nil {
			return fmt.Errorf("its checkpoint: %w", err)
		}
		if checkpoint.Origin != s.Origin {
			return fmt.Errorf("it is the state of another log: its origin is %q, its checkpoint's %q", s.Origin, checkpoint.Origin)
		}
		m.Seen = append(m.Seen, SeenNote{checkpoint, []byte(note)})
	}
	return nil
}

// Checkpoints returns the checkpoints in the state, and their sources.
func (m *State) Checkpoints() []audit.Seen {
	var seen []audit.Seen
	for i, s := range m.Seen {
		by := "the last audit"
		if i > 0 {
			by = "an audit that has not found it to be of the same log"
		}
		seen = append(seen, audit.Seen{Checkpoint: s.Checkpoint, By: by})
	}
	return seen
}

// checkKeys checks that the keys fit the state's size.
func (s *AuditState) checkKeys() error {
	switch {
	case s.Size > 0 && s.Keys == nil:
		return errors.New("it does not say who signs")
	case s.Keys != nil && s.Keys.Changes() > 0 && s.Keys.Replaced()[0].ReplacedAt >= s.Size:
		return fmt.Errorf("its keys changed at event %d, it is of %d events", s.Keys.Replaced()[0].ReplacedAt, s.Size)
	}
	return nil
}

// readFolder opens the files in the folder: they must have their checksums, and the tiles must
// agree with the compact range. If it refuses the folder, it changes nothing.
func (m *State) readFolder(s *AuditState) (err error) {
	past, err := lookPast(m.Dir())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, past.Close())
		}
	}()
	if err := past.check(m.At.Size, m.Uses, s.Files); err != nil {
		return fmt.Errorf("%w: %w", ErrStateDamaged, err)
	}
	tree, err := proofs.OpenTree(m.At.Size, past.Tile, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Dir(), err)
	}
	if !slices.Equal(s.CompactRange, hexHashes(tree.Snapshot().CompactRange())) {
		return fmt.Errorf("its compact range is not that of %s", m.Dir())
	}
	m.At.Root, m.Past = tree.Root(), past
	return m.cut()
}

// cut removes from the folder what lies beyond the walk. Unchecked keys are checked again.
func (m *State) cut() error {
	if m.checked != m.At.Size {
		m.Past.recheck()
	}
	return m.Past.cut()
}

// Come records the progress of the walk.
func (m *State) Come(at audit.Position) error {
	if err := m.Past.mark(); err != nil {
		return err
	}
	m.At, m.Uses = at, m.Past.uses
	return nil
}

// Rewind removes what was remembered beyond the progress of the walk.
func (m *State) Rewind() error {
	if err := m.cut(); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

// Save replaces the state file atomically.
func (m *State) Save() error {
	if m.File == "" || len(m.Seen) == 0 {
		return nil
	}
	if err := m.Past.Sync(); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	tree, err := proofs.OpenTree(m.At.Size, m.Past.Tile, nil)
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	s := AuditState{
		Version: AuditStateVersion, Ledger: m.At.Ledger, Origin: m.Seen[0].Origin, Checkpoint: string(m.Seen[0].Note),
		Size: m.At.Size, Tip: hex.EncodeToString(m.At.Tip[:]), Time: m.At.Time, CompactRange: hexHashes(tree.Snapshot().CompactRange()), KeyUses: m.Uses, KeysChecked: m.checked, Keys: m.At.Keys, Tally: m.At.Tally, Checked: m.done, Files: m.Past.Files(),
	}
	for _, n := range m.Seen[1:] {
		s.Unproved = append(s.Unproved, string(n.Note))
	}
	for _, key := range m.keys {
		s.VerifierKeys = append(s.VerifierKeys, key.String())
	}
	text, err := s.Encode()
	if err != nil {
		return err
	}
	if err := datadir.ReplaceFile(m.File, text); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

// Close closes the files, and removes them if nothing is to be remembered.
func (m *State) Close() error {
	err := m.Past.Close()
	if m.File == "" {
		return errors.Join(err, os.RemoveAll(m.Past.dir))
	}
	return errors.Join(err, m.lock.Close())
}

// hexHashes returns hashes as the state file stores them.
func hexHashes(hashes []proofs.Hash) []string {
	texts := make([]string, len(hashes))
	for i, h := range hashes {
		texts[i] = hex.EncodeToString(h[:])
	}
	return texts
}
