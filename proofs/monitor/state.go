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

	"colophon/internal/folderlock"
	"colophon/internal/safefile"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// Versions of the state file. A state of version 1 has no checksums, so only its checkpoints
// are kept, and the log is walked again.
const (
	stateVersion      = 2
	firstStateVersion = 1
)

// stateFile is what one audit stores for the next one, as JSON in a file. Data about individual
// events is stored in a folder beside that file.
type stateFile struct {
	Version      int      `json:"version"`
	Ledger       string   `json:"ledger"`
	Origin       string   `json:"origin"`
	VerifierKeys []string `json:"verifier_keys"`
	// Checkpoint is the last signed note that has been proved to extend all earlier ones. Unproved
	// contains up to 63 later notes that lack such a proof.
	Checkpoint string   `json:"checkpoint"`
	Unproved   []string `json:"unproved,omitempty"`
	// The fields below describe the walked part of the log. Size is the number of entries. Tip and
	// Time are the event_hash and time of the last entry. CompactRange contains the roots of the
	// tree's complete subtrees, largest first.
	Size         uint64   `json:"size"`
	Tip          string   `json:"tip"`
	Time         string   `json:"time"`
	CompactRange []string `json:"compact_range"`
	KeyUses      uint64   `json:"key_uses"`
	// KeysChecked is the number of entries whose idempotency keys have been compared with all
	// earlier ones.
	KeysChecked uint64 `json:"keys_checked"`
	// Keys contains the log's keys according to its events, in the format of log/key. It is absent
	// before the first walk.
	Keys *proofs.KeyHistory `json:"keys,omitempty"`
	// MemberSecretHash is the log's commitment to the secret used as the key for the digests of
	// payload members, or "" if there is no commitment.
	MemberSecretHash string `json:"member_secret_hash,omitempty"`
	// Tally holds totals over the walked events.
	Tally audit.Tally `json:"tally"`
	// Checked holds the last success of each check, keyed by the name of the check.
	Checked map[string]LastSuccess `json:"checked"`
	// Files holds the lengths and checksums of the files in the folder.
	Files map[string]fileSum `json:"files"`
	// Checksum is the SHA-256 of this file with an empty checksum. All later versions of the
	// file must keep this member.
	Checksum string `json:"checksum"`
}

// LastSuccess holds the time of a check's last success and the size of the log at that time.
type LastSuccess struct {
	LogSize uint64 `json:"size"` // number of entries in the log at that time
	Time    string `json:"time"` // RFC 3339, UTC
}

// encode returns the state file, with its checksum.
func (s stateFile) encode() ([]byte, error) {
	s.Checksum = ""
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	before, after, _ := cutChecksum(text, 0)
	return slices.Concat(before, []byte(checksumOf(text)), after), nil
}

// cutChecksum returns the parts of a state file before and after its checksum, which has the given
// number of digits.
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
		return errors.New("the checksum is missing")
	}
	says, makes := string(text[len(before):len(before)+digits]), checksumOf(slices.Concat(before, after))
	if says != makes {
		return fmt.Errorf("the state file states the checksum %q, but its content has the checksum %s", says, makes)
	}
	return nil
}

func checksumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// state is the in-memory state of a running audit. save writes it to the state file.
type state struct {
	file    string    // path of the state file; empty if the audit stores nothing
	lock    io.Closer // excludes other audits; nil if the audit stores nothing
	past    *pastFiles
	at      audit.Position
	uses    uint64     // number of uses of idempotency keys so far
	checked uint64     // number of entries whose idempotency keys have been compared with earlier ones
	seen    []seenNote // signed checkpoints, oldest first
	// keys holds the trusted keys and their successors. Until the log extends all checkpoints in the field
	// seen, it also holds those of earlier audits, which may have signed these checkpoints.
	keys []*proofs.Verifier
	done map[string]LastSuccess // last success of each check, keyed by the name of the check
	// converted means that an earlier version of this program wrote the state, so the log is walked
	// again.
	converted     bool
	convertedKeys *proofs.KeyHistory // the keys in a state of version 1
}

