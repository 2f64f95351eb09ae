package records

import (
	"context"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/storage"
)

// IPCRecord is an IPC record (interpretive provenance chain), which describes one generation of
// text.
type IPCRecord struct {
	Seq   uint64
	Time  time.Time // time at which the event was recorded
	RunID []byte    // nil if the record has none
	event.IPC
}

// ipcRecordOf returns the IPC record of an event. The record aliases the event's memory.
func ipcRecordOf(e *event.Event, decoded event.IPC) IPCRecord {
	return IPCRecord{e.Seq, e.Time, e.RunID(), decoded}
}

// viewState holds the data that queries about records cache in a view.
type viewState struct {
	// records holds the IPC records that were read, keyed by seq. An answer often needs a record twice:
	// as a run of a group, and as the first run with an output of the group.
	records       map[uint64]IPCRecord
	statesChanged *bool  // whether the state of any record has changed; nil if unknown
	encoded       []byte // scratch
}

// maxRecords is the maximum number of records that a view caches. Most pages have fewer.
const maxRecords = 128

// ReadIPCRecord returns the IPC record at seq, which describes one generation (IPC: interpretive
// provenance chain). It returns storage.ErrNotFound if the event is of another kind or the view
// does not see it. The caller must not change the record's memory.
func ReadIPCRecord(ctx context.Context, v *index.View, seq uint64) (IPCRecord, error) {
	state := index.ViewState[viewState](v)
	if r, ok := state.records[seq]; ok {
		return r, nil
	}
	r, err := ReadIPCRecordUncached(ctx, v, seq)
	if err != nil {
		return IPCRecord{}, err
	}
	if state.records == nil || len(state.records) == maxRecords {
		state.records = make(map[uint64]IPCRecord)
	}
	state.records[seq] = r
	return r, nil
}

// ReadIPCRecordUncached is like ReadIPCRecord, but is meant for a record that the view will not
// need again. It does not use the view's own cache.
func ReadIPCRecordUncached(ctx context.Context, v *index.View, seq uint64) (IPCRecord, error) {
	if seq >= v.Size() {
		return IPCRecord{}, fmt.Errorf("reading event %d: %w", seq, storage.ErrNotFound)
	}
	if r, _, found := cachedRecord(v, seq); found {
		return r, ctx.Err() // a read of the log would report cancellation too
	}
	entry, e, err := v.EntryAndEvent(ctx, seq)
	if err != nil {
		return IPCRecord{}, err
	}
	if e.Kind != record.KindIPCRecord {
		return IPCRecord{}, fmt.Errorf("reading event %d as %s: %w", seq, record.KindIPCRecord, storage.ErrNotFound)
	}
	decoded := ipcRecordOf(&e, e.IPC())
	state := index.ViewState[viewState](v)
	state.encoded = decoded.appendEncoded(state.encoded[:0], len(entry))
	r, _, _ := decodeRecord(seq, state.encoded) // a copy that owns its memory
	if v.EventCache().Enabled() {
		listed := cachedFieldsOf(&e)
		cacheRecord(v, seq, len(entry), &decoded, &listed)
	}
	return r, nil
}

// MissingParts returns the parts that at least one IPC record in the view lacks. It reads one
// key for each part.
func MissingParts(v *index.View) (parts []string, err error) {
	for _, part := range fields.IPCParts {
		id := rowstore.IdentityOf([]byte(NameIncomplete), []byte(part))
		_, _, found, err := v.NewestVersion(PostingsDimension, id[:])
		if err != nil {
			return nil, err
		}
		if found {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// cachedRecord returns the IPC record at seq from the cache. rest contains the encoded fields for
// lists, and is valid until the next call. The record counts as one event read.
func cachedRecord(v *index.View, seq uint64) (r IPCRecord, rest encodedRecord, found bool) {
	state := index.ViewState[viewState](v)
	state.encoded, found = v.EventCache().Find(state.encoded[:0], seq)
	if found {
		var size int
		r, size, rest = decodeRecord(seq, state.encoded)
		v.AddReads(1, size)
	}
	return r, rest, found
}

// cacheRecord caches the IPC record at seq. size is the length of its entry in bytes.
func cacheRecord(v *index.View, seq uint64, size int, r *IPCRecord, listed *Record) {
	state := index.ViewState[viewState](v)
	state.encoded = listed.appendEncoded(r.appendEncoded(state.encoded[:0], size), r)
	v.EventCache().Add(seq, state.encoded)
}
