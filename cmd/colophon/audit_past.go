package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// pastFiles is an audit.Past in the files of a folder: "facts", a byte for each event;
// "tile-L", the hashes of each level; "keys-XX", the uses of the idempotency keys that
// begin with that byte. All of them only grow but for what is marked. It belongs to the
// goroutine of the walk.
type pastFiles struct {
	dir   string
	facts *os.File
	size  uint64 // facts in the file
	news  []byte // facts that are not in the file yet
	tiles map[uint8]*os.File
	keys  [manyKeyFiles]keyFile
	uses  uint64 // in all of keys
}

// keyFile is the uses of the keys that begin alike.
type keyFile struct {
	news  []byte // uses that are not in the file yet
	used  bool   // since Uses was last called, or to be looked at again
	dirty bool   // written since Sync was last called
}

// So many files, that a log of a hundred million keys has a hundred megabytes in each:
// they are read one by one.
const (
	manyKeyFiles = 64
	factsBuffer  = 64 << 10
	keyBuffer    = 256 * useBytes
)

// factsFile is the name of the file with the facts.
const factsFile = "facts"

// keyFileOf is the number of the file that a key is in.
func keyFileOf(key proofs.Hash) int { return int(key[0] >> 2) }

// openPast opens what is remembered of the first size events, and forgets what may be there of
// later ones. uses is how many keys they have used.
func openPast(dir string, size, uses uint64) (*pastFiles, error) {
	p, err := lookPast(dir)
	if err != nil {
		return nil, err
	}
	if err := p.cut(size, uses); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// lookPast opens what is remembered for its tiles to be read. All else comes after cut.
// The folder is made if it is not there, but no other.
func lookPast(dir string) (*pastFiles, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	p := &pastFiles{dir: dir, tiles: make(map[uint8]*os.File)}
	var err error
	if p.facts, err = p.file(factsFile); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pastFiles) file(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(p.dir, name), os.O_RDWR|os.O_CREATE, 0o600)
}