// openState locks the state and reads the state file, which may be absent. It refuses the state of
// a log that has none of the known keys. The error is a *StateError, unless temporary files cannot
// be created.
func openState(file string, known []*proofs.Verifier) (*state, error) {
	m := &state{file: file, done: make(map[string]LastSuccess)}
	if file == "" {
		dir, err := temporaryFolder()
		if err != nil {
			return nil, err
		}
		if m.past, err = newPast(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return m, nil
	}
	if err := m.lockFolder(); err != nil {
		return nil, err
	}
	if err := m.open(known); err != nil {
		return nil, errors.Join(err, m.lock.Close())
	}
	return m, nil
}

func (m *state) refuse(reason, err error) error {
	return &StateError{File: m.file, Folder: m.dir(), Reason: reason, Err: err}
}

// lockFolder locks the folder beside the state file, so that no other audit uses it until the lock
// is closed or the process exits. It creates the folder if it does not exist.
func (m *state) lockFolder() error {
	if err := os.Mkdir(m.dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return m.refuse(nil, err)
	}
	if err := errors.Join(safefile.CheckNotSymlink(m.dir()), safefile.CheckFolder(m.dir())); err != nil {
		return m.refuse(nil, err)
	}
	var err error
	switch m.lock, err = folderlock.Take(m.dir()); {
	case errors.Is(err, storage.ErrInUse):
		return m.refuse(ErrStateInUse, err)
	case err != nil:
		return m.refuse(nil, err)
	}
	return nil
}

// open reads the state file and the folder beside it.
func (m *state) open(known []*proofs.Verifier) error {
	text, err := safefile.Read(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return m.begin()
	}
	if err != nil {
		return m.refuse(nil, err)
	}
	err = m.read(text, known)
	switch {
	case errors.Is(err, ErrStateDamaged):
		return m.refuse(ErrStateDamaged, err)
	case err != nil:
		return m.refuse(ErrStateMismatch, err)
	}
	return nil
}

// begin starts a new state. It refuses to do so if the folder of an earlier state exists but
// the state file does not, because the checkpoints in the lost file would be forgotten.
func (m *state) begin() error {
	if info, err := os.Stat(filepath.Join(m.dir(), factsFile)); err == nil && info.Size() > 0 {
		return m.refuse(ErrStateIncomplete, fmt.Errorf("the file is missing, but the folder %s of an earlier audit exists", m.dir()))
	}
	var err error
	if m.past, err = newPast(m.dir()); err != nil {
		return m.refuse(nil, err)
	}
	return nil
}

// dir returns the folder beside the state file.
func (m *state) dir() string { return m.file + ".d" }

// read restores the state of a log that has one of the known keys.
func (m *state) read(text []byte, known []*proofs.Verifier) error {
	var version struct{ Version int }
	err := json.Unmarshal(text, &version)
	if err == nil && version.Version != firstStateVersion {
		err = checkSum(text)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStateDamaged, err)
	}
	if version.Version != stateVersion && version.Version != firstStateVersion {
		return fmt.Errorf("the state file has version %d, but this program supports only %d; use the version that wrote the file", version.Version, stateVersion)
	}
	var s stateFile
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("%w: %w", ErrStateDamaged, err)
	}
	own := func(v *proofs.Verifier) bool {
		return slices.Contains(s.VerifierKeys, v.String()) || s.Keys != nil && s.Keys.Contains(v)
	}
	if !slices.ContainsFunc(known, own) {
		return fmt.Errorf("the state belongs to another log, %q, which has none of the given verifier keys", s.Origin)
	}
	if s.Keys != nil {
		known = addKeys(s.Keys.Verifiers(), known...)
	}
	if s.Version == firstStateVersion {
		return m.convert(&s, known)
	}
	m.at, m.uses, m.checked = audit.Position{Size: s.Size, Time: s.Time, Ledger: s.Ledger, Keys: s.Keys, PayloadMemberSecretHash: s.MemberSecretHash, Tally: s.Tally}, s.KeyUses, s.KeysChecked
	if s.Checked != nil {
		m.done = s.Checked
	}
	for _, text := range s.VerifierKeys {
		key, err := proofs.ParseVerifier(text)
		if err != nil {
			return fmt.Errorf("parsing a verifier key in the state file: %w", err)
		}
		m.keys = append(m.keys, key)
	}
	if err := m.readSeen(&s, addKeys(slices.Clone(m.keys), known...)); err != nil {
		return err
	}
	if m.at.Tip, err = proofs.ParseHash(s.Tip); err != nil {
		return fmt.Errorf("parsing the chain tip in the state file: %w", err)
	}
	if err := s.checkKeys(); err != nil {
		return err
	}
	return m.readFolder(&s)
}

// convert restores the checkpoints of a state without checksums. They are signed, so damage
// to the file cannot forge them. A new walk restores everything else.
func (m *state) convert(s *stateFile, known []*proofs.Verifier) (err error) {
	if s.Checksum != "" || s.Files != nil {
		return fmt.Errorf("%w: a state of version %d must not have checksums", ErrStateDamaged, s.Version)
	}
	if err := m.readSeen(s, known); err != nil {
		return fmt.Errorf("%w: %w", ErrStateDamaged, err)
	}
	m.converted, m.convertedKeys = true, s.Keys
	m.past, err = newPast(m.dir())
	return err
}

// history returns the log's keys according to earlier walks, or nil if there were no earlier walks.
func (m *state) history() *proofs.KeyHistory {
	if m.at.Keys == nil {
		return m.convertedKeys
	}
	return m.at.Keys
}

