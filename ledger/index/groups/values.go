package groups

import (
	"encoding/binary"
	"fmt"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// The key of a row in values is the identity of a name. The row has one version for each run that
// adds new values for the name. The version holds these values, each preceded by its length. The
// names are LabelListName and those passed to AddValue.
const values rowstore.Dimension = 0x87

// LabelListName is the name under which ListValues lists the names of the labels that runs have.
const LabelListName = "label"

// AddValue adds a new value to the list for a name. The caller must make sure that the value is
// new.
func AddValue(f *Deriver, name string, seq uint64, value []byte) {
	id := rowstore.IdentityOf([]byte(name))
	f.value = f.value[:0]
	if at, listed, found := f.Rows.NewestVersion(values, id[:]); found && at == seq { // one event can add several labels
		f.value = append(f.value, listed...)
	}
	f.value = append(binary.AppendUvarint(f.value, uint64(len(value))), value...)
	f.Rows.Put(values, id[:], seq, f.value)
}

// noteLabel adds the name of a label to the list for LabelListName if no earlier run has a label
// with that name. p is the posting of the label's value.
func noteLabel(f *Deriver, e *index.Event, p records.Posting) {
	if _, _, known := f.Rows.NewestVersion(families, p.Grouping[:]); known {
		return
	}
	for name := range e.Labels() {
		if records.GroupingOf(records.LabelPrefix+string(name)) == p.Grouping {
			AddValue(f, LabelListName, e.Seq, name)
			return
		}
	}
}

// Value is a value listed for a name, with the seq of the first run that has it.
type Value struct {
	Seq  uint64
	Text string
}

// ListValues lists the values that AddValue has added for a name, newest first. It includes the values
// of runs in any state.
func ListValues(v *index.View, name string, p index.PageRequest) (rows []Value, next []byte, err error) {
	below, skip := v.Size(), uint64(0)
	if p.After != nil {
		if below, skip, err = decodeValuePosition(p.After, v.Size()); err != nil {
			return nil, nil, err
		}
	}
	id := rowstore.IdentityOf([]byte(name))
	b := v.Budget(p)
	for version, err := range v.VersionsNewestFirst(values, id[:], below) {
		if err != nil {
			return nil, nil, err
		}
		n := uint64(0)
		for rest := version.Value; len(rest) > 0; n++ {
			size, bytes := binary.Uvarint(rest)
			if bytes <= 0 || size > uint64(len(rest)-bytes) {
				return nil, nil, fmt.Errorf("%w: cannot decode the values of event %d", rowstore.ErrDamaged, version.Seq)
			}
			text := rest[bytes : bytes+int(size)]
			rest = rest[bytes+int(size):]
			if n < skip {
				continue
			}
			if b.IsSpent(len(rows)) {
				return rows, rowstore.AppendSeq(rowstore.AppendSeq(nil, version.Seq+1), n), nil
			}
			rows = append(rows, Value{version.Seq, string(text)})
		}
		skip = 0
	}
	return rows, nil, nil
}

// decodeValuePosition decodes the position of a page. The page begins with the newest version whose
// seq is less than below, and skips the first skip values of that version.
func decodeValuePosition(after []byte, size uint64) (below, skip uint64, err error) {
	if len(after) != 2*rowstore.SeqSize {
		return 0, 0, index.ErrInvalidPosition
	}
	below, skip = binary.BigEndian.Uint64(after), binary.BigEndian.Uint64(after[rowstore.SeqSize:])
	if below == 0 || below > size {
		return 0, 0, index.ErrInvalidPosition
	}
	return below, skip, nil
}
