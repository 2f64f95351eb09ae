package monitor

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colophon/internal/safefile"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// pastFiles is an audit.History that is stored in the files of a folder. "facts" contains one byte
// per event. "tile-L" contains the hashes of level L. "keys-XX" contains the uses of the
// idempotency keys in one part of the key space. These files only grow, and each has a running
// checksum. "marks" contains another byte per event, with flags that later audits do not read. A
// pastFiles is not safe for concurrent use.
type pastFiles struct {
	dir       string
	facts     *os.File
	size      uint64 // number of bytes in the facts file, one for each event
	unwritten []byte // facts that have not been written to the file yet
	marks     *os.File
	tiles     map[uint8]*os.File
	keys      [numKeyFiles]keyFile
	uses      uint64 // number of uses in all key files
	sums      map[string]*runningSum
	marked    pastMark
}

// runningSum is the running SHA-256 of a file's bytes.
type runningSum struct {
	hash  hash.Cloner
	bytes int64
}

// pastMark records a state of the files, so that truncate can restore it.
type pastMark struct {
	size, uses uint64
	sums       map[string]runningSum
}

// fileSum contains a file's length and checksum as recorded in the state file. Bytes beyond that
// length are ignored, because an interrupted audit may have written them.
type fileSum struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// keyFile holds the uses of the keys in one part of the key space.
type keyFile struct {
	unwritten []byte // uses that have not been written to the file yet
	used      bool   // uses were added since the last call to KeyUses, or the file's keys must be checked again
	dirty     bool   // the file was written since the last call to Sync
}

// With 64 key files, each file is about a hundred megabytes long in a log with a hundred million
// keys. Only one key file at a time is read into memory.
const (
	numKeyFiles = 64
	factsBuffer = 64 << 10
	keyBuffer   = 256 * useBytes
)

// Names of files in the folder.
const (
	factsFile = "facts"
	marksFile = "marks"
)

// keyFileOf returns the number of the key file that holds the uses of the given key.
func keyFileOf(key proofs.Hash) int { return int(key[0] >> 2) }

