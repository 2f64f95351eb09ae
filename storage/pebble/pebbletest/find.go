package pebbletest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// FilesContaining returns the names of the files in a database's folder that contain needle. It
// also searches compressed blocks and overwritten data that is still in the files. Block headers
// can split the needle, so a quarter of it is enough for a match. The needle must have at least 32
// bytes, and each quarter must be too distinctive to occur by chance. In a damaged or unfinished
// table, only the readable part is searched. A nil files means the operating system's file system.
// comparerNames lists the comparers, other than Pebble's own, that tables may use.
func FilesContaining(ctx context.Context, files vfs.FS, dir string, needle []byte, comparerNames ...string) ([]string, error) {
	if files == nil {
		files = vfs.Default
	}
	if len(needle) < 32 {
		return nil, fmt.Errorf("a search text of %d bytes could be found by chance; use at least 32", len(needle))
	}
	names, err := files.List(dir)
	if err != nil {
		return nil, fmt.Errorf("searching %s: %w", dir, err)
	}
	var found []string
	for _, name := range names {
		shows, err := showsNeedle(ctx, files, files.PathJoin(dir, name), needle, readerOptions(comparerNames))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the file was removed after it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("searching %s: %w", name, err)
		}
		if shows {
			found = append(found, name)
		}
	}
	return found, nil
}

func showsNeedle(ctx context.Context, files vfs.FS, path string, needle []byte, options sstable.ReaderOptions) (bool, error) {
	info, err := files.Stat(path)
	if err != nil || info.IsDir() {
		return false, err
	}
	f, err := files.Open(path)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	shows := holdsPart(text, needle)
	switch {
	case shows:
	case strings.HasSuffix(path, ".sst"):
		shows, err = tableShows(ctx, files, path, needle, options)
	case strings.HasSuffix(path, ".blob"):
		shows, err = valuesShow(ctx, files, path, needle, options)
	}
	if engine.IsCorruptionError(err) {
		return shows, nil
	}
	return shows, err
}

func holdsPart(text, needle []byte) bool {
	quarter := len(needle) / 4
	for at := 0; at+quarter <= len(needle); at += quarter {
		if bytes.Contains(text, needle[at:at+quarter]) {
			return true
		}
	}
	return false
}

// tableShows reports whether a table contains a needle. It reads every key and value, including
// those that newer entries hide.
func tableShows(ctx context.Context, files vfs.FS, path string, needle []byte, options sstable.ReaderOptions) (shows bool, err error) {
	readable, err := openReadable(files, path)
	if err != nil {
		return false, err
	}
	reader, err := sstable.NewReader(ctx, readable, options)
	if err != nil {
		return false, errors.Join(err, readable.Close())
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	all, err := reader.NewIter(sstable.NoTransforms, nil, nil, sstable.DebugHandlesBlobContext)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	for kv := all.First(); kv != nil; kv = all.Next() {
		value, _, err := kv.Value(nil)
		if err != nil {
			return false, err
		}
		if holdsPart(value, needle) || holdsPart(kv.K.UserKey, needle) {
			return true, nil
		}
	}
	return false, all.Error()
}

func openReadable(files vfs.FS, path string) (objstorage.Readable, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return readable, nil
}

const (
	indexHeader  = 4 // number of bytes before the columns in an index block of a value file
	indexOffsets = 1 // index of the column that contains the start offset of each block and the end of the last block
)

// valuesShow reports whether a value file contains a needle. It reads every block, including those
// that no table refers to.
func valuesShow(ctx context.Context, files vfs.FS, path string, needle []byte, options sstable.ReaderOptions) (shows bool, err error) {
	readable, err := openReadable(files, path)
	if err != nil {
		return false, err
	}
	reader, err := blob.NewFileReader(ctx, readable, blob.FileReaderOptions{ReaderOptions: options.ReaderOptions})
	if err != nil {
		return false, errors.Join(err, readable.Close())
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	index, err := reader.ReadIndexBlock(ctx, block.NoReadEnv, nil)
	if err != nil {
		return false, err
	}
	defer index.Release()
	blocks := colblk.DecodeBlock(index.BlockData(), indexHeader)
	offsets := colblk.DecodeColumn(&blocks, indexOffsets, blocks.Rows()+1, colblk.DataTypeUint, colblk.DecodeUnsafeUints)
	for i := range blocks.Rows() {
		start, end := offsets.At(i), offsets.At(i+1)
		values, err := reader.ReadValueBlock(ctx, block.NoReadEnv, nil,
			block.Handle{Offset: start, Length: end - start - block.TrailerLen})
		if err != nil {
			return false, err
		}
		shows = holdsPart(values.BlockData(), needle)
		values.Release()
		if shows {
			return true, nil
		}
	}
	return false, nil
}