// readSeen verifies the notes in the state file with the given keys and adds their checkpoints to
// m.seen.
func (m *state) readSeen(s *stateFile, keys []*proofs.Verifier) error {
	for _, note := range append([]string{s.Checkpoint}, s.Unproved...) {
		checkpoint, err := proofs.OpenCheckpoint([]byte(note), keys...)
		if err != nil {
			return fmt.Errorf("reading the checkpoint: %w", err)
		}
		if checkpoint.Origin != s.Origin {
			return fmt.Errorf("the state file has the origin %q, but its checkpoint has the origin %q", s.Origin, checkpoint.Origin)
		}
		m.seen = append(m.seen, seenNote{checkpoint, []byte(note)})
	}
	return nil
}

// checkpoints returns the checkpoints in the state, each with a description of the audit that saw
// it.
func (m *state) checkpoints() []audit.SeenCheckpoint {
	var seen []audit.SeenCheckpoint
	for i, s := range m.seen {
		by := "the last audit"
		if i > 0 {
			by = "an audit that could not prove that the checkpoint belongs to the same log"
		}
		seen = append(seen, audit.SeenCheckpoint{Checkpoint: s.Checkpoint, SeenBy: by})
	}
	return seen
}

// checkKeys checks that the key history is consistent with the size in the state file.
func (s *stateFile) checkKeys() error {
	switch {
	case s.Size > 0 && s.Keys == nil:
		return errors.New("the log's keys are missing")
	case s.Keys != nil && s.Keys.NumChanges() > 0 && s.Keys.ReplacedKeys()[0].ReplacedAtSeq >= s.Size:
		return fmt.Errorf("the log's keys changed at event %d, but the state covers only %d events", s.Keys.ReplacedKeys()[0].ReplacedAtSeq, s.Size)
	}
	return nil
}

// readFolder opens the files in the folder. They must match their checksums, and the tiles
// must agree with the compact range. If readFolder returns an error, it has changed nothing.
func (m *state) readFolder(s *stateFile) (err error) {
	past, err := openPast(m.dir())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, past.Close())
		}
	}()
	if err := past.check(m.at.Size, m.uses, s.Files); err != nil {
		return fmt.Errorf("%w: %w", ErrStateDamaged, err)
	}
	tree, err := proofs.OpenTree(m.at.Size, past.Tile, nil)
	if err != nil {
		return fmt.Errorf("reading the tiles in %s: %w", m.dir(), err)
	}
	if !slices.Equal(s.CompactRange, hexHashes(tree.Snapshot().CompactRange())) {
		return fmt.Errorf("the compact range in the state file does not match the tiles in %s", m.dir())
	}
	m.at.Root, m.past = tree.Root(), past
	return m.truncate()
}

// truncate removes data beyond the walked entries from the folder. If some idempotency keys have
// not been compared yet, the next walk compares all of them again.
func (m *state) truncate() error {
	if m.checked != m.at.Size {
		m.past.recheck()
	}
	return m.past.truncate()
}

// advance records the progress of the walk in memory. save writes it to the state file.
func (m *state) advance(at audit.Position) error {
	if err := m.past.mark(); err != nil {
		return err
	}
	m.at, m.uses = at, m.past.uses
	return nil
}

// rewind discards what a failed walk has added to the files.
func (m *state) rewind() error {
	if err := m.truncate(); err != nil {
		return fmt.Errorf("resetting the files of the state: %w", err)
	}
	return nil
}

// save makes the files in the folder durable, and then replaces the state file atomically. It does
// nothing if the audit stores nothing or has seen no checkpoint.
func (m *state) save() error {
	if m.file == "" || len(m.seen) == 0 {
		return nil
	}
	if err := m.past.Sync(); err != nil {
		return fmt.Errorf("syncing the files of the state: %w", err)
	}
	tree, err := proofs.OpenTree(m.at.Size, m.past.Tile, nil)
	if err != nil {
		return fmt.Errorf("reading the tiles of the state: %w", err)
	}
	s := stateFile{
		Version: stateVersion, Ledger: m.at.Ledger, Origin: m.seen[0].Origin, Checkpoint: string(m.seen[0].note),
		Size: m.at.Size, Tip: hex.EncodeToString(m.at.Tip[:]), Time: m.at.Time, CompactRange: hexHashes(tree.Snapshot().CompactRange()), KeyUses: m.uses, KeysChecked: m.checked, Keys: m.at.Keys, MemberSecretHash: m.at.PayloadMemberSecretHash, Tally: m.at.Tally, Checked: m.done, Files: m.past.checksums(),
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
	if err := safefile.Replace(m.file, text); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}

// Close closes the files, and removes them if they are only temporary.
func (m *state) Close() error {
	err := m.past.Close()
	if m.file == "" {
		return errors.Join(err, os.RemoveAll(m.past.dir))
	}
	return errors.Join(err, m.lock.Close())
}

// hexHashes returns the hashes in hexadecimal, as in the state file.
func hexHashes(hashes []proofs.Hash) []string {
	texts := make([]string, len(hashes))
	for i, h := range hashes {
		texts[i] = hex.EncodeToString(h[:])
	}
	return texts
}
