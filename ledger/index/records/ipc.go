package records

import (
	"context"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/record"
	"colophon/storage"
)

// IPCRecord is an IPC record as its event says. It is the caller's to keep.
type IPCRecord struct {
	Seq   uint64
	Time  time.Time // of its event
	RunID []byte    // nil if it has none
	event.IPC
	schema []byte
}

// ipcRecordOf is the IPC record that an event is. It refers to the event's memory.
func ipcRecordOf(e *event.Event, decoded event.IPC) IPCRecord {
	return IPCRecord{e.Seq, e.Time, e.RunID(), decoded, e.Detail.Member("payload_schema").Text()}
}

// viewState is what questions about records keep with a view.
type viewState struct {
	// records are the last that were read: outputs of a group are mostly those of its runs.
	records       map[uint64]IPCRecord
	statesChanged *bool  // whether any record has another state than the first; nil: not known
	encoded       []byte // scratch
}

// maxRecords is how many records a view keeps: more than most pages have.
const maxRecords = 128

// ReadIPCRecord is the IPC record at seq; storage.ErrNotFound if it is another kind of
// event, or one that the view does not see. What it refers to must not be changed.
func ReadIPCRecord(ctx context.Context, v *index.View, seq uint64) (IPCRecord, error) {
	state := index.ViewState[viewState](v)
	if r, ok := state.records[seq]; ok {
		return r, nil
	}
	r, err := ReadIPCRecordOnce(ctx, v, seq)
	if err != nil {
		return IPCRecord{}, err
	}
	if state.records == nil || len(state.records) == maxRecords {
		state.records = make(map[uint64]IPCRecord)
	}
	state.records[seq] = r
	return r, nil
}

func ReadIPCRecordOnce(ctx context.Context, v *index.View, seq uint64) (IPCRecord, error) {
	if seq >= v.Size() {
		return IPCRecord{}, fmt.Errorf("event %d: %w", seq, storage.ErrNotFound)
	}
	if r, _, found := cachedRecord(v, seq); found {
		return r, ctx.Err() // which a read of the log minds, too
	}
	entry, e, err := v.Entry(ctx, seq)
	if err != nil {
		return IPCRecord{}, err
	}
	if e.Kind != record.IPCRecord {
		return IPCRecord{}, fmt.Errorf("event %d as %s: %w", seq, record.IPCRecord, storage.ErrNotFound)
	}
	decoded := ipcRecordOf(&e, e.IPC())
	state := index.ViewState[viewState](v)
	state.encoded = decoded.appendEncoded(state.encoded[:0], len(entry))
	r, _, _ := decodeRecord(seq, state.encoded) // in memory of its own
	if v.Cache().Enabled() {
		listed := recordOf(&e)
		cacheRecord(v, seq, len(entry), &decoded, &listed)
	}
	return r, nil
}

// remembered is the IPC record at seq if it is kept, and what it has for lists, which is
// valid until the next call. It counts as one that was read.
func cachedRecord(v *index.View, seq uint64) (r IPCRecord, rest encodedRecord, found bool) {
	state := index.ViewState[viewState](v)
	state.encoded, found = v.Cache().Find(state.encoded[:0], seq)
	if found {
		var size int
		r, size, rest = decodeRecord(seq, state.encoded)
		v.Count(1, size)
	}
	return r, rest, found
}

// remember keeps the IPC record at seq, the length of whose entry is size.
func cacheRecord(v *index.View, seq uint64, size int, r *IPCRecord, listed *Record) {
	state := index.ViewState[viewState](v)
	state.encoded = listed.appendEncoded(r.appendEncoded(state.encoded[:0], size), r)
	v.Cache().Keep(seq, state.encoded)
}

// PayloadSchema is the schema that the payload was read under (spec: Axis payload); nil if none.
func (r *IPCRecord) PayloadSchema() []byte { return r.schema }
