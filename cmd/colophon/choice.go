package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// recordChoice is how a command line says which records are meant: by their numbers, or
// by filters that all of them pass.
type recordChoice struct {
	labels, where []string // "NAME=VALUE"
}

// chosenBy are the flags that choose records, by the parameter of the server that
// has the same name with underscores.
var chosenBy = []struct{ flag, usage string }{
	{"run-id", "records of this `run`"},
	{"subject", "citation sets about this `subject`"},
	{"project", "path fingerprints of this `project`"},
	{"kind", "records of this `kind`: ipc_record, run_dag, citation_set or path_fingerprint"},
	{"since", "records written at this `time` (RFC 3339) or later"},
	{"until", "records written before this `time`"},
}

func (r *recordChoice) bind(flags *pflag.FlagSet) {
	for _, f := range chosenBy {
		flags.String(f.flag, "", f.usage)
	}
	flags.StringArrayVar(&r.labels, "label", nil, "records with this label, `NAME=VALUE`; may be repeated")
	flags.StringArrayVar(&r.where, "where", nil, "records with another value that the server's lists take, `NAME=VALUE`; may be repeated")
}

// read is either the numbers or the filters, the latter by parameters of the server's
// lists; the other is nil.
func (r *recordChoice) read(flags *pflag.FlagSet, args []string) (seqs []uint64, filters map[string]string, err error) {
	for _, arg := range args {
		seq, err := strconv.ParseUint(arg, 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("%q is not the number of an event", arg)
		}
		seqs = append(seqs, seq)
	}
	filters = make(map[string]string)
	for _, f := range chosenBy {
		if flags.Changed(f.flag) {
			filters[strings.ReplaceAll(f.flag, "-", "_")] = flags.Lookup(f.flag).Value.String()
		}
	}
	for prefix, pairs := range map[string][]string{"label:": r.labels, "": r.where} {
		for _, pair := range pairs {
			name, value, found := strings.Cut(pair, "=")
			if _, twice := filters[prefix+name]; twice || !found {
				return nil, nil, fmt.Errorf("%q is not NAME=VALUE with a name of its own", pair)
			}
			filters[prefix+name] = value
		}
	}
	switch {
	case len(filters) > 0 && len(args) > 0:
		return nil, nil, errors.New("name records by number or by filters, not both")
	case len(filters) == 0 && len(args) == 0:
		return nil, nil, errors.New("name the records, by number or by a filter like --run-id")
	case len(filters) == 0:
		return seqs, nil, nil
	}
	return nil, filters, nil
}