// newPast opens a folder and discards its earlier content.
func newPast(dir string) (*pastFiles, error) {
	p, err := openPast(dir)
	if err != nil {
		return nil, err
	}
	if err := p.truncate(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// openPast opens a folder. It creates the folder if it does not exist, but not its parents. The
// caller must call check and then truncate before it uses the files.
func openPast(dir string) (*pastFiles, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	p := &pastFiles{dir: dir, tiles: make(map[uint8]*os.File), sums: make(map[string]*runningSum)}
	var err error
	if p.facts, err = p.file(factsFile); err != nil {
		return nil, err
	}
	if p.marks, err = p.file(marksFile); err != nil {
		return nil, errors.Join(err, p.facts.Close())
	}
	return p, nil
}

func (p *pastFiles) file(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(p.dir, name), os.O_RDWR|os.O_CREATE, 0o600)
}

func (p *pastFiles) sum(name string) *runningSum {
	s, known := p.sums[name]
	if !known {
		s = &runningSum{hash: sha256.New().(hash.Cloner)}
		p.sums[name] = s
	}
	return s
}

// add updates the checksum with bytes that are appended to the file.
func (s *runningSum) add(b []byte) {
	s.hash.Write(b)
	s.bytes += int64(len(b))
}

func (s *runningSum) clone() (runningSum, error) {
	h, err := s.hash.Clone()
	return runningSum{h, s.bytes}, err
}

// check verifies that the files match the given checksums and contain the given numbers of events
// and key uses. It does not change any file.
func (p *pastFiles) check(size, uses uint64, files map[string]fileSum) error {
	keys := int64(0)
	for _, name := range slices.Sorted(maps.Keys(files)) { // sorted, so that the error names the first wrong file
		want := files[name]
		if strings.HasPrefix(name, keysPrefix) {
			keys += want.Bytes
		}
		f, err := os.Open(filepath.Join(p.dir, filepath.Base(name)))
		if err != nil {
			return err
		}
		s := p.sum(name)
		s.bytes, err = io.CopyN(s.hash, f, want.Bytes)
		if err = errors.Join(err, f.Close()); errors.Is(err, io.EOF) {
			return fmt.Errorf("%s has %d bytes, but should have %d", f.Name(), s.bytes, want.Bytes)
		}
		if err != nil {
			return err
		}
		if got := hex.EncodeToString(s.hash.Sum(nil)); got != want.SHA256 {
			return fmt.Errorf("%s has the checksum %s, but should have %s", f.Name(), got, want.SHA256)
		}
	}
	if files[factsFile].Bytes != int64(size) || keys != int64(uses)*useBytes {
		return fmt.Errorf("the state's files contain %d events and %d bytes for idempotency keys, but the state file records %d events and %d uses of idempotency keys", files[factsFile].Bytes, keys, size, uses)
	}
	p.size, p.uses = size, uses
	return p.mark()
}

// mark saves the current state of the files, so that truncate can restore it.
func (p *pastFiles) mark() error {
	if err := p.flush(); err != nil {
		return err
	}
	m := pastMark{size: p.size, uses: p.uses, sums: make(map[string]runningSum, len(p.sums))}
	for name, s := range p.sums {
		var err error
		if m.sums[name], err = s.clone(); err != nil {
			return err
		}
	}
	p.marked = m
	return nil
}

// truncate restores the state saved by the last call to mark, and empties the marks file.
func (p *pastFiles) truncate() error {
	p.size, p.unwritten, p.uses = p.marked.size, p.unwritten[:0], p.marked.uses
	clear(p.sums)
	for name, s := range p.marked.sums {
		clone, err := s.clone()
		if err != nil {
			return err
		}
		p.sums[name] = &clone
	}
	errs := []error{p.facts.Truncate(int64(p.size)), p.marks.Truncate(0)}
	for number := range p.keys {
		p.keys[number].unwritten = p.keys[number].unwritten[:0]
		if err := os.Truncate(p.keyPath(number), p.marked.sums[keyName(number)].bytes); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checksums returns the lengths and checksums of the files at the last mark.
func (p *pastFiles) checksums() map[string]fileSum {
	files := make(map[string]fileSum, len(p.marked.sums))
	for name, s := range p.marked.sums {
		files[name] = fileSum{s.bytes, hex.EncodeToString(s.hash.Sum(nil))}
	}
	return files
}

const keysPrefix = "keys-"

func keyName(number int) string { return fmt.Sprintf(keysPrefix+"%02d", number) }

func (p *pastFiles) keyPath(number int) string { return filepath.Join(p.dir, keyName(number)) }

// AppendFlags implements audit.History.
func (p *pastFiles) AppendFlags(f audit.EventFlags) error {
	p.unwritten = append(p.unwritten, byte(f))
	if len(p.unwritten) < factsBuffer {
		return nil
	}
	return p.flushFacts()
}

func (p *pastFiles) flushFacts() error {
	if len(p.unwritten) == 0 {
		return nil
	}
	facts, marks := slices.Clone(p.unwritten), make([]byte, len(p.unwritten))
	marked := false
	for i, f := range p.unwritten {
		facts[i], marks[i] = f&^byte(audit.MutableFlags), f&byte(audit.MutableFlags)
		marked = marked || marks[i] != 0
	}
	if _, err := p.facts.WriteAt(facts, int64(p.size)); err != nil {
		return err
	}
	if marked {
		if _, err := p.marks.WriteAt(marks, int64(p.size)); err != nil {
			return err
		}
	}
	p.sum(factsFile).add(facts)
	p.size += uint64(len(p.unwritten))
	p.unwritten = p.unwritten[:0]
	return nil
}

// Flags implements audit.History.
func (p *pastFiles) Flags(seq uint64) (audit.EventFlags, error) {
	if seq >= p.size {
		if seq-p.size >= uint64(len(p.unwritten)) {
			return 0, fmt.Errorf("the state has no flags for event %d", seq)
		}
		return audit.EventFlags(p.unwritten[seq-p.size]), nil
	}
	var fact, mark [1]byte
	if _, err := p.facts.ReadAt(fact[:], int64(seq)); err != nil {
		return 0, fmt.Errorf("reading the flags of event %d: %w", seq, err)
	}
	if _, err := p.marks.ReadAt(mark[:], int64(seq)); err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("reading the flags of event %d: %w", seq, err)
	}
	return audit.EventFlags(fact[0] | mark[0]), nil
}

// OrFlags implements audit.History.
func (p *pastFiles) OrFlags(seq uint64, flags audit.EventFlags) error {
	present, err := p.Flags(seq)
	if err != nil || present|flags == present {
		return err
	}
	if seq >= p.size {
		p.unwritten[seq-p.size] |= byte(flags)
		return nil
	}
	_, err = p.marks.WriteAt([]byte{byte((present | flags) & audit.MutableFlags)}, int64(seq))
	return err
}

// StoreTile implements audit.History. A partial tile may be stored again after it has grown,
// because its hashes remain a prefix of the tile.
func (p *pastFiles) StoreTile(t proofs.Tile) error {
	f, err := p.tileFile(t.Level)
	if err != nil {
		return err
	}
	at, s := int64(t.Index)*proofs.FullTileWidth*proofs.HashSize, p.sum(filepath.Base(f.Name()))
	if at > s.bytes {
		return fmt.Errorf("%s is missing tiles before %d/%d", f.Name(), t.Level, t.Index)
	}
	if more := at + int64(len(t.Hashes)) - s.bytes; more > 0 {
		s.add(t.Hashes[int64(len(t.Hashes))-more:])
	}
	_, err = f.WriteAt(t.Hashes, at)
	return err
}

// Tile implements audit.History.
func (p *pastFiles) Tile(level uint8, index uint64) ([]byte, error) {
	f, err := p.tileFile(level)
	if err != nil {
		return nil, err
	}
	tile := make([]byte, proofs.FullTileWidth*proofs.HashSize)
	n, err := f.ReadAt(tile, int64(index)*proofs.FullTileWidth*proofs.HashSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return tile[:n-n%proofs.HashSize], nil
}

func (p *pastFiles) tileFile(level uint8) (*os.File, error) {
	if f, open := p.tiles[level]; open {
		return f, nil
	}
	f, err := p.file(fmt.Sprintf("tile-%d", level))
	if err == nil {
		p.tiles[level] = f
	}
	return f, err
}

// useBytes is the encoded size, in bytes, of one use record: key, digest, seq, first, kind, and
// role.
const useBytes = 2*proofs.HashSize + 8 + 8 + 1 + 1

func appendUse(dst []byte, u *audit.KeyUse) []byte {
	dst = append(append(dst, u.Key[:]...), u.Digest[:]...)
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, u.Seq), u.ReferencedSeq)
	return append(dst, byte(slices.Index(keyedKinds[:], u.Kind)), byte(u.Role))
}

// keyedKinds lists the kinds of requests that have idempotency keys. The files represent each kind
// by its index in this list.
var keyedKinds = [...]record.Kind{
	record.KindIPCRecord, record.KindRunDAG, record.KindCitationSet, record.KindPathFingerprint, record.KindRecordStateChanged, record.KindPathValidated,
	record.KindSourceRegistered, record.KindSourceRevoked, record.KindContentRedacted, record.KindKeyRotated, record.KindNote,
}

func decodeUse(row []byte) audit.KeyUse {
	const numbers = 2 * proofs.HashSize
	return audit.KeyUse{
		Key: proofs.Hash(row), Digest: proofs.Hash(row[proofs.HashSize:]),
		Seq: binary.BigEndian.Uint64(row[numbers:]), ReferencedSeq: binary.BigEndian.Uint64(row[numbers+8:]),
		Kind: keyedKinds[int(row[numbers+16])%len(keyedKinds)], Role: audit.KeyUseRole(row[numbers+17] % byte(audit.NumKeyUseRoles)),
	}
}

// AddKeyUse implements audit.History.
func (p *pastFiles) AddKeyUse(u audit.KeyUse) error {
	number := keyFileOf(u.Key)
	k := &p.keys[number]
	k.unwritten, k.used = appendUse(k.unwritten, &u), true
	p.uses++
	if len(k.unwritten) < keyBuffer {
		return nil
	}
	return p.flushKeys(number)
}

func (p *pastFiles) flushKeys(number int) error {
	k := &p.keys[number]
	f, err := os.OpenFile(p.keyPath(number), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(k.unwritten)
	p.sum(keyName(number)).add(k.unwritten)
	k.unwritten, k.dirty = k.unwritten[:0], true
	return errors.Join(err, f.Close())
}

// KeyUses implements audit.History.
func (p *pastFiles) KeyUses() iter.Seq2[[]audit.KeyUse, error] {
	return func(yield func([]audit.KeyUse, error) bool) {
		for number := range numKeyFiles {
			k := &p.keys[number]
			if !k.used {
				continue
			}
			uses, err := p.readKeys(number)
			if err != nil {
				yield(nil, err)
				return
			}
			k.used = false
			for same := range audit.GroupKeyUses(uses) {
				if !yield(same, nil) {
					return
				}
			}
		}
	}
}

// recheck makes the next call to KeyUses yield the uses of all keys.
func (p *pastFiles) recheck() {
	for number := range p.keys {
		p.keys[number].used = true
	}
}

func (p *pastFiles) readKeys(number int) ([]audit.KeyUse, error) {
	rows, err := os.ReadFile(p.keyPath(number))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var uses []audit.KeyUse
	for row := range slices.Chunk(append(rows, p.keys[number].unwritten...), useBytes) {
		if len(row) == useBytes {
			uses = append(uses, decodeUse(row))
		}
	}
	return uses, nil
}

// flush writes all buffered data to the files. The data is not durable until Sync is called.
func (p *pastFiles) flush() error {
	if err := p.flushFacts(); err != nil {
		return err
	}
	for number := range numKeyFiles {
		if len(p.keys[number].unwritten) > 0 {
			if err := p.flushKeys(number); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sync makes all data durable.
func (p *pastFiles) Sync() error {
	if err := p.flush(); err != nil {
		return err
	}
	errs := []error{p.facts.Sync()}
	for _, f := range p.tiles {
		errs = append(errs, f.Sync())
	}
	for number := range numKeyFiles {
		errs = append(errs, p.syncKeys(number))
	}
	return errors.Join(append(errs, safefile.SyncDir(p.dir))...)
}

func (p *pastFiles) syncKeys(number int) error {
	k := &p.keys[number]
	if !k.dirty {
		return nil
	}
	f, err := os.OpenFile(p.keyPath(number), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	k.dirty = false
	return errors.Join(f.Sync(), f.Close())
}

// Close closes the files.
func (p *pastFiles) Close() error {
	errs := []error{p.facts.Close(), p.marks.Close()}
	for _, f := range p.tiles {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