// cut forgets what was remembered of events from a size on. uses is how many keys those
// before have used. Where something of those is missing it changes nothing in the files.
func (p *pastFiles) cut(size, uses uint64) error {
	p.cutNews(size)
	if err := p.flush(); err != nil {
		return err
	}
	info, err := p.facts.Stat()
	if err != nil {
		return err
	}
	if uint64(info.Size()) < size {
		return fmt.Errorf("%s remembers %d events, not %d", p.dir, info.Size(), size)
	}
	var kept [manyKeyFiles]uint64
	p.size, p.uses = size, 0
	for number := range kept {
		if kept[number], err = p.keptKeys(number, size); err != nil {
			return err
		}
		p.uses += kept[number]
	}
	if p.uses != uses {
		return fmt.Errorf("%s remembers %d uses of idempotency keys, not %d", p.dir, p.uses, uses)
	}
	errs := []error{p.facts.Truncate(int64(size))}
	for number, n := range kept {
		if err := os.Truncate(p.keyPath(number), int64(n)*useBytes); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// cutNews is cut of what is not in the files yet.
func (p *pastFiles) cutNews(size uint64) {
	p.news = p.news[:min(uint64(len(p.news)), max(size, p.size)-p.size)]
	for number := range p.keys {
		k := &p.keys[number]
		for n := len(k.news) - useBytes; n >= 0 && decodeUse(k.news[n:]).Seq >= size; n -= useBytes {
			k.news = k.news[:n]
		}
	}
}

func (p *pastFiles) keyPath(number int) string {
	return filepath.Join(p.dir, fmt.Sprintf("keys-%02d", number))
}

// keptKeys is how many uses in a file are by events before a size: those by others come
// last.
func (p *pastFiles) keptKeys(number int, size uint64) (kept uint64, err error) {
	f, err := os.Open(p.keyPath(number))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close() // of no effect on what was read
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	kept = uint64(info.Size() / useBytes)
	for row := make([]byte, useBytes); kept > 0; kept-- {
		if _, err := f.ReadAt(row, int64(kept-1)*useBytes); err != nil {
			return 0, err
		}
		if decodeUse(row).Seq < size {
			break
		}
	}
	return kept, nil
}

// Add implements audit.Past.
func (p *pastFiles) Add(f audit.Facts) error {
	p.news = append(p.news, byte(f))
	if len(p.news) < factsBuffer {
		return nil
	}
	return p.flushFacts()
}

func (p *pastFiles) flushFacts() error {
	if len(p.news) == 0 {
		return nil
	}
	_, err := p.facts.WriteAt(p.news, int64(p.size))
	p.size += uint64(len(p.news))
	p.news = p.news[:0]
	return err
}

// Facts implements audit.Past.
func (p *pastFiles) Facts(seq uint64) (audit.Facts, error) {
	if seq >= p.size {
		if seq-p.size >= uint64(len(p.news)) {
			return 0, fmt.Errorf("event %d is not remembered", seq)
		}
		return audit.Facts(p.news[seq-p.size]), nil
	}
	var one [1]byte
	if _, err := p.facts.ReadAt(one[:], int64(seq)); err != nil {
		return 0, fmt.Errorf("what is remembered of event %d: %w", seq, err)
	}
	return audit.Facts(one[0]), nil
}

// Mark implements audit.Past.
func (p *pastFiles) Mark(seq uint64, flags audit.Facts) error {
	facts, err := p.Facts(seq)
	if err != nil || facts|flags == facts {
		return err
	}
	if seq >= p.size {
		p.news[seq-p.size] |= byte(flags)
		return nil
	}
	_, err = p.facts.WriteAt([]byte{byte(facts | flags)}, int64(seq))
	return err
}

// Keep implements audit.Past.
func (p *pastFiles) Keep(t proofs.TileData) error {
	f, err := p.tileFile(t.Level)
	if err == nil {
		_, err = f.WriteAt(t.Hashes, int64(t.Index)*proofs.FullTile*proofs.HashSize)
	}
	return err
}

// Tile implements audit.Past.
func (p *pastFiles) Tile(level uint8, index uint64) ([]byte, error) {
	f, err := p.tileFile(level)
	if err != nil {
		return nil, err
	}
	tile := make([]byte, proofs.FullTile*proofs.HashSize)
	n, err := f.ReadAt(tile, int64(index)*proofs.FullTile*proofs.HashSize)
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

// useBytes is the length of a use in a file: key, digest, seq, first, kind, role.
const useBytes = 2*proofs.HashSize + 8 + 8 + 1 + 1

func appendUse(dst []byte, u *audit.KeyUse) []byte {
	dst = append(append(dst, u.Key[:]...), u.Digest[:]...)
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, u.Seq), u.First)
	return append(dst, byte(slices.Index(keyedKinds[:], u.Kind)), byte(u.Role))
}

// keyedKinds are the kinds that idempotency keys stand for, by their numbers in files.
var keyedKinds = [...]record.Kind{
	record.IPCRecord, record.RunDAG, record.CitationSet, record.PathFingerprint, record.RecordStateChanged, record.PathValidated,
	record.SourceRegistered, record.SourceRevoked, record.ContentRedacted, record.KeyRotated,
}

func decodeUse(row []byte) audit.KeyUse {
	const numbers = 2 * proofs.HashSize
	return audit.KeyUse{
		Key: proofs.Hash(row), Digest: proofs.Hash(row[proofs.HashSize:]),
		Seq: binary.BigEndian.Uint64(row[numbers:]), First: binary.BigEndian.Uint64(row[numbers+8:]),
		Kind: keyedKinds[int(row[numbers+16])%len(keyedKinds)], Role: audit.Role(row[numbers+17] % byte(audit.Roles)),
	}
}

// Use implements audit.Past.
func (p *pastFiles) Use(u audit.KeyUse) error {
	number := keyFileOf(u.Key)
	k := &p.keys[number]
	k.news, k.used = appendUse(k.news, &u), true
	p.uses++
	if len(k.news) < keyBuffer {
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
	_, err = f.Write(k.news)
	k.news, k.dirty = k.news[:0], true
	return errors.Join(err, f.Close())
}

// Uses implements audit.Past.
func (p *pastFiles) Uses() iter.Seq2[[]audit.KeyUse, error] {
	return func(yield func([]audit.KeyUse, error) bool) {
		for number := range manyKeyFiles {
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
			for same := range audit.ByKey(uses) {
				if !yield(same, nil) {
					return
				}
			}
		}
	}
}

// recheck has Uses yield all keys once more.
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
	for row := range slices.Chunk(append(rows, p.keys[number].news...), useBytes) {
		if len(row) == useBytes {
			uses = append(uses, decodeUse(row))
		}
	}
	return uses, nil
}

// flush writes everything into the files.
func (p *pastFiles) flush() error {
	if err := p.flushFacts(); err != nil {
		return err
	}
	for number := range manyKeyFiles {
		if len(p.keys[number].news) > 0 {
			if err := p.flushKeys(number); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sync makes what is remembered survive the loss of power.
func (p *pastFiles) Sync() error {
	if err := p.flush(); err != nil {
		return err
	}
	errs := []error{p.facts.Sync()}
	for _, f := range p.tiles {
		errs = append(errs, f.Sync())
	}
	for number := range manyKeyFiles {
		errs = append(errs, p.syncKeys(number))
	}
	return errors.Join(append(errs, ledger.SyncDir(p.dir))...)
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

// Close lets go of the files.
func (p *pastFiles) Close() error {
	errs := []error{p.facts.Close()}
	for _, f := range p.tiles {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
