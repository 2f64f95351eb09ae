package index

import (
	"crypto/sha256"

	"colophon/ledger/event"
	"colophon/ledger/record"
)

// drawn is an event with what follows from it alone. That is drawn from it ahead of the
// fold, by the goroutine that reads the log. It holds until its place is used again; what
// an event does not have is that of the one before in its place.
type drawn struct {
	event.Event
	values values // what a record is found by, but for what depends on other events
	// What it says, by its kind.
	ipc  event.IPC
	dag  event.DAG
	set  event.CitationSet
	path event.Path
	// Of an IPC record that is a run. shows: it shows what its ipc_id stands for, for that
	// is the hash of its other fields.
	shows bool
	facts []byte

	decoder event.Decoder
}

// draw decodes an entry, which must not change while the event is used. known is of the
// goroutine that draws.
func (d *drawn) draw(entry []byte, known *identities) (err error) {
	if d.Event, err = d.decoder.Decode(entry); err != nil {
		return err
	}
	v, e := &d.values, &d.Event
	switch e.Kind {
	case record.IPCRecord:
		d.ipc = e.IPC()
		v.collectIPC(known, e, &d.ipc)
		d.drawRun()
	case record.RunDAG:
		v.collect(known, e)
		d.dag = e.DAG()
		for _, stage := range d.dag.Stages {
			v.add(stagePrefix+string(stage.Name), stage.Hash)
		}
	case record.CitationSet:
		v.collect(known, e)
		d.set = e.CitationSet()
		v.add(subjectName, d.set.Subject)
	case record.PathFingerprint:
		v.collect(known, e)
		d.path = e.Path()
		v.addRecurring(projectName, d.path.Project)
		v.addRecurring(buildName, d.path.Build)
	default: // no record
		return nil
	}
	v.addProducer(e)
	v.addMismatches(e)
	v.settle()
	return nil
}

// drawRun draws what a run brings to its groups.
func (d *drawn) drawRun() {
	if !d.ipc.IsRun() {
		return
	}
	var scratch [2 * sha256.Size]byte
	d.shows = string(appendIPCID(scratch[:0], &d.ipc)) == string(d.ipc.IPCID)
	d.facts = appendFacts(d.facts[:0], &d.ipc)
}
